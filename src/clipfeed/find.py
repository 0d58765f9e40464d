"""Which videos a folder holds, in an order that no machine changes.

Names are looked at, nothing is opened: whether a file really is a video is `probe`'s question. The first folder below
the root (or below a train, val or test folder) is the class, deeper ones belong to it. What looks like a video and is
not taken is reported, never passed over in silence. The journey begins here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, overload

from clipfeed import storage
from clipfeed._types import StrPath
from clipfeed.errors import LayoutError
from clipfeed.records import Failure, FoundVideo, check_choice, checked_flag, join_key

__all__ = ["VIDEO_ENDINGS", "FoundVideos", "find_videos"]

Part: TypeAlias = Literal["train", "val", "test"]

VIDEO_ENDINGS = frozenset({
    ".264", ".265", ".3g2", ".3gp", ".amv", ".asf", ".av1", ".avi", ".divx", ".dv", ".f4v", ".flv", ".gif", ".gxf",
    ".h264", ".h265", ".hevc", ".ivf", ".m1v", ".m2p", ".m2t", ".m2ts", ".m2v", ".m4s", ".m4v", ".mjpeg", ".mjpg",
    ".mk3d", ".mkv", ".mod", ".mov", ".mp4", ".mp4v", ".mpe", ".mpeg", ".mpg", ".mpv", ".mts", ".mxf", ".nsv", ".nut",
    ".obu", ".ogg", ".ogm", ".ogv", ".qt", ".rm", ".rmvb", ".tod", ".tp", ".trp", ".ts", ".vob", ".webm", ".wmv",
    ".wtv", ".xvid", ".y4m",
})  # fmt: skip
"""Endings of video files, in lower case. An ending only says that a file is worth a look."""

PARTS: dict[str, Part] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}

# What macOS, Windows and NAS boxes leave in folders (all of it lower case; names with a leading dot are left out too).
LITTER = frozenset({
    "__macosx", "@eadir", "#recycle", "$recycle.bin", "lost+found", "system volume information", "__pycache__",
    "thumbs.db", "desktop.ini",
})  # fmt: skip
ARCHIVES = (".zip", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".zst")

_NUM_NAMED = 5  # folders in one message

CLASS_TREE = """\
{root}/
├── run/            one folder per class; its name is the class
│   ├── a.mp4
│   └── b.avi
└── walk/
    └── c.mp4
or, with fixed parts: {root}/train/run/a.mp4, {root}/val/run/b.avi, {root}/test/..."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundVideos(Sequence[FoundVideo]):
    """The videos of a folder: a sequence of `FoundVideo`, and what was not taken.

    Attributes:
        root: The folder, as the user gave it.
        videos: In the order of the tuple of key parts, code point by code point. A list of labels follows this order.
        parts: Parts that hold videos, of "train", "val", "test" in this order; () where there are no such folders.
        empty_classes: Keys of folders that stand where classes do and hold no video; they are no classes.
        ignored: What looked like a video, or might hold some, and was not taken, each with its reason.
        other_endings: How many files have each ending that is no video's ("" for none), most frequent first.
    """

    root: str
    videos: tuple[FoundVideo, ...]
    parts: tuple[Part, ...] = ()
    empty_classes: tuple[str, ...] = ()
    ignored: tuple[Failure, ...] = ()
    other_endings: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return len(self.videos)

    @overload
    def __getitem__(self, number: int) -> FoundVideo: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[FoundVideo, ...]: ...
    def __getitem__(self, number: int | slice) -> FoundVideo | tuple[FoundVideo, ...]:
        return self.videos[number]

    def __repr__(self) -> str:
        return f"<FoundVideos of {self.root}: {len(self.videos)} videos, {len(self.class_names)} classes>"

    @property
    def keys(self) -> list[str]:
        """Relative POSIX key of each video."""
        return [video.key for video in self.videos]

    @property
    def paths(self) -> list[str]:
        """Path of each video: the root as given joined with the key."""
        return [join_key(self.root, video.key) for video in self.videos]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the class folders that hold videos, code point by code point."""
        return tuple(sorted({video.class_name for video in self.videos if video.class_name is not None}))


def find_videos(
    directory: StrPath, *, labels: Literal["inferred"] | None = None, follow_links: bool = False
) -> FoundVideos:
    """List the videos of a folder, without opening any.

        root/run/a.mp4            class "run"
        root/run/2019/b.AVI       class "run": deeper folders belong to it
        root/c.mp4                no class
        root/train/run/a.mp4      part "train", class "run": if all folders that hold videos are called train, val, test
        root/extra/b.mp4          class "extra"; with labels="inferred" refused beside both train/run and val/run

    Dot names, `__MACOSX`, `@eaDir`, `lost+found` and their like are never entered; FIFOs, sockets and devices are
    refused by name. A link to a file counts as that file; links to folders are followed on request, loops end.

    Args:
        directory: The data set's folder.
        labels: None lists every video wherever it lies: the order that a list of labels follows. "inferred" wants
            class folders: a video outside of them is left out and reported, and parts with another folder of videos
            beside them are refused, since all of these would become classes.
        follow_links: Whether links to folders are followed.

    Returns:
        The videos, ordered by the tuple of key parts, code point by code point; the same for "x", "x/", a Path, a
        relative path or a link.

    Raises:
        LayoutError: There is no such folder, or no usable video in it; says what was seen and draws what is expected.
        ValueError: For another value of `labels` or `follow_links`.
    """
    check_choice("labels", labels, ("inferred", None))
    is_following = checked_flag("follow_links", follow_links)
    root = os.fspath(directory)
    if not isinstance(root, str):
        raise TypeError(f"directory={directory!r}: expected a str or a Path")
    seen = _Seen.of(root, _entries(root, is_following))
    if labels is None:
        return _with_classes(seen)
    _refuse_mixed(seen)
    return _only_classes(_with_classes(seen))


def _entries(root: str, follow_links: bool) -> list[storage.Entry]:
    if not root:
        raise _layout_error(root, "no such folder: the path is empty", 'pass a folder; the current one is "."')
    try:
        return storage.list_files(root, follow_links=follow_links, ignore=_is_litter)
    except FileNotFoundError as error:
        remedy = (
            "expand ~ with Path(...).expanduser()" if root.startswith("~") else f"check the path; from {Path.cwd()}"
        )
        raise _layout_error(root, "no such folder", remedy) from error
    except NotADirectoryError as error:
        remedy = "extract the archive and give the folder" if root.lower().endswith(ARCHIVES) else "give the folder"
        raise _layout_error(root, "this is not a folder", remedy) from error
    except OSError as error:
        raise _layout_error(root, f"cannot be read: {error.strerror or error}", "check path and rights") from error


def _is_litter(name: str) -> bool:
    return name.startswith(".") or name.lower() in LITTER


def _ending(key: str) -> str:
    """Give the ending of a key's last part, in lower case, with its dot; "" for none."""
    name = key[key.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A listing, sorted out by kind."""

    root: str
    files: list[storage.Entry]
    folders: list[str]
    refused: tuple[Failure, ...]
    other_endings: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, root: str, entries: Iterable[storage.Entry]) -> _Seen:
        files, folders, refused, others = [], [], [], Counter[str]()
        for entry in entries:
            ending = _ending(entry.key)
            if entry.kind == "dir":
                folders.append(entry.key)
            elif entry.kind == "file" and ending in VIDEO_ENDINGS:
                files.append(entry)
            elif entry.kind == "file" or (entry.kind == "other" and ending and ending not in VIDEO_ENDINGS):
                others[ending] += 1
            else:
                refused.append(Failure(path=join_key(root, entry.key), stage="find", reason=entry.note))
        return cls(
            root=root,
            files=files,
            folders=folders,
            refused=tuple(refused),
            other_endings=tuple(others.most_common()),
        )


def _with_classes(seen: _Seen) -> FoundVideos:
    """Give each file its class and part, by the folders it lies in."""
    parts = _part_folders(seen)
    videos = tuple(_found_video(entry, entry.key.split("/"), parts) for entry in seen.files)
    if not videos:
        raise _layout_error(
            seen.root, f"no video in this folder; {_describe(seen)}", "give a folder laid out like this"
        )
    return FoundVideos(
        root=seen.root,
        videos=videos,
        parts=_parts_in_order(videos),
        empty_classes=tuple(_empty_classes(seen, videos, parts)),
        ignored=seen.refused,
        other_endings=seen.other_endings,
    )


def _empty_classes(seen: _Seen, videos: Iterable[FoundVideo], parts: dict[str, Part]) -> list[str]:
    """Give the folders that stand where classes (or parts) do and hold no video."""
    classes = {(video.part, video.class_name) for video in videos}
    empty = []
    for key in seen.folders:
        top, _, below = key.partition("/")
        is_class = bool(below) and "/" not in below if top in parts else not below
        if is_class and (parts.get(top), below or top) not in classes:
            empty.append(key)
    return empty


def _part_folders(seen: _Seen) -> dict[str, Part]:
    """Map top folders to parts; empty where top folders are classes.

    Top folders without any video (such as "annotations") have no say. One part may hold loose files only.
    """
    steps = [entry.key.split("/") for entry in seen.files]
    tops = sorted({places[0] for places in steps if len(places) > 1})
    if not all(top.lower() in PARTS for top in tops) or not any(len(places) > 2 for places in steps):
        return {}
    parts = {top: PARTS[top.lower()] for top in tops}
    for part, number in Counter(parts.values()).items():
        if number > 1:
            same = " and ".join(repr(top) for top in tops if parts[top] == part)
            raise _layout_error(seen.root, f"{same} both mean the part {part!r}", "merge or rename these folders")
    return parts


def _refuse_mixed(seen: _Seen) -> None:
    """Refuse parts that stand among other folders of videos.

    One folder called "train" may well be a class, beside "bus". Two parts with folders in them are no classes, and a
    model that learns to tell "train" from "val" is of no use to anybody.
    """
    steps = [entry.key.split("/") for entry in seen.files]
    tops = sorted({places[0] for places in steps if len(places) > 1})
    parts = [top for top in tops if top.lower() in PARTS]
    others = [top for top in tops if top.lower() not in PARTS]
    with_folders = {places[0] for places in steps if len(places) > 2}
    if not others or len({PARTS[top.lower()] for top in parts}) < 2 or with_folders.isdisjoint(parts):
        return
    raise _layout_error(
        seen.root,
        f"{_named(parts)} look like parts, but {_named(others)} {'hold' if len(others) > 1 else 'holds'} videos too",
        f"move {_named(others)} elsewhere or into a part; if all of them are classes, rename {_named(parts)}",
    )


def _named(folders: Sequence[str]) -> str:
    """Name some folders, the first few of many."""
    names = [repr(folder) for folder in folders[:_NUM_NAMED]]
    if len(folders) > len(names):
        names.append(f"{len(folders) - len(names)} more")
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _found_video(entry: storage.Entry, steps: Sequence[str], parts: dict[str, Part]) -> FoundVideo:
    part = parts.get(steps[0]) if len(steps) > 1 else None
    folders = steps[1:-1] if part is not None else steps[:-1]
    return FoundVideo(
        key=entry.key,
        class_name=folders[0] if folders else None,
        part=part,
        size_bytes=entry.size_bytes,
        mtime_ns=entry.mtime_ns,
    )


def _parts_in_order(videos: Iterable[FoundVideo]) -> tuple[Part, ...]:
    present = {video.part for video in videos}
    return tuple(part for part in dict.fromkeys(PARTS.values()) if part in present)


def _only_classes(found: FoundVideos) -> FoundVideos:
    """Leave out, and report, the videos that lie in no class folder."""
    kept = tuple(video for video in found.videos if video.class_name is not None)
    loose = [video for video in found.videos if video.class_name is None]
    if not kept:
        problem = f"{len(loose)} videos lie loose, such as {loose[0].key!r}, and none in a class folder"
        raise _layout_error(found.root, problem, "make one folder per class, or pass labels=None or a list of labels")
    reason = "lies beside the class folders, so it has no class"
    reports = tuple(Failure(path=join_key(found.root, video.key), stage="find", reason=reason) for video in loose)
    return replace(found, videos=kept, parts=_parts_in_order(kept), ignored=found.ignored + reports)


def _describe(seen: _Seen) -> str:
    """Say what is there in place of videos."""
    others = sum(number for _, number in seen.other_endings)
    kinds = ", ".join(f"{number} {ending or 'without ending'}" for ending, number in seen.other_endings[:5])
    facts = [f"{others} other files ({kinds})"] if others else []
    facts += [f"{len(seen.folders)} folders"] if seen.folders else []
    facts += [f"{failure.path}: {failure.reason}" for failure in seen.refused[:5]]
    return "it holds " + "; ".join(facts) if facts else "it is empty"


def _layout_error(root: str, problem: str, remedy: str) -> LayoutError:
    drawing = "expected:\n" + CLASS_TREE.format(root=Path(root).name or "root")
    return LayoutError(problem, path=root or "''", stage="find", expected=drawing, remedy=remedy)
