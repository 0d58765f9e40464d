"""The `clipfeed` command: one file per sub-command, each a thin layer over public calls.

Exit codes: 0 fine, 1 problems found, 2 wrong use.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from clipfeed.cli._app import app

    app()
