"""How time and memory grow with the number of files, the length and size of clips, and the number of threads.

    python benchmarks/scaling.py FOLDER --output scaling.json
    python benchmarks/scaling.py FOLDER --quick

Folders of 100 to 100,000 names are made of hard links to videos of FOLDER; every name is indexed by itself. Indexing
and memory are measured in a process of their own for each number of files. Memory is RssAnon + RssShmem above that
process after its imports, with the index loaded and a dataset made. Rates are clips a second of an epoch, medians of
runs in turn; they are measured on 32 videos, since a clip does not know how many others there are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from common import anonymous_bytes, machine_facts, table, take_turns, videos_in, write_json
from trees import link_tree

NUM_FILES = (100, 1_000, 10_000, 100_000)
NUM_FRAMES = (4, 8, 16, 32, 64)
IMAGE_SIZES = (32, 64, 112, 224)


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2, help="threads of the index, and most of an epoch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--most-files", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="to 1,000 files, two values of each, one run")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(index_facts(str(arguments.folder), arguments.child, arguments.threads)))
        return
    if arguments.quick:
        arguments.most_files, arguments.runs = min(arguments.most_files, 1_000), 1
    facts: dict[str, Any] = {"machine": machine_facts("tensorflow"), "threads": arguments.threads}
    facts["files"] = scale_files(arguments)
    facts |= scale_clips(arguments)
    write_json(arguments.output, facts)


# Files


def scale_files(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Index folders of more and more names."""
    sources, rows = videos_in(arguments.folder, 8), []
    with tempfile.TemporaryDirectory() as scratch:
        for number in NUM_FILES:
            if number <= arguments.most_files:
                tree = link_tree(Path(scratch) / "tree", sources, number)  # grows: the names before are kept
                store = str(Path(scratch) / f"index{number}")
                command = [sys.executable, __file__, str(tree), "--child", store, "--threads", str(arguments.threads)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                rows.append(json.loads(done.stdout.splitlines()[-1]))
    print(files_table(rows))
    return rows


def files_table(rows: list[dict[str, float]]) -> str:
    """What indexing took, as a table."""
    heads = ("files", "index s", "ms a file", "again s", "load s", "first batch s", "index MB", "memory MB", "order us")
    return table(
        heads,
        [
            (
                f"{row['files']:,}",
                f"{row['index_s']:.2f}",
                f"{row['index_s'] / row['files'] * 1e3:.2f}",
                f"{row['again_s']:.2f}",
                f"{row['dataset_s']:.3f}",
                f"{row['first_batch_s']:.3f}",
                f"{row['store_mb']:.1f}",
                f"{row['memory_mb']:.1f}",
                f"{row['order_us']:.1f}",
            )
            for row in rows
        ],
    )


def index_facts(folder: str, store: str, threads: int) -> dict[str, float]:
    """Index a folder twice, make a dataset, and take a batch: in this process, which has done nothing else."""
    import clipfeed as cf
    from clipfeed.dataset import VideoDataset
    from clipfeed.index import build_index
    from clipfeed.order import Order

    baseline, facts = anonymous_bytes(), {}

    def timed(name: str, begun: float) -> None:
        facts[name] = time.perf_counter() - begun

    begun = time.perf_counter()
    index = build_index(folder, index=store, workers=threads)
    timed("index_s", begun)
    begun = time.perf_counter()
    index = build_index(folder, index=store, workers=threads)
    timed("again_s", begun)
    begun = time.perf_counter()
    ds = VideoDataset(index, cf.ClipSpec(), seed=1, limits=cf.Limits(workers=threads))
    timed("dataset_s", begun)
    held = anonymous_bytes() - baseline
    begun = time.perf_counter()
    ds.batch(0, 0)
    timed("first_batch_s", begun)
    order = Order(num_examples=len(index), batch_size=8, shuffle=True, seed=1)
    begun = time.perf_counter()
    for number in range(100):
        order.examples(0, number % len(ds))
    order_us = (time.perf_counter() - begun) / 100 * 1e6
    size = sum(path.stat().st_size for path in Path(store).rglob("*") if path.is_file())
    return {"files": len(index), **facts, "memory_mb": held / 1e6, "store_mb": size / 1e6, "order_us": order_us}


# Clips


def scale_clips(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Clips a second for clips of other lengths and sizes, and for other numbers of threads."""
    import clipfeed as cf

    with tempfile.TemporaryDirectory() as scratch:
        tree = link_tree(Path(scratch) / "tree", videos_in(arguments.folder, 8), 8 if arguments.quick else 32)
        index = cf.build_index(tree, index=Path(scratch) / "index")

        def dataset(num_frames: int, side: int, workers: int) -> Any:
            spec = cf.ClipSpec(num_frames=num_frames, image_size=side, short_videos="repeat_last")
            return cf.VideoDataset(index, spec, seed=1, limits=cf.Limits(workers=workers, memory_budget="2GB"))

        threads = arguments.threads
        cases = {
            "num_frames": {number: dataset(number, 64, threads) for number in NUM_FRAMES},
            "image_size": {side: dataset(20, side, threads) for side in IMAGE_SIZES},
            "workers": {number: dataset(20, 64, number) for number in range(1, threads + 1)},
        }
        facts = {}
        for name, datasets in cases.items():
            chosen = dict(list(datasets.items())[:: max(1, len(datasets) - 1) if arguments.quick else 1])
            times = take_turns({str(value): partial(run_epoch, ds) for value, ds in chosen.items()}, arguments.runs)
            facts[name] = {value: len(index) / each.middle for value, each in times.items()}
            cpu = {value: each.middle_cpu / len(index) * 1e3 for value, each in times.items()}
            facts[f"{name}_cpu_ms"] = cpu
    print("\n" + "\n\n".join(clips_tables(facts)))
    return facts


def clips_tables(facts: dict[str, dict[str, float]]) -> list[str]:
    """Clips a second, a table for each thing that was changed."""
    return [
        table(
            (name, "clips/s", "CPU ms a clip"),
            [(value, f"{rate:,.1f}", f"{facts[f'{name}_cpu_ms'][value]:.2f}") for value, rate in facts[name].items()],
        )
        for name in ("num_frames", "image_size", "workers")
    ]


def run_epoch(ds: Any) -> int:
    """Run through an epoch; give its number of clips."""
    return sum(len(batch) for batch in ds.iter_epoch(0))


if __name__ == "__main__":
    main()
