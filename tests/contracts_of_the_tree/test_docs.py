"""The documentation is whole, speaks of this project only, and promises nothing that the code does not do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import clipfeed as cf
from clipfeed import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LANGUAGES = {"python", "sh", "text"}

JOURNEY = ("find", "probe", "the-index", "split", "order", "sample", "decode", "transform", "batch", "deliver")

# What is planned, perhaps, and does not work yet; and what a reader has no use for.
NOT_PROMISED = ("coming soon", "not yet", "in a later version", "will be supported", "is planned", "TODO", "roadmap")
PATHS_OF_A_MACHINE = ("../shared", "/home/", "/root/", "/tmp/", "/Users/")


def words_of(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in pages_of(entry)]


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", words_of(page), flags=re.MULTILINE)


def test_the_navigation_names_every_page_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(pages_of(nav)) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_steps_of_the_journey_stand_in_its_order() -> None:
    named = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert [page.removesuffix(".md") for page in named if page.removesuffix(".md") in JOURNEY] == list(JOURNEY)


@pytest.mark.parametrize("name", JOURNEY)
def test_a_page_of_the_journey_says_what_its_step_never_does_and_shows_it_at_work(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert "What it never does" in headings(page)
    assert "```python" in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_names_a_language_that_is_tested_or_plain(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_promises_nothing_and_names_no_path_of_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = [word for word in (*NOT_PROMISED, *PATHS_OF_A_MACHINE) if word.lower() in text.lower()]
    assert not found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_ours_in_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for dotted in set(re.findall(r"\bcf((?:\.[A-Za-z_]\w*)+)", text)):
        value: object = cf
        for name in dotted[1:].split("."):
            assert hasattr(value, name), f"cf{dotted}"
            value = getattr(value, name)


def test_every_error_has_a_section_of_its_name_and_no_section_is_of_none() -> None:
    sections = [heading for heading in headings(DOCS / "errors.md") if heading.endswith(("Error", "Warning"))]
    assert sorted(sections) == sorted(errors.__all__)


def test_every_argument_of_the_facade_is_in_the_page_that_compares_it_with_keras() -> None:
    text = (DOCS / "coming-from-image-dataset-from-directory.md").read_text()
    missing = [name for name in inspect.signature(cf.video_dataset_from_directory).parameters if f"`{name}" not in text]
    assert not missing


def test_the_readme_holds_its_two_commands_each_on_a_line_of_its_own() -> None:
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python -m pip ")]
    assert commands == [
        'python -m pip install ".[tensorflow]" && clipfeed demo',
        'python -m pip install -e ".[dev]" && python -m pytest',
    ]


def test_links_of_the_readme_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert "://" in target or (ROOT / target).exists(), f"{page.name}: {target}"


def test_the_changelog_begins_with_what_is_unreleased_under_known_headings() -> None:
    names = headings(ROOT / "CHANGELOG.md")
    assert names[:2] == ["Changelog", "[Unreleased]"]
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(name in known or name.startswith("[") for name in names[1:])
