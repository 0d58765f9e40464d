"""The sub-commands, gathered in the order in which a newcomer meets them."""

from __future__ import annotations

import typer

from clipfeed.cli import bench, cache, check, demo, evaluate, forecast, index, predict, split, train, transcode

app = typer.Typer(
    name="clipfeed",
    help="Train on a folder of videos: index, check, split, train, evaluate, predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, index, check, split, forecast, train, evaluate, predict, transcode, bench):
    app.command(command.NAME)(command.run)
app.add_typer(cache.app, name=cache.NAME)
