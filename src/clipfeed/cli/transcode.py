"""`clipfeed transcode DIR OUT`: re-encodes a set for training, into a folder of its own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Directory,
    FollowLinks,
    IndexFolder,
    Workers,
    failure_rows,
    path_of,
    print_failures,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.progress import track
from clipfeed.sizes import show_bytes
from clipfeed.transcode import DecodingSpeed, TranscodeReport, transcode_directory

NAME = "transcode"

Out = Annotated[
    Path,
    typer.Argument(
        parser=path_of, metavar="OUT", help="Folder for the results: new, empty, or of an earlier run.",
        show_default=False,
    ),
]  # fmt: skip
ShortSide = Annotated[int, typer.Option(help="Most pixels of the shorter side; smaller videos keep their size.")]
Gop = Annotated[int, typer.Option(help="Frames from one key frame to the next.")]
Crf = Annotated[int, typer.Option(help="Constant rate factor of x264: 0 is lossless, 51 the worst.")]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    directory: Directory,
    out: Out,
    short_side: ShortSide = 256,
    gop: Gop = 16,
    crf: Crf = 21,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    workers: Workers = None,
    json: AsJson = False,
) -> int:
    """Re-encode a folder of videos for training: smaller, cheap to decode, every frame and its time kept."""
    with track("re-encoding") as progress:
        report = transcode_directory(
            directory,
            out,
            short_side=short_side,
            gop=gop,
            crf=crf,
            index=index,
            follow_links=follow_links,
            workers=workers,
            progress=progress,
        )
    if json:
        print_json(describe(report))
    else:
        show(report)
    return PROBLEMS if report.left_out else FINE


def describe(report: TranscodeReport) -> dict[str, object]:
    """The report in figures, ready for JSON."""
    names = ("root", "output", "settings", "num_made", "num_kept", "num_frames", "bytes_before", "bytes_after")
    return {
        **{name: getattr(report, name) for name in names},
        "speed": None if report.speed is None else _describe_speed(report.speed),
        "odd": [asdict(odd) for odd in report.odd],
        "left_out": failure_rows(report.left_out),
        "gone": report.gone,
        "lost_classes": report.lost_classes,
    }


def _describe_speed(speed: DecodingSpeed) -> dict[str, object]:
    return {
        "num_videos": speed.num_videos,
        "num_frames": speed.clips.num_frames,
        "image_size": speed.clips.size,
        "workers": 1,
        "clips_per_second_before": speed.clips_per_second_before,
        "clips_per_second_after": speed.clips_per_second_after,
    }


def show(report: TranscodeReport) -> None:
    """Print the report."""
    settings, num_done = report.settings, report.num_made + report.num_kept
    share = f" ({report.bytes_after / report.bytes_before:.0%})" if report.bytes_before else ""
    print_line(
        f"{report.output}: {num_done:,} videos, {report.num_made:,} made now and {report.num_kept:,} before; "
        f"{report.num_frames:,} frames, as many as in {report.root}"
    )
    print_line(
        f"H.264, shorter side at most {settings['short_side']}, a key frame every {settings['gop']} frames, "
        f"constant rate factor {settings['crf']}, no sound"
    )
    print_line(f"size: {show_bytes(report.bytes_before)} -> {show_bytes(report.bytes_after)}{share}")
    if report.speed is not None:
        print_line(f"speed of decoding: {report.speed}")
        if report.speed.gain < 1:
            print_line("decoding is slower than before: keep the sources, or give a smaller --short-side")
    if report.odd:
        print_table("worth knowing", ("file", "remarks"), ((odd.path, "; ".join(odd.remarks)) for odd in report.odd))
    print_failures("left out", report.left_out)
    _print_names("results of earlier runs whose source is gone or cannot be used; left in place", report.gone)
    _print_names("classes without a result, so labels are numbered otherwise", report.lost_classes)


def _print_names(title: str, names: tuple[str, ...]) -> None:
    if names:
        print_line(f"{title}: {len(names)}")
        for name in names:
            print_line(f"  {name}")
