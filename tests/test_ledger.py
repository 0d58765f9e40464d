from __future__ import annotations

import pickle
import threading

import pytest

from clipfeed.errors import DecodeError
from clipfeed.ledger import ErrorPolicy, Ledger
from clipfeed.records import Failure


def a_failure(number: int, reason: str = "no frame at 1.0 s") -> Failure:
    return Failure(path=f"clips/{number}.avi", stage="decode", reason=reason)


@pytest.mark.parametrize(
    ("share", "num_videos", "limit"),
    [(0.05, 100, 5), (0.05, 101, 6), (0.05, 1, 1), (0.05, 0, 1), (0, 1000, 1), (1, 7, 7), (0.07, 100, 7), (0.1, 30, 3)],
)
def test_the_limit_is_exact_and_never_below_one(share: float, num_videos: int, limit: int) -> None:
    assert ErrorPolicy(max_failures=share).limit(num_videos) == limit


def test_a_run_goes_on_up_to_the_limit_and_ends_beyond_it() -> None:
    ledger = Ledger(num_videos=40)
    for number in (1, 2):
        ledger.record(a_failure(number))
    with pytest.raises(
        DecodeError, match=r"3 of 40 videos could not be delivered; max_failures=0.05 allows 2"
    ) as caught:
        ledger.record(a_failure(3))
    for number in (1, 2, 3):
        assert f"clips/{number}.avi: decode: no frame at 1.0 s" in str(caught.value)
    assert "fix:" in str(caught.value)
    with pytest.raises(DecodeError):
        ledger.record(a_failure(1))


def test_a_video_counts_once_however_many_of_its_clips_fail() -> None:
    ledger = Ledger(num_videos=20)
    for reason in ("first", "second", "third"):
        ledger.record(a_failure(1, reason))
    assert len(ledger) == 1
    assert ledger.failures == (a_failure(1, "first"),)
    assert ledger.failure_of("clips/1.avi") == a_failure(1, "first")
    assert ledger.failure_of("clips/2.avi") is None


def test_the_message_lists_ten_and_says_how_many_more() -> None:
    ledger = Ledger(num_videos=12, policy=ErrorPolicy(max_failures=1))
    for number in range(12):
        ledger.record(a_failure(number))
    with pytest.raises(DecodeError, match="13 of 12 videos") as caught:
        ledger.record(a_failure(12))
    assert str(caught.value).count("clips/") == 10
    assert "... and 3 more" in str(caught.value)


def test_threads_may_record_at_the_same_time() -> None:
    ledger = Ledger(num_videos=400, policy=ErrorPolicy(max_failures=0.5))
    raised: list[DecodeError] = []
    together = threading.Barrier(8)

    def record_fifty(first: int) -> None:
        together.wait()
        for number in range(first, first + 50):
            try:
                ledger.record(a_failure(number))
            except DecodeError as error:
                raised.append(error)

    threads = [threading.Thread(target=record_fifty, args=(25 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {failure.path for failure in ledger.failures} == {f"clips/{number}.avi" for number in range(225)}
    assert raised, "225 are more than the 200 that may fail"


def test_a_copy_from_another_process_knows_what_failed_and_has_a_lock_of_its_own() -> None:
    ledger = Ledger(num_videos=40)
    ledger.record(a_failure(1))
    copy = pickle.loads(pickle.dumps(ledger))
    copy.record(a_failure(2))
    assert [failure.path for failure in copy.failures] == ["clips/1.avi", "clips/2.avi"]
    assert len(ledger) == 1
    assert repr(copy) == "<Ledger: 2 of 40 videos failed, 2 may>"


@pytest.mark.parametrize("on_error", ["ignore", None, True])
def test_another_answer_to_an_error_is_refused(on_error: object) -> None:
    with pytest.raises(ValueError, match=r"on_error=.*'skip', 'raise'"):
        ErrorPolicy(on_error=on_error)


@pytest.mark.parametrize("max_failures", [-0.01, 1.01, 5, "5%", None, True, float("nan")])
def test_what_is_no_share_is_refused(max_failures: object) -> None:
    with pytest.raises(ValueError, match=r"max_failures=.*from 0 to 1"):
        ErrorPolicy(max_failures=max_failures)
