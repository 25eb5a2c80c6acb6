"""Makes the files under data/graphs and data/programs anew, and prints the tables of their cards.

Usage: python data/build.py [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.datasets import GRAPHS, PROGRAMS, build_graphs, build_programs


def main(names: list[str]) -> None:
    here = Path(__file__).parent
    chosen = set(names or (*GRAPHS, *PROGRAMS))
    graphs = build_graphs(here / "graphs", [name for name in GRAPHS if name in chosen])
    programs = build_programs(here / "programs", MemoryHierarchy(), [name for name in PROGRAMS if name in chosen])
    for rows in (graphs, programs):
        if rows:
            print("| " + " | ".join(rows[0]) + " |")
            print("|" + "---|" * len(rows[0]))
            for row in rows:
                print("| " + " | ".join(str(value) for value in row.values()) + " |")
            print()


if __name__ == "__main__":
    main(sys.argv[1:])
