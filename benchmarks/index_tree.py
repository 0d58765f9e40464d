"""Index a tree exactly, SQLite included, against OpenCV's header-only scan at equal threads; and index it again.

    python benchmarks/index_tree.py FOLDER_OF_CLASSES --threads 2 --output index_tree.json

OpenCV is asked for nothing but CAP_PROP_FRAME_COUNT, which is a claim of the header. Before any time is taken the
index's counts are held against a plain decode of some files, and OpenCV's beside them. Every run starts from no index,
in an empty folder of its own; runs are interleaved (A B A B ...), the first of each is thrown away, medians are
printed. The second index runs on the store just made, with nothing changed. Every file is probed by itself: nothing is
reused by inode or content.

Needs `opencv-python-headless` beside clipfeed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import cv2

from clipfeed.find import find_videos
from clipfeed.index import build_index
from clipfeed.records import VideoIndex

NUM_COMPARED = 16


def main() -> None:
    """Compare counts, then times; print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with one folder per class")
    parser.add_argument("--threads", type=int, default=2, help="threads of both")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as stores:
        counts = compare_counts(build_index(arguments.folder, index=stores, workers=arguments.threads))
    facts = time_all(arguments.folder, arguments.threads, arguments.runs) | counts
    facts |= {"threads": arguments.threads, "runs": arguments.runs, "cores": os.cpu_count()}
    facts |= {"python": platform.python_version(), "av": av.__version__, "opencv": cv2.__version__}
    print_table(facts)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(facts, indent=2) + "\n")


def compare_counts(index: VideoIndex) -> dict[str, object]:
    """Hold the index against a plain decode of some files, and count how often OpenCV's header is wrong."""
    step = max(1, len(index) // NUM_COMPARED)
    chosen = index.select(range(0, len(index), step))
    decoded = [decode_count(path) for path in chosen.paths]
    wrong = sum(count != exact for count, exact in zip(chosen.num_frames.tolist(), decoded, strict=True))
    if wrong:
        raise SystemExit(f"{wrong} of {len(chosen)} counts differ from decoding: no time is worth quoting")
    claims = [header_count(path) for path in index.paths]
    differ = sum(claim != exact for claim, exact in zip(claims, index.num_frames.tolist(), strict=True))
    return {"files": len(index), "left_out": len(index.failures), "compared": len(chosen), "opencv_wrong": differ}


def decode_count(path: str) -> int:
    """Count frames as a plain decode gives them: packet by packet, going on after errors."""
    count = 0
    with av.open(path, metadata_errors="replace") as container:
        for packet in container.demux(container.streams.best("video")):
            try:
                count += len(packet.decode())
            except av.error.FFmpegError:
                continue
    return count


def header_count(path: str) -> int:
    """Give the number of frames that OpenCV reads from the header."""
    capture = cv2.VideoCapture(path)
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    capture.release()
    return count


def scan_headers(folder: Path, threads: int) -> int:
    """List the folder and ask OpenCV for each file's header count."""
    paths = find_videos(folder, labels="inferred").paths
    with ThreadPoolExecutor(threads) as pool:
        return len(list(pool.map(header_count, paths, chunksize=8)))


def time_all(folder: Path, threads: int, runs: int) -> dict[str, float]:
    """Time both, interleaved, and the second index; seconds of wall and CPU time, medians."""
    walls: dict[str, list[float]] = {"index": [], "opencv": [], "again": []}
    cpus: dict[str, list[float]] = {"index": [], "opencv": [], "again": []}

    def take(name: str, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls[name].append(time.perf_counter() - wall)
        cpus[name].append(time.process_time() - cpu)

    for _ in range(runs + 1):
        with tempfile.TemporaryDirectory() as store:
            take("index", lambda store=store: build_index(folder, index=store, workers=threads))
            take("again", lambda store=store: build_index(folder, index=store, workers=threads))
        take("opencv", lambda: scan_headers(folder, threads))
    medians = {f"{name}_seconds": statistics.median(values[1:]) for name, values in walls.items()}
    return medians | {f"{name}_cpu_seconds": statistics.median(values[1:]) for name, values in cpus.items()}


def print_table(facts: dict[str, object]) -> None:
    """Print what was measured."""
    print(
        f"{facts['files']} files, {facts['threads']} threads, {facts['cores']} cores, medians of {facts['runs']} runs"
    )
    print(f"{'':34}{'wall s':>9}{'CPU s':>9}{'of OpenCV':>11}")
    rows = {"exact index, SQLite included": "index", "OpenCV, header only": "opencv", "index again, unchanged": "again"}
    for title, name in rows.items():
        wall, cpu = float(facts[f"{name}_seconds"]), float(facts[f"{name}_cpu_seconds"])
        print(f"{title:34}{wall:9.2f}{cpu:9.2f}{wall / float(facts['opencv_seconds']):11.2f}")
    print(f"index: {facts['compared']} of {facts['compared']} counts equal to decoding")
    print(f"OpenCV's header: {facts['opencv_wrong']} of {facts['files']} counts wrong")


if __name__ == "__main__":
    main()
