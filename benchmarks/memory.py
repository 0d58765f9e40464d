"""Memory: the peak of a full epoch for few and for many files, and the growth over a long `fit`.

    python benchmarks/memory.py HMDB51 [--format tf] [--few 100] [--many 10000] [--budget 512MB] [--output memory.json]
    python benchmarks/memory.py HMDB51 --epochs 30          a fit with a cache, epoch by epoch

Memory is RssAnon + RssShmem of the process and its children (touched pages of files belong to the page cache), after a
`malloc_trim`. A process of its own a figure. The baseline is the process after its imports and, where a model is
fitted, after one step of that model on zeros; what the index takes counts. Folders of as many names as are asked for
are made of hard links to the videos of FOLDER.

A pass over few files is repeated until it has made 200 batches: until then tf.data's threads have not all had one in
their hands, and that would look as if more files took more memory.

All of it runs with MALLOC_MMAP_THRESHOLD_=65536: large arrays are then mapped and unmapped, so that memory measured
is memory held. With glibc's own settings freed float batches stay on its heaps, out of reach of `malloc_trim`, and the
figure climbs to a plateau: in a long fit by 4 MB an epoch at first and by 120 MB in all (100 clips, glibc 2.36).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from common import anonymous_bytes, machine_facts, table, videos_in, write_json
from trees import link_tree

SHAPE = (20, 64, 64, 3)
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536"}
FEWEST_BATCHES = 200


def main() -> None:
    """Measure each in a process of its own; print a table and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", default="tf", choices=["tf", "numpy"])
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--budget", default="512MB")
    parser.add_argument("--epochs", type=int, help="fit for so many epochs with a cache, in place of all else")
    parser.add_argument("--videos", type=int, default=400, help="videos of that fit")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child == "epoch":
        print(json.dumps(run_epoch(str(arguments.folder), arguments.format, arguments.budget)))
    elif arguments.child == "fit":
        print(json.dumps(run_fit(str(arguments.folder), arguments.epochs)))
    else:
        facts = {"machine": machine_facts("tensorflow", "keras")}
        facts |= fit_growth(arguments) if arguments.epochs else epoch_peaks(arguments)
        write_json(arguments.output, facts)


def epoch_peaks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Peak above the baseline for few and for many files."""
    sources, rows = videos_in(arguments.folder, 8), {}
    with tempfile.TemporaryDirectory() as scratch:
        for num_files in (arguments.few, arguments.many):
            tree = link_tree(Path(scratch) / str(num_files), sources, num_files)
            rows[num_files] = call_child(tree, "epoch", "--format", arguments.format, "--budget", arguments.budget)
    heads = ("files", "clips seen", "baseline MB", "peak above it MB")
    print(
        table(
            heads,
            [
                (f"{number:,}", row["clips"], f"{row['baseline_mb']:.1f}", f"{row['peak_above_mb']:.1f}")
                for number, row in rows.items()
            ],
        )
    )
    more = rows[arguments.many]["peak_above_mb"] - rows[arguments.few]["peak_above_mb"]
    print(f"more for {arguments.many:,} than for {arguments.few:,}: {more:.1f} MB")
    return {"format": arguments.format, "budget": arguments.budget, "rows": rows, "more_mb": more}


def fit_growth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Memory after each epoch of a long fit with a cache, and its growth an epoch after the second."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = link_tree(Path(scratch) / "tree", videos_in(arguments.folder, 8), arguments.videos)
        facts = call_child(tree, "fit", "--epochs", str(arguments.epochs))
    above = facts["above_mb"]
    facts["growth_mb_per_epoch"] = (above[-1] - above[1]) / max(1, len(above) - 2)
    print(f"above the baseline after each epoch, MB: {', '.join(f'{value:.1f}' for value in above)}")
    print(f"growth an epoch after the second: {facts['growth_mb_per_epoch']:.3f} MB")
    return facts


def call_child(folder: Path, what: str, *options: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, str(folder), "--child", what, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **MAPPED})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Watcher:
    """Samples memory in a thread, and keeps the highest."""

    def __init__(self) -> None:
        self.baseline = self.peak = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def look(self) -> None:
        """Take note of memory now."""
        self.peak = max(self.peak, anonymous_bytes())

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.look()


def run_epoch(folder: str, format: str, budget: str) -> dict[str, float]:
    """Run one epoch of a whole folder, index and all."""
    import clipfeed as cf
    from clipfeed.deliver import deliver  # noqa: F401  # a part of the imports
    from clipfeed.index import build_index  # noqa: F401

    if format == "tf":
        warm_up_tensorflow()
    with tempfile.TemporaryDirectory() as store, Watcher() as watcher:
        dataset = cf.video_dataset_from_directory(
            folder, num_frames=SHAPE[0], image_size=SHAPE[1:3], batch_size=8, seed=1, format=format,
            memory_budget=budget, index=store, verbose=False)  # fmt: skip
        clips = batches = 0
        while batches < FEWEST_BATCHES:
            for batch, _ in dataset:
                clips, batches = clips + len(batch), batches + 1
                watcher.look()
    return {
        "clips": clips,
        "baseline_mb": watcher.baseline / 1e6,
        "peak_above_mb": (watcher.peak - watcher.baseline) / 1e6,
    }


def warm_up_tensorflow() -> None:
    """Let TensorFlow make its thread pools."""
    import tensorflow as tf

    for batch in tf.data.Dataset.range(2).map(lambda number: number + 1):
        del batch


def run_fit(folder: str, epochs: int) -> dict[str, Any]:
    """Fit a model with a cache, and take memory after each epoch."""
    import keras

    import clipfeed as cf

    model = cf.learn.build_model("lrcn", SHAPE, 51)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(np.zeros((8, *SHAPE), np.float32), np.zeros(8, np.int32), batch_size=8, verbose=0)
    baseline, above = anonymous_bytes(), []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            above.append((anonymous_bytes() - baseline) / 1e6)

    with tempfile.TemporaryDirectory() as store:
        train = cf.video_dataset_from_directory(
            folder, num_frames=SHAPE[0], image_size=SHAPE[1:3], batch_size=8, seed=1, cache=f"{store}/cache",
            index=f"{store}/index", verbose=False)  # fmt: skip
        model.fit(train, epochs=epochs, verbose=0, shuffle=False, callbacks=[Look()])
    return {"epochs": epochs, "baseline_mb": baseline / 1e6, "above_mb": above}


if __name__ == "__main__":
    main()
