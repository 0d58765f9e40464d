"""A forecast: figures that can be worked out by hand, speeds that are given, and code that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.errors import BudgetError, LayoutError
from clipfeed.forecast import Decoding, Forecast, Machine, Reading, Speeds, forecast_directory
from clipfeed.forecast.measure import (
    Work,
    decoding_seconds,
    measure_decoding,
    measure_reading,
    reading_seconds,
    work_of,
)
from clipfeed.forecast.run import look_at_machine
from clipfeed.forecast.text import answers_of
from clipfeed.testing import make_tree

GB = 10**9
NUM_VIDEOS, NUM_FRAMES, SIZE = 20, 30, (48, 64)

MACHINE = Machine(memory_available_bytes=4 * GB, cores=2, cache_folder="/cache", disk_free_bytes=50 * GB)
SPEEDS = Speeds(
    decoding=Decoding(
        num_clips=10,
        num_failed=0,
        seconds=2.0,
        source_pixels=10 * NUM_FRAMES * 48 * 64,
        source_bytes=1000,
        spread=0.1,
        jpeg_share=0.25,
    ),
    reading=Reading(memory_bytes_per_second=1e9, disk_bytes_per_second=1e8),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "videos"
    make_tree(
        folder, classes=("run", "walk"), sources_per_class=5, clips_per_source=2, naming="hmdb51", num_frames=NUM_FRAMES
    )
    return folder


def foretell(root: Path, **arguments: Any) -> Forecast:
    """A forecast from given speeds, without Keras."""
    given = {"machine": MACHINE, "speeds": SPEEDS, "gpu_memory": None}
    return forecast_directory(root, **(given | arguments))


def ticking() -> Callable[[], float]:
    """A clock that goes on by a second each time it is looked at."""
    ticks = count()
    return lambda: float(next(ticks))


def answer(forecast: Forecast, question: str) -> str:
    return dict(answers_of(forecast))[question]


# Memory


def test_the_naive_way_is_every_clip_in_float32(root: Path) -> None:
    told = foretell(root, num_frames=10, image_size=(32, 40))
    assert told.num_videos == told.num_clips == NUM_VIDEOS
    assert told.naive_clips_bytes == NUM_VIDEOS * 10 * 32 * 40 * 3 * 4
    assert told.num_frames == NUM_VIDEOS * NUM_FRAMES
    assert told.naive_frames_bytes == NUM_VIDEOS * NUM_FRAMES * 32 * 40 * 3 * 4


def test_hmdb51_takes_what_its_published_clips_take() -> None:
    clip = cf.ClipSpec(num_frames=20, image_size=(64, 64))
    assert clip.num_bytes * 4 == 983_040
    assert 6766 * clip.num_bytes * 4 == 6_651_248_640


@pytest.mark.parametrize(
    ("available", "fits", "words"),
    [
        (10**6, False, "does not fit"),
        (NUM_VIDEOS * 983_040, True, "takes twice that"),
        (10 * GB, True, "fits;"),
        (None, None, "does not say"),
    ],
)
def test_whether_it_fits_follows_from_the_memory_that_is_available(
    root: Path, available: int | None, fits: bool | None, words: str
) -> None:
    told = foretell(root, machine=replace(MACHINE, memory_available_bytes=available))
    assert told.naive_clips_fit is fits
    assert words in answer(told, "in one array")


def test_what_clipfeed_holds_is_the_datasets_own_arithmetic(root: Path) -> None:
    told = foretell(root, batch_size=4, memory_budget="30MB", workers=3)
    ds = cf.VideoDataset(cf.build_index(root), batch_size=4, seed=1, limits=cf.Limits(memory_budget="30MB", workers=3))
    assert told.memory_arithmetic in ds.explain_memory()
    assert told.memory_bytes <= told.memory_budget_bytes == 30_000_000
    assert told.workers == 3
    assert "as asked for" in answer(told, "workers")


def test_a_budget_that_holds_no_batch_is_refused_as_elsewhere(root: Path) -> None:
    with pytest.raises(BudgetError, match="does not hold one batch"):
        foretell(root, memory_budget="1MB")


# Cache


def test_the_cache_keeps_one_clip_a_video_or_all_frames_for_random_sampling(root: Path) -> None:
    fixed, random = foretell(root, num_frames=8), foretell(root, num_frames=8, sampling=cf.Segments())
    frame = 64 * 64 * 3
    assert NUM_VIDEOS * 8 * frame <= fixed.cache_raw_bytes < 1.01 * NUM_VIDEOS * 8 * frame + 10_000
    assert random.cache_raw_bytes >= NUM_VIDEOS * NUM_FRAMES * frame
    assert fixed.cache_jpeg_bytes == pytest.approx(0.25 * fixed.cache_raw_bytes, abs=1)


@pytest.mark.parametrize(
    ("free", "advice", "argument"),
    [(50 * GB, "raw", 'cache="disk"'), (None, "jpeg", 'cache=cf.Cache(codec="jpeg")'), (0, None, None)],
)
def test_the_cache_that_fits_on_the_disk_is_advised(
    root: Path, free: int | None, advice: str | None, argument: str | None
) -> None:
    size = foretell(root).cache_raw_bytes
    room = (1 << 30) + size // 2 if free is None else free
    told = foretell(root, machine=replace(MACHINE, disk_free_bytes=room))
    assert told.cache_advice == advice
    assert ("cache=" in told.code) is (argument is not None)
    assert (argument or "neither fits") in answer(told, "cache")


def test_without_a_single_clip_the_size_as_jpeg_is_unknown(root: Path) -> None:
    nothing = Decoding(
        num_clips=0, num_failed=3, seconds=1.0, source_pixels=0, source_bytes=0, spread=0.5, jpeg_share=None
    )
    told = foretell(root, speeds=Speeds(decoding=nothing, reading=None))
    assert told.cache_jpeg_bytes is told.first_epoch_seconds is told.later_epoch_seconds is None
    assert "unknown: none of 3" in answer(told, "first epoch")
    assert "unknown: /cache" in answer(told, "later epochs")
    assert "JPEG unknown" in answer(told, "cache")


# Time


def test_the_first_epoch_scales_with_pixels_and_bytes_and_says_how_far_it_may_be_off() -> None:
    decoding = SPEEDS.decoding
    told = decoding_seconds(decoding, Work(source_pixels=10 * decoding.source_pixels, source_bytes=20_000))
    assert told is not None
    assert told.low == pytest.approx(20 * 0.9)
    assert told.middle == pytest.approx(30)
    assert told.high == pytest.approx(40 * 1.1)


def test_more_clips_a_video_and_a_validation_part_count_as_often_as_they_are_read(root: Path) -> None:
    one, three = foretell(root), foretell(root, clips_per_video=3)
    train = 16
    assert three.num_clips == 3 * train + (NUM_VIDEOS - train)
    assert one.first_epoch_seconds is not None
    assert three.first_epoch_seconds is not None
    by_pixels = 2.0 * three.num_clips / 10
    assert three.first_epoch_seconds.low <= by_pixels <= three.first_epoch_seconds.high


def test_later_epochs_come_from_memory_if_the_cache_fits_there_and_from_the_disk_if_not(root: Path) -> None:
    reading = SPEEDS.reading
    assert reading is not None
    inside = reading_seconds(reading, 10**9, is_in_memory=True)
    outside = reading_seconds(reading, 10**9, is_in_memory=False)
    assert (inside.low, inside.middle, inside.high) == pytest.approx((1, 1, 11))
    assert outside.middle == pytest.approx(11)
    assert foretell(root, machine=replace(MACHINE, memory_available_bytes=1000)).later_epoch_seconds != (
        foretell(root).later_epoch_seconds
    )


def test_decoding_is_measured_for_no_longer_than_it_is_given(root: Path) -> None:
    ds = cf.VideoDataset(cf.build_index(root), cf.ClipSpec(num_frames=4, image_size=16), seed=0)
    measured = measure_decoding(ds, max_seconds=5, clock=ticking())
    assert measured.num_clips == measured.seconds == 5  # a tick a clip
    assert measured.source_pixels == 5 * NUM_FRAMES * SIZE[0] * SIZE[1]
    assert 0 < measured.source_bytes < work_of(ds.index).source_bytes
    assert measured.spread == pytest.approx(0.1)  # every clip took the same
    assert measured.jpeg_share is not None
    assert 0 < measured.jpeg_share < 3


def test_the_same_videos_are_measured_every_time(root: Path) -> None:
    ds = cf.VideoDataset(cf.build_index(root), cf.ClipSpec(num_frames=4, image_size=16), seed=0)
    first, second = (measure_decoding(ds, max_seconds=3, clock=ticking()) for _ in range(2))
    assert (first.source_bytes, first.jpeg_share) == (second.source_bytes, second.jpeg_share)


def test_clips_that_cannot_be_had_are_counted_and_scale_nothing(tmp_path: Path) -> None:
    videos = make_tree(tmp_path / "data", classes=("run",), sources_per_class=3, clips_per_source=2)
    index = cf.build_index(tmp_path / "data")
    for video in videos[:4]:
        video.path.write_bytes(b"")
    measured = measure_decoding(cf.VideoDataset(index, cf.ClipSpec(num_frames=4, image_size=16), seed=0))
    assert (measured.num_clips, measured.num_failed) == (2, 4)
    assert measured.spread == 0.5
    assert len(cf.build_index(tmp_path / "data").failures) == 4  # nothing was remembered of them that is not so


def test_reading_is_measured_where_the_cache_would_be_and_leaves_nothing(tmp_path: Path) -> None:
    measured = measure_reading(tmp_path / "cache", 64 * 64 * 3 * 20)
    assert measured is not None
    assert measured.memory_bytes_per_second > 0
    assert measured.disk_bytes_per_second is None or measured.disk_bytes_per_second > 0
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_that_cannot_be_written_gives_no_speed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert measure_reading(tmp_path / "cache", 1000) is None


def test_everything_is_measured_where_nothing_is_given(root: Path) -> None:
    told = forecast_directory(root, num_frames=4, image_size=16, gpu_memory=None)
    assert told.machine.disk_free_bytes > 0
    assert told.decoding.num_clips == 16  # the training part, each once
    assert told.first_epoch_seconds is not None
    assert 0 < told.first_epoch_seconds.low <= told.first_epoch_seconds.middle <= told.first_epoch_seconds.high
    assert told.later_epoch_seconds is not None
    assert told.machine.cores == look_at_machine().cores == told.workers


# The report and the code


def test_the_report_answers_every_question_and_gives_the_lines(root: Path) -> None:
    told = foretell(root)
    report = str(told)
    for question, words in answers_of(told):
        assert question in report
        assert words in report
    assert "not needed" in answer(told, "shuffle buffer")
    assert told.shuffle_buffer_clips == 0
    assert report.endswith(told.code)


def test_every_figure_becomes_json(root: Path) -> None:
    told = foretell(root)
    facts = json.loads(json.dumps(told.as_dict()))
    assert facts["naive_clips_bytes"] == told.naive_clips_bytes
    assert facts["naive_clips_fit"] is True
    assert facts["first_epoch_seconds"].keys() == {"low", "middle", "high"}


def run_lines(told: Forecast) -> dict[str, Any]:
    """Run the lines up to the model, as NumPy so that no framework is needed."""
    lines, _, _ = told.code.partition("model = ")
    names: dict[str, Any] = {}
    exec(lines.replace("    '", "    format='numpy', verbose=False, directory='", 1), names)
    return names


def test_the_lines_for_class_folders_split_by_source(root: Path) -> None:
    told = foretell(root, num_frames=6, image_size=(16, 24), batch_size=4, sampling=cf.Dense(frame_stride=3))
    assert 'validation_split=0.2, subset="both"' in told.code.replace("'", '"')
    names = run_lines(told)
    clips, _ = next(iter(names["train_ds"]))
    assert clips.shape == (4, 6, 16, 24, 3)
    assert len(names["train_ds"].file_paths) + len(names["val_ds"].file_paths) == NUM_VIDEOS
    assert names["train_ds"].clipfeed.spec.sampling == cf.Dense(frame_stride=3)
    assert "num_classes=2" in told.code


@pytest.mark.parametrize(
    ("parts", "subset", "has_validation"), [(("train", "val", "test"), "both", True), (("train",), "training", False)]
)
def test_the_lines_for_folders_that_are_parts_pick_them(
    tmp_path: Path, parts: tuple[str, ...], subset: str, has_validation: bool
) -> None:
    make_tree(tmp_path, classes=[f"{part}/{name}" for part in parts for name in ("run", "walk")], sources_per_class=2)
    told = foretell(tmp_path)
    assert f'subset="{subset}"' in told.code
    assert "validation_split" not in told.code
    assert ("validation_data" in told.code) is has_validation
    assert told.num_videos == 8 * (2 if has_validation else 1)  # the test part is not read
    assert len(run_lines(told)["train_ds"].file_paths) == 8


def test_the_lines_without_a_split_have_neither_subset_nor_validation(root: Path) -> None:
    told = foretell(root, validation_split=None)
    assert "subset" not in told.code
    assert "val_ds" not in told.code
    assert len(run_lines(told)["train_ds"].file_paths) == NUM_VIDEOS


def test_a_policy_or_a_rule_of_the_users_own_is_named_and_not_printed(root: Path) -> None:
    told = foretell(root, groups=lambda key: key)
    assert "groups=groups" in told.code
    assert "lambda" not in told.code


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gpu_memory": "8 apples"}, "gpu_memory='8 apples'"),
        ({"gpu_memory": 0}, "gpu_memory=0"),
        ({"model": "resnet"}, "model='resnet'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_frames": 0}, "num_frames=0"),
        ({"validation_split": 1.5}, "validation_split=1.5"),
        ({"validation_split": True}, "validation_split=True"),
        ({"seed": "one"}, "seed='one'"),
        ({"index": ""}, "index=''"),
        ({"follow_links": 1}, "follow_links=1"),
        ({"workers": 0}, "workers=0"),
        ({"memory_budget": "much"}, "memory_budget='much'"),
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "expected one of them"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_before_the_folder_is_read(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        foretell(Path("nowhere"), **arguments)


def test_a_folder_that_is_no_data_set_is_refused_as_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="no such folder"):
        foretell(tmp_path / "nowhere")


def test_parts_without_training_are_refused(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("val/run", "test/run"), sources_per_class=1)
    with pytest.raises(LayoutError, match="nothing to train on"):
        foretell(tmp_path)


def test_videos_that_are_all_too_short_are_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="long enough"):
        foretell(root, num_frames=NUM_FRAMES + 1)


def test_files_that_give_no_clip_are_listed(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run",), sources_per_class=4, clips_per_source=1, num_frames=30)
    make_tree(tmp_path, classes=("short",), sources_per_class=4, clips_per_source=1, num_frames=5)
    (tmp_path / "run" / "notes.mp4").write_text("not a video")
    told = foretell(tmp_path)
    assert {failure.stage for failure in told.left_out} == {"probe", "sample"}
    assert len(told.left_out) == 5
    assert told.num_videos == 4


def test_without_keras_all_but_the_batch_size_is_told(root: Path) -> None:
    code = (
        "import sys; sys.modules['keras'] = None\n"
        "import clipfeed.forecast as f\n"
        f"told = f.forecast_directory({str(root)!r}, num_frames=4, image_size=16)\n"
        "print(told.training, told.num_videos, told.training_missing)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"None {NUM_VIDEOS} ")
    assert 'pip install "clipfeed[tensorflow]"' in done.stdout


def test_the_spread_grows_where_clips_differ() -> None:
    from clipfeed.forecast.measure import _spread

    rng = np.random.default_rng(0)
    even, uneven = np.ones(50), rng.exponential(1, 50)
    pixels = [100] * 50
    assert _spread(even.tolist(), pixels) == pytest.approx(0.1)
    assert 0.1 < _spread(uneven.tolist(), pixels) < 0.8
    assert _spread([1.0], [100]) == 0.5
