"""A forecast as a report for people: one line a question, the figures it rests on behind it."""

from __future__ import annotations

from clipfeed.forecast.code import cache_argument
from clipfeed.forecast.report import Forecast, Range, TrainingMemory
from clipfeed.sizes import show_bytes

__all__ = ["answers_of", "report_of"]


def report_of(forecast: Forecast) -> str:
    """Give the whole report: a head, the answers, the lines to paste."""
    answers = answers_of(forecast)
    width = max(len(question) for question, _ in answers)
    return "\n".join([head_of(forecast), *(f"{name:{width}}  {answer}" for name, answer in answers), "", forecast.code])


def head_of(forecast: Forecast) -> str:
    """Say what the forecast is of."""
    left_out = f", {len(forecast.left_out):,} files left out" if forecast.left_out else ""
    return (
        f"{forecast.root}: {forecast.num_videos:,} videos of {forecast.num_classes:,} classes{left_out}; "
        f"{forecast.num_clips:,} clips of {_by(forecast.clip_shape)} an epoch"
    )


def answers_of(forecast: Forecast) -> list[tuple[str, str]]:
    """Give (question, answer) for everything that is foretold."""
    return [
        ("in one array", _naive(forecast)),
        ("here", f"at most {show_bytes(forecast.memory_bytes)} at a time ({forecast.memory_arithmetic})"),
        ("cache", _cache(forecast)),
        ("first epoch", _first_epoch(forecast)),
        ("later epochs", _later_epochs(forecast)),
        ("workers", _workers(forecast)),
        ("shuffle buffer", _shuffle_buffer(forecast)),
        ("batch size", _batch_size(forecast)),
    ]


def _naive(forecast: Forecast) -> str:
    clips, frames, machine = forecast.naive_clips_bytes, forecast.naive_frames_bytes, forecast.machine
    available = machine.memory_available_bytes
    left = "" if available is None else f"; {show_bytes(available)} of memory are available here"
    return (
        f"all clips as float32: {show_bytes(clips)}, {_fits(forecast, clips)}; "
        f"all {forecast.num_frames:,} frames: {show_bytes(frames)}, {_fits(forecast, frames)}{left}"
    )


def _fits(forecast: Forecast, num_bytes: int) -> str:
    fits = forecast.machine.holds(num_bytes)
    if fits is None:
        return "and this system does not say what is available"
    if fits and not forecast.machine.holds(2 * num_bytes):
        return "fits, but not while it is put together from a list, which takes twice that"
    return "fits" if fits else "does not fit"


def _cache(forecast: Forecast) -> str:
    as_jpeg = forecast.cache_jpeg_bytes
    sizes = f"raw {show_bytes(forecast.cache_raw_bytes)}, JPEG " + (
        "unknown" if as_jpeg is None else f"about {show_bytes(as_jpeg)}"
    )
    free = f"{show_bytes(forecast.machine.disk_free_bytes)} free in {forecast.machine.cache_folder}"
    argument = cache_argument(forecast.cache_advice)
    advice = "neither fits" if argument is None else f"cache={argument} fits"
    return f"{sizes}; {free}: {advice}"


def _first_epoch(forecast: Forecast) -> str:
    decoding, expected = forecast.decoding, forecast.first_epoch_seconds
    failed = f", {decoding.num_failed:,} could not be had" if decoding.num_failed else ""
    if expected is None:
        return f"unknown: none of {decoding.num_failed:,} clips could be decoded"
    return (
        f"{_seconds(expected)}: {decoding.num_clips:,} clips took {_duration(decoding.seconds)} with "
        f"{_count(forecast.workers, 'worker')}{failed}; scaled by pixels and bytes to all videos"
    )


def _later_epochs(forecast: Forecast) -> str:
    reading, expected = forecast.reading, forecast.later_epoch_seconds
    if reading is None or expected is None:
        return f"unknown: {forecast.machine.cache_folder} cannot be written"
    speed = reading.disk_bytes_per_second
    disk = "the disk's speed is unknown" if speed is None else f"{show_bytes(round(speed))}/s from the disk"
    return (
        f"{_seconds(expected)} from the cache: {show_bytes(round(reading.memory_bytes_per_second))}/s from memory into "
        f"float32 batches, {disk}; a framework's own copy comes on top"
    )


def _workers(forecast: Forecast) -> str:
    cores = _count(forecast.machine.cores, "core")
    if forecast.workers == forecast.machine.cores:
        return f"{forecast.workers}, one for each of the {cores} that this process may use"
    return f"{forecast.workers} as asked for; this process may use {cores}"


def _shuffle_buffer(forecast: Forecast) -> str:
    size = forecast.naive_clips_bytes // max(forecast.num_videos, 1)
    return (
        "not needed: the order of each epoch is a computed permutation of all clips, so nothing waits in memory to be "
        f"mixed; a buffer of 500 clips would hold {show_bytes(500 * size)} as float32 and mix less"
    )


def _batch_size(forecast: Forecast) -> str:
    told = forecast.training
    if told is None:
        return f"unknown: {forecast.training_missing}"
    where = f"on a GPU of {show_bytes(told.gpu_memory_bytes)}, {told.model} and clips of {_by(forecast.clip_shape)}"
    return f"{_advice(told)} ({where}; an estimate, {_arithmetic(told)})"


def _advice(told: TrainingMemory) -> str:
    low, high = told.max_batch_size_low, told.max_batch_size_high
    if not high:
        return "not one clip fits"
    if not low:
        return f"{high} at most, and perhaps not one clip fits"
    if low < told.batch_size_high:
        return f"{told.batch_size_low} to {told.batch_size_high}; memory sets the limit"
    return f"{told.batch_size_low} to {told.batch_size_high} to begin with; memory holds some {low:,} to {high:,}"


def _arithmetic(told: TrainingMemory) -> str:
    clip, reserved = told.clip_bytes, told.reserved_bytes
    return (
        f"{told.num_parameters:,} parameters with gradients and Adam {show_bytes(told.parameter_bytes)}"
        f" + {show_bytes(int(clip.low))} to {show_bytes(int(clip.high))} of activations a clip"
        f" + {show_bytes(int(reserved.low))} to {show_bytes(int(reserved.high))} reserved"
    )


def _seconds(expected: Range) -> str:
    return f"{_duration(expected.middle)} ({_duration(expected.low)} to {_duration(expected.high)})"


def _duration(seconds: float) -> str:
    """Give a time as people say it: "0.04 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _by(sides: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in sides)
