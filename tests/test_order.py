from __future__ import annotations

import itertools
import math
import pickle
from collections import Counter

import numpy as np
import pytest

from clipfeed.order import Order, permute


def epoch_of(order: Order, epoch: int = 0) -> list[list[int]]:
    return [order.examples(epoch, number).tolist() for number in range(order.num_batches)]


def shuffled(num_examples: int, **changes: object) -> Order:
    facts: dict[str, object] = {"num_examples": num_examples, "batch_size": 8, "shuffle": True, "seed": 1, **changes}
    return Order(**facts)


def whole(order: Order, epoch: int) -> np.ndarray:
    return order.examples_between(epoch, 0, order.num_examples)


# Batches


def test_without_shuffling_batches_are_runs_of_the_index() -> None:
    order = Order(num_examples=10, batch_size=4, shuffle=False)
    assert epoch_of(order) == epoch_of(order, 7) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("num_examples", [0, 1, 2, 7, 8, 9, 255, 256, 257, 1000])
def test_every_example_comes_once_an_epoch(num_examples: int) -> None:
    order = shuffled(num_examples)
    for epoch in (0, 1, 10**6):
        batches = epoch_of(order, epoch)
        assert len(batches) == order.num_batches == math.ceil(num_examples / 8)
        assert all(len(batch) == 8 for batch in batches[:-1])
        assert sorted(itertools.chain(*batches)) == list(range(num_examples))


def test_a_batch_is_a_function_of_epoch_and_number_alone() -> None:
    order = shuffled(1000)
    forward = epoch_of(order, 3)
    backward = [shuffled(1000).examples(3, number).tolist() for number in reversed(range(125))]
    assert forward == backward[::-1]
    assert epoch_of(pickle.loads(pickle.dumps(order)), 3) == forward


def test_a_batch_may_be_changed_without_changing_the_next() -> None:
    order = shuffled(100)
    first = order.examples(0, 0)
    kept = first.copy()
    first[:] = -1
    assert order.examples(0, 0).tolist() == kept.tolist()


def test_any_positions_of_an_epoch_can_be_asked_for() -> None:
    order = shuffled(1000)
    everything = whole(order, 2)
    for start, end in [(0, 0), (0, 1), (250, 260), (255, 257), (3, 600), (999, 1000), (1000, 1000)]:
        assert order.examples_between(2, start, end).tolist() == everything[start:end].tolist()


def test_a_billion_examples_take_no_memory() -> None:
    order = shuffled(10**9)
    chosen = np.concatenate([order.examples(0, number) for number in (0, 62_500_000, 124_999_999)])
    assert len(set(chosen.tolist())) == 24
    assert chosen.min() >= 0
    assert chosen.max() < 10**9


@pytest.mark.parametrize("number", [-1, 13, 10**9])
def test_a_batch_that_is_not_there_is_refused(number: int) -> None:
    with pytest.raises(IndexError, match=f"batch {number}: expected 0 <= number < 13"):
        shuffled(100).examples(0, number)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (0, 101)])
def test_positions_outside_the_epoch_are_refused(start: int, end: int) -> None:
    with pytest.raises(IndexError, match="expected them in"):
        shuffled(100).examples_between(0, start, end)


# Permutations


def test_orders_differ_between_epochs_and_seeds() -> None:
    orders = [tuple(whole(shuffled(50, seed=seed), epoch)) for seed in range(10) for epoch in range(10)]
    assert len(set(orders)) == 100


def chi_square_z(counts: np.ndarray) -> float:
    """How many standard deviations a table of counts lies from even; its degrees of freedom are large."""
    expected = counts.mean()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("num_examples", [2, 3, 4, 5, 9, 16, 37, 100])
def test_each_example_stands_equally_often_at_each_position(num_examples: int) -> None:
    num_epochs = 1000
    counts = np.zeros((num_examples, num_examples))
    for epoch in range(num_epochs):
        counts[np.arange(num_examples), whole(shuffled(num_examples, seed=3), epoch)] += 1
    assert abs(chi_square_z(counts)) < 4


@pytest.mark.parametrize("num_examples", [3, 4, 5])
def test_all_orders_of_a_few_examples_come_equally_often(num_examples: int) -> None:
    num_orders = math.factorial(num_examples)
    seen = Counter(tuple(whole(shuffled(num_examples, seed=4), epoch)) for epoch in range(20 * num_orders))
    assert len(seen) == num_orders
    assert chi_square_z(np.array(list(seen.values()))) < 4


@pytest.mark.parametrize("num_examples", [4, 9, 25, 30])
def test_half_of_all_orders_are_an_odd_number_of_swaps(num_examples: int) -> None:
    def is_odd(order: np.ndarray) -> bool:
        return sum(int(np.sum(order[:place] > order[place])) for place in range(len(order))) % 2 == 1

    odd = [is_odd(whole(shuffled(num_examples), epoch)) for epoch in range(400)]
    assert abs(np.mean(odd) - 0.5) < 4 * 0.5 / math.sqrt(400)


@pytest.mark.parametrize("num_examples", [10, 100, 6766])
def test_there_is_one_fixed_point_an_epoch_on_average(num_examples: int) -> None:
    fixed = [np.sum(whole(shuffled(num_examples), epoch) == np.arange(num_examples)) for epoch in range(400)]
    assert abs(np.mean(fixed) - 1) < 4 / math.sqrt(400)
    assert abs(np.var(fixed) - 1) < 0.5


@pytest.mark.parametrize("num_examples", [50, 1000, 6766])
def test_neighbours_are_not_kept_together(num_examples: int) -> None:
    """In a random order two neighbours are i, i + 1 or i + 1, i about twice an epoch, and steps are spread evenly."""
    orders = [whole(shuffled(num_examples), epoch) for epoch in range(400)]
    touching = [np.sum(np.abs(np.diff(order)) == 1) for order in orders]
    assert abs(np.mean(touching) - 2 * (num_examples - 1) / num_examples) < 4 * math.sqrt(2 / 400)
    steps = np.concatenate([np.diff(order) % num_examples for order in orders])
    counts = np.histogram(steps, bins=np.linspace(1, num_examples, 26))[0] / np.diff(
        np.ceil(np.linspace(1, num_examples, 26))
    )
    assert abs(counts / counts.mean() - 1).max() < 0.1


def test_successive_epochs_are_unrelated() -> None:
    orders = [whole(shuffled(1000), epoch) for epoch in range(50)]
    correlations = [np.corrcoef(first, second)[0, 1] for first, second in itertools.pairwise(orders)]
    assert abs(np.mean(correlations)) < 4 / math.sqrt(1000 * 49)
    assert max(map(abs, correlations)) < 5 / math.sqrt(1000)


def test_classes_that_lie_together_are_mixed_in_every_batch() -> None:
    """6766 examples in 51 runs, as a folder per class lists them: a batch of 64 sees about 37 classes, as it should."""
    order = shuffled(6766, batch_size=64)
    classes = [len(set(order.examples(epoch, number) * 51 // 6766)) for epoch in range(4) for number in range(105)]
    expected = 51 * (1 - (50 / 51) ** 64)
    assert abs(np.mean(classes) - expected) < 0.6
    assert min(classes) > 25


def test_permute_takes_any_key() -> None:
    for key in (0, 1, -1, 2**64 - 1, 2**70):
        assert sorted(permute(np.arange(77), 77, key).tolist()) == list(range(77))


# Shards


@pytest.mark.parametrize("num_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("per_shard", [1, 2, 5])
@pytest.mark.parametrize("num_examples", [4, 5, 7, 8, 9, 23, 24, 25, 100])
def test_shards_of_an_evaluation_see_every_example_once(num_examples: int, per_shard: int, num_shards: int) -> None:
    parts = shards(num_examples, per_shard * num_shards, num_shards, training=False)
    seen = list(itertools.chain(*itertools.chain(*parts)))
    assert sorted(seen) == list(range(num_examples))
    assert all(1 <= len(batch) <= per_shard for part in parts for batch in part)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("num_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("per_shard", [2, 5])
@pytest.mark.parametrize("num_examples", [4, 5, 7, 8, 9, 23, 24, 25, 100])
def test_shards_in_training_have_equally_many_batches_and_leave_none_out_I7(
    num_examples: int, per_shard: int, num_shards: int
) -> None:
    parts = shards(num_examples, per_shard * num_shards, num_shards, training=True)
    assert sorted(itertools.chain(*itertools.chain(*parts))) == list(range(num_examples))
    assert {len(part) for part in parts} == {math.ceil(num_examples / (per_shard * num_shards))}
    assert all(1 <= len(batch) <= per_shard for part in parts for batch in part)


def test_one_example_a_shard_leaves_the_remainder_out_in_training_only() -> None:
    training = shards(7, 2, 2, training=True)
    assert [len(part) for part in training] == [3, 3]
    left_out = {
        (set(range(7)) - set(itertools.chain(*itertools.chain(*shards(7, 2, 2, training=True, epoch=epoch))))).pop()
        for epoch in range(100)
    }
    assert left_out == set(range(7)), "another one each epoch"
    assert sum(len(part) for part in shards(7, 2, 2, training=False)) == 7


def test_seven_items_on_two_shards_give_seven_I8() -> None:
    parts = [epoch_of(Order(num_examples=7, batch_size=4, shuffle=False, shard_index=k, num_shards=2)) for k in (0, 1)]
    assert sorted(itertools.chain(*itertools.chain(*parts))) == list(range(7))


def test_all_shards_together_see_what_one_process_sees() -> None:
    alone = epoch_of(shuffled(100, batch_size=12))
    parts = shards(100, 12, 3, training=True)
    together = [list(itertools.chain(*batches)) for batches in zip(*parts, strict=True)]
    assert together == alone


def shards(
    num_examples: int, batch_size: int, num_shards: int, *, training: bool, epoch: int = 0
) -> list[list[list[int]]]:
    orders = [
        shuffled(num_examples, batch_size=batch_size, shard_index=shard, num_shards=num_shards, training=training)
        for shard in range(num_shards)
    ]
    return [epoch_of(order, epoch) for order in orders]


# Arguments


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_examples": -1}, "num_examples=-1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 7, "num_shards": 2}, "batch_size=7: expected a multiple of num_shards=2"),
        ({"num_shards": 0}, "shard 0 of 0"),
        ({"shard_index": 2, "num_shards": 2}, "shard 2 of 2"),
        ({"num_examples": 3, "num_shards": 4, "training": True}, "3 examples cannot feed 4 shards"),
    ],
)
def test_numbers_that_make_no_epoch_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shuffled(**{"num_examples": 10, **changes})
