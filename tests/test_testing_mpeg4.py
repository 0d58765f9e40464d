"""The MPEG-4 streams made here are built like those of HMDB51 and UCF101."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import av
import numpy as np
import pytest

from clipfeed.testing import (
    AviHeader,
    decode_bare,
    paint_numbered_frame,
    read_frame_numbers,
    write_avi,
    write_not_coded_mpeg4,
    write_packed_mpeg4,
)

START_CODE = re.compile(rb"\x00\x00\x01(.)", re.DOTALL)


def describe(payload):
    """Name the parts of a sample: o object, v layer, u user data, I P B S pictures; n a picture that codes nothing."""
    if len(payload) == 1:
        return "."
    names = {0x00: "o", 0x20: "v", 0xB2: "u"}
    parts = [
        "IPBS"[payload[found.end()] >> 6] if found[1] == b"\xb6" else names.get(found[1][0], f"<{found[1].hex()}>")
        for found in START_CODE.finditer(payload)
    ]
    return "n" if len(payload) <= 8 and parts == ["P"] else "".join(parts)


def read_structure(path):
    """What the stream is made of: nothing here depends on what the pictures show."""
    with av.open(str(path), metadata_errors="replace") as video:
        stream = video.streams.video[0]
        packets = [packet for packet in video.demux(stream) if packet.size]
        names = [describe(bytes(packet)) for packet in packets]
        empty = [bytes(packet) for packet, name in zip(packets, names, strict=True) if name in "n."]
        shown = len(decode_bare(path))
        return {
            "container": video.format.name,
            "codec": (stream.codec_context.codec.canonical_name, stream.codec_context.codec_tag),
            "rate": stream.average_rate,
            "user data": re.search(rb"\x00\x00\x01\xb2([^\x00]+)", bytes(packets[0]))[1],
            "bytes after the headers": re.findall(rb"\xb2[^\x00]+\x00\x00\x01(.)", bytes(packets[0])),
            "samples": set(names),
            "successions": set(itertools.pairwise(names)),
            "where single bytes are": [place for place, name in enumerate(names) if name == "."],
            "empty samples": {(len(payload), payload[-1:], payload[:4]) for payload in empty},
            "count claimed too many": stream.frames - shown,
            "samples beyond frames": len(packets) - shown,
            "key samples": [packet.is_keyframe for packet in packets][:3],
        }


@pytest.mark.parametrize("num_frames", [1, 2, 3, 5, 30, 31, 32, 61, 150])
@pytest.mark.parametrize("max_b_frames", [1, 2])
def test_packed_b_frames_decode_to_all_frames_in_order(num_frames, max_b_frames, tmp_path):
    path = write_packed_mpeg4(tmp_path / "a.avi", num_frames=num_frames, max_b_frames=max_b_frames)
    frames = np.stack(decode_bare(path))
    assert read_frame_numbers(frames).tolist() == list(range(num_frames))
    with av.open(str(path)) as video:
        assert video.streams.video[0].frames == num_frames + 1


@pytest.mark.parametrize("max_b_frames", [1, 2])
def test_packed_frames_look_as_they_were_painted(max_b_frames, tmp_path):
    # A B-frame decoded with a wrong reference or time differs over whole bars, which is 20 and more on average.
    for number, frame in enumerate(decode_bare(write_packed_mpeg4(tmp_path / "a.avi", max_b_frames=max_b_frames))):
        assert np.abs(frame.astype(int) - paint_numbered_frame(number)).mean() < 6


def test_packed_samples_hold_what_the_format_says(tmp_path):
    structure = read_structure(write_packed_mpeg4(tmp_path / "a.avi"))
    assert structure["samples"] == {"ovuI", ".", "P", "PB", "n"}
    assert ("PB", "n") in structure["successions"]
    assert {after for before, after in structure["successions"] if before == "PB"} == {"n"}
    assert structure["where single bytes are"] == [1]
    assert structure["count claimed too many"] == 1


@pytest.mark.shared
@pytest.mark.parametrize("clip", ["RATRACE_*", "SchoolRules*", "April_09*", "(HQ)*", "Golf_Tips*", "6arrows*"])
def test_packed_samples_are_built_like_those_of_a_genuine_hmdb51_clip(clip, shared, tmp_path):
    (genuine_path,) = (shared / "clips" / "hmdb51").glob(clip)
    made, genuine = read_structure(write_packed_mpeg4(tmp_path / "a.avi", num_frames=150)), read_structure(genuine_path)
    # A clip without scene cuts, or without two P pictures in a row, shows fewer of the ways samples can follow.
    for part in ("samples", "successions"):
        assert genuine.pop(part) - made.pop(part) <= {("ovuI", "ovuI"), (".", "PB"), ("n", "ovuI")}
    assert made == genuine


def test_not_coded_pictures_show_nothing(tmp_path):
    path = write_not_coded_mpeg4(tmp_path / "a.avi", num_frames=61, not_coded_before=(1, 20, 37, 37))
    assert read_frame_numbers(np.stack(decode_bare(path))).tolist() == list(range(61))
    structure = read_structure(path)
    assert structure["count claimed too many"] == 4
    assert structure["samples"] == {"ovuI", "P", "n"}


@pytest.mark.shared
def test_not_coded_pictures_are_built_like_the_genuine_one(shared, tmp_path):
    genuine = read_structure(shared / "clips" / "ucf101" / "v_HorseRace_g07_c03.avi")
    made = read_structure(write_not_coded_mpeg4(tmp_path / "a.avi", not_coded_before=(5,)))
    for part in ("container", "codec", "user data", "count claimed too many", "samples beyond frames", "key samples"):
        assert made[part] == genuine[part], part
    sizes = [{(size, start) for size, _, start in structure["empty samples"]} for structure in (made, genuine)]
    assert sizes[0] == sizes[1] == {(7, b"\x00\x00\x01\xb6")}


def test_a_stream_name_that_is_not_utf8_cannot_be_read_as_text(tmp_path):
    path = write_packed_mpeg4(tmp_path / "a.avi", num_frames=3, stream_name=b"R\xfcckkehr")
    with pytest.raises(UnicodeDecodeError):
        av.open(str(path))
    assert len(decode_bare(path)) == 3


def test_avi_headers_claim_what_they_are_told_to(tmp_path):
    path = write_packed_mpeg4(tmp_path / "a.avi", num_frames=4)
    with av.open(str(path)) as video:
        samples = [(bytes(packet), packet.is_keyframe) for packet in video.demux(video=0) if packet.size]
    header = AviHeader(size=(96, 160), fps=Fraction(25), codec_tag="DX50", num_frames=900)
    lying = write_avi(tmp_path / "b.avi", samples, header)
    with av.open(str(lying)) as video:
        assert (video.streams.video[0].frames, video.streams.video[0].average_rate) == (900, 25)
    assert len(decode_bare(lying)) == 4
