"""Twelve programs of families that no program of paper 1's tables has: searches and learners for
equal CPU seconds on one core, random play for fewer, and the rule with prices.

Families and sizes were written down before any method ran on them, and the set is opened once. The
paper's claims that need no particular program are decided here; the sixty programs stay the
development table.
"""

import numpy as np

from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.over_time import over_time
from learned_mapping_companion.mmap.runs import XLA
from learned_mapping_companion.mmap.speedup import AGENT, PRODS, RULES, latency_s, over_all
from learned_mapping_companion.mmap.table2 import (
    BEST_OF_PAPER,
    MODEL_FREE,
    PAPER_EVOLUTION,
    PRICES_ALONE,
    Returns,
    best_of,
    returns_of,
)
from learned_mapping_companion.table import (
    Records,
    Rows,
    by,
    grouped,
    mean_row,
    row,
)

PROGRAMS = "compiled-fresh"
OWN_EVOLUTION = "evolution-policy"
METHODS = ("random", "priced", *PAPER_EVOLUTION, OWN_EVOLUTION, "edit-search", MODEL_FREE)
BEGUN = "muzero-priced"
"""Ours: the agent that sees prices and begins at the rule's game."""
METHODS += ("search-only", AGENT, "learning-only", BEGUN, PRICES_ALONE)
SEEDS, ONCE = 2, ("search-only",)
"""Runs of a method on each program, at most, and methods with one."""
CONTRASTS = {
    AGENT: (
        BEST_OF_PAPER,
        OWN_EVOLUTION,
        "edit-search",
        "priced",
        "learning-only",
        "search-only",
        MODEL_FREE,
        "random",
    ),
    BEGUN: (PRICES_ALONE, "priced", "edit-search", AGENT),
    "priced": (BEST_OF_PAPER, "edit-search"),
    BEST_OF_PAPER: ("random",),
}
"""Method -> those it is compared with."""


def plan_fresh(seeds: int) -> Runs:
    """The compiler's mapping, the rule with prices, and every search and learner on every
    program."""
    names = compiled.names(PROGRAMS)
    for name in names:
        yield runs.plan_run(XLA, name, {})
    for name in names:
        for method in METHODS:
            yield from runs.plan_by_clock(method, name, min(seeds, 1 if method in ONCE else SEEDS))


def assemble_fresh(records: Records) -> Rows:
    """Per program and method ``return``, ``speedup`` over the compiler's mapping, and what a
    learner learned; of `BEST_OF_PAPER` the better of the paper's two evolutions. Over all programs
    ``return``, ``difference`` to those of `CONTRASTS` and ``ahead``, the share of programs on which
    the mean is larger, and the same over the small and the large ones; speedups as in
    `mmap.table3`."""
    groups = grouped(records)
    speeds: dict[str, list[float]] = {}
    for (name, method), group in groups.items():
        if method == XLA:
            yield mean_row(name, XLA, "speedup", [1.0])
            continue
        outcomes = [record["result"] for record in group]
        yield mean_row(name, method, "return", [runs.return_of(record) for record in group])
        yield from runs.learning_rows(name, method, outcomes)
        (compiler,) = groups[name, XLA]
        times = np.array([latency_s(record) for record in group])
        kinds = {method: times}
        if prod := (PRODS | RULES).get(method):
            kinds[prod] = np.minimum(times, latency_s(compiler))
            yield from runs.learning_rows(name, prod, outcomes)
        for kind, spent in kinds.items():
            values = latency_s(compiler) / spent
            yield mean_row(name, kind, "speedup", values, baseline=XLA)
            speeds.setdefault(kind, []).append(float(values.mean()))
    for kind, values in speeds.items():
        yield from over_all(kind, values)
    returns = returns_of(group for (_, method), group in groups.items() if method != XLA)
    returns[BEST_OF_PAPER] = best_of(returns, PAPER_EVOLUTION)
    for name, values in returns[BEST_OF_PAPER].items():
        yield mean_row(name, BEST_OF_PAPER, "return", values)
    for size in ("all", "small", "large"):
        yield from _over(size, returns)
    for method, group in by((r for r in records if r["method"] != XLA), "method").items():
        yield from over_time(method, group)


FRESH = Artifact(
    "mmap.fresh",
    assemble_fresh,
    plan_fresh,
    Quick((XLA, "random", "priced", "edit-search"), 2, seeds=1, config={"seconds": 1.0}),
    {"seconds": 720},
)


def _over(size: str, returns: Returns) -> Rows:
    """Rows over the programs of a size; of a part of them the metrics are ``part_return``,
    ``part_difference`` and ``part_ahead``."""
    part = "" if size == "all" else "part_"
    chosen = {
        method: {
            name: values
            for name, values in found.items()
            if size == "all" or (runs.num_buffers(name) > runs.LARGE) == (size == "large")
        }
        for method, found in returns.items()
    }
    means = {method: [*map(np.mean, found.values())] for method, found in chosen.items() if found}
    for method in sorted(means, key=lambda method: float(np.mean(means[method]))):
        yield mean_row(size, method, f"{part}return", means[method])
    for method, others in CONTRASTS.items():
        for other in others:
            ours, theirs = chosen.get(method, {}), chosen.get(other, {})
            gains = [np.mean(ours[name]) - np.mean(theirs[name]) for name in ours if name in theirs]
            if gains:
                ahead = np.mean([gain > 0 for gain in gains])
                yield mean_row(size, method, f"{part}difference", gains, baseline=other)
                yield row(size, method, f"{part}ahead", ahead, n=len(gains), baseline=other)
