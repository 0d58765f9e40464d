"""An epoch is a permutation, and shards are disjoint and complete, for any numbers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clipfeed.order import Order, permute


@given(size=st.integers(0, 3000), key=st.integers(0, 2**64 - 1))
def test_permute_is_a_permutation(size: int, key: int) -> None:
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


@given(size=st.integers(1, 2**62), key=st.integers(0, 2**64 - 1), data=st.data())
def test_distinct_positions_go_to_distinct_places(size: int, key: int, data: st.DataObject) -> None:
    positions = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=50))
    places = permute(np.array(sorted(positions), np.int64), size, key)
    assert len(set(places.tolist())) == len(positions)
    assert places.min() >= 0
    assert places.max() < size


@given(
    num_examples=st.integers(0, 400),
    per_shard=st.integers(1, 6),
    num_shards=st.integers(1, 5),
    training=st.booleans(),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 10**6),
)
def test_shards_are_disjoint_and_complete(
    num_examples: int, per_shard: int, num_shards: int, training: bool, shuffle: bool, seed: int, epoch: int
) -> None:
    num_examples += num_shards if training else 0
    parts = []
    for shard in range(num_shards):
        order = Order(
            num_examples=num_examples, batch_size=per_shard * num_shards, shuffle=shuffle, seed=seed,
            shard_index=shard, num_shards=num_shards, training=training,
        )  # fmt: skip
        parts.append([order.examples(epoch, number).tolist() for number in range(order.num_batches)])
    seen = list(itertools.chain(*itertools.chain(*parts)))
    assert len(set(seen)) == len(seen)
    assert all(1 <= len(batch) <= per_shard for part in parts for batch in part)
    lengths = {len(part) for part in parts}
    if not training:
        assert sorted(seen) == list(range(num_examples))
        assert max(lengths) - min(lengths) <= 1
        return
    assert len(lengths) == 1
    assert len(seen) == num_examples if per_shard > 1 else num_examples - len(seen) < num_shards
