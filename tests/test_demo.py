"""The demo's data set: classes that differ in motion only, the same bytes each time, HMDB51's layout; and the demo."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.demo import CLASSES, DemoOptions, DemoSize, run_demo, write_demo_videos
from clipfeed.demo.files import write_frames
from clipfeed.demo.motion import FRAME_SIZE, Film, draw_background, draw_film, render
from clipfeed.names import parse_hmdb51
from clipfeed.seeds import generator

# Keras saves TensorFlow's variables in a way that NumPy 2 will not take for ever.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

NUM_FILMS = 50  # of each class, none of them twice
TINY = DemoSize(num_sources=4, clips_per_source=1)


def film_of(number: int) -> Film:
    rng = generator(0, 0, "test", number)
    return draw_film(rng, draw_background(rng))


# One frame tells nothing


def test_the_first_frame_is_the_same_for_every_motion() -> None:
    film = film_of(0)
    first = [render(film, name)[0] for name in CLASSES]
    assert all(np.array_equal(frame, first[0]) for frame in first)


@pytest.mark.parametrize("class_name", CLASSES)
def test_every_frame_of_every_motion_is_as_likely_as_a_first_frame(class_name: str) -> None:
    """A frame equals the first frame of the film whose shapes begin where this one's have come to.

    The shift does not depend on where a shape begins, and every beginning on the torus is equally likely: so frame t
    has the distribution of frame 0, which is the same for every class.
    """
    film = film_of(1)
    frames = render(film, class_name)
    for number in (0, 7, film.num_frames - 1):
        moved = [
            replace(shape, start=place_at(film, place, class_name, number)) for place, shape in enumerate(film.shapes)
        ]
        assert np.array_equal(frames[number], render(replace(film, shapes=tuple(moved)), CLASSES[0])[0])


def place_at(film: Film, place: int, class_name: str, number: int) -> tuple[int, int]:
    """Find where a shape has come to, by looking: alone on black, wherever it begins, by the same way."""
    alone = replace(film.shapes[place], texture=np.full_like(film.shapes[place].texture, 255))
    black = np.zeros((*FRAME_SIZE, 3), np.uint8)
    shifts = set()
    for start in ((0, 0), (40, 70), alone.start):
        seen = render(
            Film(background=black, shapes=(replace(alone, start=start),), num_frames=film.num_frames), class_name
        )
        shifts.add(shift_between(seen[0], seen[number]))
    assert len(shifts) == 1, "the way of a shape depends on where it begins"
    shift = shifts.pop()
    return tuple((alone.start[axis] + shift[axis]) % FRAME_SIZE[axis] for axis in (0, 1))


def shift_between(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """Circular shift, by the peak of the cross-correlation."""
    spectra = (np.fft.fft2(frame[..., 0].astype(float)) for frame in (before, after))
    first, second = spectra
    peak = np.fft.ifft2(second * first.conj()).real.argmax()
    return tuple(int(side) for side in np.unravel_index(peak, FRAME_SIZE))


def test_statistics_of_single_frames_do_not_differ_between_classes() -> None:
    """Brightness, contrast, edges and where things are, of the twelfth frame of many films: no class stands out."""
    features = np.array([[frame_features(number, name) for number in range(NUM_FILMS)] for name in CLASSES])
    within = features.std(axis=1).mean(axis=0) / np.sqrt(features.shape[1])
    deviations = np.abs(features.mean(axis=1) - features.mean(axis=(0, 1))) / within
    assert deviations.max() < 4.5  # of 6 x 16 means, in their standard errors
    assert deviations.mean() < 1.0  # 0.73 is what chance gives


def frame_features(number: int, class_name: str) -> np.ndarray:
    film = film_of(1000 + NUM_FILMS * CLASSES.index(class_name) + number)
    frame = render(replace(film, num_frames=12), class_name)[11].astype(float).mean(axis=-1)
    edges = [np.abs(np.diff(frame, axis=axis)).mean() for axis in (0, 1)]
    quarters = frame.reshape(2, 32, 2, 40).mean(axis=(1, 3)).ravel()
    gradients = [np.diff(frame, axis=axis).mean() for axis in (0, 1)]
    percentiles = np.percentile(frame, [1, 10, 25, 50, 75, 99])
    return np.array([frame.mean(), frame.std(), *edges, *quarters, *gradients, *percentiles])


def test_motions_that_look_alike_in_a_frame_differ_in_time() -> None:
    film = film_of(2)
    films = [render(film, name) for name in CLASSES]
    for one in range(len(films)):
        for other in range(one):
            assert not np.array_equal(films[one][8], films[other][8])
    left, right = (render(film, f"move_{side}") for side in ("left", "right"))
    assert not np.array_equal(left, right[::-1])


def test_a_frame_is_stored_without_a_trace_of_its_neighbours(tmp_path: Path) -> None:
    frames = render(film_of(3), "move_left")
    write_frames(tmp_path / "forward.avi", frames)
    write_frames(tmp_path / "backward.avi", frames[::-1])
    height, width = FRAME_SIZE
    forward, backward = (
        cf.load_video(tmp_path / name, num_frames=len(frames), image_size=(height, width), dtype="uint8")
        for name in ("forward.avi", "backward.avi")
    )
    assert np.array_equal(forward, backward[::-1])
    assert np.abs(forward.astype(int) - frames).mean() < 6  # and it is this frame: what MPEG-4 at 4:2:0 leaves of it


# On disk


def test_the_layout_and_the_names_are_those_of_hmdb51(tmp_path: Path) -> None:
    size = write_demo_videos(tmp_path, size=DemoSize(num_sources=2, clips_per_source=2))
    assert size.num_videos == 24
    index = cf.build_index(tmp_path)
    assert index.class_names == CLASSES
    assert len(index) == 24
    assert not index.failures
    names = [parse_hmdb51(Path(path).name) for path in index.paths]
    assert all(name is not None for name in names)
    assert Counter(index.groups) == dict.fromkeys(set(index.groups), 12)
    assert len(set(index.groups)) == 2


def test_the_default_size_is_what_the_demo_promises() -> None:
    size = DemoSize()
    assert len(CLASSES) >= 6
    assert size.num_sources >= 8
    assert size.clips_per_source >= 3
    assert size.num_videos * 0.2 >= 100


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones(tmp_path: Path) -> None:
    one = DemoSize(num_sources=1, clips_per_source=1)
    for name, seed, workers in (("a", 0, 1), ("b", 0, 2), ("c", 1, 2)):
        write_demo_videos(tmp_path / name, seed=seed, size=one, workers=workers)
    contents = {name: [path.read_bytes() for path in sorted((tmp_path / name).rglob("*.avi"))] for name in "abc"}
    assert contents["a"] == contents["b"]
    assert not set(contents["a"]) & set(contents["c"])


def test_videos_are_written_again_over_themselves_and_never_over_other_things(tmp_path: Path) -> None:
    one = DemoSize(num_sources=1, clips_per_source=1)
    steps: list[tuple[int, int]] = []
    write_demo_videos(tmp_path / "demo", size=one)
    write_demo_videos(tmp_path / "demo", size=one, progress=lambda *step: steps.append(step))
    assert steps == [(number, 6) for number in range(1, 7)]
    with pytest.raises(cf.LayoutError, match="holds a demo of another seed or size"):
        write_demo_videos(tmp_path / "demo", seed=1, size=one)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(cf.LayoutError, match="holds something that is no demo"):
        write_demo_videos(tmp_path / "mine", size=one)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"workers": 0}, "workers=0: expected"),
        ({"workers": "2"}, "workers='2': expected"),
        ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"directory": ""}, "directory='': an empty path"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    arguments: dict[str, object], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=named):
        write_demo_videos(**{"directory": tmp_path / "demo", "size": TINY, **arguments})
    assert not list(tmp_path.iterdir())


def test_a_demo_into_an_empty_path_or_with_no_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="directory='': an empty path"):
        run_demo("")
    with pytest.raises(ValueError, match="seed='one': expected a whole number"):
        DemoOptions(seed="one")


def test_a_seed_below_zero_is_a_seed(tmp_path: Path) -> None:
    write_demo_videos(tmp_path, seed=np.int64(-5), size=TINY)
    assert json.loads((tmp_path / "clipfeed-demo.json").read_text())["seed"] == -5


# The demo


def test_the_demo_does_the_whole_job_and_reports_it(tmp_path: Path) -> None:
    epochs: list[tuple[str, float]] = []
    steps: set[str] = set()
    report = run_demo(
        tmp_path / "demo",
        options=DemoOptions(seed=1, epochs=1, size=TINY, num_frames=2, image_size=(8, 8)),
        progress=lambda what, done, total: steps.add(what) if done <= total else None,
        on_epoch=lambda name, row: epochs.append((name, row.epoch)),
    )
    assert epochs == [("video", 0), ("frame", 0)]
    assert {"writing videos", "training on 2 frames a video", "training on 1 frame a video"} <= steps
    assert report.chance == pytest.approx(1 / 6)
    assert [part.leak_rate for part in report.split.parts] == [None, 0.0]
    assert report.video_run.evaluation.paths == report.frame_run.evaluation.paths
    assert 0 <= report.accuracy <= 1
    assert 0 <= report.frame_accuracy <= 1
    assert report.video_run.config.clips.num_frames == 2
    assert report.frame_run.config.clips.num_frames == 1
    assert set(report.seconds) == {"write", "index", "video", "frame"}
    with pytest.raises(FileExistsError, match="holds a run already"):
        run_demo(tmp_path / "demo", options=DemoOptions(seed=1, size=TINY))
