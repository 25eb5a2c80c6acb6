"""The paper's policy at the paper's own size, Section 5.1: what it costs on one core, and what it
reaches.

Eight GraphSAGE layers of 128, ten epochs, 4,000 samples, beside the small network of all other
tables with as many.
"""

from collections.abc import Sequence
from dataclasses import replace

from learned_mapping.mcm.agent.config import agent_config
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mcm.learning import INSTANCE, few_graphs
from learned_mapping_companion.mcm.learning_bert import GRAPH
from learned_mapping_companion.mcm.learning_bert import INSTANCE as BERT
from learned_mapping_companion.mcm.levels import best_so_far
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import (
    Record,
    assembled,
    grouped,
    of_profile,
    ratio_rows,
    rows,
    summaries,
    sweep,
)

SIZES = {"rl": "full", "rl, 8 x 128": "paper"}  # Row of the table -> the network's size.
SAMPLES = {"quick": 40, "full": 4000}
FEWER = {"quick": 20, "full": 1000}
"""Samples after which both are compared too: what the other tables have."""
RULES = ("greedy-naive", "optimum")
BERT_SEEDS = 1
"""Runs on BERT: one of the large network takes most of an hour."""


def plan_size(profile: str, seeds: int) -> list[Run]:
    """Rules once, both sizes by seed; ``quick`` leaves out BERT, a long run of the large
    network."""
    runs, samples = [], of_profile(SAMPLES, profile)
    configs = [
        {"samples": samples, "network": network, "arm": arm} for arm, network in SIZES.items()
    ]
    for name in few_graphs(profile):
        runs += sweep("mcm.solve", RULES, [name], {"samples": 1})
        for config in configs:
            runs += sweep("mcm.solve", ["rl"], [name], config, seeds)
    if profile != "quick":
        runs += sweep("silicon.solve", RULES, [GRAPH], {"samples": 1})
        for config in configs:
            on_bert = sweep("silicon.solve", ["rl"], [GRAPH], config, min(seeds, BERT_SEEDS))
            runs += [replace(run, long=config["network"] == "paper") for run in on_bert]
    return runs


def assemble_size(profile: str, records: Sequence[Record]) -> Record:
    """Throughput over the naive greedy and the optimum of each graph, and over all but BERT, after
    `FEWER` samples too, and CPU seconds; the ratio of the two sizes.

    On BERT all is measured, so the value after fewer samples is the best measurement, with its
    noise.
    """
    groups, table_rows = grouped(records), []
    fewer = of_profile(FEWER, profile)
    over: dict[str, dict[str, dict[str, list[float]]]] = {arm: {} for arm in SIZES}
    for (name, method), here in groups.items():
        if method not in SIZES:
            continue
        naive, best = (groups[name, rule][0]["result"]["throughput"] for rule in RULES)
        ends = [record["result"]["throughput"] for record in here]
        early = [best_so_far(record["result"]["curve"], fewer)[-1] for record in here]
        columns = {f"over_optimum_after_{fewer}": [value / best for value in early]}
        columns |= {
            "over_optimum": [value / best for value in ends],
            "improvement": [value / naive for value in ends],
        }
        columns["seconds"] = [record["result"]["seconds"] for record in here]
        table_rows += summaries(
            BERT if name == GRAPH else name, method, columns, samples=here[0]["result"]["samples"]
        )
        updates = here[0]["result"]["samples"] // agent_config(SIZES[method]).rollouts
        table_rows += rows(
            BERT if name == GRAPH else name, method, {"updates": updates}, n=len(here)
        )
        if name != GRAPH:
            for metric, values in columns.items():
                over[method].setdefault(metric, {})[name] = values
    small, large = SIZES
    for method, columns in over.items():
        table_rows += summaries(INSTANCE, method, columns, statistic=geometric_mean)
    scores = {method: columns["improvement"] for method, columns in over.items()}
    table_rows += ratio_rows(INSTANCE, scores, [(large, small)], over_tasks=True)
    return assembled(table_rows, valid=(record["result"]["valid"] for record in records))
