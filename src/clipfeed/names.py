"""What a file name says of where a clip was cut from.

HMDB51 and UCF101 write the source of each clip into its name. Clips of one source share scene, people and camera: on
two sides of a split they let a model pass by recognising the room. Nothing here opens a file, and a name that says
nothing is left alone: such a file is a group of its own. `find` stands before, `split` after.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "HMDB51_CLASSES",
    "Grouping",
    "Hmdb51Name",
    "Scheme",
    "Ucf101Name",
    "group_of",
    "group_videos",
    "parse_hmdb51",
    "parse_ucf101",
    "scheme_of",
]

Scheme: TypeAlias = Literal["hmdb51", "ucf101"]

HMDB51_CLASSES = (
    "brush_hair", "cartwheel", "catch", "chew", "clap", "climb", "climb_stairs", "dive", "draw_sword", "dribble",
    "drink", "eat", "fall_floor", "fencing", "flic_flac", "golf", "handstand", "hit", "hug", "jump", "kick",
    "kick_ball", "kiss", "laugh", "pick", "pour", "pullup", "punch", "push", "pushup", "ride_bike", "ride_horse",
    "run", "shake_hands", "shoot_ball", "shoot_bow", "shoot_gun", "sit", "situp", "smile", "smoke", "somersault",
    "stand", "swing_baseball", "sword", "sword_exercise", "talk", "throw", "turn", "walk", "wave",
)  # fmt: skip
"""The 51 class names. Some hold "_", which is also what parts the fields of a name."""

# A second ending is allowed ("x.avi.mp4"): re-encoding scripts make such names.
_ENDING = r"(?:\.[A-Za-z0-9]{1,5})*"

# <source>_<class> is left in one piece: only the class folder, or the list above, can tell where it parts.
_HMDB51 = re.compile(
    r"(?P<head>.+)_(?P<body>[hulf])_(?P<camera>cm|nm)_np(?P<people>[0-9]+)"
    r"_(?P<view>fr|ba|le|ri)_(?P<quality>goo|med|bad)_(?P<clip>[0-9]+)" + _ENDING,
    re.DOTALL,
)
_UCF101 = re.compile(r"v_(?P<class_name>.+)_g(?P<group>[0-9]{2})_c(?P<clip>[0-9]{2})" + _ENDING, re.DOTALL)

# The one class whose files spell it otherwise than classInd.txt and the folder do.
_UCF101_SPELLINGS = {"HandStandPushups": "HandstandPushups"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmdb51Name:
    """The fields of an HMDB51 file name.

        April_09 _ brush_hair _ u    _ nm     _ np1    _ ba   _ goo     _ 0
        source     class_name   body   camera   people   view   quality   clip

    Attributes:
        source: The film or upload that the clip was cut from; "" where the name holds a class and no source.
        class_name: The action, as the name spells it.
        body: What is seen of the body: h head, u upper, f full, l lower.
        camera: cm moving, nm still.
        num_people: How many people act.
        view: fr front, ba back, le left, ri right.
        quality: goo good, med medium, bad.
        clip_number: Number of the clip within its source.
    """

    source: str
    class_name: str
    body: str
    camera: str
    num_people: int
    view: str
    quality: str
    clip_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ucf101Name:
    """The fields of a UCF101 (or UCF50) file name, `v_<class>_g<group>_c<clip>`.

    Attributes:
        class_name: The action, spelled as in classInd.txt.
        group_number: Which of the class's source videos (1 to 25).
        clip_number: Number of the clip within its group.
    """

    class_name: str
    group_number: int
    clip_number: int


def parse_hmdb51(name: str, class_name: str | None = None) -> Hmdb51Name | None:
    """Read an HMDB51 file name.

    Args:
        name: File name with or without ending, or a key: folders are cut off.
        class_name: Name of the class folder. It says where the source ends, for names such as
            "x_kick_ball_f_nm_np1_fr_med_0.avi"; without it the longest of the 51 class names is taken, and a word
            without "_" where none fits.

    Returns:
        The fields, or None for any other name.

    Source: the pattern read 6,766 of the 6,766 names in the official split files.
    """
    match = _HMDB51.fullmatch(name[name.rfind("/") + 1 :])
    if match is None:
        return None
    source, action = _part_head(match["head"], class_name)
    return Hmdb51Name(
        source=source,
        class_name=action,
        body=match["body"],
        camera=match["camera"],
        num_people=int(match["people"]),
        view=match["view"],
        quality=match["quality"],
        clip_number=int(match["clip"]),
    )


def _part_head(head: str, folder: str | None) -> tuple[str, str]:
    """Part "<source>_<class>"; the source is "" where the head is a class and nothing else."""
    spelled = [re.sub(r"[ -]", "_", folder)] if folder else []
    for word in (*spelled, *_HMDB51_LONGEST_FIRST):
        source, tail = head[: -len(word)], head[-len(word) :]
        if tail.lower() == word.lower() and (not source or source.endswith("_")):
            return source[:-1], tail
    source, _, word = head.rpartition("_")
    return (source, word) if source else (head, "")


_HMDB51_LONGEST_FIRST = sorted(HMDB51_CLASSES, key=len, reverse=True)


def parse_ucf101(name: str) -> Ucf101Name | None:
    """Read a UCF101 file name.

    Args:
        name: File name with or without ending, or a key: folders are cut off.

    Returns:
        The fields, or None for any other name. "HandStandPushups" in files is "HandstandPushups" everywhere else.
    """
    match = _UCF101.fullmatch(name[name.rfind("/") + 1 :])
    if match is None:
        return None
    return Ucf101Name(
        class_name=_UCF101_SPELLINGS.get(match["class_name"], match["class_name"]),
        group_number=int(match["group"]),
        clip_number=int(match["clip"]),
    )


def scheme_of(key: str, class_name: str | None = None) -> Scheme | None:
    """Say which data set's way of naming a file follows, None for neither."""
    return _read(key, class_name)[0]


def group_of(key: str, class_name: str | None = None) -> str:
    """Give what must stay on one side of a split with this file.

    It depends on this one name and no other, so added files never change another file's group.

        run/TheLastMan_run_f_cm_np1_fr_med_3.avi    "TheLastMan"      HMDB51: the source, across classes
        Archery/v_Archery_g04_c02.avi               "Archery/g04"     UCF101: class and group
        run/holiday.mp4                             "run/holiday.mp4" its own group

    Args:
        key: Relative POSIX key of the file.
        class_name: Name of its class folder, or None.
    """
    return _read(key, class_name)[1]


def _read(key: str, class_name: str | None) -> tuple[Scheme | None, str]:
    hmdb51 = parse_hmdb51(key, class_name)
    if hmdb51 is not None and hmdb51.source:
        return "hmdb51", hmdb51.source
    if (ucf101 := parse_ucf101(key)) is not None:
        return "ucf101", f"{ucf101.class_name}/g{ucf101.group_number:02d}"
    return None, key


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The groups of many files, and how they came about.

    Attributes:
        groups: Group of each file, in the order given.
        num_hmdb51: Files with an HMDB51 name.
        num_ucf101: Files with a UCF101 name.
    """

    groups: tuple[str, ...]
    num_hmdb51: int
    num_ucf101: int

    @property
    def scheme(self) -> Scheme | None:
        """The way of naming that most of the recognised files follow; None where no file does."""
        if not self.num_hmdb51 and not self.num_ucf101:
            return None
        return "hmdb51" if self.num_hmdb51 >= self.num_ucf101 else "ucf101"

    def describe(self) -> str:
        """Say in one line what stays together, for printing."""
        total, alone = len(self.groups), len(self.groups) - self.num_hmdb51 - self.num_ucf101
        if self.scheme is None:
            return f"groups: file names say nothing of a source, so each of {total} files is a group of its own"
        kinds = {"HMDB51 names, by source across classes": self.num_hmdb51}
        kinds |= {"UCF101 names, by class and group": self.num_ucf101}
        facts = [f"{number} of {total} files have {kind}" for kind, number in kinds.items() if number]
        facts += [f"{alone} other files are groups of their own"] if alone else []
        return f"groups: {'; '.join(facts)}; {len(set(self.groups))} groups"


def group_videos(keys: Iterable[str], class_names: Sequence[str | None] | None = None) -> Grouping:
    """Give the groups of many files.

    Each file is read by itself: in a mixed folder some have HMDB51 names, some UCF101 names, some neither.

    Args:
        keys: Relative POSIX keys.
        class_names: Class folder of each key; None where there are no class folders.
    """
    texts = list(keys)
    folders = [None] * len(texts) if class_names is None else class_names
    read = [_read(key, folder) for key, folder in zip(texts, folders, strict=True)]
    counts = Counter(scheme for scheme, _ in read)
    return Grouping(groups=tuple(group for _, group in read), num_hmdb51=counts["hmdb51"], num_ucf101=counts["ucf101"])
