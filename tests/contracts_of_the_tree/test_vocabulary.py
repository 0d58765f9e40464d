"""One word, one meaning; and every public thing says what it takes, gives and raises."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import clipfeed

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"

# Words that mean several things in this field, and what is said here. `sample` is a verb, and `frame_stride` is no bare
# stride.
BANNED = {
    "window": "interval",
    "windows": "intervals",
    "stride": "frame_stride, or clip_step",
    "strides": "frame_stride, or clip_step",
    "sample": "example, or frame",
    "samples": "examples, or frames",
    "dilation": "frame_stride",
    "chunk": "part, or batch",
    "scan": "find, or probe",
}
# The word of the glossary; and the name that every standard and FFmpeg have for the shape of a pixel.
ALLOWED = ("frame_stride", "sample_aspect")
# Here a sample is what the container's standard (ISO/IEC 14496-12, 3.1) and the AVI index call so.
SAMPLES_OF_A_CONTAINER = ("clipfeed.probe", "clipfeed.testing")

# Terms that the code uses and that a reader must be able to look up.
TERMS = (
    "video", "frame", "packet", "pts, time base", "frame index", "probe", "packet scan", "find", "index", "record",
    "label, class name", "group", "split", "leak", "clip", "num_frames, T", "frame_stride", "span", "interval",
    "segment", "plan", "policy", "crop", "example", "batch", "step", "epoch", "order", "shard", "worker", "prefetch",
    "memory budget", "failure",
)  # fmt: skip

# Importing these needs a framework, or runs the command line.
NOT_IMPORTED = ("clipfeed.__main__", "clipfeed.cli")


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(clipfeed.__path__, "clipfeed."):
        if not found.name.startswith(NOT_IMPORTED):
            yield importlib.import_module(found.name)


def public_things() -> dict[str, Any]:
    """Every function and class in an `__all__`, by its full name."""
    things = {}
    for module in modules():
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__.startswith("clipfeed"):
                things[f"{thing.__module__}.{name}"] = thing
    return things


PUBLIC = public_things()
# What a user writes `cf.` or `cf.learn.` before: the reference that they read.
USERS = {
    f"{thing.__module__}.{name}": thing
    for package in (clipfeed, clipfeed.learn)
    for name in package.__all__
    if inspect.isfunction(thing := getattr(package, name)) or inspect.isclass(thing)
}


def methods(thing: type) -> dict[str, Callable[..., object]]:
    return {
        name: value for name, value in vars(thing).items() if inspect.isfunction(value) and not name.startswith("_")
    }


def parameters(thing: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def sections(thing: object) -> dict[str, str]:
    """The Google sections of a docstring, by name."""
    text = inspect.getdoc(thing) or ""
    pieces = re.split(r"^(Args|Attributes|Returns|Yields|Raises|Example|Source):", text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def documented_names(thing: object) -> set[str]:
    found = sections(thing)
    text = "\n".join(textwrap.dedent(found.get(name, "")) for name in ("Args", "Attributes"))
    return {name.lstrip("*") for name in re.findall(r"^(\*{0,2}\w+):", text, flags=re.MULTILINE)}


# Words


def test_no_public_parameter_has_a_name_with_several_meanings() -> None:
    wrong = []
    for full_name, thing in PUBLIC.items():
        taken = [*parameters(thing)] if not inspect.isclass(thing) or "__init__" in vars(thing) else []
        if inspect.isclass(thing):
            taken += [name for method in methods(thing).values() for name in parameters(method)]
        for name in taken:
            words = set(name.split("_")) & set(BANNED)
            if full_name.startswith(SAMPLES_OF_A_CONTAINER):
                words -= {"sample", "samples"}
            if words and not name.startswith(ALLOWED) and not full_name.startswith("clipfeed._"):
                wrong += [f"{full_name}: {name}: say {BANNED[word]}" for word in words]
    assert not wrong, "\n".join(wrong)


def test_the_glossary_has_every_term_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), flags=re.MULTILINE)
    assert set(TERMS) <= set(rows), sorted(set(TERMS) - set(rows))
    assert len(rows) == len(set(rows))


# Docstrings


def test_every_module_says_what_it_is_for() -> None:
    assert not [module.__name__ for module in modules() if not (module.__doc__ or "").strip()]


def test_every_public_thing_has_a_docstring_of_its_own() -> None:
    things: dict[str, object] = dict(PUBLIC)
    things |= {
        f"{name}.{method}": function
        for name, thing in PUBLIC.items()
        if inspect.isclass(thing) and not name.startswith("clipfeed.testing.contracts")
        for method, function in methods(thing).items()
    }
    assert not [name for name, thing in things.items() if not (inspect.getdoc(thing) or "").strip()]


@pytest.mark.parametrize("name", USERS)
def test_what_a_user_calls_documents_exactly_its_arguments(name: str) -> None:
    thing = USERS[name]
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
        expected = {field.name for field in dataclasses.fields(thing)}
    elif inspect.isclass(thing) and "__init__" not in vars(thing):
        expected = set()  # as its base
    else:
        expected = set(parameters(thing))
    found = documented_names(thing)
    assert expected <= found, f"not documented: {sorted(expected - found)}"
    if not inspect.isclass(thing):
        assert found <= expected, f"documented and not there: {sorted(found - expected)}"


@pytest.mark.parametrize("name", [name for name, thing in USERS.items() if inspect.isfunction(thing)])
def test_what_a_user_calls_says_what_it_gives_and_what_it_raises(name: str) -> None:
    thing, found = USERS[name], sections(USERS[name])
    # What a function gives may stand in its first line, which then begins with what the reader gets.
    if thing.__annotations__.get("return") not in (None, "None"):
        first_line = (inspect.getdoc(thing) or "").splitlines()[0]
        assert "Returns" in found or first_line.startswith(("Give", "Say", "Judge", "Train", "Go on")), "no Returns"
    if raises(thing):
        assert "Raises" in found, "it raises and does not say what"


def raises(function: Callable[..., object]) -> bool:
    """Tell whether a function's own body raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))
