"""The frames that a seed must draw, for ever, on every machine and with every version of NumPy.

A change here is a change for every user with a seed; it needs an entry in the change log.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from clipfeed.records import ClipSpec, SamplingPolicy, VideoInfo, VideoRecord
from clipfeed.sample import AtRate, Dense, Segments, clip_generator, plan_clip
from clipfeed.seeds import hash_key

KEY = "brush_hair/April_09_brush_hair_u_nm_np1_ba_goo_0.avi"


def a_record(num_frames: int, **interval: int) -> VideoRecord:
    """A video of 29.97 frames a second; one of 90 frames is of variable rate."""
    pts = np.array([*range(0, 60, 2), *range(60, 240, 3)], np.int64) if num_frames == 90 else None
    info = VideoInfo(
        container="avi",
        codec="mpeg4",
        stream_index=0,
        width=320,
        height=240,
        average_fps=Fraction(30000, 1001),
        time_base=Fraction(1, 60),
        num_frames_from_packets=num_frames,
        frame_pts=pts,
    )
    return VideoRecord(row=0, root="", key=KEY, video_id=hash_key(KEY), size_bytes=1, mtime_ns=1, info=info, **interval)


WHOLE, VARIABLE, PART = a_record(408), a_record(90), a_record(408, start=100, end=200)


@pytest.mark.parametrize(
    ("policy", "record", "epoch", "draw", "frames"),
    [
        (Segments(), WHOLE, 0, 0, [44, 65, 111, 203, 232, 267, 326, 371]),
        (Segments(), WHOLE, 1, 0, [9, 72, 131, 173, 229, 283, 349, 384]),
        (Segments(), WHOLE, 0, 1, [39, 88, 146, 164, 208, 266, 342, 400]),
        (Segments(), PART, 0, 0, [101, 114, 131, 137, 153, 167, 176, 197]),
        (Dense(), WHOLE, 0, 0, [341, 343, 345, 347, 349, 351, 353, 355]),
        (Dense(), WHOLE, 1, 0, [77, 79, 81, 83, 85, 87, 89, 91]),
        (Dense(), WHOLE, 0, 1, [307, 309, 311, 313, 315, 317, 319, 321]),
        (AtRate(fps=8), WHOLE, 0, 0, [331, 334, 338, 342, 346, 349, 353, 357]),
        (AtRate(fps=8), WHOLE, 1, 0, [74, 78, 82, 85, 89, 93, 97, 100]),
        (AtRate(fps=8), VARIABLE, 0, 0, [64, 66, 69, 71, 74, 76, 79, 81]),
    ],
)
def test_a_seed_draws_these_frames(
    policy: SamplingPolicy, record: VideoRecord, epoch: int, draw: int, frames: list[int]
) -> None:
    spec = ClipSpec(num_frames=8, sampling=policy)
    plan = plan_clip(record, spec, rng=clip_generator(1, epoch, record, draw), draw=draw)
    assert plan.frame_indices.tolist() == frames


@pytest.mark.parametrize(
    ("policy", "record", "frames"),
    [
        ("uniform", WHOLE, [25, 76, 127, 178, 229, 280, 331, 382]),
        ("stride", WHOLE, [0, 51, 102, 153, 204, 255, 306, 357]),
        (Segments(), WHOLE, [25, 76, 127, 178, 229, 280, 331, 382]),
        (Segments(), PART, [106, 118, 131, 143, 156, 168, 181, 193]),
        (Dense(), WHOLE, [196, 198, 200, 202, 204, 206, 208, 210]),
        (AtRate(fps=8), WHOLE, [190, 194, 198, 202, 205, 209, 213, 217]),
        (AtRate(fps=8), VARIABLE, [41, 43, 46, 48, 51, 53, 56, 58]),
    ],
)
def test_evaluation_takes_these_frames(policy: SamplingPolicy, record: VideoRecord, frames: list[int]) -> None:
    assert plan_clip(record, ClipSpec(num_frames=8, sampling=policy)).frame_indices.tolist() == frames
