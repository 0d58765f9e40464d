"""VideoDataset: numbered batches, pure and in bounded memory."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.testing import TreeVideo, make_tree, read_frame_numbers, read_video_numbers

SPEC = cf.ClipSpec(num_frames=4, image_size=(48, 48))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[TreeVideo, ...]]:
    root = tmp_path_factory.mktemp("tree")
    return root, make_tree(root, classes=("run", "walk"), sources_per_class=3, clips_per_source=2, num_frames=12)


@pytest.fixture
def index(tree: tuple[Path, tuple[TreeVideo, ...]], tmp_path: Path) -> cf.VideoIndex:
    return cf.build_index(tree[0], index=tmp_path / "index")


def numbers_of(tree: tuple[Path, tuple[TreeVideo, ...]]) -> dict[str, int]:
    return {str(tree[0] / video.key): video.video_number for video in tree[1]}


def shown(batch: cf.Batch) -> list[int]:
    return read_video_numbers(batch.clips)[:, 0].tolist()


def test_a_batch_holds_the_planned_frames_of_the_videos_it_names(index: cf.VideoIndex, tree) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=5, training=True, seed=3)
    for number in range(len(ds)):
        batch = ds.batch(0, number)
        assert (read_frame_numbers(batch.clips) == batch.frame_indices).all()
        assert shown(batch) == [numbers_of(tree)[path] for path in batch.paths]
        assert [index.class_names[label] for label in batch.labels] == [Path(path).parent.name for path in batch.paths]


def test_an_epoch_delivers_each_video_once_and_the_last_batch_is_short(index: cf.VideoIndex, tree) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=5, seed=3)
    batches = list(ds.iter_epoch(0))
    assert [len(batch) for batch in batches] == [5, 5, 2]
    assert len(ds) == 3
    assert sorted(number for batch in batches for number in shown(batch)) == sorted(numbers_of(tree).values())


def test_every_number_of_workers_and_every_way_to_ask_gives_the_same_batches(index: cf.VideoIndex) -> None:
    spec = cf.ClipSpec(num_frames=4, image_size=(48, 48), sampling=cf.Segments())
    results = []
    for workers in (1, 2, 8):
        ds = cf.VideoDataset(index, spec, batch_size=5, seed=3, limits=cf.Limits(workers=workers))
        results.append([batch.clips for batch in ds.iter_epoch(1)])
        results.append([ds.batch(1, number).clips for number in range(len(ds))])
        results.append([ds.batch(1, number, workers=0).clips for number in range(len(ds))])
    for other in results[1:]:
        assert all(np.array_equal(left, right) for left, right in zip(results[0], other, strict=True))


def test_batches_asked_for_from_many_threads_are_those_asked_for_in_order(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=2, seed=3)
    calls = [(epoch, number) for epoch in range(3) for number in range(len(ds))]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda call: ds.batch(*call), reversed(calls)))
    for call, batch in zip(reversed(calls), threaded, strict=True):
        assert np.array_equal(batch.clips, ds.batch(*call).clips)


@pytest.mark.parametrize("seed", [1.7, "one", True])
def test_a_seed_that_is_no_whole_number_is_refused_by_value(index: cf.VideoIndex, seed: object) -> None:
    with pytest.raises(ValueError, match=rf"seed={seed!r}: expected a whole number"):
        cf.VideoDataset(index, seed=seed)  # type: ignore[arg-type]


def test_epochs_differ_in_order_and_a_seed_repeats_them(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=12, seed=3)
    again = cf.VideoDataset(index, SPEC, batch_size=12, seed=3)
    assert ds.batch(0, 0).paths != ds.batch(1, 0).paths
    assert ds.batch(1, 0).paths == again.batch(1, 0).paths
    assert cf.VideoDataset(index, SPEC, batch_size=12, seed=4).batch(0, 0).paths != ds.batch(0, 0).paths


def test_evaluation_keeps_the_order_of_the_index_and_takes_centres(index: cf.VideoIndex) -> None:
    spec = cf.ClipSpec(num_frames=4, image_size=(48, 48), sampling=cf.Segments(), clips_per_video=3)
    ds = cf.VideoDataset(index, spec, batch_size=5, training=False)
    paths = [path for batch in ds.iter_epoch(7) for path in batch.paths]
    assert paths == ds.file_paths == index.paths
    assert (ds.batch(0, 0).frame_indices == [1, 4, 7, 10]).all()
    assert ds.labels.tolist() == index.labels.tolist()


def test_several_clips_per_video_are_drawn_independently(index: cf.VideoIndex) -> None:
    spec = cf.ClipSpec(num_frames=4, image_size=(48, 48), sampling=cf.Segments(), clips_per_video=3)
    ds = cf.VideoDataset(index, spec, batch_size=36, seed=1)
    batch = ds.batch(0, 0)
    assert len(batch) == 36
    assert len(ds.file_paths) == 36
    per_video = {path: {tuple(row) for row, own in zip(batch.frame_indices, batch.paths, strict=True) if own == path}
                 for path in batch.paths}  # fmt: skip
    assert all(batch.paths.count(path) == 3 for path in per_video)
    assert sum(len(draws) for draws in per_video.values()) > 24


def test_pad_last_fills_up_with_rows_of_weight_zero(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=5, seed=3, pad_last=True)
    last = ds.batch(0, 2)
    assert len(last) == 5
    assert last.weights.tolist() == [1, 1, 0, 0, 0]
    assert last.paths[2:] == ("", "", "")
    assert not last.clips[2:].any()
    assert not last.mask[2:].any()


def test_start_goes_on_in_mid_epoch(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=2, seed=3)
    rest = [batch.paths for batch in ds.iter_epoch(2, start=4)]
    assert rest == [ds.batch(2, number).paths for number in (4, 5)]
    with pytest.raises(IndexError, match="start=7"):
        next(ds.iter_epoch(2, start=7))


def test_leaving_the_loop_early_leaves_no_thread(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=2, seed=3)
    for _ in range(20):
        for _batch in ds.iter_epoch(0):
            break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("clipfeed")]


def test_a_dataset_survives_pickling_and_gives_the_same_batches(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=5, seed=3)
    again = pickle.loads(pickle.dumps(ds))
    assert np.array_equal(again.batch(1, 1).clips, ds.batch(1, 1).clips)


def test_a_budget_below_one_batch_is_refused_with_the_arithmetic(index: cf.VideoIndex) -> None:
    with pytest.raises(cf.BudgetError, match=r"5 x 4 x 48 x 48 x 3 bytes"):
        cf.VideoDataset(index, SPEC, batch_size=5, limits=cf.Limits(memory_budget=100_000))


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True, "8"])
def test_a_batch_size_that_cannot_be_is_refused_by_value(index: cf.VideoIndex, batch_size: object) -> None:
    with pytest.raises(ValueError, match="batch_size="):
        cf.VideoDataset(index, SPEC, batch_size=batch_size)


def test_skipping_needs_batches(index: cf.VideoIndex) -> None:
    with pytest.raises(ValueError, match="batch_size is None"):
        cf.VideoDataset(index, SPEC, batch_size=None, errors=cf.ErrorPolicy(on_error="skip"))
    assert cf.VideoDataset(index, SPEC, batch_size=None).errors.on_error == "raise"


def test_short_videos_are_left_out_and_named(index: cf.VideoIndex) -> None:
    with pytest.raises(ValueError, match="none of the 12 videos"):
        cf.VideoDataset(index, cf.ClipSpec(num_frames=13))
    with pytest.raises(ValueError, match="too short"):
        cf.VideoDataset(index, cf.ClipSpec(num_frames=13, short_videos="error"))
    padded = cf.VideoDataset(index, cf.ClipSpec(num_frames=13, short_videos="repeat_last", image_size=48), seed=1)
    batch = padded.batch(0, 0)
    assert batch.mask.sum(axis=1).tolist() == [12] * 8
    assert (batch.frame_indices[:, -1] == 11).all()


class Damaged:
    """A tree in which one video of twelve cannot be decoded to its end, though it was indexed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.videos = make_tree(self.root, classes=("run", "walk"), sources_per_class=3, clips_per_source=2)
        self.index = cf.build_index(self.root, index=folder / "index")
        self.path = self.root / self.videos[4].key
        self.path.unlink()


@pytest.fixture
def damaged(tmp_path: Path) -> Damaged:
    return Damaged(tmp_path)


def test_in_training_an_undeliverable_clip_is_left_out_and_listed_never_replaced(damaged: Damaged) -> None:
    ds = cf.VideoDataset(damaged.index, SPEC, batch_size=6, seed=1)
    batches = list(ds.iter_epoch(0))
    delivered = [path for batch in batches for path in batch.paths]
    assert sorted([*delivered, str(damaged.path)]) == sorted(damaged.index.paths)
    assert [failure.path for failure in ds.ledger.failures] == [str(damaged.path)]
    assert [failure.path for batch in batches for failure in batch.failures] == [str(damaged.path)]


def test_with_pad_last_a_failed_clip_leaves_a_row_of_weight_zero(damaged: Damaged) -> None:
    ds = cf.VideoDataset(damaged.index, SPEC, batch_size=6, seed=1, pad_last=True)
    assert sorted(batch.weights.sum() for batch in ds.iter_epoch(0)) == [5, 6]


def test_in_evaluation_an_undeliverable_clip_raises_and_names_the_file(damaged: Damaged) -> None:
    ds = cf.VideoDataset(damaged.index, SPEC, batch_size=6, training=False)
    with pytest.raises(cf.ClipfeedError, match=damaged.path.name):
        list(ds.iter_epoch(0))


def test_too_many_failures_end_the_run_with_a_list(damaged: Damaged) -> None:
    for video in damaged.videos[5:7]:
        (damaged.root / video.key).unlink()
    ds = cf.VideoDataset(damaged.index, SPEC, batch_size=12, seed=1)
    with pytest.raises(cf.DecodeError, match=r"max_failures=0\.05 allows 1"):
        list(ds.iter_epoch(0))


def test_a_batch_left_empty_raises(damaged: Damaged) -> None:
    ds = cf.VideoDataset(damaged.index, SPEC, batch_size=1, seed=1)
    with pytest.raises(cf.DecodeError, match="no clip of batch"):
        list(ds.iter_epoch(0))


@pytest.mark.parametrize("name", ["training", "pad_last"])
def test_flags_are_flags(name: str, index: cf.VideoIndex) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name}='no'"):
        cf.VideoDataset(index, cf.ClipSpec(num_frames=8), **{name: "no"})
    assert cf.VideoDataset(index, cf.ClipSpec(num_frames=8), **{name: np.bool_(True)}) is not None
