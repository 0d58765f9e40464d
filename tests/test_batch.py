from __future__ import annotations

import numpy as np
import pytest

from clipfeed.batch import BatchRows, allocate
from clipfeed.records import Batch, Clip, ClipPlan, ClipSpec, Failure, VideoInfo, VideoRecord

SPEC = ClipSpec(num_frames=3, image_size=(2, 4))


def a_clip(number: int) -> Clip:
    """A clip whose pixels, frame indices and mask spell its number."""
    info = VideoInfo(container="avi", codec="mpeg4", stream_index=0, width=4, height=2, num_frames_from_table=99)
    record = VideoRecord(
        row=number, root="clips", key=f"{number}.avi", video_id=number, size_bytes=1, mtime_ns=1, info=info
    )
    mask = np.array([True, True, number % 2 == 0])
    plan = ClipPlan(record=record, frame_indices=np.arange(3) + 10 * number, mask=mask)
    return Clip(plan=plan, frames=np.full(SPEC.shape, number, np.uint8), is_damaged=np.zeros(SPEC.num_frames, bool))


def a_failure(number: int) -> Failure:
    return Failure(path=f"clips/{number}.avi", stage="decode", reason="no frame at 1.0 s")


def a_batch(made: list[Clip | Failure], **changes: object) -> Batch:
    facts = {"spec": SPEC, "num_rows": None, "epoch": 2, "number": 5, **changes}
    rows = BatchRows(facts.pop("spec"), len(made), facts.pop("num_rows"))
    for clip in made:
        rows.put(clip)
    return rows.finish(**facts)


def test_clips_become_rows_in_their_order() -> None:
    batch = a_batch([a_clip(3), a_clip(1), a_clip(2)], labels=np.array([30, 10, 20], np.int32))
    assert (batch.epoch, batch.number, len(batch)) == (2, 5, 3)
    assert batch.clips.shape == (3, 3, 2, 4, 3)
    assert batch.clips.dtype == np.uint8
    assert batch.clips[:, 0, 0, 0, 0].tolist() == [3, 1, 2]
    assert batch.labels.tolist() == [30, 10, 20]
    assert batch.labels.dtype == np.int32
    assert batch.weights.tolist() == [1, 1, 1]
    assert batch.weights.dtype == np.float32
    assert batch.paths == ("clips/3.avi", "clips/1.avi", "clips/2.avi")
    assert batch.frame_indices.tolist() == [[30, 31, 32], [10, 11, 12], [20, 21, 22]]
    assert batch.frame_indices.dtype == np.int64
    assert batch.mask.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert batch.failures == ()


def test_a_failed_clip_is_left_out_with_its_label_and_nothing_takes_its_place() -> None:
    batch = a_batch(
        [a_clip(0), a_failure(1), a_clip(2)],
        labels=np.array([[1, 0], [0, 1], [1, 1]], np.float32),
        weights=np.array([0.5, 1, 2], np.float32),
    )
    assert batch.clips.shape[0] == 2
    assert batch.clips[:, 0, 0, 0, 0].tolist() == [0, 2]
    assert batch.labels.tolist() == [[1, 0], [1, 1]]
    assert batch.weights.tolist() == [0.5, 2]
    assert batch.failures == (a_failure(1),)


def test_padded_rows_are_black_weigh_nothing_and_name_no_file() -> None:
    batch = a_batch([a_failure(1), a_clip(7)], labels=np.array([4, 9], np.int32), num_rows=4)
    assert batch.clips.shape == (4, 3, 2, 4, 3)
    assert batch.clips[:, 0, 0, 0, 0].tolist() == [7, 0, 0, 0]
    assert not batch.clips[1:].any()
    assert batch.labels.tolist() == [9, 0, 0, 0]
    assert batch.labels.dtype == np.int32
    assert batch.weights.tolist() == [1, 0, 0, 0]
    assert batch.paths == ("clips/7.avi", "", "", "")
    assert not batch.mask[1:].any()
    assert batch.frame_indices[1:].tolist() == [[0, 0, 0]] * 3
    assert batch.failures == (a_failure(1),)


@pytest.mark.parametrize(("num_rows", "rows"), [(None, 0), (4, 4)])
def test_a_batch_whose_clips_all_failed_lists_them(num_rows: int | None, rows: int) -> None:
    batch = a_batch([a_failure(1), a_failure(2)], labels=np.array([1, 2], np.int32), num_rows=num_rows)
    assert batch.clips.shape == (rows, 3, 2, 4, 3)
    assert batch.labels.shape == (rows,)
    assert batch.frame_indices.shape == batch.mask.shape == (rows, 3)
    assert batch.mask.dtype == np.bool_
    assert batch.weights.sum() == 0
    assert [failure.path for failure in batch.failures] == ["clips/1.avi", "clips/2.avi"]


def test_clips_without_labels_make_a_batch_without_labels() -> None:
    assert a_batch([a_clip(1)]).labels is None


@pytest.mark.parametrize("num_rows", [None, 5])
def test_the_array_is_fresh_aligned_and_contiguous(num_rows: int | None) -> None:
    clips = [a_clip(1), a_clip(2)]
    first, second = (a_batch(clips, num_rows=num_rows).clips for _ in range(2))
    assert not np.shares_memory(first, second)
    assert not any(np.shares_memory(first, clip.frames) for clip in clips)
    for array in (first, second):
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0


@pytest.mark.parametrize("shape", [(1,), (63,), (3, 5, 7), (0, 4), (2, 16, 112, 112, 3)])
def test_allocated_arrays_begin_at_multiples_of_64_bytes(shape: tuple[int, ...]) -> None:
    for array in [allocate(shape) for _ in range(20)]:
        assert array.shape == shape
        assert array.dtype == np.uint8
        assert array.size == 0 or array.ctypes.data % 64 == 0


def test_rows_can_be_filled_one_by_one_without_keeping_the_clips() -> None:
    rows = BatchRows(SPEC, num_clips=3, num_rows=4)
    reused = a_clip(0)
    for value in (5, 6):
        reused.frames[:] = value
        rows.put(reused)
    rows.put(a_failure(2))
    batch = rows.finish(epoch=0, number=0)
    assert batch.clips[:, 0, 0, 0, 0].tolist() == [5, 6, 0, 0]


def test_too_few_or_too_many_clips_are_refused() -> None:
    rows = BatchRows(SPEC, num_clips=1)
    with pytest.raises(ValueError, match="0 clips of 1"):
        rows.finish(epoch=0, number=0)
    rows.put(a_clip(1))
    with pytest.raises(ValueError, match="its 1 clips already"):
        rows.put(a_clip(2))
    with pytest.raises(ValueError, match="num_rows=1: 2 clips do not fit"):
        BatchRows(SPEC, num_clips=2, num_rows=1)


def test_a_clip_of_another_shape_is_refused_by_name() -> None:
    rows = BatchRows(ClipSpec(num_frames=3, image_size=(4, 4)), num_clips=1)
    with pytest.raises(ValueError, match=r"clips/1.avi: a clip of shape \(3, 2, 4, 3\), expected \(3, 4, 4, 3\)"):
        rows.put(a_clip(1))


@pytest.mark.parametrize("name", ["labels", "weights"])
def test_labels_and_weights_must_be_as_many_as_clips(name: str) -> None:
    with pytest.raises(ValueError, match=f"3 {name} for 2 clips"):
        a_batch([a_clip(1), a_failure(2)], **{name: np.zeros(3, np.float32)})
