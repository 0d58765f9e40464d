"""Put what was measured into the page that shows it: tables and plots out of the JSON files beside them.

    python benchmarks/render.py docs/performance.md

Between `<!-- figures: NAME KIND -->` and `<!-- end -->` stands the table KIND of `docs/figures/NAME.json`. Plots are
drawn anew from the same files. So the page never says anything but what a run gave.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers import clip_table, epoch_table
from scaling import clips_tables, files_table
from targets import target_table

TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "clip": lambda facts: clip_table(facts["clip"]),
    "first_epoch": lambda facts: epoch_table(facts["first_epoch"]),
    "later_epoch": lambda facts: epoch_table(facts["later_epoch"]),
    "targets": lambda facts: target_table(facts["rows"]),
    "files": lambda facts: files_table(facts["files"]),
    "clips": lambda facts: "\n\n".join(clips_tables(facts)),
    "machine": lambda facts: machine_line(facts),
}
BLOCK = re.compile(r"(<!-- figures: (\S+) (\S+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def main() -> None:
    """Render the page named on the command line."""
    page = Path(sys.argv[1])
    figures = page.parent / "figures"
    page.write_text(render(page.read_text(encoding="utf-8"), figures), encoding="utf-8")
    for path in sorted(figures.glob("peers-*.json")):
        from plot import draw_peers  # needs a plotting library

        draw_peers(json.loads(path.read_text()), path.with_suffix(".svg"))


def render(text: str, figures: Path) -> str:
    """Give a page with its tables as the JSON files have them."""

    def block(found: re.Match[str]) -> str:
        facts = json.loads((figures / f"{found[2]}.json").read_text())
        return f"{found[1]}\n{TABLES[found[3]](facts)}\n\n{found[4]}"

    return BLOCK.sub(block, text)


def machine_line(facts: dict[str, Any]) -> str:
    """Say what the figures were measured on."""
    machine = facts["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version != "absent")
    loads = " to ".join(f"{machine[name][0]:g}" for name in ("load_average", "load_average_after") if name in machine)
    return f"{machine['cores']} cores, load average {loads}; Python {machine['python']}, {versions}."


if __name__ == "__main__":
    main()
