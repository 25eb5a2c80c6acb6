"""Figure 6 and Table 3 of paper 2: BERT on 36 chips, every sample a measurement on the simulated
silicon."""

from collections.abc import Sequence

import numpy as np

from learned_mapping_companion import results, table
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mcm.learning import (
    available,
    learning_rows,
    learnt_rows,
    sweep_of,
    trainings_of,
)
from learned_mapping_companion.mcm.levels import (
    LEAST,
    SECONDS_A_SAMPLE,
    best_so_far,
    curve_of,
    level_row,
    log_curves,
)
from learned_mapping_companion.table import Record, Row

GRAPH, INSTANCE = "bert_large_inference", "bert"
RULES = ("greedy-naive", "greedy-careful", "even-cut", "optimum")
SEARCHES = (
    "random",
    "sa",
    "random-balanced",
    "sa-balanced",
    "climb",
    "rl",
    "rl-sample-credit",
    "zeroshot",
    "zeroshot-sample-credit",
    "finetune",
    "finetune-sample-credit",
    "rl-balanced",
    "rl-balanced-frozen",
    "zeroshot-balanced",
    "finetune-balanced",
    "class-search",
)
# The paper's second level is reached after 423, its last after 607.
SAMPLES = {"quick": 20, "full": 430, "paper": 800}
# What learning from scratch reaches with so many samples is a level too: the paper's second.
REACHED_AFTER = 423
SCRATCH = ("rl", "rl-balanced")
EARLY = ("finetune", "random-balanced", "class-search")
DECIDING, DECIDING_SEEDS = ("random", "sa", "rl", "rl-sample-credit"), 22
"""Methods that two claims of the paper's abstract compare, and the runs of each: five leave both
undecided."""
EARLY_SAMPLES = 84
"""A fifth of `REACHED_AFTER`: what is had so early is judged without noise, which a level of
measurements is not."""
CONTRASTS = (
    ("rl", "random"),
    ("rl", "sa"),
    ("rl", "rl-sample-credit"),
    ("finetune", "rl"),
    ("zeroshot", "rl"),
    ("finetune", "zeroshot"),
    ("finetune", "random"),
    ("finetune", "sa"),
    ("zeroshot-sample-credit", "rl-sample-credit"),
    ("finetune-sample-credit", "rl-sample-credit"),
    ("finetune-sample-credit", "zeroshot-sample-credit"),
    ("rl-balanced", "rl-balanced-frozen"),
    ("rl-balanced", "random-balanced"),
    ("rl-balanced", "sa-balanced"),
    ("rl-balanced", "climb"),
    ("zeroshot-balanced", "rl-balanced"),
    ("finetune-balanced", "rl-balanced"),
    ("zeroshot-balanced", "rl-balanced-frozen"),
    ("finetune-balanced", "zeroshot-balanced"),
    ("class-search", "random-balanced"),
    ("rl-sample-credit", "random"),
    ("rl-sample-credit", "sa"),
)
"""Whose throughput is put in relation to whose; with `EARLY_SAMPLES` too, where both have them."""
LEVELS = (2.55, 2.60, 2.65)
OVER_OPTIMUM = (0.97, 1.00, 1.05)
"""Levels over what the static optimum measures; the paper's, over a naive greedy, may lie beyond
any partition."""
# Samples that it takes in the time of another claim of Section 5.3.
TEN_MINUTES = int(600 // SECONDS_A_SAMPLE)


def plan_fig6(profile: str, seeds: int) -> list[Run]:
    """Rules once, searches by seed."""
    runs = table.sweep("silicon.solve", RULES, [GRAPH], {"samples": 1})
    for method in available(SEARCHES):
        config = {"samples": SAMPLES[profile]} | ({} if profile == "full" else {"network": profile})
        count = max(seeds, DECIDING_SEEDS) if method in DECIDING and profile == "full" else seeds
        runs += sweep_of("silicon.solve", method, GRAPH, config, count)
        if method in EARLY and profile != "quick":
            runs += sweep_of(
                "silicon.solve", method, GRAPH, config | {"samples": EARLY_SAMPLES}, seeds
            )
    return runs


def assemble_fig6(profile: str, records: Sequence[Record]) -> Record:
    """Throughput without noise, over the naive greedy and over the static optimum; curves are of
    measurements."""
    short = [
        r
        for r in records
        if r["method"] not in RULES and r["config"].get("samples") == EARLY_SAMPLES
    ]
    by_method = table.by((r for r in records if r not in short), "method")
    naive = records[0]["result"]["naive"]
    best = by_method["optimum"][0]["result"]["throughput"]
    plain = [(level, f"{level:.2f}") for level in LEVELS]
    shares = [(share, f"{100 * share:.0f}% of the optimum") for share in OVER_OPTIMUM]
    for method in SCRATCH:
        logs = log_curves(by_method.get(method, []), {GRAPH: best}, REACHED_AFTER)
        if logs.size:
            shares.append((float(np.exp(logs[..., -1].mean())), f"{method} after {REACHED_AFTER}"))
    table_rows: list[Row] = []
    for method, here in by_method.items():
        runs = table.frame(here)
        units = {"throughput": 1.0, "improvement": naive, "over_optimum": best}
        columns = {metric: runs.throughput / unit for metric, unit in units.items() if unit > 0}
        columns |= {
            "samples_that_run_percent": 100.0 * runs.ran / runs.samples,
            "seconds": runs.seconds,
        }
        table_rows += table.summaries(INSTANCE, method, columns)
        table_rows += learning_rows(INSTANCE, method, here)
        if method in RULES:
            continue
        for unit, levels in ((naive, plain), (best, shares)):
            if unit > 0:
                logs = log_curves(here, {GRAPH: unit}, here[0]["result"]["samples"])
                behind = trainings_of(method, logs.shape[1])
                table_rows += [
                    level_row(method, *level, logs, INSTANCE, behind) for level in levels
                ]
        logs = log_curves(here, {GRAPH: best}, here[0]["result"]["samples"])
        mean = np.exp(logs.mean((0, 1)))
        # before every seed has a partition that runs
        mean[np.any(logs <= np.log(LEAST), axis=(0, 1))] = 0.0
        measured = np.exp(logs[0, :, -1])
        table_rows.append(
            table.summary_row(
                INSTANCE, method, "measured_over_optimum", measured, curve=curve_of(mean)
            )
        )
    whole, early = (
        {method: [r["result"]["throughput"] for r in here] for method, here in groups.items()}
        for groups in (by_method, table.by(short, "method"))
    )
    curves = {
        method: [r["result"]["curve"] for r in here]
        for method, here in by_method.items()
        if method not in RULES
    }
    soon = {
        method: [best_so_far(curve, TEN_MINUTES)[-1] for curve in here]
        for method, here in curves.items()
    }
    for throughput, more in (
        (whole, {}),
        (early, {"samples": EARLY_SAMPLES}),
        (soon, {"samples": TEN_MINUTES}),
    ):
        scores = {method: {GRAPH: values} for method, values in throughput.items()}
        behind = {
            method: trainings_of(method, len(values)) for method, values in throughput.items()
        }
        for entry in table.ratio_rows(
            INSTANCE, scores, CONTRASTS, over_tasks=True, trainings=behind, **more
        ):
            rival = np.mean(throughput[entry["baseline"]])
            values = np.array(throughput[entry["method"]]) / rival
            table_rows.append(entry | {"values": values.tolist()})
    return table.assembled(table_rows, valid=(r["result"]["valid"] for r in records))


def assemble_table3(profile: str, records: Sequence[Record]) -> Record:
    """Samples to every level; minutes as the paper's package would take."""
    figure = results.load("mcm.fig6", profile)
    reached_rows = results.select(figure, metric="samples")
    for reached in list(reached_rows):
        minutes = None if reached["value"] is None else reached["value"] * SECONDS_A_SAMPLE / 60
        more = {"target": reached["target"], "n": reached["n"]}
        reached_rows.append(table.row(INSTANCE, reached["method"], "minutes", minutes, **more))
    return table.from_part(figure, reached_rows + learnt_rows(figure))
