"""Small data sets: folders of numbered videos under the names that data sets have.

Every file spells a number of its own, so that a batch shows which videos it holds. Frames are small and few: a tree of
a hundred files takes about a second to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clipfeed._types import StrPath
from clipfeed.testing.write import write_numbered_video

__all__ = ["TreeVideo", "make_tree"]

_SIZE = (48, 64)


# Of class name, source, source's place in its class, clip.
_FILE_NAMES: Mapping[str, Callable[[str, int, int, int], str]] = {
    "hmdb51": lambda class_name, source, _, clip: f"Film{source:02d}_{class_name}_f_cm_np1_fr_med_{clip}.avi",
    "ucf101": lambda class_name, _, place, clip: f"v_{class_name}_g{place + 1:02d}_c{clip + 1:02d}.avi",
    "plain": lambda _class_name, _source, place, clip: f"source{place:02d}_clip{clip}.avi",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeVideo:
    """One file of a tree.

    Attributes:
        path: The file.
        key: Relative POSIX path below the root.
        class_name: Its folder.
        source: Number of the recording that the clip was cut from, from 0; unlike in every class.
        video_number: What its frames spell, beside their own number.
        num_frames: Frames that it shows.
    """

    path: Path
    key: str
    class_name: str
    source: int
    video_number: int
    num_frames: int


def make_tree(
    root: StrPath,
    *,
    classes: Sequence[str] = ("jump", "run", "walk"),
    sources_per_class: int = 4,
    clips_per_source: int = 2,
    naming: Literal["hmdb51", "ucf101", "plain"] = "plain",
    num_frames: int = 24,
    first_video_number: int = 0,
) -> tuple[TreeVideo, ...]:
    """Write a folder of class folders.

        root/jump/Film00_jump_f_cm_np1_fr_med_0.avi      naming="hmdb51": the source is a title, Film00
        root/jump/v_jump_g01_c01.avi                     naming="ucf101": the source is a group of the class
        root/jump/source00_clip0.avi                     naming="plain": the name says nothing

    Args:
        root: The folder; made if absent.
        classes: Names of the class folders; "train/jump" puts one below a part.
        sources_per_class: Recordings that each class was cut from.
        clips_per_source: Clips cut from each.
        naming: How files are called.
        num_frames: Frames of each video, 48 x 64 pixels, MPEG-4 in AVI, 25 a second.
        first_video_number: Number that the first file spells; the others count on.

    Returns:
        What was written, in the order of the numbers.
    """
    cuts = [
        (folder, class_place * sources_per_class + place, place, clip)
        for class_place, folder in enumerate(classes)
        for place in range(sources_per_class)
        for clip in range(clips_per_source)
    ]
    videos = []
    for number, (folder, source, place, clip) in enumerate(cuts, first_video_number):
        class_name = folder.rsplit("/", 1)[-1]
        key = f"{folder}/{_FILE_NAMES[naming](class_name, source, place, clip)}"
        path = Path(root) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        write_numbered_video(path, num_frames=num_frames, size=_SIZE, video_number=number)
        videos.append(
            TreeVideo(
                path=path,
                key=key,
                class_name=class_name,
                source=source,
                video_number=number,
                num_frames=num_frames,
            )
        )
    return tuple(videos)
