"""Draw what `peers.py` found out, as an SVG that needs no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

OURS, PEER, WRONG = "#1f6feb", "#8b949e", "#d1242f"


def draw_peers(facts: dict[str, Any], path: Path) -> None:
    """Draw one panel a table: milliseconds a clip, and clips a second of whole epochs on a logarithmic axis."""
    mpl.rcParams |= {"svg.hashsalt": "clipfeed", "svg.fonttype": "none", "font.size": 9}
    panels = [key for key in ("clip", "first_epoch", "later_epoch") if key in facts]
    rows = [len(facts["clip"]["readers"]), *(len(facts[key]["pipelines"]) for key in panels[1:])]
    figure = Figure(figsize=(8, 1.1 * len(panels) + 0.26 * sum(rows)), layout="constrained")
    axes = figure.subplots(len(panels), 1, gridspec_kw={"height_ratios": rows}, squeeze=False)[:, 0]
    _draw_clips(axes[0], facts["clip"])
    for axis, key in zip(axes[1:], panels[1:], strict=True):
        title = "First epoch" if key == "first_epoch" else "Later epoch"
        _draw_epochs(axis, facts[key], f"{title}, {facts['threads']} threads: clips a second (logarithmic)")
    figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_clips(axis: Any, clip: dict[str, Any]) -> None:
    names = list(clip["readers"])
    values = [clip["readers"][name]["ms_per_clip"] for name in names]
    right = [clip["readers"][name]["right_frames"] for name in names]
    off_by = [clip["readers"][name]["gray_levels_off"] for name in names]
    colours = [_colour(name, is_right=share > 0.999) for name, share in zip(names, right, strict=True)]
    texts = [
        f"{value:.1f} ms"
        + ("" if share > 0.999 else f", {share:.0%} of frames right")
        + (", aliased" if off > 3 else "")
        for value, share, off in zip(values, right, off_by, strict=True)
    ]
    _bars(axis, names, values, colours, texts)
    axis.set_title("One clip, one thread: milliseconds (logarithmic; red: wrong frames)", loc="left")


def _draw_epochs(axis: Any, epoch: dict[str, Any], title: str) -> None:
    names = list(epoch["pipelines"])
    values = [epoch["pipelines"][name]["clips_per_second"] for name in names]
    texts = [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values]
    _bars(axis, names, values, [_colour(name) for name in names], texts)
    axis.set_title(title, loc="left")


def _bars(axis: Any, names: list[str], values: list[float], colours: list[str], texts: list[str]) -> None:
    axis.barh(names, values, color=colours)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlim(min(values) / 2, max(values) * 6)
    for place, (value, text) in enumerate(zip(values, texts, strict=True)):
        axis.text(value * 1.05, place, text, va="center")
    axis.spines[["top", "right"]].set_visible(False)


def _colour(name: str, *, is_right: bool = True) -> str:
    if not is_right:
        return WRONG
    return OURS if name.startswith(("clipfeed", "the same")) else PEER
