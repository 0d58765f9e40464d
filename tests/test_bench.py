"""A bench measures what training runs, and its figures add up."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import clipfeed as cf
from clipfeed.bench import Advice, FitWait, Rate, trials
from clipfeed.bench.advice import advise_cache, advise_transcode, advise_workers
from clipfeed.bench.stages import DeliveryTimer, pass_stages, stage_times
from clipfeed.bench.trials import TranscodeTrial, linked_videos, try_cache, try_transcode
from clipfeed.clock import STAGES
from clipfeed.deliver import Delivery
from clipfeed.load import pack_bytes
from clipfeed.prefetch import usable_cores
from clipfeed.sizes import show_bytes
from clipfeed.testing import damage_file, make_tree

# Of Keras's variables, when a model is built under NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

CLIPS = cf.ClipSpec(num_frames=4, image_size=(16, 16))
QUICK = cf.BenchOptions(num_passes=1, fit=False, format="numpy")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "videos"
    make_tree(folder, classes=("run", "walk"), sources_per_class=3, clips_per_source=2, num_frames=12)
    return folder


@pytest.fixture(scope="module")
def index(root: Path, tmp_path_factory: pytest.TempPathFactory) -> cf.VideoIndex:
    return cf.build_index(root, index=tmp_path_factory.mktemp("index"))


def rate(name: str, clips_per_second: float, workers: int = 2) -> Rate:
    return Rate(
        name=name,
        workers=workers,
        clips_per_second=clips_per_second,
        bytes_per_second=0,
        file_bytes_per_second=0,
    )


def wait(name: str, share: float, seconds: float = 11.0) -> FitWait:
    return FitWait(
        name=name,
        format="tf",
        backend="tensorflow",
        model="lrcn",
        num_steps=10,
        seconds=seconds,
        first_wait_seconds=1.0,
        later_wait_seconds=(seconds - 1) * share,
    )


# The whole


def test_a_folder_is_measured_and_the_stages_add_up(root: Path) -> None:
    report = cf.bench_directory(root, clips=CLIPS, batch_size=4, options=QUICK)
    assert (report.num_videos, report.num_measured, report.num_clips) == (12, 12, 12)
    assert report.clip_shape == (4, 16, 16, 3)
    assert report.codecs == {"mpeg4": 12}
    assert {stage.stage for stage in report.stages} == {*STAGES, "deliver"}
    assert report.stages[-1].stage == "rest"
    assert all(stage.seconds_per_clip > 0 for stage in report.stages)
    assert sum(stage.share for stage in report.stages) == pytest.approx(1)
    for stage in report.stages:
        assert stage.share == pytest.approx(stage.seconds_per_clip / report.seconds_per_clip)
    assert report.failures == ()


def test_rates_are_of_one_thread_of_those_used_and_of_all_cores(root: Path) -> None:
    workers = usable_cores() + 1
    report = cf.bench_directory(root, clips=CLIPS, options=QUICK, limits=cf.Limits(workers=workers))
    assert [(each.name, each.workers) for each in report.rates] == [
        ("one thread", 1),
        ("all threads", workers),
        ("cores", usable_cores()),
        ("cache", workers),
    ]
    for each in report.rates:
        assert each.bytes_per_second == pytest.approx(each.clips_per_second * CLIPS.num_bytes)
        assert (each.file_bytes_per_second > 0) == (each.name != "cache")


def test_videos_are_chosen_over_the_whole_folder(root: Path) -> None:
    options = cf.BenchOptions(num_videos=3, num_passes=1, fit=False, format="numpy")
    report = cf.bench_directory(root, clips=CLIPS, options=options)
    assert (report.num_videos, report.num_measured, report.num_clips) == (12, 3, 3)


def test_several_clips_a_video_are_counted_as_clips(root: Path) -> None:
    clips = cf.ClipSpec(num_frames=4, image_size=16, sampling=cf.Segments(), clips_per_video=2)
    assert cf.bench_directory(root, clips=clips, options=QUICK).num_clips == 24


def test_a_report_is_json_as_it_is(root: Path) -> None:
    report = cf.bench_directory(root, clips=CLIPS, options=QUICK)
    assert json.loads(json.dumps(asdict(report)))["num_clips"] == 12


def test_what_cannot_be_delivered_is_listed_and_not_counted(tmp_path: Path) -> None:
    videos = make_tree(tmp_path / "videos", classes=("run",), sources_per_class=1, clips_per_source=2, num_frames=12)
    index = cf.build_index(tmp_path / "videos", index=tmp_path / "index")
    videos[0].path.write_bytes(b"something else")
    report = cf.bench_directory(index, clips=CLIPS, options=QUICK)
    assert report.num_clips == 1
    assert [failure.path for failure in report.failures] == [str(videos[0].path)]


def test_damaged_videos_are_measured_as_they_are(tmp_path: Path) -> None:
    for video in make_tree(tmp_path, classes=("run",), sources_per_class=1, clips_per_source=2, num_frames=24):
        damage_file(video.path)
    assert cf.bench_directory(tmp_path, clips=CLIPS, options=QUICK).num_clips == 2


def test_progress_ends_where_it_said_it_would(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    cf.bench_directory(root, clips=CLIPS, options=QUICK, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 5) for number in range(1, 6)]


@pytest.mark.parametrize("wrong", [{"num_videos": 0}, {"num_passes": 0}, {"format": "jpeg"}])
def test_options_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        cf.BenchOptions(**wrong)  # type: ignore[arg-type]  # that is the point


# Stages


def test_stages_are_those_of_the_batches_that_training_gets(index: cf.VideoIndex) -> None:
    ds = cf.VideoDataset(index, CLIPS, batch_size=4, seed=1)
    seconds, batches = pass_stages(ds, epoch=2)
    assert [(batch.epoch, batch.number) for batch in batches] == [(2, 0), (2, 1), (2, 2)]
    for batch in batches:
        assert (batch.clips == ds.batch(2, batch.number).clips).all()
    assert all(seconds[stage] > 0 for stage in STAGES)
    assert "deliver" not in seconds


def test_a_crop_is_part_of_assembling(index: cf.VideoIndex) -> None:
    clips = cf.ClipSpec(num_frames=4, image_size=(16, 64), aspect="crop")
    seconds, _ = pass_stages(cf.VideoDataset(index, clips, seed=1), epoch=0)
    assert seconds["assemble"] > 0


@pytest.mark.parametrize("format", ["numpy", "keras", "tf"])
def test_delivery_hands_out_the_batches_that_lie_ready(index: cf.VideoIndex, format: str) -> None:
    if format != "numpy":
        skip_without("tensorflow")
    ds = cf.VideoDataset(index, CLIPS, batch_size=4, seed=1)
    _, batches = pass_stages(ds, epoch=0)
    assert DeliveryTimer(ds, Delivery(format=format)).seconds(batches) > 0  # type: ignore[arg-type]


def test_shares_come_from_seconds_and_the_rest_comes_last() -> None:
    times = stage_times({"rest": 1.0, "decode": 3.0, "deliver": 4.0}, num_clips=2)
    assert [(each.stage, each.seconds_per_clip, each.share) for each in times] == [
        ("decode", 1.5, 0.375),
        ("deliver", 2.0, 0.5),
        ("rest", 0.5, 0.125),
    ]


# fit


def skip_without(package: str) -> None:
    if os.environ.get("CLIPFEED_FAIL_WITHOUT_EXTRAS") != "1":
        pytest.importorskip(package)


def test_a_real_fit_says_how_long_it_waited(root: Path) -> None:
    skip_without("tensorflow")
    options = cf.BenchOptions(num_passes=1)
    report = cf.bench_directory(root, clips=CLIPS, batch_size=4, options=options)
    assert report.format == "tf"
    assert [fit.name for fit in report.fits] == ["decoding", "cache"]
    assert report.fit_missing is None
    for fit in report.fits:
        assert (fit.backend, fit.format, fit.model, fit.num_steps) == ("tensorflow", "tf", "lrcn", 24)
        assert fit.first_wait_seconds > 0
        assert 0 < fit.later_wait_seconds < fit.seconds
        assert 0 < fit.share < 1


def test_without_labels_there_is_no_fit_and_the_report_says_so(root: Path) -> None:
    skip_without("tensorflow")
    index = cf.build_index(root, labels=None)
    report = cf.bench_directory(index, clips=CLIPS, options=cf.BenchOptions(num_passes=1, format="numpy"))
    assert report.fits == ()
    assert report.fit_missing == "the videos have no class each"


# A cache on trial


def test_a_cache_is_tried_on_links_and_leaves_nothing_behind(
    index: cf.VideoIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ds = cf.VideoDataset(index, CLIPS, batch_size=4, seed=1)
    trial = try_cache(ds, num_passes=1, model=None)
    assert trial is not None
    assert (trial.rate.name, trial.rate.workers, trial.fit) == ("cache", ds.workers, None)
    assert trial.rate.clips_per_second > 0
    assert list(tmp_path.iterdir()) == []


def test_links_are_the_same_videos_with_the_same_labels(index: cf.VideoIndex) -> None:
    with linked_videos(index) as (_, links):
        assert links.labels.tolist() == index.labels.tolist()
        assert links.num_frames.tolist() == index.num_frames.tolist()
        assert [Path(path).resolve() for path in links.paths] == [Path(path).resolve() for path in index.paths]


def test_without_room_for_a_cache_there_is_no_figure_and_the_advice_says_so() -> None:
    advice = advise_cache({"all threads": rate("all threads", 100)}, [], 1_500_000)
    assert (advice.helps, advice.gain) == (False, None)
    assert "1.5 MB" in advice.reason


def test_the_bytes_of_a_cache_are_those_of_the_whole_folder(root: Path) -> None:
    options = cf.BenchOptions(num_videos=2, num_passes=1, fit=False, format="numpy")
    report = cf.bench_directory(root, clips=CLIPS, options=options)
    (cache,) = [advice for advice in report.advice if advice.what == "cache"]
    needed = pack_bytes(cf.build_index(root), CLIPS)
    assert needed > 12 * CLIPS.num_bytes
    assert show_bytes(needed) in cache.reason


# Re-encoding on trial


def test_re_encoding_is_tried_on_two_videos_and_leaves_nothing_behind(
    index: cf.VideoIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trial = try_transcode(cf.VideoDataset(index, CLIPS, batch_size=4, seed=1), num_passes=1)
    assert trial is not None
    assert trial.num_videos == 2
    assert min(trial.seconds_before, trial.seconds_after, trial.bytes_before, trial.bytes_after) > 0
    assert list(tmp_path.iterdir()) == []


def test_large_videos_are_not_re_encoded_for_a_look(index: cf.VideoIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_MOST_PIXELS", 1.0)
    assert try_transcode(cf.VideoDataset(index, CLIPS, seed=1), num_passes=1) is None


# Advice


def test_a_cache_helps_where_fit_waits() -> None:
    rates = {"all threads": rate("all threads", 100), "cache": rate("cache", 5000)}
    advice = advise_cache(rates, [wait("decoding", 0.6), wait("cache", 0.01)], 1_500_000)
    assert (advice.helps, advice.gain) == (True, 50)
    assert "5,000 clips/s in place of 100, for 1.5 MB" in advice.reason
    assert "of which it waits for 1% in place of 60%" in advice.reason


def test_a_cache_does_not_help_a_fit_that_never_waits() -> None:
    rates = {"all threads": rate("all threads", 100), "cache": rate("cache", 5000)}
    assert not advise_cache(rates, [wait("decoding", 0.01), wait("cache", 0.01)], 1).helps
    assert advise_cache(rates, [], 1).helps


def test_a_cache_helps_a_fit_that_shares_its_cores_with_decoding() -> None:
    rates = {"all threads": rate("all threads", 100), "cache": rate("cache", 5000)}
    advice = advise_cache(rates, [wait("decoding", 0.01, seconds=30), wait("cache", 0.01, seconds=10)], 1)
    assert advice.helps
    assert "takes 10.0 s in place of 30.0" in advice.reason


def test_more_threads_help_where_cores_lie_idle() -> None:
    rates = {"one thread": rate("one thread", 10, 1), "all threads": rate("all threads", 10, 1)}
    advice = advise_workers(rates | {"cores": rate("cores", 38, 4)}, cores=4)
    assert (advice.helps, advice.gain) == (True, 3.8)
    assert "4 threads: 38.0" in advice.reason
    assert advise_workers(rates, cores=1) == Advice(
        what="workers",
        helps=False,
        gain=1.0,
        reason="1 thread: 10.0 clips/s, 1.00 times as many as one thread, on 1 usable core",
    )


def test_reencoding_is_judged_by_the_time_of_a_clip() -> None:
    trial = TranscodeTrial(
        num_videos=2, seconds_before=0.1, seconds_after=0.02, bytes_before=4_000_000, bytes_after=1_000_000
    )
    advice = advise_transcode(trial)
    assert (advice.helps, advice.gain) == (True, pytest.approx(5))
    assert "2 videos" in advice.reason
    assert "1.0 MB in place of 4.0 MB" in advice.reason
    assert not advise_transcode(replace(trial, seconds_after=0.1)).helps
    assert advise_transcode(None).gain is None
