"""Valid repairs per second on one core, and how that depends on the graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.datasets.registry import builder
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.rules.fold import fold_cheap_sources

CHIPS = 36
GRAPHS = {"bert_large_inference": 10_000.0, "densenet121_inference": None, "inception_inference": None}
"""Graph -> least valid repairs per second on one core, where there is a bar."""


def benchmark(graphs: Sequence[str] = tuple(GRAPHS), *, count: int = 1000, repeats: int = 3) -> list[dict[str, Any]]:
    """Rows with keys name, value, unit and bar (None where there is none); CPU time, best of `repeats`."""
    rows: list[dict[str, Any]] = []
    for name in graphs:
        graph = fold_cheap_sources(builder("zoo").graph(name))
        arrays = repair_arrays(graph)
        for mode in ("sample", "fix"):
            rng = np.random.default_rng(0)
            candidates = rng.integers(0, CHIPS, (count, graph.num_ops))
            options = {"mode": mode, "rng": rng, "count": count}
            options |= {} if mode == "sample" else {"candidates": candidates}
            repair_batch(arrays, CHIPS, **options | {"count": 1})  # compiles
            seconds, repaired = float("inf"), None
            for _ in range(repeats):
                start = time.process_time()
                repaired = repair_batch(arrays, CHIPS, **options)
                seconds = min(seconds, time.process_time() - start)
            label = f"{name} ({graph.num_ops} ops), {mode}"
            valid = float(np.mean([is_valid(row, graph.op_edges) for row in repaired[:: max(1, count // 100)]]))
            rows.append({"name": f"{label}: repairs", "value": count / seconds, "unit": "1/s", "bar": GRAPHS.get(name)})
            rows.append({"name": f"{label}: valid", "value": valid, "unit": "share", "bar": 1.0})
    return rows
