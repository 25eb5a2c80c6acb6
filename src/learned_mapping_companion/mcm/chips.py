"""BERT on chips whose op times part from the model: methods that learn the chips beside methods
that learn the partition.

Worlds are silicon with a factor of its own for every op (`SiliconParameters.op_spread`); without
one there is a single world, the silicon of all other tables. What a method has after so many
measurements is judged without noise, so that each number of them is a run.
"""

from collections.abc import Mapping
from typing import Any

from learned_mapping.budget import Budget
from learned_mapping.hardware.silicon import SiliconParameters
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.problem import warm_up
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.mcm.levels import level_row, log_curves
from learned_mapping_companion.statistics import Scores
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    by,
    column,
    ratio_rows,
    summary_row,
    sweep,
)

GRAPH, INSTANCE = "bert_large_inference", "bert"
SPREADS = (0.0, 0.25, 0.5)
WORLDS = 5
FIRST_WORLD = 100  # The first few were looked at while the method was made.
SAMPLES = (10, 60, 430)
START = "optimum"
"""The analytical model's own fastest partition, which all others are put in relation to."""
LEARNED = "learned-times"
LEARN_CHIPS = (LEARNED, "learned-times-throughput")
"""They go without the longest run: a few measurements are what they are for."""
METHODS = (*LEARN_CHIPS, "rl-balanced", "class-search", "random-balanced")
LEVEL = 1.05  # Of what the start measures.


def chip_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """A method on the chips of a world, judged by the validator: throughput without noise, 0 where
    the partition cannot run, and the curve of measurements."""
    parameters = SiliconParameters(op_spread=config["spread"], op_seed=config["world"])
    task = SILICON.task(load_graph(instance), parameters=parameters)
    task, rng = SILICON.begin(task, seed)
    chosen = SILICON.method(method, config["network"])
    warm_up(SILICON, task, chosen)
    budget = Budget(samples=config["samples"], cpu=True)
    partition, _ = chosen.run(task, rng, budget)
    verdict = SILICON.validate(task, partition)
    return {
        "valid": verdict.valid,
        "throughput": verdict.costs.get("silicon_throughput", 0.0),
        "seconds": budget.seconds,
        "curve": budget.curve(),
    }


def plan_chips(seeds: int) -> Runs:
    """The start once a world, methods by number of measurements and seed of the noise."""
    for spread in SPREADS:
        for world in range(WORLDS if spread else 1):
            config = {"spread": spread, "world": FIRST_WORLD + world, "network": "full"}
            yield from sweep("silicon.chips", [START], [GRAPH], config | {"samples": 1})
            for method in METHODS:
                for samples in SAMPLES[:-1] if method in LEARN_CHIPS else SAMPLES:
                    settings = config | {"samples": samples}
                    yield from sweep("silicon.chips", [method], [GRAPH], settings, seeds)


def assemble_chips(records: Records) -> Rows:
    """By spread: throughput over the start's after every number of measurements, CPU seconds,
    measurements to `LEVEL`, and the ratio of `LEARNED` with the fewest to each other with the most.
    Intervals are over worlds and seeds."""
    for spread, of_spread in by(_flat(records), "spread").items():
        groups = by(of_spread, "method", "samples")
        scores = {key: _by_world(group) for key, group in groups.items()}
        start = scores[START, 1]
        unit = {world: value for world, (value,) in start.items()}
        cells = {"spread": spread, "worlds": len(start)}
        for method in METHODS:
            counts = sorted(samples for name, samples in groups if name == method)
            few = counts[0]
            for samples in counts:
                pair = {method: scores[method, samples], START: start}
                over = _ratio(pair, method, START, samples=samples, **cells)
                yield from (entry | {"metric": "over_start"} for entry in over)
            runs = groups[method, counts[-1]]
            logs = log_curves(runs, unit, counts[-1])
            yield level_row(method, LEVEL, f"{LEVEL:.2f}", logs, INSTANCE) | cells
            seconds, ends = column(runs, "seconds"), {"samples": counts[-1], **cells}
            yield summary_row(INSTANCE, method, "seconds", seconds, **ends)
            if method != LEARNED:
                pair = {LEARNED: scores[LEARNED, few], method: scores[method, counts[-1]]}
                ends = {"samples": few, "against": counts[-1]}
                yield from _ratio(pair, LEARNED, method, **ends, **cells)


CHIPS = Artifact(
    "mcm.chips",
    assemble_chips,
    plan_chips,
    Quick(
        only={"spread": (0.0, 0.5), "world": (FIRST_WORLD,), "samples": (1, 10)},
        config={"network": "quick"},
    ),
    {"network": "paper"},
)


def _ratio(scores: Mapping[str, Scores], method: str, other: str, **cells: Any) -> Rows:
    """The row of the ratio of two methods over worlds and seeds, none where one cannot run."""
    return ratio_rows(INSTANCE, scores, [(method, other)], over_tasks=True, **cells)


def _flat(records: Records) -> Records:
    """The records with spread and samples beside the method, and the world as their instance."""
    return [
        record
        | {"spread": record["config"]["spread"], "samples": record["config"]["samples"]}
        | {"instance": f"world {record['config']['world']}"}
        for record in records
    ]


def _by_world(records: Records) -> dict[str, list[float]]:
    return {world: column(group, "throughput") for world, group in by(records, "instance").items()}
