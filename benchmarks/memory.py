"""Memory of a full epoch: peak above the baseline for few and for many files.

    python benchmarks/memory.py HMDB51 [--format tf] [--small 200] [--budget 512MB]

Memory is RssAnon + RssShmem of the process (touched pages of files belong to the page cache), sampled while one epoch
of the whole folder, and one of its first files only, is iterated; each in a process of its own. The baseline is the
process after its imports; what the index takes counts. Prints a table, writes JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import threading
from pathlib import Path


def memory_bytes() -> int:
    """RssAnon + RssShmem of this process, after freed memory has gone back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))


def run_epoch(folder: str, format: str, budget: str, num_files: int | None) -> dict[str, float]:
    """Iterate one epoch, and give what it took."""
    import clipfeed as cf
    from clipfeed.deliver import deliver  # noqa: F401  # part of the imports
    from clipfeed.index import build_index  # noqa: F401

    if format == "tf":
        import tensorflow as tf

        for batch in tf.data.Dataset.range(2).map(lambda number: number + 1):
            del batch
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    baseline = memory_bytes()
    peak, done = [baseline], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], memory_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    train_ds, val_ds = cf.video_dataset_from_directory(
        folder, num_frames=20, image_size=(64, 64), batch_size=8, validation_split=0.2, subset="both", seed=1,
        format=format, memory_budget=budget, verbose=False)  # fmt: skip
    if num_files is not None:
        ds = cf.VideoDataset(
            train_ds.clipfeed.index.select(range(num_files)), train_ds.clipfeed.spec, batch_size=8, seed=1,
            limits=cf.Limits(memory_budget=budget))  # fmt: skip
        train_ds = (cf.to_tensorflow if format == "tf" else cf.to_numpy)(ds)
    clips = 0
    for batch, _labels in train_ds:
        clips += len(batch)
        peak[0] = max(peak[0], memory_bytes())
    done.set()
    watcher.join()
    del val_ds
    return {"clips": clips, "baseline_mb": baseline / 1e6, "peak_above_mb": (peak[0] - baseline) / 1e6}


def main() -> None:
    """Measure both, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--format", default="tf", choices=["tf", "numpy"])
    parser.add_argument("--small", type=int, default=200)
    parser.add_argument("--budget", default="512MB")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--child", type=int, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        print(json.dumps(run_epoch(args.folder, args.format, args.budget, args.child or None)))
        return
    rows = {}
    for name, num_files in (("small", args.small), ("all", 0)):
        command = [sys.executable, __file__, args.folder, "--format", args.format, "--budget", args.budget]
        done = subprocess.run([*command, "--child", str(num_files)], capture_output=True, text=True, check=True)
        rows[name] = json.loads(done.stdout.splitlines()[-1])
        print(name, rows[name])
    print(f"more for all than for {args.small}: {rows['all']['peak_above_mb'] - rows['small']['peak_above_mb']:.1f} MB")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2))


main()
