"""Options that several commands share: what a clip looks like, and where decoded frames are kept."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from clipfeed.cache import Cache
from clipfeed.cli._say import path_of

NumFrames = Annotated[int, typer.Option(help="Frames in a clip.")]
ImageSize = Annotated[tuple[int, int], typer.Option(help="Height and width of a clip's frames, pixels.")]
Sampling = Annotated[Literal["uniform", "stride"], typer.Option(help="Which frames make a clip.")]
ShortVideos = Annotated[
    Literal["drop", "repeat_last", "wrap", "error"], typer.Option(help="What happens to videos with too few frames.")
]


def place_of(text: str) -> str:
    """Read the place of a cache: "disk", "memory" or a folder."""
    path_of(text)
    return text


CachePlace = Annotated[
    str | None,
    typer.Option(
        "--cache",
        parser=place_of,
        metavar="disk|memory|FOLDER",
        help="Keep decoded frames for later epochs: in the user's cache, in memory, or in a folder.",
        show_default="frames are not kept",
    ),
]
CacheCodec = Annotated[
    Literal["raw", "jpeg"],
    typer.Option("--cache-codec", help="raw: bit for bit; jpeg: a fourth of the bytes or less, with its error."),
]
CacheBytes = Annotated[
    str | None,
    typer.Option(
        "--cache-max-bytes",
        metavar="BYTES",
        help="Most that all kept frames may take, such as 100GB.",
        show_default="as there is free space",
    ),
]


def cache_from(place: str | None, codec: Literal["raw", "jpeg"], max_bytes: str | None) -> Cache | None:
    """Give the cache that options ask for.

    Raises:
        ValueError: For options of a cache where there is none.
    """
    if place is not None:
        is_name = place in ("disk", "memory")
        return Cache(
            None if is_name else place,
            where="memory" if place == "memory" else "disk",
            max_bytes=max_bytes,
            codec=codec,
        )
    if codec != "raw" or max_bytes is not None:
        raise ValueError("--cache-codec and --cache-max-bytes are of a cache: pass --cache disk|memory|FOLDER as well")
    return None
