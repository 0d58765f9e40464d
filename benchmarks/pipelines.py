"""Whole pipelines, from files to batches: what a first and a later epoch give, at equal numbers of threads.

A pipeline is a function that runs one epoch over all files and gives the number of clips that came out.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import clipfeed as cf
from clipfeed.load import load_clip
from readers import SPEC

BATCH_SIZE = 8

Epoch = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One way to run an epoch.

    Attributes:
        name: As in tables.
        run: Runs an epoch, gives its number of clips.
        note: What one should know of it.
    """

    name: str
    run: Epoch
    note: str = ""


def count_rows(dataset: Any) -> int:
    """Run through a dataset of (clips, labels)."""
    return sum(len(item[0]) for item in dataset)


# First epoch


def first_epoch_pipelines(index: cf.VideoIndex, threads: int) -> tuple[list[Pipeline], dict[str, str]]:
    """Give clipfeed and the published answer, from video files."""
    ds = cf.VideoDataset(index, SPEC, batch_size=BATCH_SIZE, seed=1, limits=cf.Limits(workers=threads))
    found = [Pipeline(name="clipfeed, batches of NumPy", run=lambda: sum(len(batch) for batch in ds.iter_epoch(0)))]
    absent: dict[str, str] = {}
    try:
        tf = quiet_tensorflow()
        ours = cf.to_tensorflow(ds)
        found.insert(0, Pipeline(name='clipfeed, format="tf"', run=lambda: count_rows(ours)))
        published = published_dataset(tf, index, threads)
        found.append(
            Pipeline(
                name="published answer: tf.data and OpenCV",
                run=lambda: count_rows(published),
                note="one seek a frame, py_function a clip, shuffle(500), float32",
            )
        )
    except ImportError as error:
        absent["published answer: tf.data and OpenCV"] = str(error)
    return found, absent


def quiet_tensorflow() -> Any:
    """TensorFlow without its remarks."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return importlib.import_module("tensorflow")


def published_dataset(tf: Any, index: cf.VideoIndex, threads: int) -> Any:
    """The published recipe: header's count, stride max(N // T, 1), one seek a frame, float32 in 0..1."""
    cv2 = importlib.import_module("cv2")
    cv2.setNumThreads(1)

    def extract(path: Any) -> Any:
        capture = cv2.VideoCapture(path.numpy().decode(), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        step = max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) // SPEC.num_frames, 1)
        frames = []
        for number in range(SPEC.num_frames):
            capture.set(cv2.CAP_PROP_POS_FRAMES, number * step)
            was_read, frame = capture.read()
            if not was_read:
                break
            frames.append(cv2.resize(frame, SPEC.size[::-1]) / 255.0)
        capture.release()
        return np.array(frames, np.float32)

    def load(path: Any, label: Any) -> Any:
        clip = tf.py_function(extract, [path], tf.float32)
        clip.set_shape(SPEC.shape)
        return clip, label

    return _with_threads(
        tf,
        tf.data.Dataset.from_tensor_slices((index.paths, index.labels))
        .shuffle(500)
        .map(load, num_parallel_calls=threads)
        .batch(BATCH_SIZE)
        .prefetch(2),
        threads,
    )


def _with_threads(tf: Any, dataset: Any, threads: int) -> Any:
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


# Later epochs


def write_arrays(index: cf.VideoIndex, folder: Path, dtype: str) -> list[str]:
    """Keep decoded clips the published way: one `.npy` a video, float32 in 0..1, or uint8."""
    from clipfeed.decode import make_decoder
    from clipfeed.sample import plan_clip

    folder.mkdir(parents=True, exist_ok=True)
    decoder, paths = make_decoder("auto", timeout_seconds=60), []
    for number, record in enumerate(index.records):
        path = folder / f"{number}.npy"
        if not path.exists():
            frames = load_clip(plan_clip(record, SPEC), SPEC, decoder).frames
            np.save(path, frames if dtype == "uint8" else frames.astype(np.float32) / np.float32(255))
        paths.append(str(path))
    return paths


def later_epoch_pipelines(index: cf.VideoIndex, folder: Path, threads: int) -> tuple[list[Pipeline], dict[str, str]]:
    """Give clipfeed's cache, `.npy` files through tf.data, Grain, and a bare gather from a memory map."""
    floats, bytes_ = (write_arrays(index, folder / dtype, dtype) for dtype in ("float32", "uint8"))
    found = [Pipeline(name="bare gather from one memory map, uint8", run=_gather(index, folder, bytes_))]
    absent: dict[str, str] = {}
    for add in (_clipfeed_cached, _tensorflow_arrays, _grain_arrays):
        try:
            found += add(index, folder, floats, bytes_, threads)
        except ImportError as error:
            absent[add.__name__.strip("_")] = str(error)
    return found, absent


def _gather(index: cf.VideoIndex, folder: Path, bytes_: list[str]) -> Epoch:
    """The limit: whole batches out of one array in the page cache, in the order of an epoch."""
    whole = folder / "whole.npy"
    if not whole.exists():
        np.save(whole, np.stack([np.load(path) for path in bytes_]))
    order = np.random.default_rng(1).permutation(len(index))

    def run() -> int:
        pack, count = np.load(whole, mmap_mode="r"), 0
        for start in range(0, len(order), BATCH_SIZE):
            count += len(pack[order[start : start + BATCH_SIZE]])
        return count

    return run


def _clipfeed_cached(
    index: cf.VideoIndex, folder: Path, floats: list[str], bytes_: list[str], threads: int
) -> list[Pipeline]:
    try:
        from clipfeed.cache import Cache
    except ImportError as error:
        raise ImportError(f"this clipfeed keeps no frames: {error}") from error
    ds = cf.VideoDataset(
        index, SPEC, batch_size=BATCH_SIZE, seed=1, limits=cf.Limits(workers=threads), cache=Cache(folder / "cache")
    )
    for epoch in range(2):  # filled in the first, all checksums looked at in the second
        for _ in ds.iter_epoch(epoch):
            pass

    def by_number() -> int:
        return sum(len(ds.batch(2, number)) for number in range(len(ds)))

    found = [
        Pipeline(name="clipfeed, cache, batch(epoch, number)", run=by_number),
        Pipeline(name="clipfeed, cache, iter_epoch", run=lambda: sum(len(batch) for batch in ds.iter_epoch(2))),
    ]
    quiet_tensorflow()
    for title, dtype in (('clipfeed, cache, format="tf", float32', "float32"), ("the same, uint8", "uint8")):
        dataset = cf.to_tensorflow(ds, dtype=dtype)
        found.append(Pipeline(name=title, run=lambda dataset=dataset: count_rows(dataset)))
    return found


def _tensorflow_arrays(
    index: cf.VideoIndex, folder: Path, floats: list[str], bytes_: list[str], threads: int
) -> list[Pipeline]:
    tf = quiet_tensorflow()

    def dataset(paths: list[str], dtype: Any, function: Any) -> Any:
        def load(path: Any, label: Any) -> Any:
            clip = function(lambda name: np.load(_text(name)), [path], dtype)
            clip.set_shape(SPEC.shape)
            return clip, label

        return _with_threads(
            tf,
            tf.data.Dataset.from_tensor_slices((paths, index.labels))
            .shuffle(500)
            .map(load, num_parallel_calls=threads)
            .batch(BATCH_SIZE)
            .prefetch(2),
            threads,
        )

    published = dataset(floats, tf.float32, tf.py_function)
    plain = dataset(bytes_, tf.uint8, tf.numpy_function)
    return [
        Pipeline(
            name="published advice: float32 .npy, tf.data",
            run=lambda: count_rows(published),
            note="py_function a clip, shuffle(500)",
        ),
        Pipeline(name="uint8 .npy, tf.data, numpy_function", run=lambda: count_rows(plain)),
    ]


def _text(name: Any) -> str:
    return (name.numpy() if hasattr(name, "numpy") else name).decode()


def _grain_arrays(
    index: cf.VideoIndex, folder: Path, floats: list[str], bytes_: list[str], threads: int
) -> list[Pipeline]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grain = importlib.import_module("grain")
    labels = index.labels
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 * BATCH_SIZE)

    def run(paths: list[str]) -> int:
        dataset = (
            grain.MapDataset.range(len(paths))
            .shuffle(seed=1)
            .map(lambda number: (np.load(paths[number]), labels[number]))
            .batch(BATCH_SIZE)
            .to_iter_dataset(options)
        )
        return count_rows(dataset)

    return [
        Pipeline(name="uint8 .npy, Grain", run=lambda: run(bytes_)),
        Pipeline(name="float32 .npy, Grain", run=lambda: run(floats)),
    ]
