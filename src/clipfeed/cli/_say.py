"""How every sub-command speaks: tables or JSON on stdout, one clear message on stderr, and an exit code."""

from __future__ import annotations

import functools
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TextIO, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clipfeed.errors import ClipfeedError, LayoutError, MissingDependencyError
from clipfeed.records import Failure

FINE, PROBLEMS, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
_NO_TERMINAL_COLUMNS = 10_000


def path_of(text: str) -> Path:
    """Read a path; `Path("")` would be the current folder, which is what an unset variable of a script stands for."""
    if not text:
        raise typer.BadParameter('an empty path names nothing; the current folder is "."')
    return Path(text)


Directory = Annotated[
    Path,
    typer.Argument(parser=path_of, help="Folder of videos, one sub-folder per class.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead of tables.")]
IndexFolder = Annotated[
    Path | None,
    typer.Option("--index", parser=path_of, help="Folder in which the index is kept.", show_default="the user's cache"),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="all usable cores")]
Target = Annotated[
    Path, typer.Argument(parser=path_of, help="A folder of videos, or one video file.", show_default=False)
]


def _share(value: float) -> float:
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value}: expected a share of the data between 0 and 1")
    return value


ValidationSplit = Annotated[
    float, typer.Option(callback=_share, help="Share of the data for validation, between 0 and 1.")
]
Seed = Annotated[int, typer.Option(help="Makes split, order and random clips repeatable.")]
Groups = Annotated[
    Literal["auto", "none"],
    typer.Option(help="auto: videos of one source stay on one side; none: file by file at random, which leaks."),
]
MemoryBudget = Annotated[str, typer.Option(help="Bytes each dataset may hold while it is iterated.")]
FollowLinks = Annotated[bool, typer.Option("--follow-links", help="Visit linked folders.")]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def reported(command: Callable[Arguments, int]) -> Callable[Arguments, None]:
    """Turn what a command returns or raises into an exit code and at most one message."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        _show_any_name()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = command(*args, **kwargs)
        except (LayoutError, MissingDependencyError) as error:
            code = _complain(error, WRONG_USE)
        except ClipfeedError as error:
            code = _complain(error, PROBLEMS)
        except (ValueError, OSError) as error:
            code = _complain(error, WRONG_USE)
        except KeyboardInterrupt:
            code = _complain("interrupted; what was done is kept", INTERRUPTED)
        raise typer.Exit(code)

    # Typer reads the signature of the command, not of the wrapper, but the wrapper returns nothing.
    run.__annotations__ = {**command.__annotations__, "return": None}
    return run


def _show_any_name() -> None:
    """Print what a terminal cannot show, such as undecodable bytes in file names, as escapes and not as an error."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one message, without the line of code that it came from."""
    Console(stderr=True, soft_wrap=True).print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False)


def given_options(context: typer.Context) -> set[str]:
    """Names of the options that stand on the command line; the others have their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def groups_of(choice: Literal["auto", "none"]) -> Literal["auto"] | None:
    """What `groups=` is for a choice on the command line."""
    return "auto" if choice == "auto" else None


def _complain(problem: object, code: int) -> int:
    Console(stderr=True, soft_wrap=True).print(f"[red]error:[/] {escape(str(problem))}", highlight=False)
    return code


def print_json(document: object) -> None:
    """Print one JSON document; undecodable bytes in file names stay as escapes."""
    sys.stdout.write(json.dumps(document, indent=2, default=_plain) + "\n")


def _plain(value: object) -> Any:  # noqa: ANN401  # whatever JSON knows
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def print_line(text: str = "") -> None:
    """Print one line of text as it is."""
    console().print(text, markup=False, highlight=False)


def console() -> Console:
    """The console that results go to; paths are never broken where another program may read them."""
    return Console(soft_wrap=True, width=None if sys.stdout.isatty() else _NO_TERMINAL_COLUMNS)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under column heads; numbers stand to the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    listed = [list(row) for row in rows]
    for number, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[number], int | float) for row in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(escape(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    console().print(table)


def failure_rows(failures: Iterable[Failure]) -> list[dict[str, str]]:
    """Failures as JSON rows."""
    return [{"path": failure.path, "stage": failure.stage, "reason": failure.reason} for failure in failures]


def print_failures(title: str, failures: Sequence[Failure]) -> None:
    """List what was left out, and why; every one of them."""
    if failures:
        print_line(f"{title}: {len(failures)}")
        for failure in failures:
            print_line(f"  {failure.path}: {failure.reason}")
