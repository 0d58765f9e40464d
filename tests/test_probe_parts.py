"""The pieces that read a few bits of a file, against bits that were written by hand."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clipfeed._ffmpeg import open_container
from clipfeed.probe import avi, table
from clipfeed.probe.h26x import starts_decodable, turns_picture
from clipfeed.probe.mp4 import read_boxes, read_movie_boxes
from clipfeed.probe.times import average_rate, is_evenly_spaced
from clipfeed.probe.vpx import count_shown_in_vp8, count_shown_in_vp9
from clipfeed.testing import video_kind, write_numbered_video, write_rotated, write_with_audio

# VP8 and VP9


def test_vp8_shows_a_frame_if_its_tag_says_so() -> None:
    assert count_shown_in_vp8(memoryview(bytes([0b0001_0000, 0, 0]))) == 1
    assert count_shown_in_vp8(memoryview(bytes([0b0000_0001, 0, 0]))) == 0


def vp9_frame(*, profile: int = 0, existing: bool = False, key: bool = False, shown: bool = True) -> bytes:
    bits = "10" + f"{profile & 1}{profile >> 1}" + ("0" if profile == 3 else "")
    bits += "1" if existing else f"0{int(not key)}{int(shown)}"
    return int(bits.ljust(16, "0"), 2).to_bytes(2) + b"\x55" * 3


def superframe(frames: list[bytes], size_bytes: int = 1) -> bytes:
    marker = bytes([0xC0 | (size_bytes - 1) << 3 | len(frames) - 1])
    sizes = b"".join(len(frame).to_bytes(size_bytes, "little") for frame in frames)
    return b"".join(frames) + marker + sizes + marker


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
def test_vp9_shows_a_frame_by_its_bit_or_one_that_was_coded_before(profile: int) -> None:
    assert count_shown_in_vp9(memoryview(vp9_frame(profile=profile))) == 1
    assert count_shown_in_vp9(memoryview(vp9_frame(profile=profile, key=True))) == 1
    assert count_shown_in_vp9(memoryview(vp9_frame(profile=profile, shown=False))) == 0
    assert count_shown_in_vp9(memoryview(vp9_frame(profile=profile, existing=True))) == 1


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 4])
def test_a_vp9_packet_of_several_frames_shows_those_that_are_to_be_shown(size_bytes: int) -> None:
    frames = [vp9_frame(shown=False), vp9_frame(), vp9_frame(shown=False), vp9_frame(existing=True)]
    assert count_shown_in_vp9(memoryview(superframe(frames, size_bytes))) == 2
    assert count_shown_in_vp9(memoryview(superframe(frames[:1], size_bytes))) == 0


def test_a_frame_that_ends_like_a_superframe_is_still_one_frame() -> None:
    assert count_shown_in_vp9(memoryview(vp9_frame() + b"\x00\xc1")) == 1
    assert count_shown_in_vp9(memoryview(vp9_frame()[:1])) == 1


# H.264 and HEVC


def units(kinds: list[int], codec: str, *, as_lengths: bool) -> bytes:
    heads = [bytes([kind]) if codec == "h264" else bytes([kind << 1, 1]) for kind in kinds]
    pieces = [head + b"\x42\x43\x44" for head in heads]
    return b"".join((len(piece).to_bytes(4) if as_lengths else b"\x00\x00\x01") + piece for piece in pieces)


AVCC = bytes([1, 0, 0, 0, 0xFF, 0xE1])
HVCC = bytes([1]) + bytes(20) + bytes([0xFF, 0])


@pytest.mark.parametrize("as_lengths", [True, False])
def test_only_a_true_key_picture_starts_h264_and_hevc(as_lengths: bool) -> None:
    for codec, extradata, good, bad in (
        ("h264", AVCC, [[7, 8, 5], [9, 6, 5, 5]], [[7, 8, 6, 1], [1], []]),
        ("hevc", HVCC, [[32, 33, 34, 19], [20]], [[32, 33, 34, 21], [1], [16]]),
    ):
        private = extradata if as_lengths else None
        for kinds in good:
            assert starts_decodable(units(kinds, codec, as_lengths=as_lengths), codec, private), (codec, kinds)
        for kinds in bad:
            assert not starts_decodable(units(kinds, codec, as_lengths=as_lengths), codec, private), (codec, kinds)


def test_other_codecs_may_start_as_they_like() -> None:
    assert starts_decodable(b"", "prores", None)


@given(
    data=st.binary(max_size=200),
    codec=st.sampled_from(["h264", "hevc", "mpeg4"]),
    extradata=st.sampled_from([None, b"", AVCC, HVCC, b"\x01"]),
)
def test_no_packet_makes_reading_fail(data: bytes, codec: str, extradata: bytes | None) -> None:
    assert starts_decodable(data, codec, extradata) in (True, False)
    if codec != "mpeg4":
        assert turns_picture(data, codec, extradata) in (True, False)


@pytest.mark.parametrize(("codec", "head"), [("h264", b"\x06"), ("hevc", b"\x4e\x01")])
def test_a_display_orientation_is_found_behind_other_messages(codec: str, head: bytes) -> None:
    other, long, orientation = b"\x05\x03abc", b"\xff\x01\xff\x02" + bytes(257), b"\x2f\x03\x10\x20\x30"
    slices = units([5] if codec == "h264" else [19], codec, as_lengths=False)
    for messages, expected in (
        (orientation, True),
        (other + orientation, True),
        (long + orientation, True),
        (other, False),
        (long, False),
    ):
        packet = b"\x00\x00\x01" + head + messages + b"\x80" + slices
        assert turns_picture(packet, codec, None) is expected
    assert not turns_picture(slices, codec, None)


# MP4 boxes


def box(kind: bytes, content: bytes, *, large: bool = False) -> bytes:
    if large:
        return struct.pack(">I4sQ", 1, kind, 16 + len(content)) + content
    return struct.pack(">I4s", 8 + len(content), kind) + content


UPRIGHT = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
TURNED = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)


def movie_header(matrix: bytes, version: int = 0) -> bytes:
    return box(b"mvhd", bytes([version]) + bytes(47 if version else 35) + matrix + bytes(28))


def track(number: int, matrix: bytes, version: int = 0) -> bytes:
    times = 16 if version else 8
    head = bytes([version]) + bytes(3 + times) + struct.pack(">I", number) + bytes(4 + (8 if version else 4) + 16)
    return box(b"trak", box(b"junk", b"x" * 40) + box(b"tkhd", head + matrix + bytes(8)))


def movie(*children: bytes) -> io.BytesIO:
    return io.BytesIO(
        box(b"ftyp", b"isom") + box(b"free", b"", large=True) + box(b"moov", b"".join(children), large=True)
    )


@pytest.mark.parametrize("version", [0, 1])
def test_upright_tracks_are_those_that_no_matrix_turns(version: int) -> None:
    tracks = [track(1, UPRIGHT, version), track(2, TURNED, version), track(7, UPRIGHT, version)]
    file = movie(movie_header(UPRIGHT, version), *tracks)
    boxes = read_movie_boxes(file, len(file.getvalue()))
    assert boxes is not None
    assert boxes.upright_tracks == {1, 7}
    assert not boxes.is_fragmented
    file = movie(movie_header(TURNED, version), *tracks)
    boxes = read_movie_boxes(file, len(file.getvalue()))
    assert boxes is not None
    assert boxes.upright_tracks == frozenset()


def test_fragments_are_seen_with_and_without_an_announcement() -> None:
    announced = movie(movie_header(UPRIGHT), track(1, UPRIGHT), box(b"mvex", b""))
    boxes = read_movie_boxes(announced, len(announced.getvalue()))
    assert boxes is not None
    assert boxes.is_fragmented
    alone = io.BytesIO(box(b"styp", b"msdh") + box(b"moof", b"x" * 30))
    boxes = read_movie_boxes(alone, len(alone.getvalue()))
    assert boxes is not None
    assert boxes.is_fragmented


def test_made_files_say_what_ffmpeg_says(tmp_path: Path) -> None:
    for path, upright in (
        (write_numbered_video(tmp_path / "a.mp4", num_frames=3), True),
        (write_rotated(tmp_path / "b.mov", 180, num_frames=3), False),
        (write_with_audio(tmp_path / "c.mp4", num_frames=3, audio_seconds=0.2), True),
    ):
        with path.open("rb") as file, open_container(str(path), path="a") as video:
            boxes = read_movie_boxes(file, path.stat().st_size)
            assert boxes is not None
            assert (video.stream.id in boxes.upright_tracks) is upright


@given(
    data=st.binary(max_size=300),
    kinds=st.lists(st.sampled_from([b"moov", b"trak", b"tkhd", b"mvhd", b"moof"]), max_size=4),
)
def test_no_bytes_make_reading_boxes_fail_or_go_on_for_ever(data: bytes, kinds: list[bytes]) -> None:
    for kind in kinds:
        data = box(kind, data)
    read_movie_boxes(io.BytesIO(data), len(data))
    assert sum(1 for _ in read_boxes(io.BytesIO(data), 0, len(data))) <= len(data) // 8 + 1


# Times


@given(
    fps=st.sampled_from([Fraction(30000, 1001), Fraction(24000, 1001), Fraction(25), Fraction(15), Fraction(120)]),
    time_base=st.sampled_from(
        [Fraction(1, 1000), Fraction(1, 600), Fraction(1, 90_000), Fraction(1001, 30_000), Fraction(1, 30)]
    ),
    num_frames=st.integers(1, 2000),
    start=st.integers(0, 10**9),
)
def test_any_constant_rate_is_even_however_it_is_rounded(
    fps: Fraction, time_base: Fraction, num_frames: int, start: int
) -> None:
    pts = np.array([start + round(number / fps / time_base) for number in range(num_frames)], np.int64)
    assert is_evenly_spaced(pts, time_base)
    if num_frames > 1 and pts[-1] > pts[0]:
        assert average_rate([fps], pts, time_base) == fps
        measured = average_rate([None, Fraction(1000)], pts, time_base)
        assert measured is not None
        assert abs((num_frames - 1) / measured - (num_frames - 1) / fps) <= 2 * max(time_base, Fraction(1, 1000))


def test_one_missing_frame_or_a_longer_one_is_uneven() -> None:
    even = np.arange(100, dtype=np.int64) * 3600
    assert not is_evenly_spaced(np.delete(even, 50), Fraction(1, 90_000))
    assert not is_evenly_spaced(np.concatenate((even[:50], even[50:] + 1800)), Fraction(1, 90_000))


def test_a_rate_without_times_is_the_stated_one() -> None:
    assert average_rate([Fraction(25)], None, Fraction(1)) == 25
    assert average_rate([None], None, Fraction(1)) is None
    assert average_rate([Fraction(-1, 2)], np.array([5, 5]), Fraction(1)) is None


# The index of an AVI


@pytest.mark.parametrize("kind", ["mpeg4_packed", "mpeg4_avi", "mjpeg_avi", "h264_avi_without_pts"])
def test_the_index_read_from_the_file_is_ffmpegs_table(kind: str, tmp_path: Path) -> None:
    path = video_kind(kind).write(tmp_path)
    with path.open("rb") as file, open_container(str(path), path="a") as video:
        index = avi._read_index(video.stream, file, path.stat().st_size)
        expected = table.read_table(video)
    assert index is not None
    assert (index.starts == expected.starts + 8).all()
    assert (index.ends == expected.ends + 8).all()
    assert (index.is_key == expected.is_key).all()
    assert index.min_bytes == expected.min_bytes


def test_an_index_that_also_lists_sound_gives_the_pictures(tmp_path: Path) -> None:
    path = write_with_audio(tmp_path / "a.avi", num_frames=30)
    with path.open("rb") as file, open_container(str(path), path="a") as video:
        assert len(video.container.streams) == 2
        index = avi._read_index(video.stream, file, path.stat().st_size)
        expected = table.read_table(video)
    assert index is not None
    assert (index.starts == expected.starts + 8).all()


@pytest.mark.shared
def test_genuine_indexes_are_ffmpegs_tables(shared: Path) -> None:
    same = 0
    for path in sorted((shared / "clips").rglob("*.avi")):
        with path.open("rb") as file, open_container(str(path), path="a") as video:
            index = avi._read_index(video.stream, file, path.stat().st_size) if avi.is_avi(file) else None
            if index is not None:
                expected = table.read_table(video)
                assert (index.starts == expected.starts + 8).all(), path
                assert (index.ends == expected.ends + 8).all(), path
                assert (index.is_key == expected.is_key).all(), path
                same += 1
    assert same > 10


def test_a_file_is_an_avi_by_its_first_bytes_not_its_name(tmp_path: Path) -> None:
    for kind, expected in (("mpeg4_packed", True), ("h264_named_avi", False), ("h264_mkv", False)):
        with video_kind(kind).write(tmp_path).open("rb") as file:
            assert avi.is_avi(file) is expected
    with av.open(str(tmp_path / "h264_named_avi.avi")) as container:
        assert container.format.name.startswith("mov")
