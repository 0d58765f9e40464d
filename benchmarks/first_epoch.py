"""First epoch on one thread: clipfeed against OpenCV read sequentially, and against one seek per frame.

    python benchmarks/first_epoch.py FOLDER_OF_CLIPS --output first_epoch.json

The work is 20 frames spread evenly over each video, 64 x 64, RGB. Before any time is taken the pictures are compared:
at source size, to see that all read the same frames, and at 64 x 64, to see whether they did the same work. OpenCV's
INTER_AREA averages as clipfeed's filters do when shrinking; its default, INTER_LINEAR, looks at 4 pixels of 19 and
gives other, aliased pictures for less. Both are timed.

Competitors take turns at every clip (A B C D A B C D ...), the first run is thrown away, medians are printed. Wall time
is what counts; CPU time stands beside it, because on a busy machine the two part. The exact frame count comes from a
probe done beforehand, as in a first epoch after indexing; OpenCV gets it as well, since its own header count is one too
many for every HMDB51 original. One decoding thread each. Needs `opencv-python-headless` beside clipfeed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from clipfeed.decode import LeanDecoder
from clipfeed.load import load_clip, video_record
from clipfeed.records import ClipSpec, VideoRecord
from clipfeed.sample import plan_clip

Frames = NDArray[np.uint8]
Resize = Callable[[Frames], Frames]
Load = Callable[[VideoRecord], Frames]

SPEC = ClipSpec(num_frames=20, image_size=(64, 64))
DECODER = LeanDecoder()
EXTENSIONS = {".avi", ".mkv", ".mov", ".mp4", ".mpg", ".webm"}
# Two conversions to RGB of one picture differ by rounding; two pictures of one video differ by far more.
SAME_PICTURE = 3.0


def main() -> None:
    """Compare pictures, take times, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of videos, searched to any depth")
    parser.add_argument("--runs", type=int, default=9, help="timed runs of each competitor")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    paths = sorted(path for path in arguments.folder.rglob("*") if path.suffix.lower() in EXTENSIONS)
    records = [video_record(path) for path in paths]
    loads: dict[str, Load] = {
        "clipfeed": load_with_clipfeed,
        "OpenCV sequential, INTER_AREA": partial(load_sequentially, resize=partial(shrink, how=cv2.INTER_AREA)),
        "OpenCV sequential, INTER_LINEAR": partial(load_sequentially, resize=partial(shrink, how=cv2.INTER_LINEAR)),
        "OpenCV, one seek per frame": partial(load_by_seeking, resize=partial(shrink, how=cv2.INTER_LINEAR)),
    }
    facts = {
        "clips": len(records),
        "same_frames": compare_frames(records),
        "mean_difference_at_64x64": {name: compare_pictures(load, records) for name, load in loads.items()},
        **summarize(take_times(loads, records, arguments.runs)),
        "versions": {"av": av.__version__, "cv2": cv2.__version__, "python": platform.python_version()},
    }
    print_table(facts)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def wanted_frames(record: VideoRecord) -> list[int]:
    """The same frames for all."""
    return [int(index) for index in plan_clip(record, SPEC).frame_indices]


def load_with_clipfeed(record: VideoRecord) -> Frames:
    """What a dataset does for each clip."""
    return load_clip(plan_clip(record, SPEC), SPEC, DECODER).frames


def load_sequentially(record: VideoRecord, *, resize: Resize) -> Frames:
    """Grab every frame up to the last wanted one, retrieve the wanted ones."""
    wanted = wanted_frames(record)
    chosen, capture, frames = set(wanted), open_with_opencv(record), []
    for index in range(wanted[-1] + 1):
        if not capture.grab():
            break
        if index in chosen:
            frames.append(cv2.cvtColor(resize(capture.retrieve()[1]), cv2.COLOR_BGR2RGB))
    capture.release()
    return np.stack(frames)


def load_by_seeking(record: VideoRecord, *, resize: Resize) -> Frames:
    """The published way: set the position, read one frame, twenty times."""
    capture, frames = open_with_opencv(record), []
    for index in wanted_frames(record):
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        was_read, frame = capture.read()
        if not was_read:
            break
        frames.append(cv2.cvtColor(resize(frame), cv2.COLOR_BGR2RGB))
    capture.release()
    return np.stack(frames)


def open_with_opencv(record: VideoRecord) -> cv2.VideoCapture:
    """One decoding thread, as for clipfeed."""
    return cv2.VideoCapture(record.path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def shrink(frame: Frames, *, how: int) -> Frames:
    """Resize to the clip's size."""
    return cv2.resize(frame, (SPEC.width, SPEC.height), interpolation=how)


def keep_size(frame: Frames) -> Frames:
    """Resize nothing."""
    return frame


def compare_frames(records: Sequence[VideoRecord]) -> dict[str, float]:
    """Share of wanted frames, at source size, that show the picture which clipfeed gives."""
    same: dict[str, list[bool]] = {"sequential": [], "one seek per frame": []}
    for record in records:
        spec = ClipSpec(num_frames=SPEC.num_frames, image_size=(record.info.height, record.info.width))
        ours = load_clip(plan_clip(record, SPEC), spec, DECODER).frames
        for name, load in (("sequential", load_sequentially), ("one seek per frame", load_by_seeking)):
            theirs = load(record, resize=keep_size)
            same[name] += [mean_difference(*pair) < SAME_PICTURE for pair in zip(ours, theirs, strict=False)]
            same[name] += [False] * (len(ours) - len(theirs))
    return {name: statistics.fmean(values) for name, values in same.items()}


def compare_pictures(load: Load, records: Sequence[VideoRecord]) -> float:
    """Mean difference of finished clips from clipfeed's, in gray levels."""
    return statistics.fmean(mean_difference(load(record), load_with_clipfeed(record)) for record in records)


def mean_difference(one: Frames, other: Frames) -> float:
    """Mean absolute difference, in gray levels."""
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean())


def take_times(
    loads: dict[str, Load], records: Sequence[VideoRecord], num_runs: int
) -> dict[str, list[tuple[float, float]]]:
    """Give (wall, CPU) milliseconds a clip of each run; competitors take turns at every clip."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in loads}
    for run in range(num_runs + 1):
        spent = dict.fromkeys(loads, (0.0, 0.0))
        for record in records:
            for name, load in loads.items():
                wall, cpu = time.perf_counter(), time.process_time()
                load(record)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                spent[name] = (spent[name][0] + wall / len(records) * 1e3, spent[name][1] + cpu / len(records) * 1e3)
        if run > 0:
            for name in loads:
                times[name].append(spent[name])
    return times


def summarize(times: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Medians, and how many times as long as clipfeed each takes."""
    wall = {name: statistics.median(run[0] for run in runs) for name, runs in times.items()}
    cpu = {name: statistics.median(run[1] for run in runs) for name, runs in times.items()}
    return {
        "ms_per_clip": wall,
        "cpu_ms_per_clip": cpu,
        "times_as_long": {name: value / wall["clipfeed"] for name, value in wall.items()},
        "times_as_long_cpu": {name: value / cpu["clipfeed"] for name, value in cpu.items()},
        "runs": times,
    }


def print_table(facts: dict[str, Any]) -> None:
    """Print what `facts` says."""
    print(f"first epoch, one thread, {facts['clips']} clips of 20 frames, 64 x 64: medians")
    print(f"frames that are clipfeed's: {', '.join(f'{k} {v:.1%}' for k, v in facts['same_frames'].items())}")
    print(f"{'':32s}{'ms/clip':>9s}{'x clipfeed':>12s}{'CPU ms':>9s}{'x clipfeed':>12s}{'gray levels off':>17s}")
    for name, wall in facts["ms_per_clip"].items():
        cpu, slower, slower_cpu = (
            facts[kind][name] for kind in ("cpu_ms_per_clip", "times_as_long", "times_as_long_cpu")
        )
        off = facts["mean_difference_at_64x64"][name]
        print(f"{name:32s}{wall:9.2f}{slower:12.2f}{cpu:9.2f}{slower_cpu:12.2f}{off:17.2f}")


if __name__ == "__main__":
    main()
