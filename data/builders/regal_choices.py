"""Chooses REGAL's settings: parameters of searches, laws without a network, and how each network's
law is used.

In the folder ``data`` ``python -m builders.regal_choices parameters`` writes ``regal/tuning.json``,
on training graphs alone; the winners are copied by hand to `regal.searches.brkga` and
`regal.searches.local_search`, and a test compares.
Without the word it writes ``data/checkpoints/regal/chosen.json``: laws by training graphs, uses of
networks by validation graphs. In both stands every point of the grids with its gap, and the best.
"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.programs.json_io import locked, write_json
from learned_mapping.regal.agent.learner import (
    PAPER,
    Learner,
    Variant,
    read_learner,
    variant_from,
    variant_to,
)
from learned_mapping.regal.methods import EVALUATIONS, checkpoint_folder
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.searches import proposals
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, brkga
from learned_mapping.regal.searches.local_search import LocalSearchParameters, local_search
from learned_mapping_companion.regal.graphs import DATASETS, graph_names, load_graph

from .training.command import say, write_tuning
from .training.regal_sets import examples, references, search, validation_instances

LAW_GRAPHS = 8  # Training graphs of each dataset for the grids of laws without a network.
VALIDATION = {"traced": 77, "synthetic": 24}
"""Validation graphs, of which those with room are kept: few of the traced ones leave any in peak
memory."""
VARIANT_GRAPHS = 16  # Of them for the grid of variants, at most.
VARIANT_SEEDS = 2
"""Of the search on each: one run of BRKGA differs from another by several percent."""
FINAL = ("memory",)
"""Objectives with a final: peak memory takes few values, and runs differ by as much as points of
the grid do."""
FINALISTS = 6
"""Points of a grid, the best, that are run again with other seeds of the search: the best of many
points is lucky."""
FINAL_SEEDS = 4  # Of the search, for each finalist, graph and network.
ROOM = 1.01
"""A validation graph on which BRKGA comes this close to the best known says nothing of variants."""
PARAMETER_SEEDS = 2
BRKGA_GRID = [
    BrkgaParameters(population=population, elite_fraction=elite, mutant_fraction=mutant, bias=bias)
    for population, elite, mutant, bias in itertools.product(
        (50, 100, 200), (0.1, 0.2), (0.02, 0.05, 0.15), (0.6, 0.7)
    )
]
LOCAL_SEARCH_GRID = [
    LocalSearchParameters(device_share=device, cluster_share=cluster, cluster_ops=ops)
    for device, cluster, ops in [
        *itertools.product((0.05, 0.1, 0.3), (0.2, 0.4), (32, 128, 512)),
        (0.1, 0.0, 2), (0.3, 0.0, 2),
    ]
]  # fmt: skip
ORDER = {"height": 16.0, "transfers": 60.0}
"""The order by a rule, as networks may use it; laws without a network may as well."""
EVEN = (1.0, 1.0)
CONSTANT_GRID = [
    *(
        {"affinity": affinity, "priority": EVEN}
        for affinity in ((1.5, 1.0), (2.0, 1.0), (0.5, 0.5), (2.0, 2.0))
    ),
    *({"affinity": EVEN, "priority": priority} for priority in ((0.5, 0.5), (2.0, 2.0))),
    *({"affinity": EVEN, "priority": EVEN, "transfers": transfers} for transfers in (15.0, 60.0)),
    {"affinity": EVEN, "priority": (0.5, 0.5), "transfers": 15.0},
]
SPECTRAL_GRID = [
    {"vector": vector, "strength": strength} | order
    for order in ({}, ORDER)
    for vector, strength in itertools.product(
        ("eigenvector_2", "balanced_4_1", "balanced_16_1"), (1.5, 3.0, 8.0)
    )
]
PRIORITY_GRID = [
    *(
        {"rule": rule, "strength": strength}
        for rule, strength in itertools.product(proposals.RULES, (2.0, 4.0, 8.0))
    ),
    {"rule": "height", "strength": 16.0},
    *(
        {"rule": r, "strength": s, "transfers": 60.0}
        for r, s in itertools.product(proposals.RULES, (4.0, 16.0))
    ),
]
LATE_GRID = [
    *({"rule": proposals.FREED_LATE, "strength": strength} for strength in (2.0, 4.0, 8.0)),
    *(
        {"rule": proposals.FREED_LATE, "strength": strength, "transfers": 60.0}
        for strength in (4.0, 16.0)
    ),
]
"""Of priorities, for peak memory alone."""
TURNS_2, TURNS_3 = (1.0, 4.0), (0.5, 2.0, 8.0)
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
    Variant(turns=TURNS_2),
    Variant(turns=TURNS_3),
    Variant(priorities=True, turns=TURNS_2),
    Variant(priorities=True, turns=TURNS_3),
    Variant(priorities=True, turns=TURNS_3, mutant_share=0.5),
    Variant(priorities=True, turns=TURNS_3, transfers=7.0),
    Variant(priorities=True, turns=TURNS_3, transfers=2.0),
    Variant(priorities=True, turns=TURNS_2, transfers=3.0),
    Variant(priorities=True, transfers=7.0),
    Variant(transfers=15.0),
    Variant(height=6.0, transfers=15.0),
    Variant(strength=2.0, height=6.0, transfers=15.0),
    Variant(**ORDER),
    Variant(strength=2.0, **ORDER),
    PAPER,
]


def grid_search(method: Any, grid: list[Any], objective: str) -> list[dict[str, Any]]:
    """One row per point of the grid: its parameters, and the geometric-mean gap to the best over
    the grid, in percent.

    Every point gets `EVALUATIONS` on every training graph with each of `PARAMETER_SEEDS` seeds.
    """
    kinds = ("traced", "synthetic")
    named = [(kind, name) for kind in kinds for name in graph_names(kind, "train")]
    instances = [
        Instance(load_graph(kind, name, "train"), objective=objective) for kind, name in named
    ]
    costs = np.zeros((len(grid), len(instances), PARAMETER_SEEDS))
    for point, parameters in enumerate(grid):
        for i, instance in enumerate(instances):
            for seed in range(PARAMETER_SEEDS):
                budget = Budget(samples=EVALUATIONS)
                method(instance, np.random.default_rng(seed), budget, parameters=parameters)
                costs[point, i, seed] = budget.best
    best = costs.min(axis=(0, 2))[None, :, None]
    gaps = 100 * (np.exp(np.log(costs / best).mean(axis=(1, 2))) - 1)
    return [
        dataclasses.asdict(p) | {"gap_percent": round(float(gap), 3)} for p, gap in zip(grid, gaps)
    ]


def choose_parameters() -> dict[str, Any]:
    """The parameters of `brkga-tuned` and `local-search`, by `grid_search`."""
    graphs = {kind: list(graph_names(kind, "train")) for kind in ("traced", "synthetic")}
    record: dict[str, Any] = {
        "evaluations": EVALUATIONS,
        "seeds": PARAMETER_SEEDS,
        "graphs": graphs,
    }
    for name, method, points in (
        ("brkga", brkga, BRKGA_GRID),
        ("local-search", local_search, LOCAL_SEARCH_GRID),
    ):
        for objective in OBJECTIVES:
            rows = grid_search(method, points, objective)
            best = min(rows, key=lambda row: row["gap_percent"])
            record[f"{name} {objective}"] = {"best": best, "grid": rows}
            say(f"{name} {objective} {best}")
    return record


def gap_percent(costs: Iterable[float], best: np.ndarray) -> float:
    """Geometric-mean gap in percent."""
    return float(100 * (np.exp(np.log(np.array(list(costs)) / best).mean()) - 1))


def grid(
    points: Sequence[dict],
    instances: list[Instance],
    best: np.ndarray,
    make: Callable[..., MutantLaw],
    seeds: Sequence[int] = (0,),
) -> list[dict[str, Any]]:
    """The points with the gap, in percent, of BRKGA with the law that ``make(instance, seed=seed,
    **point)`` gives."""
    rows = []
    for point in points:
        costs = [
            [search(task, make(task, seed=seed, **point), seed) for task in instances]
            for seed in seeds
        ]
        rows.append(dict(point) | {"gap_percent": round(gap_percent(costs, best), 3)})
        say(rows[-1])
    return rows


def finals(
    rows: list[dict],
    instances: list[Instance],
    best: np.ndarray,
    makes: Sequence[Callable],
    first_seed: int,
) -> dict[str, Any]:
    """The entry of the rows of a `grid`: the best; with a final, the best of some run again, by
    their mean over `makes`, such as one for each network, with seeds of the search from
    `first_seed` on, above those of the grid."""
    ranked = sorted(rows, key=lambda row: row["gap_percent"])
    if instances[0].objective not in FINAL:
        return {"chosen": _point(ranked[0]), "grid": rows}
    points = [_point(row) for row in ranked[:FINALISTS]]
    seeds = range(first_seed, first_seed + FINAL_SEEDS)
    grids = [grid(points, instances, best, make, seeds) for make in makes]
    means = [round(float(np.mean([row["gap_percent"] for row in same])), 3) for same in zip(*grids)]
    finalists = [point | {"gap_percent": mean} for point, mean in zip(points, means)]
    return {
        "chosen": _point(min(finalists, key=lambda row: row["gap_percent"])),
        "finalists": finalists,
        "grid": rows,
    }


def _point(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "gap_percent"}


def _law(
    instance: Instance, make: Callable[..., MutantLaw], point: dict[str, Any], *rest: Any
) -> MutantLaw:
    """The law at a point of a grid, with the order the point asks for."""
    order = {name: point.get(name, 0.0) for name in ORDER}
    law = make(
        instance, *rest, **{name: value for name, value in point.items() if name not in ORDER}
    )
    return proposals.ordered_law(instance, law, **order) if order["transfers"] else law


def choose_laws(record: dict[str, Any]) -> None:
    """The laws without a network of each objective, on the training graphs of its datasets
    together."""
    for objective in OBJECTIVES:
        picked = []
        for dataset in DATASETS:
            if DATASETS[dataset][1] == objective:
                dataset_examples = examples(dataset)
                picked += [
                    dataset_examples[len(dataset_examples) * i // LAW_GRAPHS]
                    for i in range(LAW_GRAPHS)
                ]
        instances = [entry.instance for entry in picked]
        best = np.array([entry.elites.costs[0] for entry in picked])
        further = {id(entry.instance): (entry.seen,) for entry in picked}
        late = LATE_GRID if objective == "memory" else []
        for name, make, points in (
            ("constant-law", proposals.constant_law, CONSTANT_GRID),
            ("spectral-law", proposals.spectral_law, SPECTRAL_GRID),
            ("priority-law", proposals.priority_law, PRIORITY_GRID + late),
        ):

            def law(
                instance: Instance, seed: int, make=make, further=further, **point: Any
            ) -> MutantLaw:
                return _law(
                    instance,
                    make,
                    point,
                    *(further[id(instance)] if make is proposals.spectral_law else ()),
                )

            rows = grid(points, instances, best, law)
            record.setdefault(name, {})[objective] = finals(rows, instances, best, [law], 1)


def choose_variant(record: dict[str, Any], file: str) -> None:
    """How the law of the network in `file` is used, on validation graphs with room; for all seeds
    of its dataset."""
    learner = read_learner(checkpoint_folder() / file)
    instances = validation_instances(learner.dataset, VALIDATION[DATASETS[learner.dataset][0]])
    best = references(instances)
    uniform = np.array(
        [[search(entry, None, seed) for entry in instances] for seed in range(VARIANT_SEEDS)]
    )
    roomy = np.flatnonzero(np.exp(np.log(uniform / best).mean(axis=0)) > ROOM)
    kept = sorted({int(roomy[len(roomy) * i // VARIANT_GRAPHS]) for i in range(VARIANT_GRAPHS)})
    instances, best = [instances[i] for i in kept], best[kept]

    def use(network: Learner) -> Callable[..., MutantLaw]:
        return lambda instance, seed, **point: network.law(
            instance, np.random.default_rng(seed), variant_from(point)
        )

    points = [variant_to(entry) for entry in VARIANT_GRID]
    rows = grid(points, instances, best, use(learner), range(VARIANT_SEEDS))
    networks = [read_learner(path) for path in siblings(checkpoint_folder() / file)]
    result = finals(rows, instances, best, [use(entry) for entry in networks], VARIANT_SEEDS)
    plain = round(gap_percent(uniform[:, kept], best), 3)
    result |= {"brkga_gap_percent": plain, "graphs": len(kept), "seeds": VARIANT_SEEDS}
    record.setdefault("variants", {})[learner.dataset] = result


def siblings(path: Path) -> list[Path]:
    """The networks that differ from this one in the seed of their training alone, this one among
    them."""
    return sorted(path.parent.glob(path.stem.rpartition("-")[0] + "-[0-9].npz"))


def main() -> None:
    wanted = sys.argv[1:]
    if wanted == ["parameters"]:
        write_tuning("regal/tuning.json", choose_parameters())
        return
    path = checkpoint_folder() / "chosen.json"
    for name in wanted or ["laws", *(p.name for p in sorted(checkpoint_folder().glob("*-0.npz")))]:
        found: dict[str, Any] = {}
        if name == "laws":
            choose_laws(found)
        else:
            choose_variant(found, name)
        with locked(path.parent):  # another process may have chosen others meanwhile
            record = json.loads(path.read_text()) if path.exists() else {}
            record.setdefault("schema", "learned-mapping/choices/1")
            for part, choices in found.items():
                record.setdefault(part, {}).update(choices)
            write_json(path, record, indent=1)


if __name__ == "__main__":
    main()
