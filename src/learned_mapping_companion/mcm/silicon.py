"""BERT on simulated silicon: predicted against measured run time, and what rules and searches are
worth.

The correlation and the share of invalid partitions are what the silicon was calibrated to
(``builders.mcm_tuning``), here on other partitions: a check, and no finding. What uniform draws and
the methods reach is one.
"""

from collections.abc import Callable

import numpy as np
import pandas

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import MIB, ChipModel
from learned_mapping.hardware.silicon import Silicon, SiliconModel, silicon_package
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import SPREAD, even_cut, near_balanced
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.programs.graph import late_order
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    grouped,
    summaries,
    summary_row,
    sweep,
)

GRAPH, INSTANCE, CHIPS = "bert_large_inference", "bert", 36
PARTITIONS = 2000
SAMPLES = 400
MEMORIES_MIB = (64, 68, 72, 76, 80)
"""Other memories than the calibrated one, at which the share of partitions that fit is counted."""
NEAR_OPTIMUM, NEAR_OPTIMUM_SPREAD = 1.03, (0.005, 0.1)
"""A partition within so much of the optimum's predicted run time is near-optimal; the spread it is
drawn with."""
# Partitions of seed s come from the generator of seed s + 1000, which the calibration did not use.
SEED_OFFSET = 1000

INFORMED: dict[str, Callable[[SiliconModel], np.ndarray]] = {
    "informed-cut": lambda model: even_cut(
        model.silicon.op_seconds,
        late_order(model.graph),
        repair_arrays(model.graph),
        model.package.chips,
    ),
    "informed-optimum": lambda model: optimum(_with_costs(model, model.silicon.op_seconds)),
}
"""They plan with the silicon's op times, which nobody could know; all others with the model's."""
RULES = ("greedy-naive", "greedy-careful", "even-cut", "optimum", *INFORMED)
SEARCHES = ("random", "sa", "random-balanced", "class-search")
SAMPLERS = ("near-balanced", "near-optimal", "uniform")
"""``uniform`` is SAMPLE without a policy, as the random search draws."""


def _with_costs(model: ChipModel, seconds: np.ndarray) -> ChipModel:
    """The model with other op times."""
    other = ChipModel(model.graph, model.package)
    other.op_seconds = seconds
    return other


def sampling_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """Random partitions: predicted and measured milliseconds, 0 where invalid, and what memory each
    needs."""
    graph, package = load_graph(instance), silicon_package(int(config["chips"]))
    silicon, model = Silicon(graph, package), ChipModel(graph, package)
    rng, arrays, count = (
        np.random.default_rng(seed + SEED_OFFSET),
        repair_arrays(graph),
        int(config["partitions"]),
    )
    if method == "uniform":
        rows = repair_batch(arrays, package.chips, mode="sample", rng=rng, count=count)
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
        "peak_mib": [round(float(silicon.stages(row).needed_bytes.max()) / MIB, 3) for row in rows],
        "sram_mib": package.sram_bytes / MIB,
        "ops": graph.num_ops,
        "broken": sum(not is_valid(row, graph.op_edges) for row in rows),
    }


def method_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """One rule or search on silicon: the throughput of its partition without noise, and the
    search's curve with it."""
    task = SILICON.task(load_graph(instance), chips=int(config["chips"]))
    (task, rng), record = SILICON.begin(task, seed), {}
    if method in INFORMED:
        partition = task.partition(INFORMED[method](task.model))
    else:
        budget = Budget(samples=int(config.get("samples", 1)), cpu=True)
        partition, _ = SILICON.method(method).run(task, rng, budget)
    if method in SEARCHES:
        record = {
            "curve": budget.curve(),
            "seconds": budget.seconds,
            "measurements": len(task.model.ran),
        }
    verdict = SILICON.validate(task, partition)
    return record | {
        "valid": not any("silicon" not in v.rule for v in verdict.violations),
        "fits": verdict.valid,
        "throughput": verdict.costs["silicon_throughput"],
        "predicted_throughput": verdict.costs["throughput"],
        "peak_mib": verdict.costs["needed_bytes"] / MIB,
        "ops": task.graph.num_ops,
    }


def plan_fig7(seeds: int) -> Runs:
    """Samples of partitions, the rules, and the searches."""
    partitions = {"chips": CHIPS, "partitions": PARTITIONS}
    samples = {"chips": CHIPS, "samples": SAMPLES}
    return [
        *sweep("silicon.sample", SAMPLERS, [GRAPH], partitions, seeds),
        *sweep("silicon.measure", RULES, [GRAPH], {"chips": CHIPS}),
        *sweep("silicon.measure", SEARCHES, [GRAPH], samples, seeds),
    ]


def assemble_fig7(records: Records) -> Rows:
    """Rows of the samples (the scatter is the first seed's), of memory, and of each method."""
    by_method = {
        method: [r["result"] for r in group] for (_, method), group in grouped(records).items()
    }
    first = by_method["near-balanced"][0]
    scatter = {"scatter": {name: first[f"{name}_ms"] for name in ("predicted", "measured")}}
    for method in ("near-balanced", "uniform"):
        samples = by_method[method]
        extra = {"chips": CHIPS, "ops": samples[0]["ops"]}
        extra["partitions"] = len(samples[0]["predicted_ms"])
        pairs = ((np.array(r["predicted_ms"]), np.array(r["measured_ms"])) for r in samples)
        numbers = pandas.DataFrame([_correlated(*pair) for pair in pairs])
        for metric, column in numbers.items():
            summary = summary_row(INSTANCE, method, metric, column, **extra)
            yield summary | {"values": column.tolist()} | scatter
            scatter = {}
    for method in SAMPLERS:
        peaks = [np.array(r["peak_mib"]) for r in by_method[method]]
        for memory in (*MEMORIES_MIB, by_method[method][0]["sram_mib"]):
            fits = [100.0 * np.mean(peak <= memory) for peak in peaks]
            cells = {"chips": CHIPS, "sram_mib": memory}
            yield summary_row(INSTANCE, method, "fits_percent", fits, **cells)
    optimal = by_method["optimum"][0]["throughput"]
    for method in (*RULES, *SEARCHES):
        runs = pandas.DataFrame(by_method[method])
        columns = {"throughput": runs["throughput"]}
        columns |= {"over_optimum": runs["throughput"] / optimal} if optimal > 0 else {}
        columns |= {"fits_percent": 100.0 * runs["fits"]}
        columns |= {name: runs[name] for name in ("predicted_throughput", "peak_mib")}
        yield from summaries(INSTANCE, method, columns, chips=CHIPS)


FIG7 = Artifact(
    "mcm.fig7", assemble_fig7, plan_fig7, Quick(config={"partitions": 200, "samples": 100})
)


def _correlated(predicted: np.ndarray, measured: np.ndarray) -> dict[str, float]:
    """Pearson's correlation among valid partitions, and how many of the fastest predicted tenth are
    below median."""
    valid = measured > 0
    x, y = predicted[valid], measured[valid]
    fastest = x <= np.quantile(x, 0.1)
    return {
        "pearson": float(np.corrcoef(x, y)[0, 1]),
        "invalid_percent": 100.0 * float(np.mean(~valid)),
        "false_positive_percent": 100.0 * float(np.mean(y[fastest] > np.median(y))),
    }
