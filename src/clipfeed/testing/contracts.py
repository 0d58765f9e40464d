"""What every decoder must do, as tests to subclass.

    class TestMyDecoder(DecoderTests):
        def make_decoder(self):
            return MyDecoder()

Pytest finds the inherited tests; nothing here imports it. The expected frames are read off the pixels, never taken from
another decoder of ours.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, get_args

import numpy as np

from clipfeed._types import Interpolation
from clipfeed.errors import DecodeError, StaleIndexError
from clipfeed.records import VideoRecord
from clipfeed.testing.bare import decode_bare
from clipfeed.testing.broken import damage_file, truncate_file
from clipfeed.testing.kinds import VIDEO_KINDS, VideoKind, video_kind
from clipfeed.testing.marker import paint_numbered_frame, read_frame_numbers
from clipfeed.testing.odd import PATCH_COLOURS, read_patches, write_colour_patches, write_rotated, write_size_change
from clipfeed.testing.plans import make_geometry, make_plan, make_record
from clipfeed.testing.write import Encoding, write_frames, write_numbered_video

if TYPE_CHECKING:
    # Writing a test video must not need a decoder that imports.
    from clipfeed.decode import DecodedFrames, Decoder

__all__ = ["DecoderTests"]


class _Metafunc(Protocol):
    """As much of pytest's object as is used here."""

    fixturenames: list[str]

    def parametrize(self, argnames: str, argvalues: Sequence[object], *, ids: Sequence[str]) -> None: ...


class DecoderTests:
    """The contract. A subclass gives `make_decoder`; each test makes its own video.

    Attributes:
        kinds: The kinds of video whose every frame must be right.
    """

    kinds: tuple[VideoKind, ...] = VIDEO_KINDS

    def make_decoder(self) -> Decoder:
        """Give the decoder under test, new for each test."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: _Metafunc) -> None:
        """Run a test that asks for a `kind` once for each of `kinds`."""
        if "kind" in metafunc.fixturenames:
            metafunc.parametrize("kind", self.kinds, ids=[kind.name for kind in self.kinds])

    def test_gives_exactly_the_planned_frames_in_the_plans_order(self, kind: VideoKind, tmp_path: Path) -> None:
        record = make_record(kind.write(tmp_path), num_frames=kind.num_frames)
        rising = range(kind.num_frames)
        anyhow = np.random.default_rng(0).integers(0, kind.num_frames, 2 * kind.num_frames).tolist()
        for indices in (rising, anyhow, [0], [kind.num_frames - 1]):
            frames = self._decode(record, indices, size=(64, 64)).frames
            assert frames.dtype == np.uint8
            assert frames.shape == (len(indices), 64, 64, 3)
            assert read_frame_numbers(frames).tolist() == [kind.numbers[index] for index in indices]

    def test_repeated_frames_are_equal_and_apart_in_memory(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.mp4", num_frames=9), num_frames=9)
        frames = self._decode(record, [4, 2, 4]).frames
        assert np.array_equal(frames[0], frames[2])
        frames[0] = 0
        assert read_frame_numbers(frames[1:]).tolist() == [2, 4]

    def test_keeps_size_and_pixels_where_no_other_size_is_asked_for(self, tmp_path: Path) -> None:
        picture = np.full((97, 131, 3), (200, 40, 40), np.uint8)
        picture[:, -8:] = (40, 40, 200)
        path = write_frames(tmp_path / "a.mkv", [picture] * 3, encoding=Encoding(codec="ffv1", pixel_format="yuv444p"))
        frames = self._decode(make_record(path, num_frames=3), [0, 2]).frames
        assert frames.shape == (2, 97, 131, 3)
        assert np.abs(frames.astype(int) - picture).max() <= 4

    def test_gives_gray_where_one_channel_is_asked_for(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.avi", num_frames=9), num_frames=9)
        frames = self.make_decoder().decode(make_plan(record, [1, 8]), make_geometry(record, (64, 64), num_channels=1))
        assert frames.frames.shape == (2, 64, 64, 1)
        assert read_frame_numbers(frames.frames).tolist() == [1, 8]

    def test_every_filter_shows_the_same_frame(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.avi", num_frames=9), num_frames=9)
        for interpolation in get_args(Interpolation):
            geometry = make_geometry(record, (48, 80), interpolation=interpolation)
            frames = self.make_decoder().decode(make_plan(record, [6]), geometry).frames
            assert read_frame_numbers(frames).tolist() == [6], interpolation

    def test_writes_into_the_array_it_is_given(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.mp4", num_frames=9), num_frames=9)
        out = np.empty((2, 96, 160, 3), np.uint8)
        decoded = self.make_decoder().decode(make_plan(record, [7, 3]), make_geometry(record), out=out)
        assert decoded.frames is out
        assert read_frame_numbers(out).tolist() == [7, 3]

    def test_colours_are_right_whatever_range_and_matrix_are_tagged(self, tmp_path: Path) -> None:
        for codec in ("libx264", "libvpx-vp9"):
            for color_range in ("tv", "pc"):
                for color_matrix in ("bt601", "bt709"):
                    path = tmp_path / f"{codec}_{color_range}_{color_matrix}.mkv"
                    write_colour_patches(path, color_range=color_range, color_matrix=color_matrix, codec=codec)
                    frames = self._decode(make_record(path, num_frames=3), [1]).frames
                    assert np.abs(read_patches(frames[0]).astype(int) - PATCH_COLOURS).max() <= 4, path.name

    def test_turns_rotated_video_upright(self, tmp_path: Path) -> None:
        for rotation in (90, 180, 270):
            path = write_rotated(tmp_path / f"{rotation}.mp4", rotation, num_frames=5)
            record = make_record(path, num_frames=5)
            assert record.info.rotation == rotation
            frames = self._decode(record, [0, 3]).frames
            assert frames.shape == (2, 96, 160, 3)
            assert read_frame_numbers(frames).tolist() == [0, 3]

    def test_a_size_that_changes_in_mid_stream_ends_in_one_size(self, tmp_path: Path) -> None:
        record = make_record(write_size_change(tmp_path / "a.ts"), num_frames=40)
        assert read_frame_numbers(self._decode(record, range(40), size=(48, 80)).frames).tolist() == list(range(40))

    def test_names_the_first_frame_that_the_video_does_not_have(self, tmp_path: Path) -> None:
        # The header of packed MPEG-4 claims frame 61.
        kind = video_kind("mpeg4_packed")
        path = kind.write(tmp_path)
        error = self._error(make_record(path, num_frames=62), [3, 61, 60])
        assert str(path) in str(error)
        assert "frame 61" in str(error)
        assert error.stage == "decode"

    def test_a_truncated_video_raises_and_repeats_nothing(self, tmp_path: Path) -> None:
        path = truncate_file(write_numbered_video(tmp_path / "a.ts"), 0.5)
        record = make_record(path, num_frames=61)
        assert "frame 60" in str(self._error(record, [0, 60]))
        assert read_frame_numbers(self._decode(record, [0, 5]).frames).tolist() == [0, 5]

    def test_marks_damaged_frames(self, tmp_path: Path) -> None:
        path = damage_file(write_numbered_video(tmp_path / "a.avi", num_frames=120))
        num_shown = len(decode_bare(path))
        record = make_record(path, num_frames=num_shown)
        assert self._decode(record, range(10)).is_damaged.tolist() == [False] * 10
        decoded = self._decode(record, range(num_shown))
        assert decoded.is_damaged.dtype == np.bool_
        assert 0 < decoded.num_corrupt == np.count_nonzero(decoded.is_damaged) < num_shown
        chunks = list(self._chunks(record, range(num_shown), frames_at_once=50))
        assert [flag for chunk in chunks for flag in chunk.is_damaged.tolist()] == decoded.is_damaged.tolist()

    def test_chunks_give_each_planned_frame_once_in_the_videos_order(self, kind: VideoKind, tmp_path: Path) -> None:
        record = make_record(kind.write(tmp_path), num_frames=kind.num_frames)
        last, middle = kind.num_frames - 1, kind.num_frames // 2
        for indices, frames_at_once in ((range(kind.num_frames), 16), ([last, 0, middle, 0], 2), ([middle], 99)):
            wanted = sorted(set(indices))
            whole = self._decode(record, wanted, size=(64, 64)).frames
            # Only what is copied lasts: the decoder may use a chunk's memory for the next one.
            chunks = [chunk.frames.copy() for chunk in self._chunks(record, indices, (64, 64), frames_at_once)]
            assert max(map(len, chunks)) <= frames_at_once
            assert np.array_equal(np.concatenate(chunks), whole)
            assert read_frame_numbers(whole).tolist() == [kind.numbers[index] for index in wanted]

    def test_chunks_end_with_an_error_where_a_frame_is_missing(self, tmp_path: Path) -> None:
        path = write_numbered_video(tmp_path / "a.mp4", num_frames=20)
        chunks = self._chunks(make_record(path, num_frames=24), range(24), frames_at_once=8)
        assert [read_frame_numbers(next(chunks).frames)[0] for _ in range(2)] == [0, 8]
        try:
            surplus = next(chunks)
        except DecodeError as error:
            assert "frame 20" in str(error)  # noqa: PT017  # nothing here imports pytest
        else:
            raise AssertionError(f"{path}: expected an error for frame 20, got {len(surplus.frames)} more frames")

    def test_a_changed_or_vanished_file_is_stale(self, tmp_path: Path) -> None:
        path = write_numbered_video(tmp_path / "a.mp4", num_frames=9)
        record = make_record(path, num_frames=9)
        write_numbered_video(path, num_frames=12)
        assert isinstance(self._error(record, [0]), StaleIndexError)
        path.unlink()
        assert isinstance(self._error(record, [0]), StaleIndexError)

    def test_stops_reading_behind_the_last_planned_frame(self, tmp_path: Path) -> None:
        encoding = Encoding(codec="rawvideo")
        pictures = (paint_numbered_frame(number) for number in range(300))
        record = make_record(write_frames(tmp_path / "a.mkv", pictures, encoding=encoding), num_frames=300)
        before = _bytes_read()
        self._decode(record, [0, 5], size=(64, 64))
        assert _bytes_read() - before < record.size_bytes / 2

    def test_leaves_no_file_open(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.mp4", num_frames=9), num_frames=9)
        decoder = self.make_decoder()
        before = _open_files()
        unfinished = self._chunks(record, range(9), frames_at_once=2)
        next(unfinished)
        del unfinished
        for _ in range(3):
            kept = decoder.decode(make_plan(record, [0, 1]), make_geometry(record))
            error = self._error(record, [99])
            assert _open_files() == before
        assert len(kept.frames) == 2
        assert error.path == str(tmp_path / "a.mp4")

    def test_decoder_plan_and_result_survive_pickling(self, tmp_path: Path) -> None:
        record = make_record(write_numbered_video(tmp_path / "a.mp4", num_frames=9), num_frames=9)
        parts = (self.make_decoder(), make_plan(record, [2, 6]), make_geometry(record))
        decoder, plan, geometry = pickle.loads(pickle.dumps(parts))
        decoded = pickle.loads(pickle.dumps(decoder.decode(plan, geometry)))
        assert read_frame_numbers(decoded.frames).tolist() == [2, 6]
        assert decoded.num_corrupt == 0

    def _decode(
        self, record: VideoRecord, indices: Sequence[int], *, size: tuple[int, int] | None = None
    ) -> DecodedFrames:
        return self.make_decoder().decode(make_plan(record, indices), make_geometry(record, size))

    def _chunks(
        self,
        record: VideoRecord,
        indices: Sequence[int],
        size: tuple[int, int] | None = None,
        frames_at_once: int = 32,
    ) -> Iterator[DecodedFrames]:
        plan, geometry = make_plan(record, indices), make_geometry(record, size)
        return self.make_decoder().decode_chunks(plan, geometry, frames_at_once=frames_at_once)

    def _error(self, record: VideoRecord, indices: Sequence[int]) -> DecodeError | StaleIndexError:
        try:
            self._decode(record, indices)
        except (DecodeError, StaleIndexError) as error:
            return error
        raise AssertionError(f"{record.path}: expected an error for frames {list(indices)}")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _bytes_read() -> int:
    """Bytes that this process has read from files since it began (Linux)."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])
