"""MMapBench's folder: a proven bound of each compiled program, and the best mapping known of it.

    python -m builders.bench --seconds 20 --out ../data/bench

The bounds are of linear programs, or, where `mmap.bound` has a tighter one stored, of branch and
bound. The first mappings are the best of the stored games of paper 1's tables, of its agent and of
searches, and of the rule with prices. From the best one known, and from nothing,
edit-search-repeats searches for some seconds, from nothing edit-search too, and offsets are
searched that let more in. The best game, whose offsets follow from its actions, is kept beside the
best mapping. With ``--seconds 0`` nothing is searched: better stored games enter. What stands in
the folder stays where it is better: a run can be interrupted, and another seed adds to it.
"""

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.bounds.upper import upper_bound
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.methods import METHODS, PROBLEM, solve
from learned_mapping.problem import warm_up
from learned_mapping.programs.program import Program
from learned_mapping_companion import results
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap.bench import (
    SAME,
    Standing,
    best_mapping,
    enter,
    load,
    score,
    standings,
)
from learned_mapping_companion.mmap.runs import replayed
from learned_mapping_companion.records import read_records

from .training.command import say

SOURCES = ("mmap.table2", "mmap.table3", "mmap.repeats", "mmap.fig7")
"""Artifacts whose records keep games."""
SEARCHES, RULE = ("edit-search-repeats", "edit-search"), "priced"
SOLVED = 1e-6  # A mapping this close to its bound is not searched any further.
Starts = list[tuple[Mapping, str]]
# Who found a mapping, when, and its digest, where there is none.
NOBODY = ("nobody", "never", "nothing")


def bound_of(program: Program) -> float:
    """Return that no mapping exceeds."""
    stored = results.select(
        results.load("mmap.bound", "full"), instance=program.name, metric="return"
    )
    values = [
        row["value"] for row in stored if row["program"] == program.digest[: len(row["program"])]
    ]
    return min([*values, 1.0]) if values else min(upper_bound(program).value, 1.0)


@functools.cache
def games() -> dict[str, list[dict[str, Any]]]:
    """Program -> records with a game's actions."""
    by_program: dict[str, list[dict[str, Any]]] = {}
    for artifact in SOURCES:
        for record in read_records(results.runs_path(artifact)).values():
            if "actions" in record["result"]:
                by_program.setdefault(record["instance"], []).append(record)
    return by_program


def first_mapping(program: Program, records: list[dict[str, Any]]) -> tuple[Mapping, str]:
    """The best mapping there is before any search of this builder, and the method that found it."""
    known = [
        (r["result"]["costs"]["return"], r)
        for r in records
        if program.digest.startswith(r["config"]["program"])
    ]
    mapping, by = solve(program, RULE).solution, RULE
    if known:
        _, record = max(known, key=lambda pair: pair[0])
        game = replayed(program, record["result"]["actions"])
        if score(program, game).value > score(program, mapping).value:
            mapping, by = game, record["method"]
    return mapping, by


def improvements(
    program: Program, mapping: Mapping, by: str, seconds: float, seed: int
) -> Iterator[tuple[Mapping, str]]:
    """A mapping, what edit-search-repeats makes of it, and what a search for offsets makes of that;
    each goes on from the better one."""
    yield mapping, by
    for method in (SEARCHES[0], "packing") if seconds else ():
        warm_up(PROBLEM, program, METHODS[method])
        budget = Budget(seconds=seconds, cpu=True)
        after, _ = METHODS[method].go_on(program, np.random.default_rng(seed), budget, [mapping])
        if score(program, after).value > score(program, mapping).value + SAME:
            mapping, by = after, by if method in by.split(", then ") else f"{by}, then {method}"
            yield mapping, by


def starts(
    program: Program, standing: Standing | None, folder: Path, seconds: float, seed: int
) -> Starts:
    """Mappings to go on from: the best one known, a stored game where it returns more than the best
    game known; and searches from nothing."""
    found = [first_mapping(program, games().get(program.name, []))]
    if standing is not None:
        if score(program, found[0][0]).value <= standing.game + SAME:
            found = []
        found.append((best_mapping(program, folder), standing.by))
    return found + [
        (solve(program, name, seed=seed, seconds=seconds, cpu=True).solution, name)
        for name in (SEARCHES if seconds else ())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build MMapBench's folder.")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of each search, a program; 0 for none"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--programs", nargs="+", default=compiled.names(), help="all sixty unless named"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    table = standings(chosen.out) if (chosen.out / "table.json").exists() else {}
    for name in chosen.programs:
        program, standing = load(name), table.get(name)
        if standing is None:
            table[name] = Standing(
                *(name, program.digest, program.num_buffers, bound_of(program)),
                *(-1.0, 0.0, *NOBODY, -1.0, "nothing"),
            )
        elif standing.game > standing.bound - SOLVED:
            continue
        limits = chosen.seconds, chosen.seed
        for start in starts(program, standing, chosen.out, *limits):
            for mapping, by in improvements(program, *start, *limits):
                scored = score(program, mapping)
                if scored.valid:
                    enter(chosen.out, table, program, mapping, scored, by)
        say(f"{name}: {table[name].best:.6f} of {table[name].bound:.6f} by {table[name].by}")


if __name__ == "__main__":
    main()
