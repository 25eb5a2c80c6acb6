"""Predicted against measured run time, and what the rules and searches of paper 2 are worth on silicon.

The correlation and the share of invalid partitions are what the silicon was calibrated to
(`mcm_silicon_calibration`), here on other partitions: a check, and no finding. What the methods reach is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.statistics import interquartile_mean, summary_row
from learned_mapping.hardware.chip_package import MIB, ChipModel
from learned_mapping.hardware.silicon import Silicon, SiliconModel, silicon_package
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.costs import class_search
from learned_mapping.mcm.searches.even_cut import SPREAD, balanced_search, even_cut, near_balanced
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.searches.stochastic import annealing, random_search
from learned_mapping.mcm.silicon_check import validate_on_silicon
from learned_mapping.programs.graph import late_order

Record = dict[str, Any]

GRAPH, CHIPS = "bert_large_inference", 36
PARTITIONS = {"quick": 200, "full": 2000}
SAMPLES = {"quick": 100, "full": 400}
PAPER_PEARSON, PAPER_INVALID = 0.91, 0.135
"""Section 5.4 of the paper."""
MEMORIES_MIB = (64, 66, 68, 72, 80)
"""Other memories than the calibrated one, at which the share of partitions that fit is counted."""
NEAR_OPTIMUM, NEAR_OPTIMUM_SPREAD = 1.03, (0.005, 0.1)
"""A partition within so much of the optimum's predicted run time is near-optimal; the spread it is drawn with."""
SEED_OFFSET = 1000
"""Partitions of seed s come from the generator of seed s + 1000, which the calibration did not use."""

RULES: dict[str, Callable[[SiliconModel], np.ndarray]] = {
    "greedy-naive": naive_greedy,
    "greedy-careful": careful_greedy,
    "even-cut": lambda model: _even(model, model.op_seconds),
    "optimum": optimum,
    "informed-cut": lambda model: _even(model, model.silicon.op_seconds),
    "informed-optimum": lambda model: optimum(_with_costs(model, model.silicon.op_seconds)),
}
"""They plan with the analytical model; the informed ones with the op times of the silicon, which nobody could know."""
SEARCHES = {
    "random": random_search,
    "sa": annealing,
    "random-balanced": balanced_search,
    "class-search": class_search,
}
SAMPLERS = ("near-balanced", "near-optimal", "uniform")
"""``uniform`` is SAMPLE without a policy, as the random search draws."""


def _even(model: ChipModel, seconds: np.ndarray) -> np.ndarray:
    return even_cut(seconds, late_order(model.graph), repair_arrays(model.graph), model.package.chips)


def _with_costs(model: ChipModel, seconds: np.ndarray) -> ChipModel:
    """The model with other op times."""
    other = ChipModel(model.graph, model.package)
    other.op_seconds = seconds
    return other


def sampling_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """Random partitions: predicted and measured milliseconds, 0 where invalid, and the memory of the fullest chip."""
    graph, package = load_graph(instance), silicon_package(int(config["chips"]))
    silicon, model = Silicon(graph, package), ChipModel(graph, package)
    rng, arrays, count = np.random.default_rng(seed + SEED_OFFSET), repair_arrays(graph), int(config["partitions"])
    if method == "uniform":
        rows = repair_batch(arrays, package.chips, mode="sample", rng=rng, count=count)[0]
    else:
        spread = SPREAD if method == "near-balanced" else NEAR_OPTIMUM_SPREAD
        rows = near_balanced(model, arrays, rng, count, spread)
    predicted = np.array([model.runtime(row) for row in rows])
    if method == "near-optimal":
        kept = predicted <= NEAR_OPTIMUM * model.runtime(optimum(model))
        rows, predicted = rows[kept], predicted[kept]
    measured = [silicon.measure(row, rng) for row in rows]
    return {
        "predicted_ms": [round(1e3 * s, 6) for s in predicted],
        "measured_ms": [round(1e3 / m, 6) if m else 0.0 for m in measured],
        "peak_mib": [round(float(silicon.stages(row).peak_bytes.max()) / MIB, 3) for row in rows],
        "sram_mib": package.sram_bytes / MIB,
        "ops": graph.num_ops,
        "broken": sum(not is_valid(row, graph.op_edges) for row in rows),
    }


def method_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """One rule or search on silicon: the throughput of its partition without noise, and the search's curve with it."""
    graph, package = load_graph(instance), silicon_package(int(config["chips"]))
    silicon = Silicon(graph, package)
    plan_seed, noise_seed = np.random.SeedSequence(seed).spawn(2)
    model = SiliconModel(silicon, np.random.default_rng(noise_seed))
    record: Record = {}
    if method in RULES:
        assignment = RULES[method](model)
    else:
        budget = Budget(samples=int(config["samples"]), cpu=True)
        assignment = SEARCHES[method](model, repair_arrays(graph), np.random.default_rng(plan_seed), budget)
        record = {"curve": budget.curve(), "seconds": budget.seconds, "measurements": model.measurements}
    verdict = validate_on_silicon(make_partition(assignment, package.chips), silicon)
    return record | {
        "valid": not any("silicon" not in v.rule for v in verdict.violations),
        "fits": verdict.valid,
        "throughput": verdict.costs["silicon_throughput"],
        "predicted_throughput": verdict.costs["throughput"],
        "peak_mib": verdict.costs["peak_bytes"] / MIB,
        "ops": graph.num_ops,
    }


def plan_fig7(profile: str, seeds: int) -> list[Run]:
    """Samples of partitions, the rules, and the searches."""
    base = {"chips": CHIPS}
    partitions = base | {"partitions": PARTITIONS.get(profile, PARTITIONS["full"])}
    samples = base | {"samples": SAMPLES.get(profile, SAMPLES["full"])}
    runs = [Run("silicon.sample", m, GRAPH, partitions, seed) for m in SAMPLERS for seed in range(seeds)]
    runs += [Run("silicon.measure", method, GRAPH, base, 0) for method in RULES]
    return runs + [Run("silicon.measure", m, GRAPH, samples, seed) for m in SEARCHES for seed in range(seeds)]


def assemble_fig7(profile: str, records: Sequence[Record]) -> Record:
    """Rows of the samples (the scatter is that of the first seed), of memory, and of each method.

    ``memory_for_paper_mib`` is the memory at which the paper's share of a sampler's partitions would be invalid.
    """
    by_method: dict[str, list[Record]] = {}
    for record in records:
        by_method.setdefault(record["method"], []).append(record["result"])
    samples = by_method["near-balanced"]
    extra = {"chips": CHIPS, "ops": samples[0]["ops"], "partitions": len(samples[0]["predicted_ms"])}
    scatter = {name: samples[0][f"{name}_ms"] for name in ("predicted", "measured")}
    numbers = [_correlated(np.array(r["predicted_ms"]), np.array(r["measured_ms"])) for r in samples]
    rows = [
        summary_row("bert", "near-balanced", metric, [n[metric] for n in numbers], **extra)
        for metric in ("pearson", "invalid_percent", "false_positive_percent")
    ]
    rows[0]["scatter"] = scatter
    for method in SAMPLERS:
        found = by_method[method]
        for memory in (*MEMORIES_MIB, found[0]["sram_mib"]):
            fits = [100.0 * np.mean(np.array(r["peak_mib"]) <= memory) for r in found]
            rows.append(summary_row("bert", method, "fits_percent", fits, chips=CHIPS, sram_mib=memory))
        needed = [float(np.quantile(r["peak_mib"], 1 - PAPER_INVALID)) for r in found]
        rows.append(summary_row("bert", method, "memory_for_paper_mib", needed, chips=CHIPS))
    random = interquartile_mean([r["throughput"] for r in by_method["random-balanced"]])
    for method in (*RULES, *SEARCHES):
        found = by_method[method]
        values = np.array([r["throughput"] for r in found])
        over = {"over_random_balanced": random, "over_optimum": by_method["optimum"][0]["throughput"]}
        rows.append(summary_row("bert", method, "throughput", values, chips=CHIPS))
        rows += [summary_row("bert", method, name, values / v, chips=CHIPS) for name, v in over.items() if v > 0]
        rows.append(summary_row("bert", method, "fits_percent", [100.0 * r["fits"] for r in found], chips=CHIPS))
        predicted = [r["predicted_throughput"] for r in found]
        rows.append(summary_row("bert", method, "predicted_throughput", predicted, chips=CHIPS))
        rows.append(summary_row("bert", method, "peak_mib", [r["peak_mib"] for r in found], chips=CHIPS))
    key = {"instance": "bert", "method": "near-balanced"}
    paper = [
        {**key, "metric": "pearson", "value": PAPER_PEARSON},
        {**key, "metric": "invalid_percent", "value": 100 * PAPER_INVALID},
    ]
    solved = [r for m in (*RULES, *SEARCHES) for r in by_method[m]]
    sampled = [r for m in SAMPLERS for r in by_method[m]]
    invalid = sum(not r["valid"] for r in solved) + sum(r["broken"] for r in sampled)
    return {"rows": rows, "paper": paper, "validated": len(solved), "invalid": invalid}


def _correlated(predicted: np.ndarray, measured: np.ndarray) -> dict[str, float]:
    """Of the valid: Pearson's correlation, and how many of the tenth predicted fastest are slower than the median."""
    valid = measured > 0
    x, y = predicted[valid], measured[valid]
    fastest = x <= np.quantile(x, 0.1)
    return {
        "pearson": float(np.corrcoef(x, y)[0, 1]),
        "invalid_percent": 100.0 * float(np.mean(~valid)),
        "false_positive_percent": 100.0 * float(np.mean(y[fastest] > np.median(y))),
    }
