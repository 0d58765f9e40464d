"""Side by side with other ways to read clips: correctness first, then speed.

    python benchmarks/peers.py FOLDER --output peers.json --plot peers.svg

The work is 20 frames spread evenly over each video, 64 x 64, RGB. Three tables:

1. One clip in one thread. Beside each time stands what was handed out: the share of wanted frames that show the picture
   which a plain sequential decode gives (at source size), for how many videos more frames are claimed than there are,
   and how far resized pictures are from the same picture shrunk without aliasing, in floating point, by the mean of the
   area that a pixel covers or by a triangle twice as wide, whichever is nearer.
2. A first epoch from video files, at equal numbers of threads.
3. A later epoch from what was kept, at equal numbers of threads.

Competitors take turns, a first round is thrown away, medians are printed. The exact frame counts come from a probe made
beforehand and are given to all. A package of the `bench` extra that is absent is named as absent.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

import clipfeed as cf
from clipfeed.load import video_record
from clipfeed.records import VideoRecord
from common import Times, machine_facts, table, take_turns, videos_in, write_json
from pipelines import first_epoch_pipelines, later_epoch_pipelines
from readers import SPEC, Frames, Reader, find_readers, shown, wanted_frames

# Two conversions to RGB of one picture differ by rounding; two pictures of one video differ by far more.
SAME_PICTURE = 3.0
PACKAGES = ("opencv-python-headless", "decord", "torchcodec", "torch", "spdl", "tensorflow", "grain")


def main() -> None:
    """Compare, print tables, write JSON and a plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of videos; of class folders for whole epochs")
    parser.add_argument("--clips", type=int, default=16, help="videos of the first table at most")
    parser.add_argument("--epoch-clips", type=int, default=64, help="videos of a first epoch at most; 0: none")
    parser.add_argument("--later-clips", type=int, default=400, help="videos of a later epoch at most; 0: none")
    parser.add_argument("--threads", type=int, default=2, help="threads of whole epochs")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each competitor")
    parser.add_argument("--quick", action="store_true", help="few clips, few runs: a look, not a measurement")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--plot", type=Path, help="where the SVG goes")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.clips, arguments.epoch_clips, arguments.later_clips, arguments.runs = 4, 16, 64, 2
    facts = compare(arguments)
    print_all(facts)
    write_json(arguments.output, facts)
    if arguments.plot is not None:
        from plot import draw_peers  # needs a plotting library

        draw_peers(facts, arguments.plot)


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """All three tables as facts."""
    facts: dict[str, Any] = {"machine": machine_facts(*PACKAGES), "runs": arguments.runs, "threads": arguments.threads}
    facts["clip"] = compare_clips(videos_in(arguments.folder, arguments.clips), arguments.runs)
    if arguments.epoch_clips:
        with tempfile.TemporaryDirectory() as scratch:
            whole = cf.build_index(arguments.folder, index=Path(scratch) / "index")
            first = spread(whole, arguments.epoch_clips)
            later = spread(whole, arguments.later_clips) if arguments.later_clips else None
            facts["first_epoch"] = time_epochs(*first_epoch_pipelines(first, arguments.threads), arguments.runs)
            if later is not None:
                kept = later_epoch_pipelines(later, Path(scratch), arguments.threads)
                facts["later_epoch"] = time_epochs(*kept, arguments.runs)
    facts["machine"]["load_average_after"] = machine_facts()["load_average"]
    return facts


def spread(index: cf.VideoIndex, at_most: int) -> cf.VideoIndex:
    """Some videos, evenly spread."""
    return index.select(np.unique(np.linspace(0, len(index) - 1, min(at_most, len(index))).round().astype(np.int64)))


# One clip


def compare_clips(paths: Sequence[str], runs: int) -> dict[str, Any]:
    """Correctness and time of each reader on the same videos."""
    readers, absent = find_readers()
    records = [video_record(path) for path in paths]
    rows: dict[str, dict[str, Any]] = {}
    kept: list[Reader] = []
    for reader in readers:
        try:
            rows[reader.name] = {"is_peer": reader.is_peer, **judge(reader, records)}
            kept.append(reader)
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            absent[reader.name] = f"failed: {shown(error)}"
    times = time_clips(kept, records, runs)
    ours = times["clipfeed"]
    for name, each in times.items():
        rows[name] |= {
            "ms_per_clip": each.middle / len(records) * 1e3,
            "cpu_ms_per_clip": each.middle_cpu / len(records) * 1e3,
            "times_as_long": each.middle / ours.middle,
            "times_as_long_cpu": each.middle_cpu / ours.middle_cpu,
            "runs_ms": [value / len(records) * 1e3 for value in each.wall],
        }
    return {"clips": len(records), "shape": SPEC.shape, "readers": rows, "absent": absent}


def time_clips(readers: Sequence[Reader], records: Sequence[VideoRecord], runs: int) -> dict[str, Times]:
    """Times of each reader for all videos together, run by run; readers take turns at every video."""
    totals = {reader.name: Times(wall=(0.0,) * runs, cpu=(0.0,) * runs) for reader in readers}
    for record in records:
        wanted = wanted_frames(record)
        work = {reader.name: functools.partial(reader.load, record, wanted, SPEC.size) for reader in readers}
        for name, taken in take_turns(work, runs).items():
            totals[name] += taken
    return totals


def judge(reader: Reader, records: Sequence[VideoRecord]) -> dict[str, Any]:
    """What a reader hands out, against a plain sequential decode."""
    same: list[bool] = []
    off: list[float] = []
    num_phantom = 0
    for record in records:
        wanted, truth = wanted_frames(record), sequential_frames(record.path, tuple(wanted_frames(record)))
        given = reader.load(record, wanted, None)
        same += [difference(*pair) < SAME_PICTURE for pair in zip(truth, given, strict=False)]
        same += [False] * (len(wanted) - len(given))
        small = reader.load(record, wanted, SPEC.size)
        off += [aliasing(*pair) for pair in zip(given, small, strict=False)]
        num_phantom += reader.count is not None and reader.count(record.path) > record.info.num_frames
    return {
        "right_frames": statistics.fmean(same),
        "gray_levels_off": statistics.fmean(off),
        "claims_too_many": None if reader.count is None else num_phantom,
    }


@functools.cache
def sequential_frames(path: str, wanted: tuple[int, ...]) -> Frames:
    """The wanted frames at source size by PyAV alone: every packet in order, going on after errors."""
    chosen, frames, number = set(wanted), [], 0
    with av.open(path, metadata_errors="replace") as container:
        stream = container.streams.best("video")
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for packet in container.demux(stream):
            try:
                shown = packet.decode()
            except av.FFmpegError:
                continue
            for frame in shown:
                if number in chosen:
                    frames.append(frame.to_ndarray(format="rgb24"))
                number += 1
    return np.stack(frames)


def difference(one: Any, other: Any) -> float:
    """Mean absolute difference, in gray levels."""
    if one.shape != other.shape:
        return 255.0
    return float(np.abs(one.astype(np.float32) - other.astype(np.float32)).mean())


def aliasing(picture: Frames, small: Frames) -> float:
    """Gray levels between a resized picture and the nearer of two that were shrunk without aliasing."""
    return min(difference(_shrunk(picture, small.shape, shares), small) for shares in (_box, _triangle))


def _shrunk(picture: Frames, shape: Sequence[int], shares: Any) -> Any:
    down, across = (shares(size, to) for size, to in zip(picture.shape[:2], shape[:2], strict=True))
    return np.einsum("hr,rcx,wc->hwx", down, picture.astype(np.float32), across, optimize=True)


def _box(size: int, to: int) -> Any:
    """Weights (to, size): the mean of the area that a pixel covers."""
    edges, pixels = np.arange(to + 1) * size / to, np.arange(size)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return _normal(np.clip(covered, 0, 1))


def _triangle(size: int, to: int) -> Any:
    """Weights (to, size): falling from a pixel's centre to nothing at the centres of its neighbours."""
    centres, pixels = (np.arange(to) + 0.5) * size / to, np.arange(size) + 0.5
    return _normal(np.clip(1 - np.abs(centres[:, None] - pixels) * to / size, 0, None))


def _normal(weights: Any) -> Any:
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


# Whole epochs


def time_epochs(pipelines: Sequence[Any], absent: dict[str, str], runs: int) -> dict[str, Any]:
    """Clips a second of each pipeline."""
    clips = {pipeline.name: pipeline.run() for pipeline in pipelines}
    if len(set(clips.values())) != 1:
        raise SystemExit(f"pipelines gave different numbers of clips, no time is worth quoting: {clips}")
    times = take_turns({pipeline.name: pipeline.run for pipeline in pipelines}, runs)
    rows = {
        pipeline.name: {
            "clips_per_second": clips[pipeline.name] / times[pipeline.name].middle,
            "cpu_ms_per_clip": times[pipeline.name].middle_cpu / clips[pipeline.name] * 1e3,
            "runs": [clips[pipeline.name] / value for value in times[pipeline.name].wall],
            "note": pipeline.note,
        }
        for pipeline in pipelines
    }
    return {"clips": next(iter(clips.values())), "pipelines": rows, "absent": absent}


# Printing


def print_all(facts: dict[str, Any]) -> None:
    """Print what `facts` says."""
    machine = facts["machine"]
    print(f"{machine['cores']} cores, load average {machine['load_average']}, medians of {facts['runs']} runs\n")
    clip = facts["clip"]
    print(f"One clip of {' x '.join(map(str, clip['shape']))}, one thread, {clip['clips']} videos\n")
    print(clip_table(clip))
    print_absent(clip["absent"])
    for key, title in (("first_epoch", "First epoch, from video files"), ("later_epoch", "Later epoch")):
        if key in facts:
            print(f"\n{title}, {facts['threads']} threads, {facts[key]['clips']} clips\n")
            print(epoch_table(facts[key]))
            print_absent(facts[key]["absent"])


def clip_table(clip: dict[str, Any]) -> str:
    """The first table."""
    heads = ("reader", "ms a clip", "x clipfeed", "CPU ms", "x", "right frames", "claim too many", "gray levels off")
    rows = [
        (
            name,
            f"{row['ms_per_clip']:.2f}",
            f"{row['times_as_long']:.2f}",
            f"{row['cpu_ms_per_clip']:.2f}",
            f"{row['times_as_long_cpu']:.2f}",
            f"{row['right_frames']:.1%}",
            "-" if row["claims_too_many"] is None else f"{row['claims_too_many']} of {clip['clips']}",
            f"{row['gray_levels_off']:.2f}",
        )
        for name, row in clip["readers"].items()
    ]
    return table(heads, rows)


def epoch_table(epoch: dict[str, Any]) -> str:
    """The second and third table."""
    rows = [
        (name, f"{row['clips_per_second']:,.1f}", f"{row['cpu_ms_per_clip']:.2f}", row["note"])
        for name, row in epoch["pipelines"].items()
    ]
    return table(("pipeline", "clips/s", "CPU ms a clip", ""), rows)


def print_absent(absent: dict[str, str]) -> None:
    """Name who is not there."""
    for name, reason in absent.items():
        print(f"absent: {name} ({reason})")


if __name__ == "__main__":
    main()
