"""Paper 1's Tables 3 and 4 and Figure 10: searches against the compiler's own mapping of the sixty programs.

Latencies are those of our model. ``speedup`` is over the compiler's mapping as it stands (``xla``), ``speedup_kept``
over the same within the rules that the searches keep to (``xla-kept``); `mmap.runs` says how both are timed. ``prod``
is the better of the agent's and that compiler's mapping, run for run; ``edit-search-prod`` that of the edit search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.datasets import compiled
from learned_mapping.companion.mmap.runs import COMPILER, counted, learning_rows, plan_run
from learned_mapping.companion.mmap.table2 import grouped
from learned_mapping.companion.statistics import bootstrap_interval
from learned_mapping.companion.table import summary_row

AGENT, PROD = "muzero", "prod"
OURS, OURS_PROD = "edit-search", "edit-search-prod"
PRODS = {AGENT: PROD, OURS: OURS_PROD}
"""A search -> the better of its mapping and the compiler's, run for run."""
QUICK_PROGRAMS = ("alexnet_train_batch_32", "rnn_0")
SECONDS = {"quick": 2.0, "full": 12.0, "paper": 600.0}
"""CPU seconds per program of the edit search, whatever the program's size, one core."""
AGENT_SECONDS = {"full": 300.0, "paper": 86_400.0}
"""Of the agent, compilation apart; in ``quick`` it does not take part."""
REPEATED = (
    "inference_lstm", "wavenet_coherent_batch32", "alexnet_train_batch_32", "mnasnet_b1_batch_128", "inference_resnet",
    "AlphaTensor", "rnn_7", "rnn_6", "mlperf_nmt_1_shard_batch_64", "rnn_3", "tensor2tensor_transformer", "rnn_2",
)  # fmt: skip
"""Those that the paper's Table 4 names get several seeds, all others one."""
SEEDS_REPEATED = 3
NAMED = 6
"""Programs at each end of Table 4."""
BASELINES = {"speedup": "xla", "speedup_kept": "xla-kept"}
AGAINST_ITSELF = 1e-9
"""A speedup has to exceed 1 by more than rounding."""

PAPER_TABLE3 = {AGENT: (1.0059, 1.8787, 0.4853, 33), PROD: (1.0405, 1.8787, 1.0, 33)}
"""Mean, largest and smallest speedup, programs improved out of 60; on a chip."""
SUMMARIES = ("speedup", "speedup_max", "speedup_min", "improved")
PAPER_TABLE4 = {
    "inference_lstm": 1.8787, "wavenet_coherent_batch32": 1.3335, "alexnet_train_batch_32": 1.1709,
    "mnasnet_b1_batch_128": 1.0960, "inference_resnet": 1.0893, "AlphaTensor": 1.0578, "rnn_7": 0.4853,
    "rnn_6": 0.5482, "mlperf_nmt_1_shard_batch_64": 0.7892, "rnn_3": 0.8541, "tensor2tensor_transformer": 0.9125,
    "rnn_2": 0.9343,
}  # fmt: skip


def programs(profile: str) -> tuple[str, ...]:
    """The programs of a profile."""
    return QUICK_PROGRAMS if profile == "quick" else compiled.names()


def plan_table3(profile: str, seeds: int) -> list[Run]:
    """The compiler's mapping and the searches on every program; several seeds on those of `REPEATED`."""
    runs = [plan_run(method, name, {}) for name in programs(profile) for method in COMPILER]
    for name in programs(profile):
        count = min(seeds, SEEDS_REPEATED) if name in REPEATED and profile != "quick" else 1
        for method, seconds in ((OURS, SECONDS), (AGENT, AGENT_SECONDS)):
            if profile in seconds:
                runs += [plan_run(method, name, {"seconds": seconds[profile]}, seed) for seed in range(count)]
    return runs


def assemble_table3(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Per program: latency, stalls, return and both speedups of the compiler, the searches and prod; over all programs.

    Rows over all: the mean of the programs' speedups with its interval over programs, the largest, the smallest, and
    how many programs gain; with ``_kept`` against the compiler within the rules.
    """
    rows: list[dict[str, Any]] = []
    over: dict[tuple[str, str], list[float]] = {}
    groups = grouped(records)
    for name in dict.fromkeys(record["instance"] for record in records):
        present = [method for method in (*COMPILER, *PRODS) if (name, method) in groups]
        found = {method: [r["result"] for r in groups[name, method]] for method in present}
        extra = {"program": groups[name, COMPILER[0]][0]["config"]["program"]}
        for method, list_of in found.items():
            rows.append(_row(name, method, "latency_s", [_latency(result) for result in list_of], **extra))
            rows.append(_row(name, method, "stall_s", [sum(result["stalls"].values()) for result in list_of]))
            rows.append(_row(name, method, "return", [result["costs"].get("return", 0.0) for result in list_of]))
        for metric, compiler in BASELINES.items():
            baseline = _latency(found[compiler][0])
            for search in [method for method in PRODS if method in found]:
                own = np.array([_latency(result) for result in found[search]])
                more = extra | {"seconds": groups[name, search][0]["config"]["seconds"]}
                speeds = {search: baseline / own, PRODS[search]: baseline / np.minimum(own, baseline)}
                if metric == "speedup":
                    rows += [row for method in speeds for row in learning_rows(name, method, found[search])]
                for method, values in speeds.items():
                    rows.append(_row(name, method, metric, values.tolist(), baseline=compiler, **more))
                    over.setdefault((method, metric), []).append(float(values.mean()))
            rows.append(_row(name, compiler, metric, [1.0], baseline=compiler))
    for (method, metric), values in over.items():
        rows += summaries(method, metric, values)
    paper = [
        {"instance": "all", "method": method, "metric": metric, "value": value}
        for method, values in PAPER_TABLE3.items()
        for metric, value in zip(SUMMARIES, values)
    ]
    return {"rows": rows, "paper": paper, **counted(records)}


def summaries(method: str, metric: str, values: Sequence[float]) -> list[dict[str, Any]]:
    """Rows over all programs from one mean speedup each."""
    low, high = bootstrap_interval(values, np.mean)
    numbers = {
        metric: float(np.mean(values)),
        metric.replace("speedup", "speedup_max"): max(values),
        metric.replace("speedup", "speedup_min"): min(values),
        metric.replace("speedup", "improved"): sum(value > 1.0 + AGAINST_ITSELF for value in values),
    }
    rows = [
        {"instance": "all", "method": method, "metric": name, "value": value, "n": len(values)}
        for name, value in numbers.items()
    ]
    return [{**rows[0], "low": low, "high": high}, *rows[1:]]


def _latency(result: dict[str, Any]) -> float:
    """An invalid mapping, which stops the table, counts as everything in HBM."""
    return float(result["costs"].get("latency_s", result["slow_s"]))


def _row(instance: str, method: str, metric: str, values: Sequence[float], **extra: Any) -> dict[str, Any]:
    return summary_row(instance, method, metric, values, statistic=np.mean, **extra)


def leading(table: dict[str, Any]) -> str:
    """The agent, where a result of `mmap.table3` has it on every program; else the edit search."""
    programs = {row["instance"] for row in table["rows"]}
    return AGENT if programs == {row["instance"] for row in results.select(table, method=AGENT)} else OURS


def ranked(table: dict[str, Any], metric: str = "speedup") -> list[dict[str, Any]]:
    """The rows of the `leading` method of a result of `mmap.table3`, fastest program first."""
    rows = [row for row in results.select(table, method=leading(table), metric=metric) if row["instance"] != "all"]
    return sorted(rows, key=lambda row: (-row["value"], row["instance"]))


def assemble_table4(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The best and worst `NAMED` programs by ``speedup``, each with its ``group`` and all methods' rows."""
    table = results.load("mmap.table3", profile)
    order = [row["instance"] for row in ranked(table)]
    ends = min(NAMED, len(order) // 2)
    group = {name: "best" for name in order[:ends]} | {name: "worst" for name in reversed(order[len(order) - ends :])}
    rows = [
        {**row, "group": group[name]}
        for name in group
        for metric in (*BASELINES, "games", "updates")
        for row in results.select(table, instance=name, metric=metric)
        if row["method"] in (*PRODS, *PRODS.values())
    ]
    paper = [
        {"instance": name, "method": AGENT, "metric": "speedup", "value": value} for name, value in PAPER_TABLE4.items()
    ]
    return {"rows": rows, "paper": paper, "validated": table["validated"], "invalid": table["invalid"]}


def assemble_fig10(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The speedups of all programs, searches and prod, fastest first."""
    table = results.load("mmap.table3", profile)
    rows = []
    for metric in BASELINES:
        for row in ranked(table, metric):
            rows.append(row)
            others = results.select(table, instance=row["instance"], metric=metric)
            rows += [r for r in others if r["method"] in (*PRODS, *PRODS.values()) and r["method"] != row["method"]]
    return {"rows": rows, "paper": [], "validated": table["validated"], "invalid": table["invalid"]}
