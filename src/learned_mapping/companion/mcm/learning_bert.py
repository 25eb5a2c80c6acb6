"""Figure 6 and Table 3 of paper 2: BERT on 36 chips, every sample a measurement on the simulated silicon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.contrasts import ratio_rows
from learned_mapping.companion.mcm.learning import LEARNT, available, checkpoint_of, learning_rows
from learned_mapping.companion.mcm.levels import LEAST, at_least, curve_of, level_row, log_curves
from learned_mapping.companion.statistics import summary_row

Record = dict[str, Any]

GRAPH, INSTANCE = "bert_large_inference", "bert"
RULES = ("greedy-naive", "greedy-careful", "even-cut", "optimum")
SEARCHES = (
    "random", "random-balanced", "sa-balanced", "rl", "zeroshot", "finetune", "rl-balanced", "class-search",
    "costs-random", "costs-cem",
)  # fmt: skip
SAMPLES = {"quick": 20, "full": 430, "paper": 800}
"""The paper's second level is reached after 423, its last after 607."""
REACHED_AFTER = 423
"""What learning from scratch reaches with so many samples is a level too: the paper's second."""
SCRATCH = ("rl-balanced",)
EARLY = ("finetune", "random-balanced", "class-search", "costs-random", "costs-cem")
EARLY_SAMPLES = 84
"""A fifth of `REACHED_AFTER`: what is had so early is judged without noise, which a level of measurements is not."""
CONTRASTS = (
    ("rl-balanced", "random-balanced"), ("rl-balanced", "sa-balanced"), ("finetune", "rl-balanced"),
    ("class-search", "random-balanced"), ("costs-cem", "random-balanced"), ("costs-cem", "class-search"),
)  # fmt: skip
"""Whose throughput is put in relation to whose; with `EARLY_SAMPLES` too, where both have them."""
LEVELS = (2.55, 2.60, 2.65)
OVER_OPTIMUM = (0.97, 1.00, 1.05)
"""Levels over what the static optimum measures; the paper's, over a naive greedy, may lie beyond any partition."""
SECONDS_A_SAMPLE = 26.97
"""Section 5.3: how long the paper's package takes for one."""
PAPER_SAMPLES = {
    "random": (447, None, None), "sa": (576, None, None), "rl": (112, 423, 607),
    "zeroshot": (None, None, None), "finetune": (20, 20, 161),
}  # fmt: skip
"""Table 3."""


def plan_fig6(profile: str, seeds: int) -> list[Run]:
    """Rules once, searches by seed."""
    runs = [Run("silicon.solve", rule, GRAPH, {"samples": 1}) for rule in RULES]
    for method in available(SEARCHES):
        config = {"samples": SAMPLES[profile], **checkpoint_of(method)}
        config |= {} if profile == "full" else {"network": profile}
        runs += [Run("silicon.solve", method, GRAPH, config, seed) for seed in range(seeds)]
        if method in EARLY and profile != "quick":
            config = config | {"samples": EARLY_SAMPLES}
            runs += [Run("silicon.solve", method, GRAPH, config, seed) for seed in range(seeds)]
    return runs


def assemble_fig6(profile: str, records: Sequence[Record]) -> Record:
    """Throughput without noise, over the naive greedy and over the static optimum; curves are of measurements."""
    by_method: dict[str, list[Record]] = {}
    early: dict[str, list[float]] = {}
    for record in records:
        if record["method"] not in RULES and record["config"].get("samples") == EARLY_SAMPLES:
            early.setdefault(record["method"], []).append(record["result"]["throughput"])
        else:
            by_method.setdefault(record["method"], []).append(record)
    naive = records[0]["result"]["naive"]
    best = by_method["optimum"][0]["result"]["throughput"]
    rows: list[Record] = []
    shares = [(share, f"{100 * share:.0f}% of the optimum") for share in OVER_OPTIMUM]
    for method in SCRATCH:
        logs = log_curves(by_method.get(method, []), {GRAPH: best}, REACHED_AFTER)
        if logs.size:
            shares.append((float(np.exp(logs[..., -1].mean())), f"{method} after {REACHED_AFTER}"))
    for method, here in by_method.items():
        found = [r["result"] for r in here]
        values = np.array([r["throughput"] for r in found])
        for metric, unit in {"throughput": 1.0, "improvement": naive, "over_optimum": best}.items():
            if unit > 0:
                rows.append(summary_row(INSTANCE, method, metric, values / unit))
        rows.append(summary_row(INSTANCE, method, "fits_percent", [100.0 * r["fits"] for r in found]))
        ran = [100.0 * r["ran"] / r["samples"] for r in found]
        rows.append(summary_row(INSTANCE, method, "samples_that_run_percent", ran))
        rows.append(summary_row(INSTANCE, method, "seconds", [r["seconds"] for r in found]))
        rows += learning_rows(INSTANCE, method, here)
        if method in RULES:
            continue
        rows += _level_rows(method, here, naive, [(level, f"{level:.2f}") for level in LEVELS])
        rows += _level_rows(method, here, best, shares)
        logs = log_curves(here, {GRAPH: best}, found[0]["samples"])
        mean = np.exp(logs.mean((0, 1)))
        mean[np.any(logs <= np.log(LEAST), axis=(0, 1))] = 0.0  # before every seed has a partition that runs
        row = summary_row(INSTANCE, method, "measured_over_optimum", np.exp(logs[0, :, -1]))
        rows.append(row | {"curve": curve_of(mean)})
    whole = {method: [r["result"]["throughput"] for r in here] for method, here in by_method.items()}
    for found, extra in ((whole, {}), (early, {"samples": EARLY_SAMPLES})):
        rows += ratio_rows(INSTANCE, {method: {GRAPH: values} for method, values in found.items()}, CONTRASTS, **extra)
    for method, values in early.items():
        if best > 0:
            extra = {"samples": EARLY_SAMPLES}
            rows.append(summary_row(INSTANCE, method, "early_over_optimum", np.array(values) / best, **extra))
    paper = []
    for method, counts in PAPER_SAMPLES.items():
        key = {"instance": INSTANCE, "method": method, "metric": "samples"}
        paper += [{**key, "target": f"{level:.2f}", "value": count} for level, count in zip(LEVELS, counts)]
    invalid = sum(not r["result"]["valid"] for r in records)
    return {"rows": rows, "paper": paper, "validated": len(records), "invalid": invalid}


def _level_rows(
    method: str, records: Sequence[Record], unit: float, levels: Sequence[tuple[float, str]]
) -> list[Record]:
    if unit <= 0:
        return []
    logs = log_curves(records, {GRAPH: unit}, records[0]["result"]["samples"])
    return [level_row(method, level, target, logs, INSTANCE) for level, target in levels]


def assemble_table3(profile: str, records: Sequence[Record]) -> Record:
    """Samples to every level; minutes as the paper's package would take. ``samples_at_least`` as in ``mcm.table2``."""
    figure = results.load("mcm.fig6", profile)
    rows = results.select(figure, metric="samples")
    for row in list(rows):
        key = {name: row[name] for name in ("instance", "method", "target", "n")}
        rows.append(at_least(row))
        minutes = None if row["value"] is None else row["value"] * SECONDS_A_SAMPLE / 60
        rows.append({**key, "metric": "minutes", "value": minutes})
    rows = rows + [row for metric in LEARNT for row in results.select(figure, metric=metric)]
    return {"rows": rows, "paper": figure["paper"], "validated": figure["validated"], "invalid": figure["invalid"]}
