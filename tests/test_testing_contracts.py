"""The contract accepts a decoder of thirty lines that is right, and refuses ones that are wrong in known ways."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from clipfeed.decode import DecodedFrames
from clipfeed.errors import DecodeError, StaleIndexError
from clipfeed.testing import DecoderTests, video_kind


class RightDecoder:
    """Reads from the start, as far as the last frame that is wanted."""

    def decode(self, plan, geometry, *, out=None):
        record = plan.record
        path = Path(record.path)
        if not path.exists() or path.stat().st_mtime_ns != record.mtime_ns:
            raise StaleIndexError("changed", path=record.path, stage="decode")
        last = int(plan.frame_indices.max())
        frames = self.frames(record.path, last + 1)
        is_corrupt = np.array([frame.is_corrupt for frame in frames])
        shown = [self.picture(frame, geometry) for frame in frames]
        if len(shown) <= last:
            missing = min(index for index in plan.frame_indices.tolist() if index >= len(shown))
            raise DecodeError(f"no frame {missing}", path=record.path, stage="decode")
        frames = np.stack([shown[index] for index in plan.frame_indices])[..., : geometry.num_channels]
        if out is not None:
            out[:] = frames
        return DecodedFrames(frames=frames if out is None else out, is_damaged=is_corrupt[plan.frame_indices])

    def decode_chunks(self, plan, geometry, *, frames_at_once=32):
        indices = np.unique(plan.frame_indices)
        for start in range(0, len(indices), frames_at_once):
            yield self.decode(replace(plan, frame_indices=indices[start : start + frames_at_once]), geometry)

    def frames(self, path, limit):
        shown = []
        with av.open(path, metadata_errors="replace") as video:
            stream = video.streams.best("video")
            for packet in video.demux(stream):
                with suppress(av.FFmpegError):
                    shown += packet.decode()
                if len(shown) >= limit:
                    break
        return shown[:limit]

    def picture(self, frame, geometry):
        size = {"width": geometry.scaled_width, "height": geometry.scaled_height}
        filter_name = {"nearest": "POINT", "lanczos3": "LANCZOS", "gaussian": "GAUSS"}.get(
            geometry.interpolation, geometry.interpolation.upper()
        )
        picture = frame.to_ndarray(format="rgb24", interpolation=filter_name, **size)
        return np.rot90(picture, geometry.rotation // 90)


class TestRightDecoder(DecoderTests):
    kinds = (video_kind("h264_open_gops"), video_kind("mpeg4_packed"))

    def make_decoder(self):
        return RightDecoder()


class SortsByPts(RightDecoder):
    def frames(self, path, limit):
        return sorted(super().frames(path, limit), key=lambda frame: (frame.pts is None, frame.pts))


class DecodesTheFrameBefore(RightDecoder):
    def frames(self, path, limit):
        shown = super().frames(path, limit)
        return [shown[0], *shown[:-1]]


class RepeatsTheLastFrame(RightDecoder):
    def frames(self, path, limit):
        shown = super().frames(path, limit)
        return shown + shown[-1:] * (limit - len(shown))


class SwapsRedAndBlue(RightDecoder):
    def picture(self, frame, geometry):
        return super().picture(frame, geometry)[..., ::-1]


class IgnoresTags(RightDecoder):
    def picture(self, frame, geometry):
        frame.colorspace, frame.color_range = 5, 1
        return super().picture(frame, geometry)


class SeesNoDamage(RightDecoder):
    def decode(self, plan, geometry, *, out=None):
        decoded = super().decode(plan, geometry, out=out)
        return DecodedFrames(frames=decoded.frames, is_damaged=np.zeros(len(decoded.frames), bool))


class TurnsTheOtherWay(RightDecoder):
    def picture(self, frame, geometry):
        size = {"width": geometry.scaled_width, "height": geometry.scaled_height}
        return np.rot90(frame.to_ndarray(format="rgb24", **size), -geometry.rotation // 90)


class ReadsToTheEnd(RightDecoder):
    def frames(self, path, limit):
        return super().frames(path, 10_000)[:limit]


class LeavesFilesOpen(RightDecoder):
    kept = []  # noqa: RUF012  # closed by the test

    def frames(self, path, limit):
        self.kept.append(Path(path).open("rb"))  # noqa: SIM115
        return super().frames(path, limit)


class BelievesAnyFile(RightDecoder):
    def decode(self, plan, geometry, *, out=None):
        path = Path(plan.record.path)
        if not path.exists():
            raise StaleIndexError("gone", path=plan.record.path, stage="decode")
        frames = np.stack([self.picture(frame, geometry) for frame in self.frames(str(path), 1)])
        return DecodedFrames(frames=frames, is_damaged=np.zeros(len(frames), bool))


class GivesChunksInThePlansOrder(RightDecoder):
    def decode_chunks(self, plan, geometry, *, frames_at_once=32):
        for start in range(0, len(plan.frame_indices), frames_at_once):
            part = plan.frame_indices[start : start + frames_at_once]
            yield self.decode(replace(plan, frame_indices=part), geometry)


class GivesOneChunk(RightDecoder):
    def decode_chunks(self, plan, geometry, *, frames_at_once=32):
        return super().decode_chunks(plan, geometry, frames_at_once=10_000)


class EndsChunksEarly(RightDecoder):
    def decode_chunks(self, plan, geometry, *, frames_at_once=32):
        with suppress(DecodeError):
            yield from super().decode_chunks(plan, geometry, frames_at_once=frames_at_once)


class DoesNotPickle(RightDecoder):
    def __init__(self):
        self.size = lambda: 1


CHUNKS = "test_chunks_give_each_planned_frame_once_in_the_videos_order"
EXACT = "test_gives_exactly_the_planned_frames_in_the_plans_order"
COLOURS = "test_colours_are_right_whatever_range_and_matrix_are_tagged"


@pytest.fixture(autouse=True)
def _close_what_was_left_open():
    yield
    for file in LeavesFilesOpen.kept:
        file.close()


@pytest.mark.parametrize(
    ("wrong", "test", "kind"),
    [
        (SortsByPts, EXACT, "mpeg4_packed"),
        (DecodesTheFrameBefore, EXACT, "h264_mp4"),
        (RepeatsTheLastFrame, "test_names_the_first_frame_that_the_video_does_not_have", None),
        (RepeatsTheLastFrame, "test_a_truncated_video_raises_and_repeats_nothing", None),
        (SwapsRedAndBlue, "test_keeps_size_and_pixels_where_no_other_size_is_asked_for", None),
        (SwapsRedAndBlue, COLOURS, None),
        (IgnoresTags, COLOURS, None),
        (TurnsTheOtherWay, "test_turns_rotated_video_upright", None),
        (ReadsToTheEnd, "test_stops_reading_behind_the_last_planned_frame", None),
        (LeavesFilesOpen, "test_leaves_no_file_open", None),
        (BelievesAnyFile, "test_a_changed_or_vanished_file_is_stale", None),
        (SeesNoDamage, "test_marks_damaged_frames", None),
        (GivesChunksInThePlansOrder, CHUNKS, "h264_mp4"),
        (GivesOneChunk, CHUNKS, "h264_mp4"),
        (EndsChunksEarly, "test_chunks_end_with_an_error_where_a_frame_is_missing", None),
        (DoesNotPickle, "test_decoder_plan_and_result_survive_pickling", None),
    ],
)
def test_a_decoder_that_is_wrong_fails(wrong, test, kind, tmp_path):
    class Contract(DecoderTests):
        def make_decoder(self):
            return wrong()

    arguments = {"tmp_path": tmp_path} if kind is None else {"tmp_path": tmp_path, "kind": video_kind(kind)}
    with pytest.raises((AssertionError, AttributeError, StopIteration, ValueError)):
        getattr(Contract(), test)(**arguments)
