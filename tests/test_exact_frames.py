"""Every frame handed out is the one a bare PyAV loop gives, bit for bit.

The loop below is the oracle. It shares no code with the package; only the arguments of the resize are asked from it,
since they are its documented choice.
"""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import VideoReformatter

import clipfeed as cf
from clipfeed.decode import LeanDecoder, PlainDecoder, reformat_arguments
from clipfeed.load import load_clip, video_record
from clipfeed.records import ClipPlan, ClipSpec
from clipfeed.sample import plan_clip
from clipfeed.testing import VIDEO_KINDS, VideoKind
from clipfeed.transform import geometry_of

EXACT_CODECS = ("mpeg4", "h264", "hevc", "vp9", "vp8", "mpeg1video", "mpeg2video", "mjpeg")
POLICIES = ("uniform", "stride", cf.Segments(), cf.Dense(frame_stride=3), cf.AtRate(fps=8))


def bare_frames(path: Path) -> list[av.VideoFrame]:
    frames = []
    with av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.best("video")
        stream.thread_count = 1
        stream.thread_type = "NONE"
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
                frames += packet.decode()
            except StopIteration:
                return frames
            except av.FFmpegError:
                continue


def plans_of(record: cf.VideoRecord, num_frames: int) -> list[ClipPlan]:
    """Each policy at its centre, and the random ones at a random place."""
    plans = []
    for sampling in POLICIES:
        spec = ClipSpec(num_frames=num_frames, sampling=sampling, short_videos="wrap")
        plans.append(plan_clip(record, spec, rng=None))
        if not isinstance(sampling, str):
            plans.append(plan_clip(record, spec, rng=np.random.default_rng(0)))
    return plans


def check_video(path: Path, num_frames: int) -> None:
    record, decoders = video_record(path), (PlainDecoder(), LeanDecoder())
    truth = bare_frames(path)
    assert record.info.num_frames == len(truth)
    native = (record.info.height, record.info.width)
    for number, plan in enumerate(plans_of(record, num_frames)):
        for size, interpolation in ((native, "bilinear"), ((64, 64), "bilinear"), ((112, 90), "area")):
            if interpolation == "area" and number > 0:
                continue
            spec = ClipSpec(num_frames=num_frames, image_size=size, interpolation=interpolation)
            geometry = geometry_of(record.info, spec)
            frames, leanly = (load_clip(plan, spec, decoder).frames for decoder in decoders)
            assert np.array_equal(frames, leanly), (plan, size)
            for frame, index in zip(frames, plan.frame_indices.tolist(), strict=True):
                resized = VideoReformatter().reformat(truth[index], **reformat_arguments(geometry, truth[index]))
                assert np.array_equal(frame, resized.to_ndarray(format="rgb24")), (plan, size, index)
                if size == native:
                    assert np.array_equal(frame, truth[index].to_ndarray(format="rgb24", threads=1)), (plan, index)


@pytest.mark.parametrize(
    "kind", [kind for kind in VIDEO_KINDS if kind.codec in EXACT_CODECS],
    ids=lambda kind: kind.name,
)  # fmt: skip
def test_frames_of_made_videos_equal_a_bare_loop(kind: VideoKind, tmp_path: Path) -> None:
    check_video(kind.write(tmp_path), num_frames=7)


@pytest.mark.shared
@pytest.mark.parametrize("source", ["hmdb51", "ucf101", "kinetics"])
def test_frames_of_genuine_clips_equal_a_bare_loop(source: str, shared: Path) -> None:
    paths = sorted((shared / "clips" / source).iterdir())
    assert paths
    for path in paths:
        check_video(path, num_frames=16)
