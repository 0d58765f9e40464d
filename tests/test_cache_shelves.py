"""What lies in a cache folder can be listed, verified, exported and cleared away without the data set."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.cache import (
    PackKey,
    VerifiedPack,
    choose_pack,
    clear_packs,
    export_pack,
    list_packs,
    opening,
    room,
    verify_packs,
)
from clipfeed.testing import make_tree, write_numbered_video

NUM_VIDEOS, NUM_FRAMES, T = 6, 12, 4
KINDS = [("raw", "uniform"), ("raw", cf.Segments()), ("jpeg", "uniform"), ("jpeg", cf.Segments())]
every_kind = pytest.mark.parametrize(
    ("codec", "sampling"), KINDS, ids=["raw-clips", "raw-all", "jpeg-clips", "jpeg-all"]
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "videos"
    make_tree(root, classes=("run", "walk"), sources_per_class=3, clips_per_source=1, num_frames=NUM_FRAMES)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "frames"


def dataset(data: Path, folder: Path, *, rows: list[int] | None = None, **options: object) -> cf.VideoDataset:
    cache = {name: options.pop(name) for name in ("codec", "max_bytes") if name in options}
    index = cf.build_index(data)
    return cf.VideoDataset(
        index if rows is None else index.select(rows),
        cf.ClipSpec(num_frames=T, image_size=16, **options),  # type: ignore[arg-type]
        training=False,
        cache=cf.Cache(folder, **cache),  # type: ignore[arg-type]
    )


def fill(data: Path, folder: Path, **options: object) -> None:
    """Fill a pack, and let go of it."""
    made = dataset(data, folder, **options)
    assert not made.fill_cache()


def only(folder: Path) -> Path:
    """The folder of the one pack."""
    (pack,) = list_packs(folder)
    return Path(pack.folder)


def verified(folder: Path) -> VerifiedPack:
    (pack,) = verify_packs(folder)
    return pack


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def snapshot(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


# List


@every_kind
def test_a_pack_is_listed_with_what_it_is_of_and_how_full_it_is(
    data: Path, folder: Path, codec: str, sampling: object
) -> None:
    before = time.time()
    fill(data, folder, codec=codec, sampling=sampling, rows=[0, 2])
    (pack,) = list_packs(folder)
    assert (pack.num_entries, pack.num_filled) == (NUM_VIDEOS, 2)
    assert pack.key is not None
    assert pack.key.frame_shape == (16, 16, 3)
    assert pack.key.clip_length == (T if sampling == "uniform" else None)
    assert dict(pack.key.fields)["codec"] == codec
    assert pack.key.digest == pack.name
    if codec == "raw":  # its place is reserved
        assert pack.num_bytes >= NUM_VIDEOS * (pack.key.clip_length or NUM_FRAMES) * pack.key.frame_bytes
    assert pack.num_bytes >= sum(len(data) for data, _ in snapshot(Path(pack.folder)).values())
    assert before - 1 <= pack.last_used <= time.time() + 1
    assert pack.problems == ()


def test_no_folder_and_an_empty_one_have_no_packs(folder: Path) -> None:
    assert list_packs(folder) == verify_packs(folder) == ()
    folder.mkdir()
    assert list_packs(folder) == verify_packs(folder) == ()


def test_the_pack_used_longest_ago_stands_first(data: Path, folder: Path) -> None:
    for length in (3, 4, 5):
        made = cf.VideoDataset(cf.build_index(data), cf.ClipSpec(num_frames=length), cache=cf.Cache(folder))
        assert made.kept is not None
        os.utime(folder / Path(made.kept.opened.place) / "used", (1e9 - length, 1e9 - length))
    assert [pack.key.clip_length for pack in list_packs(folder) if pack.key] == [5, 4, 3]


@every_kind
def test_a_pack_is_in_use_for_as_long_as_a_dataset_has_it_open(
    data: Path, folder: Path, codec: str, sampling: object
) -> None:
    made = dataset(data, folder, codec=codec, sampling=sampling)
    assert list_packs(folder)[0].is_in_use
    del made
    gc.collect()
    assert not list_packs(folder)[0].is_in_use


def test_a_pack_in_use_by_another_process_is_known_as_such(data: Path, folder: Path) -> None:
    fill(data, folder)
    code = (
        "import sys; from pathlib import Path; from clipfeed.cache.room import hold_pack\n"
        "hold_pack(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(only(folder))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert list_packs(folder)[0].is_in_use
        (left,) = clear_packs(folder).left
        assert left.reason == "a process has it open"
        other.communicate()
    assert clear_packs(folder).left == ()


@every_kind
def test_looking_changes_nothing(data: Path, folder: Path, tmp_path: Path, codec: str, sampling: object) -> None:
    fill(data, folder, codec=codec, sampling=sampling)
    before = snapshot(folder)
    verify_packs(folder)
    export_pack(list_packs(folder)[0], tmp_path / "out")
    assert snapshot(folder) == before


# Verify


@every_kind
def test_a_filled_pack_is_sound_and_a_half_filled_one_as_well(
    data: Path, folder: Path, codec: str, sampling: object
) -> None:
    fill(data, folder, codec=codec, sampling=sampling, rows=[1])
    pack = verified(folder)
    assert (pack.num_sound, pack.num_not_filled, pack.damaged) == (1, NUM_VIDEOS - 1, ())
    assert pack.is_sound
    seen: list[tuple[int, int]] = []
    fill(data, folder, codec=codec, sampling=sampling)
    verify_packs(folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, NUM_VIDEOS) for done in range(1, NUM_VIDEOS + 1)]
    assert verified(folder).num_sound == NUM_VIDEOS


# File, and where in it a byte of the last row lies, from the end.
DAMAGE = {"frames.npy": -1, "state.bin": -1, "rows.npy": -1}


@pytest.mark.parametrize("sampling", ["uniform", cf.Segments()])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_flipped_byte_costs_one_entry_which_is_named_and_then_made_again(
    data: Path, folder: Path, name: str, sampling: object
) -> None:
    fill(data, folder, sampling=sampling)
    (part,) = only(folder).glob("part-*")
    flip(part / name, DAMAGE[name])
    pack = verified(folder)
    (entry,) = pack.damaged
    assert (pack.num_sound, pack.is_sound, pack.facts.problems) == (NUM_VIDEOS - 1, False, ())
    assert entry.place == f"{part.name}, row {NUM_VIDEOS - 1}"
    assert entry.key == cf.build_index(data).records[-1].key
    assert entry.reason.endswith("what was written")
    fill(data, folder, sampling=sampling)
    assert sum(p.num_sound for p in verify_packs(folder)) == NUM_VIDEOS


@pytest.mark.parametrize("field", range(4))
def test_a_flipped_byte_anywhere_in_a_record_is_damage_and_not_an_empty_place(
    data: Path, folder: Path, field: int
) -> None:
    fill(data, folder)
    (part,) = only(folder).glob("part-*")
    flip(part / "state.bin", 4 * field)  # is_filled, checksum, frame indices of the first row
    (entry,) = verified(folder).damaged
    assert entry.place == f"{part.name}, row 0"
    assert "state.bin" in entry.reason


@pytest.mark.parametrize("harm", ["cut", "longer", "missing"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_part_that_is_cut_is_named_and_other_packs_are_sound(data: Path, folder: Path, name: str, harm: str) -> None:
    fill(data, folder)
    (part,) = only(folder).glob("part-*")
    fill(data, folder, short_videos="wrap")
    path = part / name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3] if harm == "cut" else path.read_bytes() + b"more")
    packs = {pack.facts.folder: pack for pack in verify_packs(folder)}
    harmed = packs.pop(str(part.parent))
    assert not harmed.is_sound
    assert str(path) in harmed.facts.problems[0]
    assert [pack.is_sound for pack in packs.values()] == [True]
    with pytest.warns(cf.CacheWarning):
        fill(data, folder)
    assert all(pack.is_sound for pack in verify_packs(folder))


@pytest.mark.parametrize("harm", ["flip", "cut", "empty"])
def test_a_jpeg_file_that_is_not_what_was_written_is_damaged(data: Path, folder: Path, harm: str) -> None:
    fill(data, folder, codec="jpeg")
    path = next(only(folder).rglob("*.jpegs"))
    whole = path.read_bytes()
    if harm == "flip":
        flip(path, len(whole) // 2)
    else:
        path.write_bytes(whole[:-1] if harm == "cut" else b"")
    pack = verified(folder)
    (entry,) = pack.damaged
    assert pack.num_sound == NUM_VIDEOS - 1
    assert entry.place == f"{path.parent.name}/{path.name}"
    assert entry.key in {record.key for record in cf.build_index(data).records}
    fill(data, folder, codec="jpeg")
    assert path.read_bytes() == whole


def test_a_pack_without_a_description_is_no_pack_and_one_with_a_wrong_one_is_damaged(data: Path, folder: Path) -> None:
    fill(data, folder)
    pack = only(folder)
    about = (pack / "pack.json").read_text()
    for wrong in ("", "{}", "[]", about.replace('"format": 1', '"format": 2'), about.replace("Uniform()", "Stride()")):
        (pack / "pack.json").write_text(wrong)
        found = verified(folder)
        assert found.facts.key is None
        assert "pack.json" in found.facts.problems[0]
        assert not found.is_sound
    fill(data, folder)
    assert verified(folder).is_sound
    (pack / "pack.json").unlink()
    assert list_packs(folder) == ()


def test_a_table_that_names_no_videos_is_a_problem_and_costs_no_frame(data: Path, folder: Path, tmp_path: Path) -> None:
    fill(data, folder)
    (part,) = only(folder).glob("part-*")
    (part / "rows.csv").unlink()
    found = verified(folder)
    assert "rows.csv" in found.facts.problems[0]
    assert (found.num_sound, found.damaged) == (NUM_VIDEOS, ())
    exported = export_pack(found.facts, tmp_path / "out")
    assert exported.num_files == 0
    assert len(exported.left_out) == NUM_VIDEOS + 1


@pytest.mark.parametrize("harm", ["missing", "cut", "no table"])
def test_jpeg_files_that_no_table_names_are_verified_and_get_their_names_back(
    data: Path, folder: Path, tmp_path: Path, harm: str
) -> None:
    fill(data, folder, codec="jpeg")
    (table,) = only(folder).glob("entries-*.csv")
    whole = table.read_text()
    if harm == "missing":
        table.unlink()
    else:
        table.write_text(whole[: whole.index("source01") + 3] if harm == "cut" else '"' + whole)  # in mid-path
    found = verified(folder)
    assert (found.num_sound, found.facts.num_filled, found.damaged) == (NUM_VIDEOS, NUM_VIDEOS, ())
    nameless = export_pack(found.facts, tmp_path / "out").left_out
    assert {failure.reason for failure in nameless} == {"nothing says which video it is"}
    fill(data, folder, codec="jpeg")
    done = export_pack(list_packs(folder)[0], tmp_path / "out")
    assert (done.num_files, done.left_out) == (NUM_VIDEOS, ())
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.npy")}
    assert files == {f"{record.key}.npy" for record in cf.build_index(data).records}


# Clear


def test_clearing_removes_every_pack_and_nothing_else(data: Path, folder: Path) -> None:
    fill(data, folder)
    fill(data, folder, codec="jpeg")
    ours = {pack.name for pack in list_packs(folder)}
    (folder / "notes.txt").write_text("mine")
    for name in ("films", "0" * 32, "1" * 32, "f" * 33):  # with some, never with all, of what a pack has
        (folder / name).mkdir()
        (folder / name / "film.avi").write_text("mine")
    (folder / "films" / "used").touch()
    (folder / "films" / "pack.json").touch()
    (folder / ("f" * 33) / "used").touch()
    (folder / ("f" * 33) / "pack.json").touch()
    (folder / ("0" * 32) / "used").touch()
    (folder / ("1" * 32) / "pack.json").touch()
    elsewhere = folder.parent / "elsewhere"
    shutil.copytree(folder / min(ours), elsewhere)
    (folder / ("a" * 32)).symlink_to(elsewhere)
    before = {path for path in folder.rglob("*") if not set(path.relative_to(folder).parts[:1]) & ours}
    cleared = clear_packs(folder)
    assert {pack.name for pack in cleared.removed} == ours
    assert cleared.left == ()
    assert set(folder.rglob("*")) == before
    assert (elsewhere / "used").exists()
    assert clear_packs(folder).removed == ()
    fill(data, folder)
    assert verified(folder).num_sound == NUM_VIDEOS


def test_a_pack_in_use_is_left_and_named(data: Path, folder: Path) -> None:
    fill(data, folder)
    made = dataset(data, folder, codec="jpeg")
    cleared = clear_packs(folder)
    assert made.kept is not None
    assert [failure.path for failure in cleared.left] == [made.kept.opened.place]
    assert len(cleared.removed) == 1
    assert not made.fill_cache()


def test_packs_that_were_not_used_for_some_days_go_and_those_in_use_do_not(data: Path, folder: Path) -> None:
    fill(data, folder)
    fill(data, folder, codec="jpeg")
    held = dataset(data, folder, sampling="stride")
    assert held.kept is not None
    days_ago = time.time() - 10 * 86_400
    for pack in list_packs(folder):
        if pack.key is not None and dict(pack.key.fields)["codec"] == "raw":
            os.utime(Path(pack.folder) / "used", (days_ago, days_ago))
    assert clear_packs(folder, unused_days=11).removed == ()
    cleared = clear_packs(folder, unused_days=9)
    assert [dict(pack.key.fields)["sampling"] for pack in cleared.removed if pack.key] == ["Uniform()"]
    assert cleared.left == ()
    assert {pack.name for pack in list_packs(folder)} >= {Path(held.kept.opened.place).name}
    assert len(list_packs(folder)) == 2


def test_one_pack_goes_by_how_its_name_begins(data: Path, folder: Path) -> None:
    fill(data, folder)
    fill(data, folder, codec="jpeg")
    first, second = list_packs(folder)
    for name, problem in (("no-such", "0 packs have a name"), ("", "2 packs have a name")):
        with pytest.raises(ValueError, match=problem) as caught:
            clear_packs(folder, name=name)
        assert first.name in str(caught.value)
        assert second.name in str(caught.value)
    assert [pack.name for pack in clear_packs(folder, name=second.name[:12]).removed] == [second.name]
    assert choose_pack(folder) == first


def test_a_removal_that_is_interrupted_leaves_what_is_still_known_as_a_pack(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(data, folder)
    pack = only(folder)

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as broken:
        broken.setattr(room.shutil, "rmtree", fail)
        (left,) = clear_packs(folder).left
    assert left.path == str(pack)
    assert "Input/output error" in left.reason
    assert only(folder) == pack
    assert clear_packs(folder).removed[0].name == pack.name
    assert not pack.exists()


# Export


@pytest.mark.parametrize("sampling", ["uniform", cf.Segments()])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_export_gives_the_pixels_that_a_video_has_in_the_tree_of_the_data_set(
    data: Path, folder: Path, tmp_path: Path, sampling: object, dtype: str
) -> None:
    fill(data, folder, sampling=sampling)
    out, seen = tmp_path / "out", []
    done = export_pack(
        list_packs(folder)[0],
        out,
        dtype=dtype,
        progress=lambda done, total: seen.append((done, total)),  # type: ignore[arg-type]
    )
    assert seen[-1] == (NUM_VIDEOS, NUM_VIDEOS)
    assert (done.num_files, done.num_older, done.left_out) == (NUM_VIDEOS, 0, ())
    records = cf.build_index(data).records
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert files == {f"{record.key}.npy" for record in records}
    assert done.num_bytes == sum((out / name).stat().st_size for name in files)
    length = T if sampling == "uniform" else NUM_FRAMES
    for record in records:
        values = np.load(out / f"{record.key}.npy")
        expected = cf.load_video(record.path, num_frames=length, image_size=16, dtype=dtype)  # type: ignore[arg-type]
        assert values.dtype == dtype
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("sampling", ["uniform", cf.Segments()])
def test_export_of_jpeg_gives_what_every_epoch_sees(data: Path, folder: Path, tmp_path: Path, sampling: object) -> None:
    made = dataset(data, folder, codec="jpeg", sampling=sampling)
    made.fill_cache()
    export_pack(list_packs(folder)[0], tmp_path, dtype="uint8")
    for batch in made.iter_epoch(0):
        for path, clip, chosen in zip(batch.paths, batch.clips, batch.frame_indices, strict=True):
            values = np.load(tmp_path / f"{Path(path).relative_to(data)}.npy")
            np.testing.assert_array_equal(values if sampling == "uniform" else values[chosen], clip)


def test_export_lists_what_is_not_there_and_what_is_damaged(data: Path, folder: Path, tmp_path: Path) -> None:
    fill(data, folder, rows=[0, 1, 2])
    (part,) = only(folder).glob("part-*")
    flip(part / "frames.npy", -1 - (NUM_VIDEOS - 1) * T * 16 * 16 * 3)
    done = export_pack(list_packs(folder)[0], tmp_path / "out")
    keys = [record.key for record in cf.build_index(data).records]
    assert {failure.path: failure.reason for failure in done.left_out} == {
        keys[0]: "its frames are not what was written",
        **dict.fromkeys(keys[3:], "not filled"),
    }
    assert {path.name for path in (tmp_path / "out").rglob("*.npy")} == {Path(key).name + ".npy" for key in keys[1:3]}
    assert not list((tmp_path / "out").rglob("*.partial"))


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_of_a_file_that_was_replaced_the_newer_frames_are_exported(tmp_path: Path, folder: Path, codec: str) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    (video, *_) = make_tree(data, classes=("run", "walk"), sources_per_class=1, clips_per_source=1, num_frames=8)
    fill(data, folder, codec=codec)
    write_numbered_video(video.path, num_frames=9, size=(48, 64), video_number=9)
    fill(data, folder, codec=codec)
    (pack,) = list_packs(folder)
    assert (pack.num_entries, pack.num_filled) == (3, 3)
    done = export_pack(pack, out, dtype="uint8")
    assert (done.num_files, done.num_older, done.left_out) == (2, 1, ())
    expected = cf.load_video(video.path, num_frames=T, image_size=16, dtype="uint8").astype(int)
    error = np.abs(np.load(out / f"{video.key}.npy").astype(int) - expected).mean()
    assert error == 0 if codec == "raw" else error < 4


def test_no_table_leads_out_of_the_folder_of_the_export(data: Path, folder: Path, tmp_path: Path) -> None:
    fill(data, folder)
    (table,) = only(folder).rglob("rows.csv")
    first, second, *_ = (record.key for record in cf.build_index(data).records)
    table.write_text(table.read_text().replace(first, "../out.avi").replace(second, str(tmp_path / "abs.avi")))
    done = export_pack(list_packs(folder)[0], tmp_path / "deep" / "out")
    assert [failure.path for failure in done.left_out] == ["../out.avi", str(tmp_path / "abs.avi")]
    outside = [path for path in tmp_path.rglob("*.npy") if "out" not in path.parts and folder not in path.parents]
    assert not outside


def test_names_with_any_bytes_are_exported_as_they_are(tmp_path: Path, folder: Path) -> None:
    data = tmp_path / "data"
    (video,) = make_tree(data, classes=("run",), sources_per_class=1, clips_per_source=1, num_frames=8)
    name = os.fsdecode(b'a, "b"\n\xe9.avi')
    video.path.rename(video.path.with_name(name))
    for codec in ("raw", "jpeg"):
        fill(data, folder, codec=codec)
        done = export_pack(choose_pack(folder), tmp_path / codec)
        assert done.left_out == ()
        assert [path.name for path in (tmp_path / codec / "run").iterdir()] == [f"{name}.npy"]
        clear_packs(folder)


def test_another_dtype_is_refused_before_anything_is_written(data: Path, folder: Path, tmp_path: Path) -> None:
    fill(data, folder)
    with pytest.raises(ValueError, match="float64"):
        export_pack(list_packs(folder)[0], tmp_path / "out", dtype="float64")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


# What stands behind it


def test_a_key_is_read_back_from_its_text(data: Path, folder: Path) -> None:
    fill(data, folder)
    key = list_packs(folder)[0].key
    assert key is not None
    assert PackKey.from_text(key.text) == key
    for wrong in ("", "null", key.text + " ", key.text.replace("clips", "videos")):
        with pytest.raises(ValueError, match=r"description of a pack|was changed"):
            PackKey.from_text(wrong)


def test_room_is_made_of_packs_and_of_nothing_else_that_lies_there(data: Path, folder: Path) -> None:
    (folder / "films").mkdir(parents=True)
    (folder / "films" / "used").touch()
    (folder / "films" / "film.avi").write_bytes(bytes(200_000))
    fill(data, folder, max_bytes=60_000)
    first = list_packs(folder)[0]
    assert first.num_filled == NUM_VIDEOS  # the film does not count
    fill(data, folder, max_bytes=60_000, sampling="stride")
    (second,) = list_packs(folder)
    assert second.name != first.name
    assert (folder / "films" / "film.avi").stat().st_size == 200_000


@pytest.mark.parametrize("moment", ["before it is held", "while it is described"])
def test_a_pack_that_somebody_removes_while_it_is_opened_is_made_again(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    fill(data, folder)
    name = "hold_pack" if moment == "before it is held" else "mark_used"
    real: Callable[[Path], object] = getattr(room, name)
    removed = []

    def interfere(pack: Path) -> object:
        if not removed:
            shutil.rmtree(pack)
            removed.append(pack)
        return real(pack)

    monkeypatch.setattr(opening, name, interfere)
    made = dataset(data, folder)
    assert removed
    assert not made.fill_cache()
    assert verified(folder).num_sound == NUM_VIDEOS
    assert list_packs(folder)[0].is_in_use


def test_a_pack_that_goes_while_its_lock_is_waited_for_is_not_taken_for_held(data: Path, folder: Path) -> None:
    fill(data, folder)
    pack = only(folder)
    descriptor = room.hold_pack(pack)
    os.close(descriptor)
    shutil.rmtree(pack)
    with pytest.raises(FileNotFoundError):
        room.hold_pack(pack)
    assert not room.is_held(pack)
    assert room.last_used(pack) == 0


def test_a_part_that_cannot_be_opened_now_is_not_thrown_away(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(data, folder)
    before = snapshot(folder)

    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(opening, "Part", fail)
        with pytest.warns(cf.CacheWarning, match="Too many open files"):
            made = dataset(data, folder)
        made.batch(0, 0)
    now = snapshot(folder)
    assert {path: now[path] for path in before if path.name != "used"} == {
        path: facts for path, facts in before.items() if path.name != "used"
    }
    assert verified(folder).num_sound == NUM_VIDEOS
