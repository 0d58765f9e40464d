"""Calls from a framework's threads: waited for when the interpreter ends, and not let in any more."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest

from clipfeed.deliver.door import Door, door_of
from clipfeed.prefetch import run_ahead


class Owner:
    """Something that a weak reference can be made to."""


def pass_for_ever(door):
    """Call again and again, until another thread has closed the door."""
    while True:
        with door.passed():
            pass


def test_closing_waits_for_those_inside_and_lets_nobody_in():
    door, entered, may_leave, events = Door(), threading.Event(), threading.Event(), []

    def call():
        with door.passed():
            entered.set()
            may_leave.wait(60)
            events.append("left")

    def close():
        door.close()
        events.append("closed")

    caller, closer = threading.Thread(target=call), threading.Thread(target=close)
    caller.start()
    entered.wait(60)
    closer.start()
    with pytest.raises(RuntimeError, match="the interpreter is ending"):
        pass_for_ever(door)
    assert events == []
    may_leave.set()
    caller.join()
    closer.join()
    assert events == ["left", "closed"]


def test_an_error_inside_leaves_too():
    door = Door()
    with pytest.raises(KeyError), door.passed():
        raise KeyError
    door.close()


def test_a_forked_child_waits_for_nobody():
    door = Door()
    with door.passed():
        door._pid = os.getppid()  # as if this process had been forked off while a thread of its parent was inside
        door.close()


def test_a_door_is_forgotten_with_its_owner():
    owner = Owner()
    door = weakref.ref(door_of(owner))
    gc.collect()
    assert door() is not None
    del owner
    gc.collect()
    assert door() is None


def test_a_result_that_will_never_be_made_is_not_waited_for():
    """What a crew is asked for after it was closed, as at the interpreter's end, is cancelled."""
    started, may_end, outcome = threading.Event(), threading.Event(), []

    def job(number):
        started.set()
        may_end.wait(60)
        return number

    with run_ahead(job, range(4), workers=1, max_ahead=1) as made:

        def consume():
            try:
                outcome.extend(made)
            except BaseException as error:
                outcome.append(type(error).__name__)

        consumer = threading.Thread(target=consume)
        consumer.start()
        started.wait(60)
        crew = next(thing for thing in gc.get_objects() if type(thing).__name__ == "_Crew" and thing._job is job)
        closer = threading.Thread(target=crew.close)
        closer.start()
        while not crew._stopped.is_set():
            pass
        may_end.set()
        consumer.join(60)
        closer.join(60)
    assert outcome == [0, "CancelledError"]
