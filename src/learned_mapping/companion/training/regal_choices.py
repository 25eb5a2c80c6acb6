"""Chooses laws without a network on training graphs, and on validation graphs how each network's law is used.

``python -m learned_mapping.companion.training.regal_choices`` writes ``data/checkpoints/regal/chosen.json``: every
point of the grids with its gap, and the best.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.companion.regal.graphs import DATASETS
from learned_mapping.companion.training.regal_networks import gap_percent, search
from learned_mapping.companion.training.regal_sets import (
    examples,
    kind_and_objective,
    references,
    validation_instances,
)
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal.agent.learner import PAPER, Learner, Variant, read_learner, variant_from, variant_to
from learned_mapping.regal.learned_methods import checkpoint_folder
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.proposals import (
    FREED_LATE,
    RULES,
    constant_law,
    ordered_law,
    priority_law,
    spectral_law,
)

LAW_GRAPHS = 8
"""Training graphs of each dataset for the grids of laws without a network."""
VALIDATION = {"traced": 77, "synthetic": 24}
"""Validation graphs, of which those with room are kept: few of the traced ones leave any in peak memory."""
VARIANT_GRAPHS = 16
"""Of them for the grid of variants, at most."""
VARIANT_SEEDS = 2
"""Of the search on each: one run of BRKGA differs from another by several percent."""
FINAL = ("memory",)
"""Objectives with a final: peak memory takes few values, and runs differ by as much as points of the grid do."""
FINALISTS = 6
"""Points of a grid, the best, that are run again with other seeds of the search: the best of many points is lucky."""
FINAL_SEEDS = 4
"""Of the search, for each finalist, graph and network."""
ROOM = 1.01
"""A validation graph on which BRKGA comes this close to the best known says nothing of variants."""
CONSTANT_GRID = [
    {"affinity": affinity, "priority": priority}
    for affinity, priority in (
        ((1.5, 1.0), (1.0, 1.0)), ((2.0, 1.0), (1.0, 1.0)), ((0.5, 0.5), (1.0, 1.0)), ((2.0, 2.0), (1.0, 1.0)),
        ((1.0, 1.0), (0.5, 0.5)), ((1.0, 1.0), (2.0, 2.0)),
    )
]  # fmt: skip
SPECTRAL_GRID = [
    {"vector": vector, "strength": strength}
    for vector, strength in itertools.product(("eigenvector_2", "balanced_4_1", "balanced_16_1"), (1.5, 3.0, 8.0))
]
PRIORITY_GRID = [{"rule": rule, "strength": strength} for rule, strength in itertools.product(RULES, (2.0, 4.0, 8.0))]
ORDER = {"height": 16.0, "transfers": 60.0}
"""The order by a rule, as networks may use it; laws without a network may as well."""
CONSTANT_GRID += [
    {"affinity": (1.0, 1.0), "priority": priority, "transfers": transfers}
    for priority, transfers in (((1.0, 1.0), 15.0), ((1.0, 1.0), 60.0), ((0.5, 0.5), 15.0))
]
SPECTRAL_GRID += [point | ORDER for point in SPECTRAL_GRID]
PRIORITY_GRID += [{"rule": "height", "strength": 16.0}]
PRIORITY_GRID += [
    {"rule": rule, "strength": strength, "transfers": 60.0} for rule, strength in itertools.product(RULES, (4.0, 16.0))
]
LATE_GRID = [{"rule": FREED_LATE, "strength": strength} for strength in (2.0, 4.0, 8.0)]
LATE_GRID += [{"rule": FREED_LATE, "strength": strength, "transfers": 60.0} for strength in (4.0, 16.0)]
"""Of priorities, for peak memory alone."""
VARIANT_GRID = [
    Variant(),
    Variant(strength=2.0),
    Variant(strength=2.0, mutant_share=0.5),
    Variant(in_initial=False),
    Variant(priorities=True),
    Variant(priorities=True, strength=2.0),
    Variant(priorities=True, strength=2.0, mutant_share=0.5),
    Variant(priorities=True, in_initial=False),
    Variant(sampled=True, priorities=True),
    Variant(turns=(1.0, 4.0)),
    Variant(turns=(0.5, 2.0, 8.0)),
    Variant(priorities=True, turns=(1.0, 4.0)),
    Variant(priorities=True, turns=(0.5, 2.0, 8.0)),
    Variant(priorities=True, turns=(0.5, 2.0, 8.0), mutant_share=0.5),
    Variant(priorities=True, turns=(0.5, 2.0, 8.0), transfers=7.0),
    Variant(priorities=True, turns=(0.5, 2.0, 8.0), transfers=2.0),
    Variant(priorities=True, turns=(1.0, 4.0), transfers=3.0),
    Variant(priorities=True, transfers=7.0),
    Variant(transfers=15.0),
    Variant(height=6.0, transfers=15.0),
    Variant(strength=2.0, height=6.0, transfers=15.0),
    Variant(height=16.0, transfers=60.0),
    Variant(strength=2.0, height=16.0, transfers=60.0),
    PAPER,
]


def grid(
    points: Sequence[dict],
    instances: list[Instance],
    best: np.ndarray,
    make: Callable[..., MutantLaw],
    seeds: Sequence[int] = (0,),
) -> list[dict[str, Any]]:
    """The points with the gap, in percent, of BRKGA with the law that ``make(instance, seed=seed, **point)`` gives."""
    rows = []
    for point in points:
        costs = [[search(each, make(each, seed=seed, **point), seed) for each in instances] for seed in seeds]
        rows.append(dict(point) | {"gap_percent": round(gap_percent(costs, best), 3)})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def finals(
    rows: list[dict[str, Any]],
    instances: list[Instance],
    best: np.ndarray,
    makes: Sequence[Callable[..., MutantLaw]],
    first_seed: int,
) -> dict[str, Any]:
    """The entry of a grid's rows: the best; with a final, the best of some run again, by their mean over `makes`.

    Args:
      rows: of `grid`.
      instances, best: as there.
      makes: each as there, such as one for each network.
      first_seed: above those of the grid.
    """
    ranked = sorted(rows, key=lambda row: row["gap_percent"])
    if instances[0].objective not in FINAL:
        return {"chosen": _point(ranked[0]), "grid": rows}
    points = [_point(row) for row in ranked[:FINALISTS]]
    seeds = range(first_seed, first_seed + FINAL_SEEDS)
    each = [grid(points, instances, best, make, seeds) for make in makes]
    means = [round(float(np.mean([row["gap_percent"] for row in same])), 3) for same in zip(*each)]
    finalists = [point | {"gap_percent": mean} for point, mean in zip(points, means)]
    return {"chosen": _point(min(finalists, key=lambda row: row["gap_percent"])), "finalists": finalists, "grid": rows}


def _point(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "gap_percent"}


def _law(instance: Instance, make: Callable[..., MutantLaw], point: dict[str, Any], *rest: Any) -> MutantLaw:
    """The law at a point of a grid, with the order the point asks for."""
    order = {name: point.get(name, 0.0) for name in ORDER}
    law = make(instance, *rest, **{name: value for name, value in point.items() if name not in ORDER})
    return ordered_law(instance, law, **order) if order["transfers"] else law


def choose_laws(record: dict[str, Any], objectives: Sequence[str] = OBJECTIVES) -> None:
    """The laws without a network of each objective, on the training graphs of its datasets together."""
    for objective in objectives:
        picked = []
        for dataset in DATASETS:
            if kind_and_objective(dataset)[1] == objective:
                found = examples(dataset)
                picked += [found[len(found) * i // LAW_GRAPHS] for i in range(LAW_GRAPHS)]
        instances = [each.instance for each in picked]
        best = np.array([each.elites.costs[0] for each in picked])
        seen = {id(each.instance): each.seen for each in picked}

        def constant(instance: Instance, seed: int, **point: Any) -> MutantLaw:
            return _law(instance, constant_law, point)

        rows = grid(CONSTANT_GRID, instances, best, constant)
        record.setdefault("constant-law", {})[objective] = finals(rows, instances, best, [constant], 1)

        def spectral(instance: Instance, seed: int, seen: dict = seen, **point: Any) -> MutantLaw:
            return _law(instance, spectral_law, point, seen[id(instance)])

        rows = grid(SPECTRAL_GRID, instances, best, spectral)
        record.setdefault("spectral-law", {})[objective] = finals(rows, instances, best, [spectral], 1)

        def priority(instance: Instance, seed: int, **point: Any) -> MutantLaw:
            return _law(instance, priority_law, point)

        points = PRIORITY_GRID + (LATE_GRID if objective == "memory" else [])
        rows = grid(points, instances, best, priority)
        record.setdefault("priority-law", {})[objective] = finals(rows, instances, best, [priority], 1)


def choose_variant(record: dict[str, Any], file: str) -> None:
    """How the law of the network in `file` is used, on validation graphs with room; for all seeds of its dataset."""
    learner = read_learner(checkpoint_folder() / file)
    instances = validation_instances(learner.dataset, VALIDATION[kind_and_objective(learner.dataset)[0]])
    best = references(instances)
    uniform = np.array([[search(each, None, seed) for each in instances] for seed in range(VARIANT_SEEDS)])
    roomy = np.flatnonzero(np.exp(np.log(uniform / best).mean(axis=0)) > ROOM)
    kept = [int(roomy[len(roomy) * i // VARIANT_GRAPHS]) for i in range(VARIANT_GRAPHS)]
    kept = sorted(set(kept))
    instances, best = [instances[i] for i in kept], best[kept]

    def use(network: Learner) -> Callable[..., MutantLaw]:
        return lambda instance, seed, **point: network.law(instance, np.random.default_rng(seed), variant_from(point))

    points = [variant_to(each) for each in VARIANT_GRID]
    rows = grid(points, instances, best, use(learner), range(VARIANT_SEEDS))
    networks = [read_learner(path) for path in siblings(checkpoint_folder() / file)]
    found = finals(rows, instances, best, [use(each) for each in networks], VARIANT_SEEDS)
    plain = round(gap_percent(uniform[:, kept], best), 3)
    found |= {"brkga_gap_percent": plain, "graphs": len(kept), "seeds": VARIANT_SEEDS}
    record.setdefault("variants", {})[f"{learner.model} {learner.dataset}"] = found


def siblings(path: Path) -> list[Path]:
    """The networks that differ from this one in the seed of their training alone, this one among them."""
    return sorted(path.parent.glob(path.stem.rpartition("-")[0] + "-[0-9].npz"))


LAWS_OF = {f"{objective}-laws": (objective,) for objective in OBJECTIVES}
"""Arguments of the command for the laws of one objective."""


def main(arguments: list[str] | None = None) -> int:
    wanted = sys.argv[1:] if arguments is None else arguments
    path = checkpoint_folder() / "chosen.json"
    record = json.loads(path.read_text()) if path.exists() else {"schema": "learned-mapping/choices/1"}
    for each in wanted or ["laws", *(p.name for p in sorted(checkpoint_folder().glob("*-0.npz")))]:
        if each == "laws" or each in LAWS_OF:
            choose_laws(record, LAWS_OF.get(each, OBJECTIVES))
        else:
            choose_variant(record, each)
        write_json(path, record, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
