"""What the documentation shows is what happens.

Every fenced `python` block of a page runs, in order and in one namespace, as a reader would paste them. What a block
prints must be what stands behind it in comments that begin with `#> `; a block without such comments may print what it
likes. A block that cannot run here says why in its first line, `# not run: ...`, and is only compiled.
"""

from __future__ import annotations

import contextlib
import gc
import io
import shlex
from pathlib import Path

import pytest
import typer
from sybil import Document, Example, Lexeme, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = "# not run: "
SHOWN = "#>"
FEWER_EPOCHS = ("epochs=30", "epochs=2")  # what a page shows, and what a test has time for

run_python = PythonEvaluator()


def run_block(example: Example) -> None:
    """Run a block and compare what it printed with what it says."""
    source = str(example.parsed)
    if source.startswith(NOT_RUN):
        compile(source, example.path, "exec")
        return
    code: Lexeme = example.parsed
    example.parsed = Lexeme(source.replace(*FEWER_EPOCHS), code.offset, code.line_offset)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_python(example)
    shown = [line.strip() for line in source.splitlines() if line.strip().startswith(SHOWN)]
    if shown:
        assert [f"{SHOWN} {line}".rstrip() for line in printed.getvalue().splitlines()] == shown, (
            f"{example.path}, line {example.line}: the block prints something else than it says"
        )


def blocks(page: Path, language: str) -> Document:
    """Give a page whose examples are its blocks of one language."""
    return Sybil(parsers=[CodeBlockParser(language, run_block)], path=str(page.parent)).parse(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("beside_the_data")
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")  # Keras says it of every tf.data.Dataset
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's variables, when saved
def test_the_code_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    document = blocks(page, "python")
    try:
        for example in document.examples():
            example.evaluate()
    finally:
        document.namespace.clear()  # datasets that were left in mid-epoch end here, with their threads
        gc.collect()


def commands() -> list[tuple[str, str]]:
    """Give (page, command line) of every `clipfeed ...` in a shell block."""
    return [
        (page.stem, part.strip())
        for page in PAGES
        for example in blocks(page, "sh").examples()
        for line in str(example.parsed).replace("\\\n", " ").splitlines()
        for part in line.partition("  #")[0].split("&&")
        if part.strip().startswith("clipfeed ")
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_line_of_a_page_is_one_that_the_program_takes(page: str, line: str) -> None:
    from clipfeed.cli._app import app

    name, *arguments = shlex.split(line)[1:]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    assert name in known, f"{page}: clipfeed {name}"
    known[name].make_context(name, arguments)  # parses the arguments and runs nothing
