"""From figures to what would help. Nothing here measures; each sentence carries the figures it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clipfeed.bench.report import Advice, FitWait, Rate
from clipfeed.bench.trials import TranscodeTrial
from clipfeed.sizes import show_bytes

__all__ = ["advise_cache", "advise_transcode", "advise_workers"]

_NO_WAIT = 0.05  # share of an epoch; below it the model is what takes the time
_WORTH_IT = 1.1  # times as many clips a second


def advise_cache(rates: Mapping[str, Rate], fits: Sequence[FitWait], pack_bytes: int) -> Advice:
    """Say what a cache would do from the second epoch on."""
    if "cache" not in rates:
        reason = f"not measured: the folder for temporary files keeps nothing; it would take {show_bytes(pack_bytes)}"
        return Advice(what="cache", helps=False, gain=None, reason=reason)
    gain = rates["cache"].clips_per_second / rates["all threads"].clips_per_second
    reason = (
        f"later epochs give {rates['cache'].clips_per_second:,.0f} clips/s in place of "
        f"{rates['all threads'].clips_per_second:,.0f}, for {show_bytes(pack_bytes)}"
    )
    measured = {fit.name: fit for fit in fits}
    if "decoding" not in measured or "cache" not in measured:
        return Advice(what="cache", helps=gain > _WORTH_IT, gain=gain, reason=reason)
    # Where decoding and training share cores, `fit` is slowed down although it hardly waits.
    decoding, cached = measured["decoding"], measured["cache"]
    reason += (
        f"; an epoch of fit then takes {cached.seconds:.1f} s in place of {decoding.seconds:.1f}, "
        f"of which it waits for {cached.share:.0%} in place of {decoding.share:.0%}"
    )
    helps = decoding.share > _NO_WAIT or decoding.seconds > _WORTH_IT * cached.seconds
    return Advice(what="cache", helps=gain > _WORTH_IT and helps, gain=gain, reason=reason)


def advise_workers(rates: Mapping[str, Rate], cores: int) -> Advice:
    """Say whether other numbers of threads would be faster than the one that is used."""
    used, one = rates["all threads"], rates["one thread"]
    best = max(rates.get("cores", used), one, used, key=lambda rate: rate.clips_per_second)
    gain = best.clips_per_second / used.clips_per_second
    reason = (
        f"{used.workers} {_threads(used.workers)}: {used.clips_per_second:,.1f} clips/s, "
        f"{used.clips_per_second / one.clips_per_second:.2f} times as many as one thread, "
        f"on {cores} usable {'core' if cores == 1 else 'cores'}"
    )
    if best is not used:
        reason += f"; {best.workers} {_threads(best.workers)}: {best.clips_per_second:,.1f}"
    return Advice(what="workers", helps=gain > _WORTH_IT, gain=gain, reason=reason)


def advise_transcode(trial: TranscodeTrial | None) -> Advice:
    """Say what re-encoding would do; None where it was not tried."""
    if trial is None:
        reason = "not tried: the videos are so large that it would take long, or cannot be re-encoded"
        return Advice(what="transcode", helps=False, gain=None, reason=reason)
    gain = trial.seconds_before / trial.seconds_after
    reason = (
        f"{trial.num_videos} {'video' if trial.num_videos == 1 else 'videos'} re-encoded for a look: "
        f"{trial.seconds_after * 1e3:.1f} ms a clip in place of {trial.seconds_before * 1e3:.1f} in one thread, "
        f"{show_bytes(trial.bytes_after)} in place of {show_bytes(trial.bytes_before)}"
    )
    return Advice(what="transcode", helps=gain > _WORTH_IT, gain=gain, reason=reason)


def _threads(number: int) -> str:
    return "thread" if number == 1 else "threads"
