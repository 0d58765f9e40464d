"""`clipfeed check PATH`: decodes every frame; lists damaged, truncated, variable and rotated files."""

from __future__ import annotations

from clipfeed.check import check_videos
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    FollowLinks,
    Target,
    Workers,
    failure_rows,
    print_failures,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.progress import track

NAME = "check"


@reported
def run(path: Target, follow_links: FollowLinks = False, workers: Workers = None, json: AsJson = False) -> int:
    """Decode every frame of a folder or a file, and list what is damaged or odd."""
    with track("decoding") as progress:
        report = check_videos(path, follow_links=follow_links, workers=workers, progress=progress)
    if json:
        print_json(
            {
                "num_files": report.num_files,
                "num_fine": report.num_fine,
                "odd": [{"path": odd.path, "remarks": list(odd.remarks)} for odd in report.odd],
                "unusable": failure_rows(report.unusable),
            }
        )
    else:
        print_line(
            f"{report.num_files:,} files: {report.num_fine:,} fine, {len(report.odd):,} odd, "
            f"{len(report.unusable):,} unusable"
        )
        if report.odd:
            print_table(
                "odd, but usable", ("file", "remarks"), ((odd.path, "; ".join(odd.remarks)) for odd in report.odd)
            )
        print_failures("unusable", report.unusable)
    return PROBLEMS if report.unusable else FINE
