"""Figure 5, Tables 1 and 2 of paper 2, and FIX against SAMPLE: what learning adds on the sixteen test graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.contrasts import ratio_rows
from learned_mapping.companion.mcm import graphs
from learned_mapping.companion.mcm.levels import at_least, curve_of, level_row, log_curves, resampled_means
from learned_mapping.companion.statistics import summary_row
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import checkpoint_digest, checkpoint_path
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.methods import LEARNERS

Record = dict[str, Any]

INSTANCE = "all"
"""Of rows over all test graphs; a claim over the graphs leaves it out."""
RULES = ("greedy-naive", "greedy-careful", "optimum")
SEARCHES = (
    "random", "sa", "rl", "zeroshot", "finetune", "costs-random", "costs-cem",
)  # fmt: skip
SAMPLES = {"quick": 40, "full": 1000, "paper": 4000}
"""The paper's last level is reached after 3,652 samples."""
QUICK_GRAPHS = ("gru_writer_1x6",)
MODE_GRAPHS = {"quick": ("resnet_14",), "full": ("resnet_18", "darknet_53", "gru_writer_1x6", "highway_4x4")}
"""One of each family with a test graph that every search can partition in a minute."""
MODES = ({"mode": "fix", "credit": "repaired"}, {"mode": "fix", "credit": "candidate"},
         {"mode": "sample", "credit": "repaired"})  # fmt: skip
MODE_SAMPLES = {"quick": 40, "full": 400, "paper": 1000}
UNCONSTRAINED_SAMPLES, SOLVER_SECONDS = 2000, {"quick": 1.0, "full": 10.0}
LEVELS = (1.60, 1.70, 1.80)
"""The paper's."""
LOW_LEVELS = (1.10, 1.20, 1.30)
"""Ours: what the paper's policy reaches in the samples of the profile ``full``."""
SHARES = (0, 50, 75, 90)
"""Per cent of the way from the careful greedy to the optimum, in logarithms of throughput."""
PAPER_SAMPLES = {
    "random": (305, 915, 3612), "sa": (255, 979, None), "rl": (330, 676, 1496),
    "zeroshot": (196, 600, 3652), "finetune": (171, 503, 1362),
}  # fmt: skip
"""Table 2."""
PAPER_GAIN = {"random": 1.0436, "sa": 1.0649}
"""Section 5.2: learning over each."""
LEARNT = ("updates", "pretraining_samples")
"""Metrics of how much a learner has learned, beside its numbers wherever these stand."""
CONTRASTS = (
    ("rl", "random"), ("rl", "sa"), ("finetune", "rl"), ("finetune", "zeroshot"), ("costs-cem", "rl"),
    ("costs-cem", "costs-random"), ("costs-cem", "sa"),
)  # fmt: skip
"""Whose throughput is put in relation to whose."""
CLASSES = {
    "greedy-naive": "heuristic", "greedy-careful": "heuristic", "optimum": "exact", "cp-sat": "constraint solver",
    "unconstrained": "policy without a solver", "random": "search + solver", "sa": "search + solver",
    "rl": "learning + solver", "finetune": "learning + solver, pre-trained",
}  # fmt: skip


def checkpoint_of(method: str) -> dict[str, str]:
    """What a run of a method keeps of the trained policy it starts from; nothing for all others."""
    return {"checkpoint": checkpoint_digest()} if method in ("zeroshot", "finetune") else {}


def learning_rows(instance: str, method: str, records: Sequence[Record]) -> list[Record]:
    """How much a learner of the paper has learned: updates of PPO in its runs, samples of its pre-training."""
    if method not in LEARNERS:
        return []
    rollouts = agent_config(records[0]["config"].get("network", "full")).rollouts
    updates = min(r["result"]["samples"] for r in records) // rollouts
    found = {"updates": 0 if method == "zeroshot" else updates}
    if checkpoint_of(method):
        found["pretraining_samples"] = int(read_checkpoint(checkpoint_path())[1]["facts"]["samples"])
    key = {"instance": instance, "method": method, "n": len(records)}
    return [{**key, "metric": metric, "value": value} for metric, value in found.items()]


def available(methods: Sequence[str]) -> list[str]:
    """Those of the methods whose trained policy, where they need one, is there."""
    return [method for method in methods if checkpoint_of(method).get("checkpoint", "none") != ""]


def _network(profile: str) -> dict[str, str]:
    return {} if profile == "full" else {"network": profile}


def _graphs(profile: str) -> Sequence[str]:
    return QUICK_GRAPHS if profile == "quick" else graphs.names("test")


def plan_fig5(profile: str, seeds: int) -> list[Run]:
    """Rules once, searches by seed, all with the same number of samples."""
    runs = []
    for name in _graphs(profile):
        runs += [Run("mcm.solve", rule, name, {"samples": 1}) for rule in RULES]
        for method in available(SEARCHES):
            config = {"samples": SAMPLES[profile], **_network(profile), **checkpoint_of(method)}
            runs += [Run("mcm.solve", method, name, config, seed) for seed in range(seeds)]
    return runs


def assemble_fig5(profile: str, records: Sequence[Record]) -> Record:
    """Rows by graph, and over all: curves of the geometric mean over the naive greedy, and samples to every level."""
    single = {(r["instance"], r["method"]): r["result"]["throughput"] for r in records if r["method"] in RULES}
    names = list(dict.fromkeys(r["instance"] for r in records))
    naive, careful, best = ({n: single[n, rule] for n in names} for rule in RULES)
    end = {rule: float(np.mean([np.log(single[n, rule] / naive[n]) for n in names])) for rule in RULES}
    span = end["optimum"] - end["greedy-careful"]
    rows: list[Record] = []
    for method in dict.fromkeys(r["method"] for r in records):
        here = [r for r in records if r["method"] == method]
        results_of = {n: [r["result"] for r in here if r["instance"] == n] for n in names}
        for n in names:
            values = np.array([r["throughput"] for r in results_of[n]])
            extra = {"chips": results_of[n][0]["chips"], "ops": results_of[n][0]["ops"]}
            units = {"throughput": 1.0, "improvement": naive[n], "over_careful": careful[n], "over_optimum": best[n]}
            rows += [summary_row(n, method, metric, values / unit, **extra) for metric, unit in units.items()]
        seconds = [np.mean([results_of[n][s]["seconds"] for n in names]) for s in range(len(results_of[names[0]]))]
        rows.append(summary_row(INSTANCE, method, "seconds", seconds))
        logs = log_curves(here, naive, here[0]["result"]["samples"])
        mean, drawn = np.exp(logs.mean((0, 1))), resampled_means(logs)[:, -1]
        low, high = np.percentile(drawn, (2.5, 97.5))
        row = {"instance": INSTANCE, "method": method, "metric": "improvement", "value": float(mean[-1])}
        row |= {"low": float(low), "high": float(high), "n": int(logs.shape[1]), "samples": logs.shape[2]}
        rows.append(row | ({"curve": curve_of(mean)} if method not in RULES else {}))
        if method not in RULES:
            rows += [level_row(method, level, f"{level:.2f}", logs, INSTANCE) for level in (*LOW_LEVELS, *LEVELS)]
            if span > 0:
                for share in SHARES:
                    level = float(np.exp(end["greedy-careful"] + share / 100 * span))
                    rows.append(level_row(method, level, f"{share}%", logs, INSTANCE))
        rows += learning_rows(INSTANCE, method, here)
    scores = {m: _scores([r for r in records if r["method"] == m]) for m in dict.fromkeys(r["method"] for r in records)}
    rows += ratio_rows(INSTANCE, scores, CONTRASTS)
    invalid = sum(not r["result"]["valid"] for r in records)
    return {"rows": rows, "paper": _paper_levels(), "validated": len(records), "invalid": invalid}


def _scores(records: Sequence[Record]) -> dict[str, list[float]]:
    """Graph -> throughput of its runs."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["instance"], []).append(record["result"]["throughput"])
    return found


def _paper_levels() -> list[Record]:
    rows = []
    for method, counts in PAPER_SAMPLES.items():
        key = {"instance": INSTANCE, "method": method, "metric": "samples"}
        rows += [{**key, "target": f"{level:.2f}", "value": count} for level, count in zip(LEVELS, counts)]
    for method, gain in PAPER_GAIN.items():
        rows.append({"instance": INSTANCE, "method": method, "metric": "rl_over_it", "value": gain})
    return rows


def assemble_table2(profile: str, records: Sequence[Record]) -> Record:
    """The levels of Figure 5, and how many times fewer samples than learning from scratch.

    ``samples_at_least`` counts one more than the budget where a level is not reached.
    """
    figure = results.load("mcm.fig5", profile)
    rows = results.select(figure, metric="samples")
    needed = {(r["method"], r["target"]): r for r in rows}
    for (method, target), row in needed.items():
        key = {"instance": INSTANCE, "method": method, "target": target, "n": row["n"]}
        rows = [*rows, at_least(row)]
        if row["value"] and needed["rl", target]["value"]:
            rows.append({**key, "metric": "times_fewer", "value": needed["rl", target]["value"] / row["value"]})
    rows = rows + [row for metric in LEARNT for row in results.select(figure, metric=metric)]
    paper = results.select(figure, "paper", metric="samples")
    return {"rows": rows, "paper": paper, "validated": figure["validated"], "invalid": figure["invalid"]}


def plan_modes(profile: str, seeds: int) -> list[Run]:
    """The small network in every profile but ``paper``: the modes are compared, not the sizes."""
    network = "paper" if profile == "paper" else "quick"
    base = {"samples": MODE_SAMPLES[profile], "network": network}
    return [
        Run("mcm.mode", "rl", name, base | mode, seed)
        for name in _mode_graphs(profile)
        for mode in MODES
        for seed in range(seeds)
    ]


def _mode_graphs(profile: str) -> Sequence[str]:
    return MODE_GRAPHS.get(profile, MODE_GRAPHS["full"])


def assemble_modes(profile: str, records: Sequence[Record]) -> Record:
    """Throughput by graph, mode and credit."""
    rows = []
    for name in dict.fromkeys(r["instance"] for r in records):
        for mode in MODES:
            here = [r for r in records if r["instance"] == name and mode.items() <= r["config"].items()]
            rows.append(summary_row(name, "rl", "throughput", [r["result"]["throughput"] for r in here], **mode))
            rows.append(summary_row(name, "rl", "seconds", [r["result"]["seconds"] for r in here], **mode))
        rows += learning_rows(name, "rl", [r for r in records if r["instance"] == name])
    invalid = sum(not r["result"]["valid"] for r in records)
    return {"rows": rows, "paper": [], "validated": len(records), "invalid": invalid}


def plan_table1(profile: str, seeds: int) -> list[Run]:
    """What Figure 5 has not: a solver alone, and assignments without one."""
    solver = {"seconds": SOLVER_SECONDS.get(profile, SOLVER_SECONDS["full"])}
    drawn = {"samples": UNCONSTRAINED_SAMPLES}
    runs = [Run("mcm.solve", "cp-sat", name, solver) for name in _table1_graphs(profile)]
    return runs + [Run("mcm.share", "unconstrained", name, drawn) for name in _table1_graphs(profile)]


def _table1_graphs(profile: str) -> Sequence[str]:
    return QUICK_GRAPHS[:1] if profile == "quick" else MODE_GRAPHS["full"]


def assemble_table1(profile: str, records: Sequence[Record]) -> Record:
    """Per class of methods, on the same graphs: share of valid partitions, samples, CPU seconds, ratio to the naive."""
    figure, names = results.load("mcm.fig5", profile), _table1_graphs(profile)
    rows: list[Record] = []
    for method, group in CLASSES.items():
        key = {"instance": "classes", "method": method, "n": len(names), "class": group}
        own = [r["result"] for r in records if r["method"] == method]
        if method == "unconstrained":
            valid = 100.0 * sum(r["valid_samples"] for r in own) / sum(r["samples"] for r in own)
            found = {"valid_percent": valid, "samples": float(own[0]["samples"])}
            found["seconds"] = float(np.mean([r["seconds"] for r in own]))
        else:
            found = {"valid_percent": 100.0, **_from_figure(figure, method, names)}
            if own:
                naive = [results.value(figure, instance=n, method="greedy-naive", metric="throughput") for n in names]
                ratios = [r["throughput"] / unit for r, unit in zip(own, naive)]
                found["seconds"] = float(np.mean([r["seconds"] for r in own]))
                found["improvement"] = float(np.exp(np.mean(np.log(ratios))))
        rows += [{**key, "metric": metric, "value": value} for metric, value in found.items()]
        rows += [row for metric in LEARNT for row in results.select(figure, method=method, metric=metric)]
    judged = [r["result"]["valid"] for r in records if r["method"] == "cp-sat"]
    return {"rows": rows, "paper": [], "validated": len(judged), "invalid": judged.count(False)}


def _from_figure(figure: Record, method: str, names: Sequence[str]) -> dict[str, float]:
    """Ratio, samples and seconds of a method of Figure 5; seconds are the mean over all its graphs."""
    ratios = [r["value"] for r in results.select(figure, method=method, metric="improvement") if r["instance"] in names]
    if not ratios:
        return {}
    whole = results.select(figure, instance=INSTANCE, method=method, metric="improvement")[0]
    seconds = results.value(figure, instance=INSTANCE, method=method, metric="seconds")
    return {"samples": whole["samples"], "seconds": seconds, "improvement": float(np.exp(np.mean(np.log(ratios))))}
