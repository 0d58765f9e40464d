"""First epoch on one thread: clipfeed against OpenCV read sequentially, and against one seek per frame.

    python benchmarks/first_epoch.py FOLDER_OF_CLIPS --output first_epoch.json

The work is 20 frames spread evenly over each video, 64 x 64, RGB. Before any time is taken the frames themselves are
compared, at source size, so that nobody is fast on other pictures. Runs are interleaved (A B C A B C ...), the first is
thrown away, medians are printed. Wall time is what is quoted; CPU time stands beside it, because on a busy machine the
two part. The exact frame count comes from a probe done beforehand, as in a first epoch after indexing; OpenCV gets it as
well, since its own header count is one too many for every HMDB51 original.

Needs `opencv-python-headless` beside clipfeed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from clipfeed.decode import PlainDecoder
from clipfeed.load import load_clip, video_record
from clipfeed.records import ClipPlan, ClipSpec, VideoRecord
from clipfeed.sample import plan_clip

Frames = NDArray[np.uint8]
Loader = Callable[[VideoRecord], Frames]

SPEC = ClipSpec(num_frames=20, image_size=(64, 64))
EXTENSIONS = {".avi", ".mkv", ".mov", ".mp4", ".mpg", ".webm"}
# Two conversions to RGB of the same picture differ by rounding; another picture of the same video by far more.
SAME_PICTURE = 3.0


def main() -> None:
    """Compare outputs, then times; print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of videos, searched to any depth")
    parser.add_argument("--runs", type=int, default=9, help="timed runs of each competitor")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    paths = sorted(path for path in arguments.folder.rglob("*") if path.suffix.lower() in EXTENSIONS)
    records = [video_record(path) for path in paths]
    loaders = {
        "clipfeed": load_with_clipfeed,
        "OpenCV, sequential": load_sequentially,
        "OpenCV, one seek per frame": load_by_seeking,
    }
    agreement = compare_frames(records)
    report(loaders, time_interleaved(loaders, records, arguments.runs), agreement, len(records), arguments.output)


def plan(record: VideoRecord) -> ClipPlan:
    """The same frames for all."""
    return plan_clip(record, SPEC)


DECODER = PlainDecoder()


def load_with_clipfeed(record: VideoRecord) -> Frames:
    """What a dataset does for each clip."""
    return load_clip(plan(record), SPEC, DECODER).frames


def open_with_opencv(record: VideoRecord) -> cv2.VideoCapture:
    """One decoding thread, as for clipfeed."""
    return cv2.VideoCapture(record.path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def load_sequentially(record: VideoRecord, resize: bool = True) -> Frames:
    """Grab every frame up to the last wanted one, retrieve the wanted ones."""
    wanted = set(plan(record).frame_indices.tolist())
    capture, frames = open_with_opencv(record), []
    for index in range(max(wanted) + 1):
        if not capture.grab():
            break
        if index in wanted:
            frames.append(finish(capture.retrieve()[1], resize))
    capture.release()
    return np.stack(frames)


def load_by_seeking(record: VideoRecord, resize: bool = True) -> Frames:
    """The published way: set the position, read one frame, twenty times."""
    capture, frames = open_with_opencv(record), []
    for index in plan(record).frame_indices.tolist():
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        was_read, frame = capture.read()
        if not was_read:
            break
        frames.append(finish(frame, resize))
    capture.release()
    return np.stack(frames)


def finish(frame: Frames, resize: bool) -> Frames:
    """Resize and put RGB in order."""
    if resize:
        frame = cv2.resize(frame, (SPEC.width, SPEC.height))
    return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)


def compare_frames(records: list[VideoRecord]) -> dict[str, float]:
    """Share of frames, at source size, that show the picture clipfeed's show."""
    same: dict[str, list[bool]] = {"OpenCV, sequential": [], "OpenCV, one seek per frame": []}
    for record in records:
        spec = ClipSpec(num_frames=SPEC.num_frames, image_size=record.info.display_size)
        ours = load_clip(plan(record), spec, DECODER).frames
        for name, load in (("OpenCV, sequential", load_sequentially), ("OpenCV, one seek per frame", load_by_seeking)):
            theirs = load(record, resize=False)
            for place in range(len(ours)):
                is_there = place < len(theirs)
                same[name].append(is_there and bool(mean_difference(ours[place], theirs[place]) < SAME_PICTURE))
    return {name: statistics.fmean(values) for name, values in same.items()}


def mean_difference(one: Frames, other: Frames) -> float:
    """Mean absolute difference, in gray levels."""
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean())


def time_interleaved(loaders: dict[str, Loader], records: list[VideoRecord], runs: int) -> dict[str, list[list[float]]]:
    """(wall, CPU) milliseconds per clip of each run."""
    times: dict[str, list[list[float]]] = {name: [] for name in loaders}
    for run in range(runs + 1):
        for name, load in loaders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for record in records:
                load(record)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if run:
                times[name].append([wall / len(records) * 1e3, cpu / len(records) * 1e3])
    return times


def report(
    loaders: dict[str, Loader],
    times: dict[str, list[list[float]]],
    agreement: dict[str, float],
    num_clips: int,
    output: Path | None,
) -> None:
    """Print a table of medians and ratios; write them."""
    medians = {name: [statistics.median(column) for column in zip(*times[name], strict=True)] for name in loaders}
    ours = medians["clipfeed"]
    print(f"first epoch, one thread, {num_clips} clips, 20 frames of 64 x 64, medians of {len(times['clipfeed'])} runs")
    print(f"{'':28s}{'ms per clip':>12s}{'CPU ms':>9s}{'times clipfeed':>16s}{'same frames':>13s}")
    for name, (wall, cpu) in medians.items():
        same = f"{agreement[name]:.1%}" if name in agreement else "-"
        print(f"{name:28s}{wall:12.2f}{cpu:9.2f}{wall / ours[0]:16.2f}{same:>13s}")
    if output is not None:
        facts = {
            "clips": num_clips,
            "ms_per_clip": {name: wall for name, (wall, _) in medians.items()},
            "cpu_ms_per_clip": {name: cpu for name, (_, cpu) in medians.items()},
            "times_clipfeed": {name: wall / ours[0] for name, (wall, _) in medians.items()},
            "times_clipfeed_cpu": {name: cpu / ours[1] for name, (_, cpu) in medians.items()},
            "same_frames": agreement,
            "runs": times,
            "versions": {"av": av.__version__, "cv2": cv2.__version__, "python": platform.python_version()},
        }
        output.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
