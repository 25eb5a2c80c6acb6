"""Paper 1's Figure 6 and Table 5: does a larger return mean a shorter latency?

The paper takes ten solutions from the stages of a training run, on the three best and three worst programs of its
Table 4. Ours are the best games of eight runs, fixed beforehand in `SOLUTIONS`, from random play to half a minute of
edit search, on the programs at the ends of our own Table 4. The rank correlation stands beside Pearson's, which a
single bad solution can make.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, plan_run
from learned_mapping.companion.mmap.speedup import AGENT, OURS, PAPER_TABLE4
from learned_mapping.companion.mmap.table2 import grouped

GROUPS = {"best": "largest speedup", "worst": "smallest speedup"}
ENDS = 3
"""Programs of each group."""
QUICK = (
    *(("random", 0.02), ("greedy", 0.1), ("greedy-tuned", 0.1), ("evolution-policy", 0.1), ("evolution-policy", 0.3)),
    *(("edit-search", 0.1), ("edit-search", 0.3), ("edit-search", 0.5), ("evolution-logits", 0.3)),
)
FULL = (
    *(("random", 1.0), ("greedy", 1.0), ("greedy-tuned", 10.0), ("evolution-policy", 3.0), ("evolution-policy", 10.0)),
    *(("edit-search", 1.0), ("edit-search", 10.0), ("edit-search", 30.0)),
)
SOLUTIONS = {"quick": QUICK, "full": FULL, "paper": FULL}
"""Method and CPU seconds of each run; the same on every program."""
SCATTER = "mixed"
"""The method of rows that are over solutions of several methods."""

PAPER_TABLE5 = {
    "inference_lstm": -0.9957, "wavenet_coherent_batch32": -0.9994, "alexnet_train_batch_32": -0.9581,
    "rnn_7": -0.0774, "rnn_6": 0.0299, "mlperf_nmt_1_shard_batch_64": -0.5422,
}  # fmt: skip


def groups(profile: str) -> dict[str, str]:
    """Program -> group, from the stored `mmap.table4`; without one, the paper's programs (in ``quick``, one each)."""
    table = results.stored("mmap.table4", profile)
    if table is None:
        names = list(PAPER_TABLE5)
        if profile == "quick":
            return {"alexnet_train_batch_32": "best", "rnn_0": "worst"}
        return dict.fromkeys(names[:ENDS], "best") | dict.fromkeys(names[ENDS:], "worst")
    found: dict[str, str] = {}
    for group in GROUPS:
        rows = results.select(table, method=OURS, metric="speedup", group=group)
        found |= {row["instance"]: group for row in rows[:ENDS]}
    return found


def plan_fig6(profile: str, seeds: int) -> list[Run]:
    """The runs on each program, numbered by their seeds, so that two runs of one method differ."""
    return [
        plan_run(method, name, {"seconds": seconds, "group": group}, number)
        for name, group in groups(profile).items()
        for number, (method, seconds) in enumerate(SOLUTIONS[profile])
    ]


def assemble_fig6(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Every solution's return and latency, and per program both correlations."""
    rows: list[dict[str, Any]] = []
    by_program: dict[str, list[dict[str, Any]]] = {}
    for (name, method), group in grouped(records).items():
        by_program.setdefault(name, []).extend(group)
        for record in group:
            result, config = record["result"], record["config"]
            if result["valid"]:
                more = {"seconds": config["seconds"], "group": config["group"], "program": config["program"]}
                costs = result["costs"]
                row = {"instance": name, "method": method, "metric": "latency_s", "value": costs["latency_s"], "n": 1}
                rows.append({**row, "return": costs["return"], **more})
    for name, found in by_program.items():
        points = np.array([[row["return"], row["value"]] for row in rows if row["instance"] == name]).T
        group = found[0]["config"]["group"]
        for metric, columns in (("correlation", points), ("rank_correlation", rankdata(points, axis=1))):
            value = pearson(*columns)
            row = {"instance": name, "method": SCATTER, "metric": metric, "value": value, "n": points.shape[1]}
            rows.append({**row, "group": group})
    return {"rows": rows, "paper": _paper_rows(), **counted(records)}


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Pearson's correlation; None where one side does not vary."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def assemble_table5(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The correlations of `mmap.fig6` beside the speedups of `mmap.table4`."""
    figure, table = results.load("mmap.fig6", profile), results.stored("mmap.table4", profile)
    rows = [row for row in figure["rows"] if row["method"] == SCATTER]
    names = list(dict.fromkeys(row["instance"] for row in rows))
    if table is not None:
        for name in names:
            rows += results.select(table, instance=name, method=OURS, metric="speedup")
    paper = _paper_rows()
    for name in PAPER_TABLE5:
        paper.append({"instance": name, "method": AGENT, "metric": "speedup", "value": PAPER_TABLE4[name]})
    return {"rows": rows, "paper": paper, "validated": figure["validated"], "invalid": figure["invalid"]}


def _paper_rows() -> list[dict[str, Any]]:
    return [
        {"instance": name, "method": SCATTER, "metric": "correlation", "value": value}
        for name, value in PAPER_TABLE5.items()
    ]
