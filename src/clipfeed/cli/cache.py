"""`clipfeed cache build | info | clear | export`: frames on the disk made ahead, looked at, removed, handed out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from clipfeed.cache import (
    Cache,
    PackFacts,
    VerifiedPack,
    choose_pack,
    clear_packs,
    export_pack,
    free_bytes,
    list_packs,
    verify_packs,
)
from clipfeed.cli._clips import ImageSize, NumFrames, Sampling, ShortVideos, place_of
from clipfeed.cli._packs import count_packs, describe_pack, show_packs
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Directory,
    FollowLinks,
    IndexFolder,
    MemoryBudget,
    Workers,
    failure_rows,
    given_options,
    path_of,
    print_failures,
    print_json,
    print_line,
    reported,
)
from clipfeed.dataset import Limits, VideoDataset
from clipfeed.index import build_index
from clipfeed.ledger import ErrorPolicy
from clipfeed.load import pack_bytes
from clipfeed.progress import track
from clipfeed.records import ClipSpec, Failure
from clipfeed.sample import Segments
from clipfeed.sizes import show_bytes

NAME = "cache"

app = typer.Typer(name=NAME, help="Decoded frames on the disk: build, info, clear, export.", no_args_is_help=True)

Place = Annotated[
    str | None,
    typer.Option(
        "--cache", parser=place_of, metavar="FOLDER", help="The cache's folder.", show_default="the user's cache"
    ),
]
PackName = Annotated[
    str | None, typer.Option("--pack", help="How the name of one pack begins.", show_default="all, or the only one")
]


@reported
def build(  # noqa: PLR0913  # one a command-line option
    context: typer.Context,
    directory: Directory,
    cache: Place = None,
    codec: Annotated[
        Literal["raw", "jpeg"],
        typer.Option(help="raw: bit for bit; jpeg: a fourth of the bytes or less, with its error."),
    ] = "raw",
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help="Most that all packs may take, such as 100GB.", show_default="as there is free space"
        ),
    ] = None,
    num_frames: NumFrames = 20,
    image_size: ImageSize = (64, 64),
    sampling: Sampling = "uniform",
    all_frames: Annotated[
        bool, typer.Option("--all-frames", help="Keep all frames of each video, for sampling that draws at random.")
    ] = False,
    short_videos: ShortVideos = "drop",
    memory_budget: MemoryBudget = "512MB",
    workers: Workers = None,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    json: AsJson = False,
) -> int:
    """Decode the clips of a whole folder and keep them, so that already the first epoch need not decode."""
    if all_frames and "sampling" in given_options(context):
        raise ValueError("--sampling with --all-frames: all frames are kept, whatever is sampled; leave one out")
    where = Cache(_folder_of(cache), max_bytes=max_bytes, codec=codec)
    clips = ClipSpec(
        num_frames=num_frames,
        image_size=image_size,
        sampling=Segments() if all_frames else sampling,
        short_videos=short_videos,
    )
    with track("indexing") as progress:
        videos = build_index(directory, index=index, follow_links=follow_links, workers=workers, progress=progress)
    needed, free = pack_bytes(videos, clips, where), free_bytes(where.folder)
    if not json:
        about = "about " if codec == "jpeg" else ""
        print_line(f"needed: {about}{show_bytes(needed)} for all videos; free: {show_bytes(free)} ({where.folder})")
    dataset = VideoDataset(
        videos,
        clips,
        batch_size=1,
        training=False,
        errors=ErrorPolicy(on_error="skip", max_failures=1.0),
        limits=Limits(memory_budget=memory_budget, workers=workers),
        cache=where,
    )
    if not json:
        for line in dataset.explain_cache():
            print_line(line)
    before = _num_there(dataset)
    undeliverable = _fill(dataset)
    there, left_out = _num_there(dataset), [*videos.failures, *dataset.dropped, *undeliverable]
    if json:
        print_json(
            {
                "pack": None if dataset.kept is None else dataset.kept.opened.place,
                "num_videos": len(dataset.index),
                "num_there_before": before,
                "num_there": there,
                "needed_bytes": needed,
                "free_bytes": free,
                "notes": [] if dataset.kept is None else list(dataset.kept.opened.notes),
                "left_out": failure_rows(left_out),
            }
        )
    else:
        count = f"{there:,} of {len(dataset.index):,}" if there < len(dataset.index) else f"all {there:,}"
        print_line(f"{count} videos are there, {there - before:,} of them new")
        print_failures("left out", left_out)
    return PROBLEMS if left_out or there < len(dataset.index) else FINE


@reported
def info(
    cache: Place = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every entry with its checksum.")] = False,
    json: AsJson = False,
) -> int:
    """Say which packs there are, how full they are and what they take; with --verify, whether they are sound."""
    folder = _folder_of(cache)
    verified: dict[str, VerifiedPack] = {}
    if verify:
        with track("verifying") as progress:
            verified = {pack.facts.folder: pack for pack in verify_packs(folder, progress=progress)}
        packs: tuple[PackFacts, ...] = tuple(pack.facts for pack in verified.values())
    else:
        packs = list_packs(folder)
    if json:
        print_json({"folder": str(folder), "packs": [describe_pack(pack, verified.get(pack.folder)) for pack in packs]})
    else:
        show_packs(folder, packs, verified)
    damaged = any(pack.problems for pack in packs) or not all(pack.is_sound for pack in verified.values())
    return PROBLEMS if damaged else FINE


@reported
def clear(
    cache: Place = None,
    pack: PackName = None,
    unused_days: Annotated[
        float | None,
        typer.Option(min=0, help="Only packs that nothing has opened for so many days.", show_default="all packs"),
    ] = None,
    json: AsJson = False,
) -> int:
    """Remove packs, but none that a process has open, and nothing else that lies in the folder."""
    cleared = clear_packs(_folder_of(cache), name=pack, unused_days=unused_days)
    num_bytes = sum(removed.num_bytes for removed in cleared.removed)
    if json:
        print_json(
            {
                "removed": [removed.folder for removed in cleared.removed],
                "num_bytes": num_bytes,
                "left": failure_rows(cleared.left),
            }
        )
    else:
        for removed in cleared.removed:
            print_line(f"removed: {removed.folder}, {show_bytes(removed.num_bytes)}")
        print_line(f"{count_packs(len(cleared.removed))} removed, {show_bytes(num_bytes)}")
        print_failures("left", cleared.left)
    return PROBLEMS if cleared.left else FINE


@reported
def export(
    npy: Annotated[
        Path, typer.Option("--npy", parser=path_of, help="Folder for the files: one .npy a video.", show_default=False)
    ],
    cache: Place = None,
    pack: PackName = None,
    dtype: Annotated[
        Literal["float32", "uint8"], typer.Option(help="float32: 0..1; uint8: 0..255, a fourth of the bytes.")
    ] = "float32",
    json: AsJson = False,
) -> int:
    """Write one .npy file a video, in the tree of the data set."""
    chosen = choose_pack(_folder_of(cache), pack)
    with track("exporting") as progress:
        done = export_pack(chosen, npy, dtype=dtype, progress=progress)
    if json:
        print_json({**asdict(done), "pack": chosen.folder, "left_out": failure_rows(done.left_out)})
    else:
        print_line(f"{done.num_files:,} files, {show_bytes(done.num_bytes)}: {done.folder}")
        if done.num_older:
            print_line(f"{done.num_older:,} older entries of the same files were left out")
        print_failures("left out", done.left_out)
    return PROBLEMS if done.left_out else FINE


for command in (build, info, clear, export):
    app.command()(command)


def _folder_of(place: str | None) -> Path:
    if place == "memory":
        raise ValueError("--cache memory: what is in memory ends with its process; pass a folder")
    return Cache(None if place == "disk" else place).folder


def _num_there(dataset: VideoDataset) -> int:
    return 0 if dataset.kept is None else dataset.kept.pack.num_filled(np.unique(dataset.kept.entries))


def _fill(dataset: VideoDataset) -> tuple[Failure, ...]:
    if dataset.kept is None:
        return ()
    done, total = 0, int(np.count_nonzero(dataset.kept.entries >= 0))
    with track("caching") as progress:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        return dataset.fill_cache(advance=advance)
