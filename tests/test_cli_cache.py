"""`clipfeed cache`, and `clipfeed train --cache`: frames made ahead, looked at, removed, handed out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import clipfeed as cf
from clipfeed import load
from clipfeed.cache import list_packs
from clipfeed.cli import cache as command
from clipfeed.cli._app import app
from clipfeed.cli._say import path_of
from clipfeed.testing import make_tree, truncate_file

CLIP = ("--num-frames", 4, "--image-size", 16, 16)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def call_json(*words: object) -> dict[str, object]:
    return json.loads(call(*words, "--json").stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "videos"
    make_tree(root, classes=("run", "walk"), sources_per_class=3, clips_per_source=1, num_frames=12)
    return root


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    return tmp_path / "frames"


def damage(frames: Path) -> None:
    (path,) = frames.rglob("frames.npy")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


# build


def test_build_says_what_is_needed_and_free_and_then_keeps_every_clip(data: Path, frames: Path) -> None:
    done = call("cache", "build", data, "--cache", frames, *CLIP)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("needed: 19.2 KB for all videos; free: ")
    assert lines[0].endswith(f"({frames})")
    assert lines[-1] == "all 6 videos are there, 6 of them new"
    (pack,) = list_packs(frames)
    assert (pack.num_filled, pack.is_in_use) == (6, False)


def test_a_second_build_says_that_all_is_there_and_decodes_nothing(
    data: Path, frames: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call_json("cache", "build", data, "--cache", frames, *CLIP)
    monkeypatch.setattr(load, "_decode", lambda *_: pytest.fail("a clip was decoded"))
    second = call_json("cache", "build", data, "--cache", frames, *CLIP)
    assert (first["num_there_before"], first["num_there"]) == (0, 6)
    assert (second["num_there_before"], second["num_there"]) == (6, 6)
    assert second["pack"] == first["pack"]
    assert "all 6 videos are there, 0 of them new" in call("cache", "build", data, "--cache", frames, *CLIP).stdout


def test_the_facade_finds_what_was_built(data: Path, frames: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    call("cache", "build", data, "--cache", frames, *CLIP, "--all-frames")
    monkeypatch.setattr(load, "_decode", lambda *_: pytest.fail("a clip was decoded"))
    monkeypatch.setattr(load, "_decode_all", lambda *_: pytest.fail("a video was decoded"))
    for sampling in ("uniform", cf.Segments()):
        made = cf.video_dataset_from_directory(
            data, num_frames=4, image_size=16, sampling=sampling, seed=1, format="numpy", cache=frames, verbose=False
        )
        assert sum(len(clips) for clips, _ in made) == 6


def test_what_cannot_be_kept_is_listed_to_the_last_and_the_exit_code_is_1(tmp_path: Path, frames: Path) -> None:
    videos = make_tree(tmp_path / "data", classes=("run",), sources_per_class=3, clips_per_source=1, num_frames=30)
    make_tree(tmp_path / "data", classes=("walk",), sources_per_class=1, clips_per_source=1, num_frames=3)
    (tmp_path / "data" / "run" / "no.avi").write_text("no video")
    cf.build_index(tmp_path / "data")
    content = videos[0].path.read_bytes()  # changed behind the index's back, in size and time as before
    times = videos[0].path.stat()
    videos[0].path.write_bytes(bytes(len(content)))
    os.utime(videos[0].path, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = call("cache", "build", tmp_path / "data", "--cache", frames, *CLIP)
    assert done.exit_code == 1
    assert "2 of 3 videos are there, 2 of them new" in done.stdout
    for name in ("no.avi", "walk/source00_clip0.avi", videos[0].key):
        assert sum(name in line for line in done.stdout.splitlines()) == 1, done.stdout
    facts = call_json("cache", "build", tmp_path / "data", "--cache", frames, *CLIP)
    assert {Path(str(row["path"])).name for row in facts["left_out"]} >= {"no.avi"}  # type: ignore[index, attr-defined]


def test_a_cap_keeps_a_part_and_says_so(data: Path, frames: Path) -> None:
    facts = call_json("cache", "build", data, "--cache", frames, *CLIP, "--max-bytes", "12KB")
    assert 0 < facts["num_there"] < facts["num_videos"] == 6  # type: ignore[operator]
    (note,) = facts["notes"]  # type: ignore[misc]
    assert "stay uncached: max_bytes leaves " in note
    again = call("cache", "build", data, "--cache", frames, *CLIP, "--max-bytes", "12KB")
    assert again.exit_code == 1
    assert f"{facts['num_there']} of 6 videos are there, 0 of them new" in again.stdout


def test_a_damaged_entry_is_made_again_by_building(data: Path, frames: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    damage(frames)
    assert call("cache", "info", "--cache", frames, "--verify").exit_code == 1
    assert call("cache", "build", data, "--cache", frames, *CLIP).exit_code == 0
    assert call("cache", "info", "--cache", frames, "--verify").exit_code == 0


def test_jpeg_needs_are_an_estimate(data: Path, frames: Path) -> None:
    done = call("cache", "build", data, "--cache", frames, *CLIP, "--codec", "jpeg")
    assert done.exit_code == 0
    assert done.stdout.startswith("needed: about ")
    assert len(list(frames.rglob("*.jpegs"))) == 6


def test_without_a_folder_the_users_cache_is_meant(data: Path) -> None:
    for words in ((), ("--cache", "disk")):
        place = str(call_json("cache", "build", data, *CLIP, *words)["pack"])
        assert Path(place).parent == cf.Cache().folder
    assert call_json("cache", "info")["folder"] == str(cf.Cache().folder)


# info


def test_info_shows_each_pack_and_verify_its_soundness(data: Path, frames: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    call("cache", "build", data, "--cache", frames, *CLIP, "--all-frames", "--codec", "jpeg")
    done = call("cache", "info", "--cache", frames)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{frames}: 2 packs, ")
    assert "clips of 4  16 x 16 x 3  Uniform()  raw" in done.stdout
    assert "all frames  16 x 16 x 3  any        jpeg" in done.stdout
    assert "sound" not in done.stdout
    facts = call_json("cache", "info", "--cache", frames, "--verify")
    for pack in facts["packs"]:  # type: ignore[attr-defined]
        assert (pack["num_entries"], pack["num_filled"], pack["num_sound"], pack["damaged"]) == (6, 6, 6, [])


def test_info_names_part_row_and_video_of_damage(data: Path, frames: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    damage(frames)
    assert call("cache", "info", "--cache", frames).exit_code == 0  # without --verify nothing is read
    done = call("cache", "info", "--cache", frames, "--verify")
    assert done.exit_code == 1
    assert "row 5: walk/source02_clip0.avi: its frames are not what was written" in done.stdout
    (pack,) = call_json("cache", "info", "--cache", frames, "--verify")["packs"]  # type: ignore[misc]
    assert pack["num_sound"] == 5
    assert [entry["key"] for entry in pack["damaged"]] == ["walk/source02_clip0.avi"]


def test_info_sees_a_part_that_is_cut_without_reading_it(data: Path, frames: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    truncate_file(next(frames.rglob("frames.npy")), 0.5)
    done = call("cache", "info", "--cache", frames)
    assert done.exit_code == 1
    assert "frames.npy has " in done.stdout


def test_info_on_nothing_is_fine(frames: Path) -> None:
    done = call("cache", "info", "--cache", frames, "--verify")
    assert done.exit_code == 0
    assert "0 packs, 0 bytes" in done.stdout
    assert not frames.exists()


# clear


def test_clear_removes_packs_and_counts_their_bytes(data: Path, frames: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    (frames / "mine.txt").write_text("mine")
    (pack,) = list_packs(frames)
    assert call_json("cache", "clear", "--cache", frames, "--unused-days", 1)["removed"] == []
    assert call("cache", "clear", "--cache", frames, "--pack", "0" * 32).exit_code == 2
    facts = call_json("cache", "clear", "--cache", frames, "--pack", pack.name[:8])
    assert facts == {"removed": [pack.folder], "num_bytes": pack.num_bytes, "left": []}
    assert [path.name for path in frames.iterdir()] == ["mine.txt"]
    assert "0 packs removed" in call("cache", "clear", "--cache", frames).stdout


def test_clear_leaves_and_names_what_is_in_use(data: Path, frames: Path) -> None:
    held = cf.VideoDataset(cf.build_index(data), cf.ClipSpec(num_frames=4), cache=cf.Cache(frames))
    done = call("cache", "clear", "--cache", frames)
    assert done.exit_code == 1
    assert call("cache", "info", "--cache", frames).stdout.startswith(f"{frames}: 1 pack, ")
    assert "a process has it open" in done.stdout
    assert held.kept is not None
    assert Path(held.kept.opened.place).is_dir()


# export


def test_export_writes_one_file_a_video(data: Path, frames: Path, tmp_path: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    done = call("cache", "export", "--npy", tmp_path / "out", "--cache", frames)
    assert done.exit_code == 0
    assert done.stdout.startswith("6 files, ")
    for path in sorted(data.rglob("*.avi")):
        values = np.load(tmp_path / "out" / f"{path.relative_to(data)}.npy")
        np.testing.assert_array_equal(values, cf.load_video(path, num_frames=4, image_size=16))
    facts = call_json("cache", "export", "--npy", tmp_path / "bytes", "--cache", frames, "--dtype", "uint8")
    assert (facts["num_files"], facts["left_out"]) == (6, [])
    assert np.load(next((tmp_path / "bytes").rglob("*.npy"))).dtype == np.uint8


def test_export_asks_which_pack_where_there_are_two(data: Path, frames: Path, tmp_path: Path) -> None:
    assert call("cache", "export", "--npy", tmp_path / "out", "--cache", frames).exit_code == 2
    call("cache", "build", data, "--cache", frames, *CLIP)
    call("cache", "build", data, "--cache", frames, *CLIP, "--sampling", "stride")
    done = call("cache", "export", "--npy", tmp_path / "out", "--cache", frames)
    assert done.exit_code == 2
    names = [pack.name for pack in list_packs(frames)]
    assert all(name in done.stderr for name in names)
    assert call("cache", "export", "--npy", tmp_path / "out", "--cache", frames, "--pack", names[1]).exit_code == 0


def test_export_lists_what_is_damaged(data: Path, frames: Path, tmp_path: Path) -> None:
    call("cache", "build", data, "--cache", frames, *CLIP)
    damage(frames)
    done = call("cache", "export", "--npy", tmp_path / "out", "--cache", frames)
    assert done.exit_code == 1
    assert "walk/source02_clip0.avi: its frames are not what was written" in done.stdout
    assert "5 files" in done.stdout


# Wrong use


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("build", "nowhere"), "nowhere"),
        (("build", ""), "an empty path names nothing"),
        (("build", ".", "--cache", ""), "an empty path names nothing"),
        (("build", ".", "--cache", "memory"), "ends with its process"),
        (("build", ".", "--max-bytes", "many"), "max_bytes='many'"),
        (("build", ".", "--codec", "png"), "png"),
        (("build", ".", "--all-frames", "--sampling", "uniform"), "--sampling with --all-frames"),
        (("info", "--cache", ""), "an empty path names nothing"),
        (("info", "--cache", "memory"), "ends with its process"),
        (("clear", "--cache", ""), "an empty path names nothing"),
        (("clear", "--unused-days", "-1"), "unused-days"),
        (("export",), "--npy"),
        (("export", "--npy", ""), "an empty path names nothing"),
    ],
)
def test_wrong_use_gives_one_message_and_exit_code_2(
    words: tuple[str, ...], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("cache", *words)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert "Traceback" not in done.output
    assert not list(tmp_path.iterdir())


def test_paths_of_the_sub_commands_are_read_as_those_of_the_others() -> None:
    names = [entry.callback.__name__ for entry in command.app.registered_commands if entry.callback]
    assert names == ["build", "info", "clear", "export"]
    for entry in command.app.registered_commands:
        hints = get_type_hints(entry.callback, include_extras=True)
        for hint in (hint for hint in hints.values() if "pathlib.Path" in str(hint)):
            (option,) = hint.__metadata__
            assert option.parser is path_of


# train


def test_train_keeps_frames_and_goes_on_without_them(data: Path, frames: Path, tmp_path: Path) -> None:
    def train(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "clipfeed", "train", *(str(word) for word in words)]
        return subprocess.run(line, capture_output=True, text=True, timeout=120)

    run = tmp_path / "run"
    done = train(data, "--run", run, "--epochs", 1, "--model", "conv3d", *CLIP, "--cache", frames)
    assert done.returncode == 0, done.stderr
    assert f"cache: 19.2 KB for all videos, in {frames}" in done.stdout
    assert [pack.num_filled for pack in list_packs(frames)] == [6]
    assert call("cache", "clear", "--cache", frames).exit_code == 0
    assert train("--resume", "--run", run, "--epochs", 2).returncode == 0
    as_jpeg = train("--resume", "--run", run, "--epochs", 3, "--cache", frames, "--cache-codec", "jpeg")
    assert as_jpeg.returncode == 2
    assert "frames as they were decoded" in as_jpeg.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--cache", ""), "an empty path names nothing"),
        (("--cache-codec", "jpeg"), "pass --cache"),
        (("--cache-max-bytes", "1GB"), "pass --cache"),
        (("--cache", "frames", "--cache-max-bytes", "none"), "max_bytes='none'"),
    ],
)
def test_cache_options_of_train_that_make_no_sense_are_refused_before_anything_is_read(
    words: tuple[str, ...], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("train", "nowhere", *words)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert not list(tmp_path.iterdir())
