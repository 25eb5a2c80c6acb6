"""Repairs: how many a second, how many valid, and how much of the candidate they keep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.statistics import summary_row
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.rules.example import example_graph
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.validate import validate

Record = dict[str, Any]

CHIPS = 36
ENGINES = {
    "sample-chain": ("sample", "chain"),
    "fix-chain": ("fix", "chain"),
    "fix-general": ("fix", "general"),
    "nearest-chain": ("nearest", "chain"),
}
"""Method -> mode and strength of `mcm.engine.repair_batch`."""
GRAPHS = {
    "quick": ("lenet_inference", "resnet50_inference"),
    "full": ("lenet_inference", "inception_inference", "resnet50_inference", "densenet121_inference",
             "bert_large_inference"),
}  # fmt: skip
REPAIRS = {"quick": 50, "full": 300}
REDRAWN = 0.2
"""Share of the ops whose chip is redrawn in a *near* candidate."""
VALIDATED = 10
"""Of so many repairs per run the independent validator judges; all others pass the fast check."""


def repair_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """Repairs a batch of candidates: uniform ones, or the careful greedy's with some chips redrawn (``near``)."""
    graph, chips, count = load_graph(instance), int(config["chips"]), int(config["repairs"])
    mode, strength = ENGINES[method]
    rng = np.random.default_rng(seed)
    candidates = rng.integers(0, chips, (count, graph.num_ops), dtype=np.int32)
    if config["candidates"] == "near":
        start = careful_greedy(ChipModel(graph, ChipPackage(chips=chips)))
        candidates = np.where(rng.random(candidates.shape) < REDRAWN, candidates, start)
    options = {"mode": mode, "strength": strength, "rng": rng}
    small = repair_arrays(example_graph())
    repair_batch(small, chips, **options, count=1, candidates=None if mode == "sample" else np.zeros((1, 6), np.int32))
    arrays = repair_arrays(graph)
    begin = time.process_time()
    repaired, attempts = repair_batch(
        arrays, chips, **options, count=count, candidates=None if mode == "sample" else candidates
    )
    seconds = time.process_time() - begin
    judged = [validate(graph, make_partition(row, chips)).valid for row in repaired[:VALIDATED]]
    valid = sum(judged) + sum(is_valid(row, graph.op_edges) for row in repaired[VALIDATED:])
    return {
        "ops": graph.num_ops,
        "repairs": count,
        "valid": int(valid),
        "validated": len(judged),
        "invalid": judged.count(False),
        "seconds": seconds,
        "agreement": None if mode == "sample" else float(np.mean(repaired == candidates)),
        "fell_back": float(np.mean(attempts < 0)),
    }


def plan_repair(profile: str, seeds: int) -> list[Run]:
    runs = []
    for instance in GRAPHS.get(profile, GRAPHS["full"]):
        for method in ENGINES:
            for kind in ("uniform",) if method == "sample-chain" else ("uniform", "near"):
                config = {"chips": CHIPS, "repairs": REPAIRS.get(profile, REPAIRS["full"]), "candidates": kind}
                runs += [Run("mcm.repair", method, instance, config, seed) for seed in range(seeds)]
    return runs


def assemble_repair(profile: str, records: Sequence[Record]) -> Record:
    """Percentages are over all repairs of a run, the interval over runs; the rate is that of uniform candidates."""
    rows: list[Record] = []
    keys = dict.fromkeys((r["instance"], r["method"], r["config"]["candidates"]) for r in records)
    for instance, method, kind in keys:
        found = [
            r["result"]
            for r in records
            if (r["instance"], r["method"], r["config"]["candidates"]) == (instance, method, kind)
        ]
        extra = {"ops": found[0]["ops"], "candidates": kind}
        if kind == "uniform":
            rates = [r["repairs"] / max(r["seconds"], 1e-9) for r in found]
            rows.append(summary_row(instance, method, "repairs_per_s", rates, **extra))
        metrics = {f"valid_percent_{kind}": [100 * r["valid"] / r["repairs"] for r in found]}
        if found[0]["agreement"] is not None:
            metrics[f"agreement_percent_{kind}"] = [100 * r["agreement"] for r in found]
        if method.endswith("general"):
            metrics[f"fell_back_percent_{kind}"] = [100 * r["fell_back"] for r in found]
        rows += [summary_row(instance, method, metric, values, **extra) for metric, values in metrics.items()]
    results = [r["result"] for r in records]
    validated, invalid = (sum(r[name] for r in results) for name in ("validated", "invalid"))
    return {"rows": rows, "paper": [], "validated": validated, "invalid": invalid}
