"""An epoch as numbered batches of NumPy arrays.

`VideoDataset.batch(epoch, number)` is a pure function: whoever calls it, in whatever order and from whatever thread,
gets the same batch. Everything else is built on it. This module composes the steps of a clip's journey and
computes nothing.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import numpy as np

from clipfeed._types import IndexArray, MaskArray
from clipfeed.batch import BatchRows
from clipfeed.cache import Cache
from clipfeed.dataset._limits import Limits, checked_batch_size, errors_for, without_short_videos
from clipfeed.decode import Decoder, DecoderName, make_decoder
from clipfeed.errors import BudgetError, ClipfeedError, DecodeError
from clipfeed.index import remember_failure
from clipfeed.ledger import ErrorPolicy, Ledger
from clipfeed.load import KeptFrames, Slot, keep_frames, load_clip
from clipfeed.order import Order
from clipfeed.prefetch import run_ahead, thread_count
from clipfeed.records import (
    Batch,
    Clip,
    ClipPlan,
    ClipSpec,
    Failure,
    VideoIndex,
    VideoRecord,
    checked_flag,
    checked_seed,
)
from clipfeed.sample import clip_generator, plan_clip, policy_of
from clipfeed.sizes import parse_bytes, show_bytes

__all__ = ["VideoDataset"]

# A decoder keeps its reference pictures and the one being converted; H.264 at its usual levels holds 4 to 6.
_NATIVE_FRAMES_PER_WORKER = 8
_BYTES_PER_NATIVE_PIXEL = 1.5  # 4:2:0, 8 bits
_FRAMES_KEPT_AT_ONCE = 32  # resized ones that a worker holds while it decodes all frames of a video to keep them
_MAX_BATCHES_AHEAD = 4  # more only delays an early end: decoding that is slower than training is never ahead


class VideoDataset:
    """Videos as numbered batches of uint8 clips, decoded when a batch is asked for.

    Training draws a new order and new random clips each epoch and leaves undeliverable clips out; evaluation keeps the
    index's order, takes each policy's centre, one clip a video, and raises.

    Args:
        index: The videos, such as a part that `cf.split_index` gave.
        clips: What a clip looks like.
        batch_size: B, clips in a batch; None gives batches of one, which adapters hand out without the first axis.
        training: True for training, False for evaluation.
        seed: Makes order and clips repeatable; None draws one, to be found in `ds.seed`.
        pad_last: True: every batch has B rows, and rows that stand for nothing carry weight 0.
        errors: "auto" (skip in training, raise in evaluation) or `cf.ErrorPolicy(...)`.
        limits: Memory, threads and time this dataset may use.
        cache: Where decoded frames are kept for later epochs; None decodes each time.
        decoder: "auto" leaves out what no wanted frame needs; "plain" decodes everything. Frames are the same.

    Raises:
        ValueError: For arguments that contradict each other, or videos that are too short with `short_videos="error"`.
        BudgetError: If `limits.memory_budget` does not hold one batch, or a cache in memory not all frames; shows the
            arithmetic.
        CacheError: If the cache's folder cannot be one.

    Example:
        >>> ds = cf.VideoDataset(index, cf.ClipSpec(num_frames=20, image_size=(64, 64)), batch_size=8, seed=1)
        >>> ds.batch(epoch=0, number=3).clips.shape
        (8, 20, 64, 64, 3)
    """

    def __init__(  # noqa: PLR0913  # a dataset is where index, clips, order, limits and cache meet
        self,
        index: VideoIndex,
        clips: ClipSpec | None = None,
        *,
        batch_size: int | None = 8,
        training: bool = True,
        seed: int | None = None,
        pad_last: bool = False,
        errors: Literal["auto"] | ErrorPolicy = "auto",
        limits: Limits | None = None,
        cache: Cache | None = None,
        decoder: DecoderName = "auto",
    ) -> None:
        self.spec = ClipSpec() if clips is None else clips
        self.batch_size = checked_batch_size(batch_size)
        self.training = checked_flag("training", training)
        self.seed = secrets.randbits(31) if seed is None else checked_seed(seed)
        self.pad_last = checked_flag("pad_last", pad_last)
        self.limits = Limits() if limits is None else limits
        self.errors = errors_for(errors, training=training, batch_size=batch_size)
        self.index, self.dropped = without_short_videos(index, self.spec)
        self.ledger = Ledger(num_videos=len(self.index), policy=self.errors)
        self._records = self.index.records
        self._labels = self.index.labels
        self._decoder: Decoder = make_decoder(decoder, timeout_seconds=self.limits.timeout_seconds)
        self.cache = cache
        self._order = Order(
            num_examples=len(self.index) * self._clips_per_video,
            batch_size=self.batch_size or 1,
            shuffle=training,
            seed=self.seed,
        )
        self._num_batches = self._order.num_batches
        self.max_clips_ahead = self._fit_budget()
        self.kept: KeptFrames | None = self._open_cache()

    def _open_cache(self) -> KeptFrames | None:
        return None if self.cache is None else keep_frames(self.index, self.spec, self.cache)

    def __getstate__(self) -> dict[str, Any]:
        """All but open files: another process opens the cache for itself."""
        return {**vars(self), "kept": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.kept = self._open_cache()

    # Facts

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._num_batches

    def __repr__(self) -> str:
        kind = "training" if self.training else "evaluation"
        shape = (self.batch_size, *self.spec.shape) if self.batch_size else self.spec.shape
        return f"<VideoDataset for {kind}: {self.num_examples} clips of {len(self.index)} videos, uint8 {shape}>"

    @property
    def num_examples(self) -> int:
        """Clips in an epoch."""
        return self._order.num_examples

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Text of each label in label order; None without classes."""
        return self.index.class_names

    @property
    def file_paths(self) -> list[str]:
        """One path an example, aligned with iteration in evaluation (index order)."""
        return [path for path in self.index.paths for _ in range(self._clips_per_video)]

    @property
    def labels(self) -> Any:  # noqa: ANN401  # int32 (n,), float32 (n, C) or None, as the index has them
        """One label an example, aligned with `file_paths`; None without labels."""
        return None if self._labels is None else np.repeat(self._labels, self._clips_per_video, axis=0)

    @property
    def is_weighted(self) -> bool:
        """True where batches carry weights that training must see."""
        return self.pad_last or self.index.weights is not None

    @property
    def workers(self) -> int:
        """Decoding threads."""
        return thread_count(self.limits.workers)

    @property
    def memory_budget(self) -> int:
        """Bytes this dataset may hold while it is iterated."""
        return parse_bytes("memory_budget", self.limits.memory_budget)

    @property
    def batch_bytes(self) -> int:
        """Bytes of one batch of uint8 clips."""
        return self.spec.num_bytes * (self.batch_size or 1)

    @property
    def decoding_bytes(self) -> int:
        """Bytes of frames in the hands of all workers, native ones estimated from the largest video."""
        columns, rows = self.index.columns, self.index.rows
        pixels = int((columns.widths[rows].astype(np.int64) * columns.heights[rows]).max(initial=0))
        native = math.ceil(pixels * _BYTES_PER_NATIVE_PIXEL) * _NATIVE_FRAMES_PER_WORKER
        keeps_videos = self.cache is not None and policy_of(self.spec).is_random
        kept = self.spec.num_bytes // self.spec.num_frames * _FRAMES_KEPT_AT_ONCE if keeps_videos else 0
        return (native + kept) * self.workers

    def explain_memory(self) -> str:
        """Say what iterating holds, as arithmetic."""
        ahead = self.max_clips_ahead * self.spec.num_bytes
        return (
            f"memory: {_megabytes(self.batch_bytes)} for the batch handed out"
            f" + {self.max_clips_ahead} clips ahead x {_megabytes(self.spec.num_bytes)} = {_megabytes(ahead)}"
            f" + {self.workers} workers' frames in work, about {_megabytes(self.decoding_bytes)}"
            f" <= {_megabytes(self.memory_budget)}"
        )

    def explain_cache(self) -> list[str]:
        """Say where frames are kept, how many bytes all of them take, and what stays uncached; [] without a cache."""
        if self.kept is None:
            return [] if self.cache is None else ["cache: none, the folder cannot be written"]
        opened, entries = self.kept.opened, self.kept.entries
        about = "about " if self.cache is not None and self.cache.codec == "jpeg" else ""
        filled = self.kept.pack.num_filled(np.unique(entries))
        return [
            f"cache: {about}{show_bytes(opened.num_bytes)} for all videos, in {opened.place}; "
            f"{filled} of these {len(entries)} videos are there",
            *opened.notes,
        ]

    # Batches

    def batch(self, epoch: int, number: int, *, workers: int | None = None) -> Batch:
        """Give one batch: a pure function of its arguments, to be called from any thread in any order.

        Args:
            epoch: The epoch, from 0.
            number: The batch's number in the epoch, in [0, len(self)); negative ones count from the end.
            workers: Threads that decode this batch; None for the dataset's, 0 for the calling thread itself.

        Returns:
            `clips` (B, T, H, W, C) uint8; the last batch of an epoch may have fewer rows, unless `pad_last`.

        Raises:
            IndexError: If there is no such batch.
            DecodeError: If a clip cannot be delivered (evaluation), or too many could not (training).
        """
        examples = self._examples(epoch, number)
        is_at_hand = self._at_hand(examples)
        missing = examples[~is_at_hand].tolist()
        threads = min(self.workers if workers is None else workers, len(missing)) if len(missing) > 1 else 0
        with run_ahead(
            lambda example: self._make_clip(epoch, example),
            missing,
            workers=threads if threads > 1 else 0,
            max_ahead=max(1, len(missing)),
        ) as made:
            return self._stack(epoch, number % len(self), examples, _Clips(made, deque(is_at_hand.tolist())))

    def iter_epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of one epoch in order, clips decoded ahead inside the memory budget.

        Args:
            epoch: The epoch, from 0.
            start: Number of the first batch; going on after an interruption is remembering (epoch, number).

        Yields:
            What `batch(epoch, number)` gives for number in [start, len(self)). Leaving the loop early stops all work.
        """
        if not 0 <= start <= len(self):
            raise IndexError(f"start={start}: expected 0 to {len(self)}, the number of batches in an epoch")
        numbers, at_hand = range(start, len(self)), deque[bool]()
        with run_ahead(
            lambda example: self._make_clip(epoch, example),
            self._missing(epoch, numbers, at_hand),
            workers=self.workers,
            max_ahead=self.max_clips_ahead,
        ) as made:
            clips = _Clips(made, at_hand)
            for number in numbers:
                yield self._stack(epoch, number, self._examples(epoch, number), clips)

    def fill_cache(self, *, advance: Callable[[int], object] | None = None) -> tuple[Failure, ...]:
        """Decode and keep what the cache does not have yet, without waiting for an epoch to do it.

        Args:
            advance: Told how many clips are done, one by one.

        Returns:
            Videos of which a clip could not be had.

        Raises:
            ValueError: If the dataset has no cache.
            DecodeError: With `on_error="raise"`, at the first clip that cannot be had.
        """
        if self.kept is None:
            raise ValueError("this dataset has no cache: pass cache=cf.Cache(...)")
        rows = np.flatnonzero((self.kept.entries >= 0) & ~self._at_hand(np.arange(len(self.index))))
        failures = []
        with run_ahead(
            lambda row: self._make_clip(0, row * self._clips_per_video),
            rows.tolist(),
            workers=self.workers,
            max_ahead=self.max_clips_ahead,
        ) as made:
            for clip in made:
                if isinstance(clip, Failure):
                    failures.append(clip)
                if advance is not None:
                    advance(1)
        return tuple(failures)

    def plan(self, epoch: int, number: int) -> list[ClipPlan]:
        """Say which frames of which videos a batch is made of, without opening a file."""
        return [self._plan(epoch, int(example)) for example in self._examples(epoch, number)]

    def _examples(self, epoch: int, number: int) -> IndexArray:
        if not -len(self) <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        return self._order.examples(epoch, number % len(self))

    def _missing(self, epoch: int, numbers: Iterable[int], at_hand: deque[bool]) -> Iterator[int]:
        """Give the examples of some batches that must be made, and note of all of them whether they are at hand."""
        for number in numbers:
            examples = self._examples(epoch, number)
            for example, is_at_hand in zip(examples.tolist(), self._at_hand(examples).tolist(), strict=True):
                at_hand.append(is_at_hand)
                if not is_at_hand:
                    yield example

    def _at_hand(self, examples: IndexArray) -> MaskArray:
        """Tell which examples need only be copied."""
        if self.kept is None:
            return np.zeros(len(examples), np.bool_)
        return self.kept.pack.at_hand(self.kept.entries[examples // self._clips_per_video])

    @property
    def _clips_per_video(self) -> int:
        return self.spec.clips_per_video if self.training else 1

    def _plan(self, epoch: int, example: int) -> ClipPlan:
        row, draw = divmod(example, self._clips_per_video)
        record = self._records[row]
        rng = clip_generator(self.seed, epoch, record, draw) if self.training else None
        return plan_clip(record, self.spec, rng=rng, draw=draw)

    def _make_clip(self, epoch: int, example: int) -> Clip | Failure:
        plan = self._plan(epoch, example)
        known = self.ledger.failure_of(plan.record.path)
        if known is not None:
            return known
        try:
            return load_clip(plan, self.spec, self._decoder, slot=self._slot(example // self._clips_per_video))
        except ClipfeedError as error:
            if self.errors.on_error == "raise":
                error.add_note(f"epoch {epoch}, example {example}")
                raise
            return self._record_failure(plan.record, error)

    def _slot(self, row: int) -> Slot | None:
        entry = -1 if self.kept is None else int(self.kept.entries[row])
        return None if self.kept is None or entry < 0 else Slot(self.kept.pack, entry)

    def _recall(self, rows: BatchRows, row: int) -> bool:
        """Copy what is at hand into the batch; False where it is not there after all."""
        if self.kept is None:
            return False
        recalled = self.kept.pack.recall(int(self.kept.entries[row]), rows.next_row)
        if recalled is not None:
            rows.add(self.index.path(row), *recalled)
        return recalled is not None

    def _record_failure(self, record: VideoRecord, error: ClipfeedError) -> Failure:
        failure = Failure(path=record.path, stage=error.stage or "decode", reason=error.problem)
        remember_failure(self.index, record.key, failure)
        self.ledger.record(failure)
        return failure

    def _stack(self, epoch: int, number: int, examples: IndexArray, clips: _Clips) -> Batch:
        """Fill the rows of a batch in order: what is at hand is copied."""
        sources = examples // self._clips_per_video
        rows = BatchRows(self.spec, len(examples), (self.batch_size or 1) if self.pad_last else None)
        for example, source in zip(examples.tolist(), sources.tolist(), strict=True):
            clip = clips.take()
            if clip is not None:
                rows.put(clip)
            elif not self._recall(rows, source):
                rows.put(self._make_clip(epoch, example))
        batch = rows.finish(
            epoch=epoch,
            number=number,
            labels=None if self._labels is None else self._labels[sources],
            weights=None if self.index.weights is None else self.index.weights[sources],
        )
        if len(batch.failures) == len(examples):
            raise DecodeError(
                f"no clip of batch {number} in epoch {epoch} could be delivered",
                stage="batch",
                expected="\n".join(f"{failure.path}: {failure.reason}" for failure in batch.failures[:10]),
                remedy="run `clipfeed check` on the folder and mend or remove the files it names",
            )
        return batch

    def _fit_budget(self) -> int:
        """How many clips may be ahead: what the budget leaves beside the batch handed out and the frames in work."""
        budget, clip = self.memory_budget, self.spec.num_bytes
        left = budget - self.batch_bytes - self.decoding_bytes
        if left < clip:
            raise BudgetError(
                f"memory_budget={_megabytes(budget)} does not hold one batch and the work on the next",
                stage="batch",
                expected=(
                    f"one batch: {self.batch_size or 1} x {' x '.join(map(str, self.spec.shape))} bytes"
                    f" = {_megabytes(self.batch_bytes)}\n"
                    f"one clip ahead: {_megabytes(clip)}\n"
                    f"frames in work, {self.workers} workers: {_megabytes(self.decoding_bytes)}\n"
                    f"together: {_megabytes(self.batch_bytes + clip + self.decoding_bytes)}"
                ),
                remedy="raise memory_budget, or lower batch_size, num_frames, image_size or workers",
            )
        return min(left // clip, _MAX_BATCHES_AHEAD * (self.batch_size or 1) + self.workers)


class _Clips:
    """The clips of some batches in order, None where one is at hand and need only be copied.

    Args:
        made: Gives those that are not at hand; asking it for one adds to `at_hand` as far as it looks ahead.
        at_hand: Whether each clip is at hand, as far as is known.
    """

    def __init__(self, made: Iterator[Clip | Failure], at_hand: deque[bool]) -> None:
        self._made = made
        self._at_hand = at_hand
        self._waiting: deque[Clip | Failure] = deque()

    def take(self) -> Clip | Failure | None:
        """Give the next one."""
        if not self._at_hand:
            self._waiting.extend(islice(self._made, 1))
        if self._at_hand.popleft():
            return None
        return self._waiting.popleft() if self._waiting else next(self._made)


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
