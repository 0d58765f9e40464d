"""The order that a seed must give, for ever: runs that are resumed, and results that are compared, rely on it.

A change here is a change for every user with a seed; it needs an entry in the change log.
"""

from __future__ import annotations

import pytest

from clipfeed.order import Order


@pytest.mark.parametrize(
    ("num_examples", "seed", "epoch", "first_ones"),
    [
        (10, 0, 0, [1, 4, 6, 9, 7, 8, 2, 0, 3, 5]),
        (10, 1, 0, [6, 5, 1, 7, 2, 8, 0, 4, 3, 9]),
        (10, 1, 1, [1, 4, 5, 3, 9, 6, 7, 8, 0, 2]),
        (100, 1, 0, [76, 19, 89, 26, 12, 94, 50, 11, 92, 1]),
        (6766, 1, 0, [936, 3925, 832, 2221, 6103, 1338, 5954, 6598, 3114, 4571]),
        (6766, 1, 29, [4040, 5325, 6476, 3868, 5857, 584, 6371, 1355, 6733, 3117]),
        (10**9, 123456789, 7, [286244604, 405312911, 81220223, 429079844, 437965093, 668509499, 346419830]),
    ],
)
def test_a_seed_gives_this_order(num_examples: int, seed: int, epoch: int, first_ones: list[int]) -> None:
    order = Order(num_examples=num_examples, batch_size=10, shuffle=True, seed=seed)
    assert order.examples(epoch, 0)[: len(first_ones)].tolist() == first_ones
    assert order.examples_between(epoch, 0, min(num_examples, 5000))[: len(first_ones)].tolist() == first_ones


def test_shards_cut_this_order_like_this() -> None:
    parts = [
        Order(num_examples=10, batch_size=6, shuffle=True, seed=1, shard_index=shard, num_shards=3, training=True)
        for shard in range(3)
    ]
    batches = [[part.examples(0, number).tolist() for part in parts] for number in range(2)]
    assert batches == [[[6, 5], [1, 7], [2, 8]], [[0], [4], [3, 9]]]
