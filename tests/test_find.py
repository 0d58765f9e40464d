"""Which videos a folder holds, which classes they are of, and what is said of everything else."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from clipfeed.errors import LayoutError
from clipfeed.find import VIDEO_ENDINGS, FoundVideos, find_videos


def write(root: Path, *keys: str) -> Path:
    for key in keys:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def reasons(found: FoundVideos) -> dict[str, str]:
    assert all(failure.stage == "find" for failure in found.ignored)
    return {failure.path.removeprefix(f"{found.root}/"): failure.reason for failure in found.ignored}


def classes(found: FoundVideos) -> dict[str, str | None]:
    return {video.key: video.class_name for video in found}


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    """Give up root's rights for a while: root may read everything, and the test would pass for nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# Classes


def test_the_first_folder_is_the_class_and_deeper_ones_belong_to_it(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4", "run/2019/may/b.mp4", "walk/c.avi")
    found = find_videos(tmp_path, labels="inferred")
    assert classes(found) == {"run/2019/may/b.mp4": "run", "run/a.mp4": "run", "walk/c.avi": "walk"}
    assert found.class_names == ("run", "walk")
    assert found.parts == ()


def test_videos_come_by_key_parts_whatever_order_they_were_made_in(tmp_path: Path) -> None:
    keys = ["A/z.mp4", "a/x.mp4", "a/b/c.mp4", "a b/x.mp4", "é/x.mp4", "a/B.mp4", "日/x.mp4"]
    write(tmp_path / "one", *keys)
    write(tmp_path / "two", *reversed(keys))
    one, two = find_videos(tmp_path / "one"), find_videos(tmp_path / "two")
    assert one.keys == two.keys == sorted(keys, key=lambda key: key.split("/"))
    assert one.class_names == ("A", "a", "a b", "é", "日")


def test_the_result_is_a_sequence_with_keys_and_paths(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4", "run/b.mp4", "walk/c.mp4")
    found = find_videos(f"{tmp_path}/")
    assert len(found) == 3
    assert [video.key for video in found] == found.keys == ["run/a.mp4", "run/b.mp4", "walk/c.mp4"]
    assert found.paths == [f"{tmp_path}/{key}" for key in found.keys]
    assert found[-1].class_name == "walk"
    assert found[1:] == tuple(found)[1:]
    assert found[0] in found
    assert repr(found) == f"<FoundVideos of {tmp_path}/: 3 videos, 2 classes>"
    assert pickle.loads(pickle.dumps(found)).videos == found.videos


def test_a_video_carries_size_and_time(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4")
    os.utime(tmp_path / "run/a.mp4", ns=(1, 1_600_000_000_123_456_789))
    (video,) = find_videos(tmp_path)
    assert (video.size_bytes, video.mtime_ns) == (1, 1_600_000_000_123_456_789)


def test_an_empty_class_folder_is_reported_and_is_no_class(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4", "notes/readme.txt", "hidden only/.a.mp4")
    (tmp_path / "jump/deep").mkdir(parents=True)
    found = find_videos(tmp_path, labels="inferred")
    assert found.class_names == ("run",)
    assert found.empty_classes == ("hidden only", "jump", "notes")


def test_loose_files_are_reported_when_classes_are_inferred(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4", "loose.mp4", "walk/b.mp4")
    found = find_videos(tmp_path, labels="inferred")
    assert found.keys == ["run/a.mp4", "walk/b.mp4"]
    assert reasons(found) == {"loose.mp4": "lies beside the class folders, so it has no class"}


def test_without_inferred_labels_files_may_lie_anywhere(tmp_path: Path) -> None:
    write(tmp_path, "loose.mp4", "run/a.mp4", "run/deep/b.mp4")
    found = find_videos(tmp_path)
    assert classes(found) == {"loose.mp4": None, "run/a.mp4": "run", "run/deep/b.mp4": "run"}
    assert found.ignored == ()


def test_an_unknown_choice_of_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="labels='infered': expected one of 'inferred', None"):
        find_videos(write(tmp_path, "run/a.mp4"), labels="infered")


# Parts


@pytest.mark.parametrize(
    ("train", "val", "test"), [("train", "val", "test"), ("Training", "VALID", "Test"), ("TRAIN", "validation", "TEST")]
)
def test_folders_of_parts_stand_above_the_classes(tmp_path: Path, train: str, val: str, test: str) -> None:
    write(tmp_path, f"{train}/run/a.mp4", f"{train}/walk/x/b.mp4", f"{val}/run/c.mp4", f"{test}/run/d.mp4")
    found = find_videos(tmp_path, labels="inferred")
    assert found.parts == ("train", "val", "test")
    assert {video.key: (video.part, video.class_name) for video in found} == {
        f"{train}/run/a.mp4": ("train", "run"),
        f"{train}/walk/x/b.mp4": ("train", "walk"),
        f"{val}/run/c.mp4": ("val", "run"),
        f"{test}/run/d.mp4": ("test", "run"),
    }


def test_one_other_folder_with_videos_makes_all_of_them_classes(tmp_path: Path) -> None:
    write(tmp_path, "train/x/a.mp4", "bus/b.mp4")
    found = find_videos(tmp_path, labels="inferred")
    assert found.parts == ()
    assert found.class_names == ("bus", "train")


@pytest.mark.parametrize(
    "keys",
    [
        ["train/run/a.mp4", "val/run/b.mp4", "extra/c.mp4"],
        ["train/run/a.mp4", "val/run/b.mp4", "extra/run/c.mp4"],
        ["Training/run/a.mp4", "TEST/b.mp4", "extra/c.mp4"],
        ["train/a.mp4", "valid/run/b.mp4", "test/c.mp4", "extra/c.mp4"],
    ],
)
def test_parts_beside_another_folder_of_videos_are_refused_and_not_taken_for_classes(
    tmp_path: Path, keys: list[str]
) -> None:
    write(tmp_path, *keys)
    text = message(tmp_path)
    parts = sorted({key.split("/")[0] for key in keys} - {"extra"})
    assert all(repr(part) in text for part in parts)
    assert "look like parts, but 'extra' holds videos too" in text
    assert "├── run/" in text
    assert "fix: move 'extra' elsewhere or into a part" in text
    assert len(find_videos(tmp_path)) == len(keys)  # without classes files may lie anywhere


def test_many_folders_beside_parts_are_named_in_one_short_line(tmp_path: Path) -> None:
    write(tmp_path, "train/run/a.mp4", "val/run/b.mp4", *(f"more{number}/c.mp4" for number in range(9)))
    first = message(tmp_path).splitlines()[0]
    assert "but 'more0', 'more1', 'more2', 'more3', 'more4' and 4 more hold videos too" in first


def test_part_names_that_hold_files_and_no_folders_are_classes(tmp_path: Path) -> None:
    found = find_videos(write(tmp_path, "train/a.mp4", "test/b.mp4"), labels="inferred")
    assert found.parts == ()
    assert found.class_names == ("test", "train")


def test_folders_without_videos_do_not_hide_the_parts(tmp_path: Path) -> None:
    write(tmp_path, "train/run/a.mp4", "val/run/b.mp4", "annotations/sub/list.csv")
    (tmp_path / "val/walk").mkdir()
    (tmp_path / "test").mkdir()
    found = find_videos(tmp_path, labels="inferred")
    assert found.parts == ("train", "val")
    assert found.empty_classes == ("annotations", "test", "val/walk")


def test_a_part_of_loose_files_is_reported_not_taken_for_a_class(tmp_path: Path) -> None:
    write(tmp_path, "train/run/a.mp4", "train/walk/b.mp4", "test/c.mp4")
    found = find_videos(tmp_path, labels="inferred")
    assert found.parts == ("train",)
    assert found.class_names == ("run", "walk")
    assert list(reasons(found)) == ["test/c.mp4"]
    anywhere = find_videos(tmp_path)
    assert anywhere.parts == ("train", "test")
    assert anywhere[0].part == "test"


def test_two_folders_for_one_part_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train/run/a.mp4", "val/run/b.mp4", "validation/run/c.mp4")
    with pytest.raises(LayoutError, match="'val' and 'validation' both mean the part 'val'"):
        find_videos(tmp_path)


# Endings and litter


@pytest.mark.parametrize("ending", sorted(VIDEO_ENDINGS))
def test_endings_match_in_any_case(tmp_path: Path, ending: str) -> None:
    write(tmp_path, f"run/a{ending.upper()}", f"run/b{ending}", f"run/c{ending.title()}")
    assert len(find_videos(tmp_path, labels="inferred")) == 3


def test_the_usual_containers_are_among_the_endings() -> None:
    usual = "avi mp4 m4v mov mkv webm ts m2ts mts mpg mpeg vob flv wmv asf gif 3gp 3g2 ogv ogg mxf f4v rm rmvb divx y4m"
    raw = "h264 ivf wtv nut dv"
    assert {f".{ending}" for ending in f"{usual} {raw}".split()} <= VIDEO_ENDINGS


@pytest.mark.parametrize(
    "key",
    [
        ".DS_Store", "._a.mp4", ".a.mp4", ".hidden/a.mp4", "run/._a.mp4", "run/.hidden/a.mp4", "__MACOSX/run/a.mp4",
        "__MACOSX/a.mp4", "@eaDir/a.mp4", "run/@eaDir/a.mp4", "lost+found/a.mp4", "$RECYCLE.BIN/a.mp4",
        "System Volume Information/a.mp4", "#recycle/a.mp4", "Thumbs.db", "run/desktop.ini", "run/a.mp4.part",
        "run/a.mp4.crdownload", "run/a.mp4.tmp", ".git/objects/a.mp4", "run/a.txt", "run/mp4", "run/a.mp4~", "run/.mp4",
    ],
)  # fmt: skip
def test_litter_is_never_a_class_nor_a_video(tmp_path: Path, key: str) -> None:
    write(tmp_path, key, "run/good.mp4")
    for labels in ("inferred", None):
        found = find_videos(tmp_path, labels=labels)
        assert found.keys == ["run/good.mp4"]
        assert found.class_names == ("run",)
        assert found.ignored == ()


def test_files_of_other_kinds_are_counted_by_ending(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4", "run/b.JPG", "run/c.jpg", "run/d.txt", "README")
    assert find_videos(tmp_path).other_endings == ((".jpg", 2), ("", 1), (".txt", 1))


@pytest.mark.parametrize(
    "name",
    ["a b", "'q' \"q\"", "[x](y)", "#&;%d!", "-x", "--help", "line\nbreak", "ä ö ü é", "日本", "\\", "a.b", "~", "*"],
)
def test_odd_names_work_for_classes_and_files(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"{name}/{name}.mp4")
    (video,) = find_videos(tmp_path, labels="inferred")
    assert (video.key, video.class_name) == (f"{name}/{name}.mp4", name)


def test_names_that_are_no_text_work(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/r\xfcn"
    os.mkdir(folder)  # noqa: PTH102  # a Path cannot hold bytes
    with open(folder + b"/\xff.mp4", "wb"):  # noqa: PTH123  # as above
        pass
    (video,) = find_videos(tmp_path, labels="inferred")
    assert os.fsencode(video.key) == b"r\xfcn/\xff.mp4"
    assert os.fsencode(video.class_name or "") == b"r\xfcn"


def test_every_spelling_of_a_root_gives_the_same_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path / "my data", "run/a.mp4", "walk/b.mp4")
    (tmp_path / "link").symlink_to("my data")
    monkeypatch.chdir(tmp_path)
    for spelling in [root, str(root), f"{root}/", f"{root}//", "my data", "./my data/", "link", "link/", Path("link")]:
        found = find_videos(spelling, labels="inferred")
        assert found.keys == ["run/a.mp4", "walk/b.mp4"]
        assert found.root == os.fspath(spelling)
        assert [Path(path).read_bytes() for path in found.paths] == [b"x", b"x"]


# What is refused, and what links do


def test_fifos_and_broken_links_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "run/a.mp4")
    os.mkfifo(tmp_path / "run/pipe.mp4")
    os.mkfifo(tmp_path / "run/control.txt")
    (tmp_path / "run/gone.avi").symlink_to("missing")
    (tmp_path / "run/null.mkv").symlink_to("/dev/null")
    found = find_videos(tmp_path, labels="inferred")
    assert found.keys == ["run/a.mp4"]
    assert reasons(found) == {
        "run/gone.avi": "a link to nothing",
        "run/null.mkv": "a character device",
        "run/pipe.mp4": "a FIFO",
    }


def test_an_unreadable_folder_is_reported_and_the_rest_goes_on(open_folder: Path) -> None:
    write(open_folder, "run/a.mp4", "locked/b.mp4")
    (open_folder / "locked").chmod(0)
    with without_root():
        found = find_videos(open_folder, labels="inferred")
    assert found.keys == ["run/a.mp4"]
    assert reasons(found) == {"locked": "Permission denied"}
    assert found.empty_classes == ()


def test_linked_class_folders_are_reported_or_followed(tmp_path: Path) -> None:
    write(tmp_path, "store/a.mp4", "data/walk/b.mp4")
    (tmp_path / "data/run").symlink_to("../store")
    (tmp_path / "data/walk/loop").symlink_to("..")
    closed = find_videos(tmp_path / "data", labels="inferred")
    assert closed.class_names == ("walk",)
    assert reasons(closed)["run"] == "a link to a folder; follow_links=True follows it"
    followed = find_videos(tmp_path / "data", labels="inferred", follow_links=True)
    assert classes(followed) == {"run/a.mp4": "run", "walk/b.mp4": "walk"}


def test_linked_files_are_taken_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, "store/blob", "data/walk/b.mp4")
    (tmp_path / "data/run").mkdir()
    (tmp_path / "data/run/a.mp4").symlink_to("../../store/blob")
    assert find_videos(tmp_path / "data", labels="inferred").keys == ["run/a.mp4", "walk/b.mp4"]


# Wrong layouts


def message(directory: object, labels: str | None = "inferred") -> str:
    with pytest.raises(LayoutError) as caught:
        find_videos(directory, labels=labels)
    assert caught.value.stage == "find"
    return str(caught.value)


@pytest.mark.parametrize("labels", ["inferred", None])
def test_a_missing_folder_is_one_clear_error(tmp_path: Path, labels: str | None) -> None:
    text = message(tmp_path / "HMDB51", labels)
    assert text.startswith(f"{tmp_path}/HMDB51: no such folder")
    assert "├── run/" in text


def test_a_home_sign_that_nobody_expanded_is_explained() -> None:
    assert "expanduser" in message("~no such user/data")


@pytest.mark.parametrize(("name", "hint"), [("a.mp4", "give the folder"), ("HMDB51.RAR", "extract the archive")])
def test_a_file_in_place_of_a_folder_is_one_clear_error(tmp_path: Path, name: str, hint: str) -> None:
    text = message(write(tmp_path, name) / name)
    assert "this is not a folder" in text
    assert hint in text


def test_an_unreadable_root_is_one_clear_error(open_folder: Path) -> None:
    (open_folder / "data").mkdir(mode=0)
    with without_root():
        text = message(open_folder / "data")
    assert "cannot be read: Permission denied" in text


@pytest.mark.parametrize("labels", ["inferred", None])
def test_an_empty_folder_is_one_clear_error_with_the_tree(tmp_path: Path, labels: str | None) -> None:
    text = message(tmp_path, labels)
    assert "no video in this folder; it is empty" in text
    assert f"{tmp_path.name}/\n  ├── run/" in text


def test_a_folder_without_videos_says_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, "run/1.jpg", "run/2.jpg", "notes.txt")
    os.mkfifo(tmp_path / "a.mp4")
    text = message(tmp_path)
    assert "3 other files (2 .jpg, 1 .txt); 1 folders" in text
    assert f"{tmp_path}/a.mp4: a FIFO" in text


def test_only_loose_files_is_an_error_when_classes_are_inferred(tmp_path: Path) -> None:
    write(tmp_path, "a.mp4", "b.mp4")
    text = message(tmp_path)
    assert "2 videos lie loose, such as 'a.mp4', and none in a class folder" in text
    assert "labels=None" in text
    assert find_videos(tmp_path).keys == ["a.mp4", "b.mp4"]


def test_an_empty_path_is_not_the_working_folder() -> None:
    assert message("").startswith("'': no such folder: the path is empty")
    assert 'the current one is "."' in message("")


@pytest.mark.parametrize("follow_links", ["no", 0, None])
def test_what_is_no_flag_is_refused(tmp_path: Path, follow_links: object) -> None:
    with pytest.raises(ValueError, match=f"follow_links={follow_links!r}: expected True or False"):
        find_videos(tmp_path, follow_links=follow_links)


@pytest.mark.parametrize("directory", [None, 3, b"data"])
def test_what_is_no_path_is_a_type_error(directory: object) -> None:
    with pytest.raises(TypeError):
        find_videos(directory)


def test_the_error_is_also_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is empty"):
        find_videos(tmp_path)
