"""BERT on chips whose op times part from the model: methods that learn the chips beside methods
that learn the partition.

Worlds are silicon with a factor of its own for every op (`SiliconParameters.op_spread`); without
one there is a single world, the silicon of all other tables. What a method has after so many
measurements is judged without noise, so that each number of them is a run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from learned_mapping.budget import Budget
from learned_mapping.hardware.silicon import SiliconParameters
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.problem import warm_up
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.mcm.levels import level_row, log_curves
from learned_mapping_companion.statistics import Scores
from learned_mapping_companion.table import (
    Record,
    Row,
    assembled,
    by,
    of_profile,
    ratio_rows,
    summary_row,
    sweep,
)

GRAPH, INSTANCE = "bert_large_inference", "bert"
SPREADS = {"quick": (0.0, 0.5), "full": (0.0, 0.25, 0.5)}
WORLDS = {"quick": 1, "full": 5}
FIRST_WORLD = 100  # The first few were looked at while the method was made.
SAMPLES = {"quick": (3, 10), "full": (10, 60, 430)}
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


def _counts(method: str, profile: str) -> tuple[int, ...]:
    """The numbers of measurements that a method gets."""
    counts = of_profile(SAMPLES, profile)
    return counts[:-1] if method in LEARN_CHIPS else counts


def plan_chips(profile: str, seeds: int) -> list[Run]:
    """The start once a world, methods by number of measurements and seed of the noise."""
    runs = []
    for spread in of_profile(SPREADS, profile):
        for world in range(of_profile(WORLDS, profile) if spread else 1):
            config = {"spread": spread, "world": FIRST_WORLD + world, "network": profile}
            runs += sweep("silicon.chips", [START], [GRAPH], config | {"samples": 1})
            for method in METHODS:
                for samples in _counts(method, profile):
                    here = config | {"samples": samples}
                    runs += sweep("silicon.chips", [method], [GRAPH], here, seeds)
    return runs


def assemble_chips(profile: str, records: Sequence[Record]) -> Record:
    """By spread: throughput over the start's after every number of measurements, CPU seconds,
    measurements to `LEVEL`, and the ratio of `LEARNED` with the fewest to each other with the most.
    Intervals are over worlds and seeds."""
    rows: list[Row] = []
    few = of_profile(SAMPLES, profile)[0]
    for spread, of_spread in by(_flat(records), "spread").items():
        groups = by(of_spread, "method", "samples")
        scores = {key: _by_world(here) for key, here in groups.items()}
        start = scores[START, 1]
        unit = {world: value for world, (value,) in start.items()}
        more = {"spread": spread, "worlds": len(start)}
        for method in METHODS:
            counts = _counts(method, profile)
            for samples in counts:
                pair = {method: scores[method, samples], START: start}
                over = _ratio(pair, method, START, samples=samples, **more)
                rows += [entry | {"metric": "over_start"} for entry in over]
            runs = groups[method, counts[-1]]
            logs = log_curves(runs, unit, counts[-1])
            rows.append(level_row(method, LEVEL, f"{LEVEL:.2f}", logs, INSTANCE) | more)
            seconds = [record["result"]["seconds"] for record in runs]
            entry = summary_row(INSTANCE, method, "seconds", seconds, samples=counts[-1], **more)
            rows.append(entry)
            if method != LEARNED:
                pair = {LEARNED: scores[LEARNED, few], method: scores[method, counts[-1]]}
                ends = {"samples": few, "against": counts[-1]}
                rows += _ratio(pair, LEARNED, method, **ends, **more)
    return assembled(rows, valid=(record["result"]["valid"] for record in records))


def _ratio(scores: Mapping[str, Scores], method: str, other: str, **more: Any) -> list[Row]:
    """The row of the ratio of two methods over worlds and seeds, none where one cannot run."""
    return ratio_rows(INSTANCE, scores, [(method, other)], over_tasks=True, **more)


def _flat(records: Sequence[Record]) -> list[Record]:
    """The records with spread and samples beside the method, and the world as their instance."""
    return [
        record
        | {"spread": record["config"]["spread"], "samples": record["config"]["samples"]}
        | {"instance": f"world {record['config']['world']}"}
        for record in records
    ]


def _by_world(records: Sequence[Record]) -> dict[str, list[float]]:
    return {
        world: [record["result"]["throughput"] for record in here]
        for world, here in by(records, "instance").items()
    }
