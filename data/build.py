"""Makes the files under data/graphs and data/programs anew, and the tables of their cards.

Usage: python data/build.py [graphs] [programs]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.datasets import build_graphs, build_programs

MARKER = "<!-- The table is made by data/build.py. -->\n"


def main(chosen: list[str]) -> None:
    here = Path(__file__).parent
    if not chosen or "graphs" in chosen:
        write_table(here / "graphs" / "README.md", build_graphs(here / "graphs"))
    if not chosen or "programs" in chosen:
        write_table(here / "programs" / "README.md", build_programs(here / "programs", MemoryHierarchy()))


def write_table(card: Path, rows: list[dict[str, Any]]) -> None:
    """Replaces what follows the marker in a card."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    head = card.read_text().partition(MARKER)[0]
    card.write_text(head + MARKER + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
