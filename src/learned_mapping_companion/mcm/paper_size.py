"""The paper's policy at the paper's own size, Section 5.1: what it costs on one core, and what it
reaches.

Eight GraphSAGE layers of 128, ten epochs, 4,000 samples, beside the small network of all other
tables with as many.
"""

from dataclasses import replace

import numpy as np

from learned_mapping.mcm.agent.config import agent_config
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mcm.learning import GRAPHS, INSTANCE, QUICK_GRAPHS
from learned_mapping_companion.mcm.learning_bert import GRAPH
from learned_mapping_companion.mcm.learning_bert import INSTANCE as BERT
from learned_mapping_companion.mcm.levels import best_so_far
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import (
    Records,
    Rows,
    column,
    grouped,
    ratio_rows,
    row,
    summaries,
    sweep,
)

SIZES = {"rl": "full", "rl, 8 x 128": "paper"}  # Row of the table -> the network's size.
SAMPLES = 4000
PART = 4
"""A quarter of them, which the other tables have, is where both are compared too."""
RULES = ("greedy-naive", "optimum")
BERT_SEEDS = 1
"""Runs on BERT: one of the large network takes most of an hour."""


def plan_size(seeds: int) -> Runs:
    """Rules once, both sizes by seed."""
    configs = [
        {"samples": SAMPLES, "network": network, "arm": arm} for arm, network in SIZES.items()
    ]
    for name in GRAPHS:
        yield from sweep("mcm.solve", RULES, [name], {"samples": 1})
        for config in configs:
            yield from sweep("mcm.solve", ["rl"], [name], config, seeds)
    yield from sweep("silicon.solve", RULES, [GRAPH], {"samples": 1})
    for config in configs:
        on_bert = sweep("silicon.solve", ["rl"], [GRAPH], config, min(seeds, BERT_SEEDS))
        yield from [replace(run, long=config["network"] == "paper") for run in on_bert]


def assemble_size(records: Records) -> Rows:
    """Throughput over the naive greedy and the optimum of each graph, and over all but BERT, after
    a `PART` of the samples too, and CPU seconds; the ratio of the two sizes.

    On BERT all is measured, so the value after fewer samples is the best measurement, with its
    noise.
    """
    groups = grouped(records)
    over: dict[str, dict[str, dict[str, list[float]]]] = {arm: {} for arm in SIZES}
    for (name, method), group in groups.items():
        if method not in SIZES:
            continue
        fewer, (samples, *_) = group[0]["config"]["samples"] // PART, column(group, "samples")
        naive, best = (groups[name, rule][0]["result"]["throughput"] for rule in RULES)
        ends = np.array(column(group, "throughput"))
        early = np.array([best_so_far(curve, fewer)[-1] for curve in column(group, "curve")])
        columns = {f"over_optimum_after_{fewer}": early / best, "over_optimum": ends / best}
        columns |= {"improvement": ends / naive, "seconds": column(group, "seconds")}
        label, updates = (
            BERT if name == GRAPH else name,
            samples // agent_config(SIZES[method]).rollouts,
        )
        yield from summaries(label, method, columns, samples=samples)
        yield row(label, method, "updates", updates, n=len(group))
        if name != GRAPH:
            for metric, values in columns.items():
                over[method].setdefault(metric, {})[name] = values
    small, large = SIZES
    for method, columns in over.items():
        yield from summaries(INSTANCE, method, columns, statistic=geometric_mean)
    scores = {method: columns["improvement"] for method, columns in over.items()}
    yield from ratio_rows(INSTANCE, scores, [(large, small)], over_tasks=True)


SIZE = Artifact(
    "mcm.size", assemble_size, plan_size, Quick(instances=QUICK_GRAPHS, config={"samples": 40})
)
