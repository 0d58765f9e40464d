"""Batches by number: every batch once a pass, whatever Keras asks, and nothing left behind."""

from __future__ import annotations

import gc
import random
import runpy
import threading
import weakref
from pathlib import Path

import pytest

from clipfeed.deliver.epochs import EpochCounter, live_counters
from clipfeed.deliver.feed import EpochFeed
from clipfeed.errors import DecodeError

NumberedDataset = runpy.run_path(str(Path(__file__).with_name("fit") / "numbered.py"))["NumberedDataset"]


def our_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("clipfeed")]


def make_feed(**options):
    ds = NumberedDataset(**options)
    return ds, EpochFeed(ds, EpochCounter())


def ask(feed, numbers):
    """What Keras does in one generator: asks for the length, then for every number."""
    feed.expect_pass()
    for number in numbers:
        batch = feed.take(number)
        yield batch.epoch, batch.number


def permuted(ds, seed):
    return random.Random(seed).sample(range(len(ds)), len(ds))


def test_a_permuted_training_pass_gives_the_epoch_in_its_own_order_and_decodes_it_once():
    ds, feed = make_feed(num_batches=7)
    for epoch in range(3):
        feed.begin()
        assert list(ask(feed, permuted(ds, epoch))) == [(epoch, number) for number in range(7)]
        feed.end()
    assert ds.runs == [(0, 0), (1, 0), (2, 0)]
    assert ds.calls == []


def test_in_evaluation_number_i_is_batch_i_decoded_ahead_when_asked_in_order():
    ds, feed = make_feed(num_batches=6, training=False)
    for _ in range(2):
        feed.begin()
        assert [number for _, number in ask(feed, range(6))] == list(range(6))
        feed.end()
    assert len(ds.runs) == 2
    assert ds.calls == []


def test_in_evaluation_number_i_is_batch_i_also_when_fit_permutes_them():
    ds, feed = make_feed(num_batches=9, training=False)
    feed.begin()
    numbers = permuted(ds, 1)
    assert [number for _, number in ask(feed, numbers)] == numbers
    feed.end()


def test_a_look_at_the_first_two_batches_starts_no_thread_and_is_no_epoch():
    ds, feed = make_feed(num_batches=5)
    list(ask(feed, [0, 1]))
    assert our_threads() == []
    feed.end()  # Keras resets its iterator
    feed.begin()
    assert sorted(ask(feed, permuted(ds, 3))) == [(0, number) for number in range(5)]
    feed.end()


def test_a_look_inside_an_epoch_of_keras_is_no_epoch():
    ds, feed = make_feed(num_batches=5)
    feed.begin()
    list(ask(feed, [3]))
    feed.end()
    feed.begin()
    assert sorted(ask(feed, permuted(ds, 4))) == [(0, number) for number in range(5)]
    feed.end()
    feed.begin()
    assert {epoch for epoch, _ in ask(feed, permuted(ds, 5))} == {1}
    feed.end()


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_pass_spread_over_several_epochs_of_keras_loses_and_doubles_nothing(steps):
    ds, feed = make_feed(num_batches=5)
    list(ask(feed, [0, 1]))
    for epoch in range(3):
        asked, got = permuted(ds, epoch), []
        feed.expect_pass()
        for start in range(0, 5, steps):
            feed.begin()
            got += [feed.take(number) for number in asked[start : start + steps]]
            feed.end()
        assert sorted((batch.epoch, batch.number) for batch in got) == [(epoch, number) for number in range(5)]


def test_a_set_epoch_waits_for_the_next_pass():
    ds = NumberedDataset(num_batches=4)
    counter = EpochCounter()
    feed = EpochFeed(ds, counter)
    counter.set_next(7)
    feed.begin()
    pass_at_work = ask(feed, [2, 0, 1, 3])
    got = [next(pass_at_work), next(pass_at_work)]
    counter.set_next(8)
    got += list(pass_at_work)
    assert got == [(7, number) for number in range(4)]
    assert [epoch for epoch, _ in ask(feed, [0, 1, 2, 3])] == [8] * 4
    feed.end()


def test_another_pass_in_the_midst_of_one_loses_and_doubles_nothing():
    ds, feed = make_feed(num_batches=6)
    feed.begin()
    training = ask(feed, permuted(ds, 9))
    got = [next(training) for _ in range(3)]
    feed.end()  # evaluate(train_ds) from a callback: Keras ends, begins, ends
    feed.begin()
    assert sorted(ask(feed, range(6))) == [(0, number) for number in range(6)]
    feed.expect_pass()  # the iterator that Keras makes at an end and drops
    feed.end()
    got += list(training)
    assert sorted(got) == [(0, number) for number in range(6)]


def test_the_same_number_gives_the_same_batch_within_a_pass_from_any_thread():
    ds, feed = make_feed(num_batches=8)
    feed.begin()
    feed.expect_pass()
    got: list[tuple[int, int]] = []

    def take_all(seed):
        for number in permuted(ds, seed):
            got.append((number, feed.take(number).number))

    threads = [threading.Thread(target=take_all, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    feed.end()
    assert len(got) == 32
    assert len(set(got)) == 8
    assert {batch for _, batch in got} == set(range(8))


def test_the_end_of_a_pass_and_the_end_of_an_epoch_leave_no_thread():
    ds, feed = make_feed(num_batches=5)
    feed.begin()
    list(ask(feed, permuted(ds, 0)))
    assert our_threads() == []
    next(ask(feed, [4]))
    assert our_threads() != []
    feed.end()
    assert our_threads() == []


def test_an_error_stops_the_work_ahead_and_comes_out_as_it_is():
    error = DecodeError("no frame 3", path="data/2.avi")
    ds, feed = make_feed(num_batches=5, broken=(0, 2), error=error)
    feed.begin()
    with pytest.raises(DecodeError) as caught:
        list(ask(feed, permuted(ds, 0)))
    assert caught.value is error
    assert our_threads() == []


def test_a_forgotten_feed_stops_its_work():
    feed = make_feed(num_batches=5)[1]
    feed.begin()
    next(ask(feed, [0]))
    assert our_threads() != []
    gone = weakref.ref(feed)
    del feed
    gc.collect()
    assert gone() is None
    assert our_threads() == []


def test_a_number_outside_the_epoch_is_an_index_error():
    _, feed = make_feed(num_batches=5)
    with pytest.raises(IndexError, match="batch 5 of 5"):
        feed.take(5)
    assert feed.take(-1).number == 0  # the first number asked for meets the first batch


def test_counters_count_draws_and_may_be_set():
    counter = EpochCounter()
    assert [counter.draw(), counter.draw()] == [0, 1]
    counter.set_next(10)
    assert counter.is_set
    assert counter.upcoming == 10
    assert [counter.draw(), counter.draw()] == [10, 11]
    assert not counter.is_set
    with pytest.raises(ValueError, match="epoch=-1"):
        counter.set_next(-1)


def test_counters_are_known_while_somebody_holds_them():
    counter = EpochCounter()
    assert counter in live_counters()
    identity = id(counter)
    del counter
    gc.collect()
    assert identity not in map(id, live_counters())
