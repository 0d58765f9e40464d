"""The demo's data set on disk, laid out and named as HMDB51.

    videos/
    ├── circle_left/
    │   ├── scene00_circle_left_f_nm_np4_fr_goo_0.avi      source scene00, clip 0, 4 shapes
    │   └── ...
    └── ...

A source has a background of its own and clips in every class, so that a model that knows the background again learns
nothing about the class, and a split that cuts through sources leaks. The same seed gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from clipfeed._ffmpeg import write_video
from clipfeed._types import FrameArray, StrPath
from clipfeed.demo.motion import CLASSES, draw_background, draw_film, render
from clipfeed.errors import LayoutError
from clipfeed.prefetch import run_ahead, thread_count
from clipfeed.records import checked_path, checked_seed
from clipfeed.seeds import generator, hash_words

__all__ = ["DemoSize", "write_demo_videos", "write_frames"]

_FORMAT_VERSION = 1
_MANIFEST = "clipfeed-demo.json"
_FPS = 30  # HMDB51's

# Every frame is a key frame of one quantiser: its pixels follow from this frame alone. Predicted frames would carry
# traces of where shapes came from, and a model of single frames could find them.
_ENCODER_OPTIONS = {"g": "1", "qmin": "3", "qmax": "3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSize:
    """How much is written: 6 classes x sources x clips.

    Attributes:
        num_sources: Sources; each has clips in every class.
        clips_per_source: Clips of a source in a class.
    """

    num_sources: int = 30
    clips_per_source: int = 3

    @property
    def num_videos(self) -> int:
        """Videos in all."""
        return len(CLASSES) * self.num_sources * self.clips_per_source


def write_demo_videos(
    directory: StrPath,
    *,
    seed: int = 0,
    size: DemoSize | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DemoSize:
    """Write the data set; over an earlier one of the same seed and size, whose files become what they were.

    Args:
        directory: Folder for the class folders, empty, new, or holding a demo of this seed and size.
        seed: Of everything that is drawn; any whole number.
        size: How much; None for 30 sources, 540 videos.
        workers: Threads; None for the cores this process may use.
        progress: Called with (videos written, videos in all).

    Raises:
        LayoutError: If the folder holds something else.
        ValueError: For an empty path, or a seed or number of threads that is none.
    """
    size = size or DemoSize()
    folder = Path(checked_path("directory", directory))
    seed, num_workers = checked_seed(seed), thread_count(workers)
    _claim(folder, {"format_version": _FORMAT_VERSION, "seed": seed, **asdict(size)})
    jobs = [
        (source, class_name, clip)
        for source in range(size.num_sources)
        for class_name in CLASSES
        for clip in range(size.clips_per_source)
    ]
    for class_name in CLASSES:
        (folder / class_name).mkdir(exist_ok=True)
    with run_ahead(
        lambda number: _write_clip(folder, seed, *jobs[number]),
        range(len(jobs)),
        workers=num_workers,
        max_ahead=16,
    ) as written:
        for number, _ in enumerate(written):
            if progress is not None:
                progress(number + 1, len(jobs))
    return size


def _write_clip(folder: Path, seed: int, source: int, class_name: str, clip: int) -> None:
    background = draw_background(generator(seed, 0, "demo background", source))
    film = draw_film(generator(seed, 0, "demo film", hash_words(source, class_name, clip)), background)
    name = f"scene{source:02d}_{class_name}_f_nm_np{len(film.shapes)}_fr_goo_{clip}.avi"
    write_frames(folder / class_name / name, render(film, class_name))


def write_frames(path: Path, frames: FrameArray) -> None:
    """Write one video, (T, H, W, 3) uint8; what a frame is decoded to depends on this frame alone."""
    write_video(path, frames, fps=_FPS, codec="mpeg4", codec_options=_ENCODER_OPTIONS)


def _claim(folder: Path, manifest: dict[str, int]) -> None:
    """Make the folder ours, or refuse it."""
    text = json.dumps(manifest, indent=2) + "\n"
    path = folder / _MANIFEST
    if folder.exists() and any(folder.iterdir()):
        held = path.read_text(encoding="utf-8") if path.is_file() else None
        if held != text:
            what = "a demo of another seed or size" if held else "something that is no demo"
            raise LayoutError(
                f"holds {what}",
                path=str(folder),
                expected="an empty or new folder for the demo's videos",
                remedy="pass another folder, or delete this one",
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
