"""Figure 5, Tables 1 and 2 of paper 2, and FIX against SAMPLE: what learning adds on the sixteen
test graphs.

And on sixteen others, on which the optimum is well above the careful greedy.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import PRETRAININGS, checkpoint_digest, checkpoint_path
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.methods import FINE_TUNED, LEARNERS, POLICIES, ZERO_SHOT
from learned_mapping_companion import results, table
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.mcm.classical import UNSOLVED
from learned_mapping_companion.mcm.levels import (
    at_least,
    curve_of,
    end_row,
    level_row,
    log_curves,
    reached,
)
from learned_mapping_companion.records import read_records
from learned_mapping_companion.statistics import geometric_mean, ratio_over_families
from learned_mapping_companion.table import Record, Row, rows, sweep

INSTANCE = "all"  # Of rows over all test graphs; a claim over the graphs leaves it out.
RULES = ("greedy-naive", "greedy-careful", "optimum")
SEARCHES = (
    "random",
    "sa",
    "sa-balanced",
    "climb",
    "rl",
    "rl-sample-credit",
    "rl-balanced",
    "rl-balanced-frozen",
    "zeroshot",
    "zeroshot-sample-credit",
    "finetune",
    "finetune-sample-credit",
    "zeroshot-balanced",
    "finetune-balanced",
)
UNTRAINED = tuple(method for method in SEARCHES if not method.startswith(("zeroshot", "finetune")))
"""Methods that start from no policy trained before."""
# The paper's last level is reached after 3,652 samples.
SAMPLES = {"quick": 40, "full": 1000, "paper": 4000}
QUICK_GRAPHS = ("gru_writer_1x6",)
MODE_GRAPHS = {
    "quick": ("resnet_14",),
    "full": ("resnet_18", "darknet_53", "gru_writer_1x6", "highway_4x4"),
}
"""One of each family with a test graph that every search can partition in a minute."""
MODES = ({"mode": "fix", "credit": "sample"}, {"mode": "fix", "credit": "candidate"},
         {"mode": "sample", "credit": "sample"})  # fmt: skip
MODE_SAMPLES = {"quick": 40, "full": 400, "paper": 1000}
ROUNDING = 1e-9  # Of throughputs: a closer ratio to 1 is one.
SOLVER_SECONDS = {"quick": 1.0, "full": 10.0}
LEVELS = (1.60, 1.70, 1.80)  # The paper's.
# Ours: what the paper's policy reaches in the samples of the profile ``full``.
LOW_LEVELS = (1.10, 1.20, 1.30)
DECIDING = f"{LOW_LEVELS[-1]:.2f}"  # The level that decides claims.
# Per cent of the way from the careful greedy to the optimum, in logarithms of throughput.
SHARES = (0, 50, 75, 90)
LEARNT = ("updates", "pretraining_samples")
"""Metrics of how much a learner has learned, beside its numbers wherever these stand."""
CONTRASTS = (
    ("rl", "random"),
    ("rl", "sa"),
    ("rl", "rl-sample-credit"),
    ("rl-sample-credit", "random"),
    ("rl-balanced", "climb"),
    ("climb", "sa-balanced"),
    ("climb", "rl-balanced-frozen"),
    ("rl-balanced", "rl-balanced-frozen"),
    ("rl-balanced", "sa"),
    ("rl-balanced", "sa-balanced"),
    ("rl-balanced", "greedy-careful"),
    ("rl-balanced", "rl"),
    ("rl-balanced", "random"),
    ("finetune", "rl"),
    ("finetune", "zeroshot"),
    ("zeroshot", "rl"),
    ("finetune-sample-credit", "rl-sample-credit"),
    ("finetune-sample-credit", "zeroshot-sample-credit"),
    ("zeroshot-sample-credit", "rl-sample-credit"),
    ("zeroshot-sample-credit", "random"),
    ("zeroshot-balanced", "rl-balanced"),
    ("finetune-balanced", "rl-balanced"),
    ("zeroshot-balanced", "rl-balanced-frozen"),
    ("finetune-balanced", "zeroshot-balanced"),
    ("rl-sample-credit", "sa"),
    ("rl", "sa-balanced"),
    ("rl-sample-credit", "sa-balanced"),
    *(
        (control, rival)
        for rival in ("random", "sa")
        for control in ("greedy-careful", "sa-balanced", "climb", "rl-balanced-frozen")
    ),
)
"""Whose throughput is put in relation to whose: learners, and beside them what learns nothing."""
CLASSES = {
    "greedy-naive": "heuristic",
    "greedy-careful": "heuristic",
    "optimum": "exact",
    "cp-sat": "constraint solver",
    "rl without a solver, sparse": "learning without a solver",
    "random": "search + solver",
    "sa": "search + solver",
    "rl-sample-credit": "learning + solver, the paper's one advantage a sample",
    "rl": "learning + solver, a credit per op",
    "finetune": "learning + solver, a credit per op, pre-trained",
}


def checkpoint_of(method: str, seed: int = 0) -> dict[str, Any]:
    """The trained policy that a run starts from, as its record keeps it, if any: another for the
    first seeds each."""
    if method not in LEARNERS or LEARNERS[method][1] not in (ZERO_SHOT, FINE_TUNED):
        return {}
    pretraining = seed % PRETRAININGS
    return {
        "pretraining": pretraining,
        "checkpoint": checkpoint_digest(pretraining, LEARNERS[method][2]),
    }


def trainings_of(method: str, seeds: int) -> list[int] | None:
    """The policy trained before that each seed starts from; None of a method that starts from
    none."""
    return [seed % PRETRAININGS for seed in range(seeds)] if checkpoint_of(method) else None


def sweep_of(task: str, method: str, name: str, config: Record, seeds: int) -> list[Run]:
    """A run of a method on a graph for each seed, with the trained policy it starts from."""
    runs = sweep(task, [method], [name], config, seeds)
    return [
        dataclasses.replace(run, config=run.config | checkpoint_of(method, run.seed))
        for run in runs
    ]


def learning_rows(instance: str, method: str, records: Sequence[Record]) -> list[Row]:
    """The training of a learner of the paper: updates of PPO in its runs, samples of its
    pre-training."""
    if method not in LEARNERS or method.endswith("-frozen"):
        return []
    _, kind, policy = LEARNERS[method]
    network = records[0]["config"].get("network", "full")
    rollouts = agent_config(network, **POLICIES[policy]).rollouts
    updates = min(r["result"]["samples"] for r in records) // rollouts
    numbers = {"updates": 0 if kind == ZERO_SHOT else updates}
    if checkpoint_of(method):
        numbers["pretraining_samples"] = int(
            read_checkpoint(checkpoint_path(policy=policy))[1]["facts"]["samples"]
        )
    return rows(instance, method, numbers, n=len(records))


def learnt_rows(figure: Record, **keys: str) -> list[Row]:
    """The rows of `LEARNT` of a stored figure."""
    return [row for metric in LEARNT for row in results.select(figure, metric=metric, **keys)]


def available(methods: Sequence[str]) -> list[str]:
    """The methods whose trained policy, where they need one, is there."""
    return [method for method in methods if checkpoint_of(method).get("checkpoint", "none") != ""]


def plan_fig5(
    profile: str,
    seeds: int,
    of: str = graphs.PLAIN,
    split: str = "test",
    searches: Sequence[str] = SEARCHES,
) -> list[Run]:
    """Rules once, searches by seed, all with the same number of samples, on the graphs of a set."""
    runs = []
    for name in QUICK_GRAPHS if profile == "quick" else graphs.names(split, of):
        runs += sweep("mcm.solve", RULES, [name], {"samples": 1})
        for method in available(searches):
            network = {} if profile == "full" else {"network": profile}
            runs += sweep_of(
                "mcm.solve", method, name, {"samples": SAMPLES[profile], **network}, seeds
            )
    return runs


plan_headroom = partial(plan_fig5, of=graphs.HEADROOM, searches=UNTRAINED)
plan_fresh = partial(plan_fig5, of=graphs.FRESH, searches=UNTRAINED)
plan_cnn_rnn = partial(plan_fig5, of=graphs.CNN_RNN, searches=UNTRAINED)
plan_credit = partial(plan_fig5, split="validation", searches=UNTRAINED)
"""Without what starts from a policy trained before, which is in Figure 5, and whose copies the
validation graphs chose. ``quick`` opens no set; the fresh one was opened once, everything fixed."""


def assemble_fig5(profile: str, records: Sequence[Record]) -> Record:
    """Rows by graph, and over all: geometric means over each rule's throughput, curves, samples to
    every level, ratios, graphs on which a method is above the careful greedy. Intervals of the
    means and ratios are over graphs and seeds.
    """
    lines = table.frame(records)
    throughput = {
        key: runs.tolist()
        for key, runs in lines.groupby(["instance", "method"], sort=False).throughput
    }
    names, methods = (list(dict.fromkeys(lines[column])) for column in ("instance", "method"))
    naive, careful, best = ({n: throughput[n, rule][0] for n in names} for rule in RULES)
    units = {"improvement": naive, "over_careful": careful, "over_optimum": best}
    end = {
        rule: float(np.mean([np.log(throughput[n, rule][0] / naive[n]) for n in names]))
        for rule in RULES
    }
    span = end["optimum"] - end["greedy-careful"]
    levels = [(level, f"{level:.2f}") for level in (*LOW_LEVELS, *LEVELS)]
    if span > 0:
        levels += [
            (float(np.exp(end["greedy-careful"] + share / 100 * span)), f"{share}%")
            for share in SHARES
        ]
    table_rows: list[Row] = []
    for method in methods:
        mine, here = lines[lines.method == method], [r for r in records if r["method"] == method]
        method_rows: list[Row] = []
        for n, runs in mine.groupby("instance", sort=False):
            columns = {"throughput": runs.throughput}
            columns |= {metric: runs.throughput / unit[n] for metric, unit in units.items()}
            method_rows += table.summaries(
                n, method, columns, chips=runs.chips.iloc[0], ops=runs.ops.iloc[0]
            )
            if trained := trainings_of(method, len(runs)):
                means = runs.throughput.groupby(trained).mean()
                method_rows[-len(columns)]["by_training"] = means.tolist()
        above = [r["value"] > 1 + ROUNDING for r in method_rows if r["metric"] == "over_careful"]
        table_rows += [
            *method_rows,
            table.row(INSTANCE, method, "graphs_above_careful", sum(above), graphs=len(above)),
        ]
        turns = mine.groupby(mine.groupby("instance").cumcount())
        seconds = [np.mean(runs.seconds.to_numpy()) for _, runs in turns]
        table_rows.append(table.summary_row(INSTANCE, method, "seconds", seconds))
        logs = log_curves(here, naive, here[0]["result"]["samples"])
        searches, behind = method not in RULES, trainings_of(method, logs.shape[1])
        more = {"curve": curve_of(np.exp(logs.mean((0, 1))))} if searches else {}
        for metric, unit in units.items():
            shift = np.log([unit[n] / naive[n] for n in names])
            table_rows.append(
                end_row(INSTANCE, method, metric, logs - shift[:, None, None], behind, **more)
            )
            more = {}
        table_rows += [
            level_row(method, *level, logs, INSTANCE, behind) for level in levels if searches
        ]
        table_rows += learning_rows(INSTANCE, method, here)
    scores = {method: {n: throughput[n, method] for n in names} for method in methods}
    behind = {method: trainings_of(method, len(runs[names[0]])) for method, runs in scores.items()}
    more = {"trainings": behind, "graphs": len(names)}
    table_rows += table.ratio_rows(INSTANCE, scores, CONTRASTS, over_tasks=True, **more)
    return table.assembled(table_rows + family_rows(scores), valid=lines.valid)


def family_rows(scores: dict[str, dict[str, list[float]]]) -> list[Row]:
    """Rows ``ratio_over_families`` of `CONTRASTS`: the same ratio, its interval over families,
    graphs and seeds; none where a graph is of no set."""
    graphs_of = {
        name: graphs.family(name) for name in next(iter(scores.values())) if graphs.is_known(name)
    }
    table_rows = []
    for ours, other in CONTRASTS:
        if {ours, other} <= set(scores) and set(graphs_of) == set(scores[ours]):
            ratio = ratio_over_families(scores[ours], scores[other], graphs_of)
            if ratio is not None:
                more = {
                    "baseline": other,
                    "families": len(set(graphs_of.values())),
                    "n": len(graphs_of),
                }
                table_rows.append(
                    table.interval_row(INSTANCE, ours, "ratio_over_families", ratio, **more)
                )
    return table_rows


assemble_headroom = assemble_fresh = assemble_cnn_rnn = assemble_credit = assemble_fig5


def assemble_table2(profile: str, records: Sequence[Record]) -> Record:
    """The levels of Figure 5; ``samples_at_least`` counts one more than the budget where a level is
    not reached."""
    figure = results.load("mcm.fig5", profile)
    reached_rows = results.select(figure, metric="samples")
    counted = [at_least(level) for level in reached_rows]
    stored = read_records(results.runs_path("mcm.fig5", profile))
    runs = sorted((stored[run] for run in figure["runs"]), key=lambda record: record["seed"])
    by_method = table.by(runs, "method")
    naive = {r["instance"]: r["result"]["throughput"] for r in by_method[RULES[0]]}
    for entry in (entry for entry in counted if entry["target"] == DECIDING):
        here = by_method[entry["method"]]
        logs = log_curves(here, naive, here[0]["result"]["samples"])
        entry["values"] = reached(np.exp(logs.mean(0)), float(DECIDING)).tolist()
    return table.from_part(figure, reached_rows + counted + learnt_rows(figure))


def plan_modes(profile: str, seeds: int) -> list[Run]:
    """The policy from scratch in each mode, small but in ``paper``: modes are compared, no
    sizes."""
    base = {"samples": MODE_SAMPLES[profile], "network": "paper" if profile == "paper" else "quick"}
    runs = []
    for name in table.of_profile(MODE_GRAPHS, profile):
        for mode in MODES:
            runs += sweep("mcm.mode", ["rl"], [name], base | mode, seeds)
    return runs


def assemble_modes(profile: str, records: Sequence[Record]) -> Record:
    """Throughput by graph, mode and credit."""
    table_rows, lines = [], table.frame(records)
    for name, here in lines.groupby("instance", sort=False):
        for mode in MODES:
            runs = here[(here.config_mode == mode["mode"]) & (here.config_credit == mode["credit"])]
            table_rows += table.summaries(
                name, "rl", {"throughput": runs.throughput, "seconds": runs.seconds}, **mode
            )
        table_rows += learning_rows(name, "rl", [r for r in records if r["instance"] == name])
    return table.assembled(table_rows, valid=lines.valid)


def few_graphs(profile: str) -> Sequence[str]:
    """One test graph of each family; in ``quick`` the smallest alone."""
    return QUICK_GRAPHS if profile == "quick" else MODE_GRAPHS["full"]


def plan_table1(profile: str, seeds: int) -> list[Run]:
    """The runs that Figure 5 does not have: a solver's."""
    config = {"seconds": table.of_profile(SOLVER_SECONDS, profile)}
    return sweep("mcm.solve", ["cp-sat"], few_graphs(profile), config)


def assemble_table1(profile: str, records: Sequence[Record]) -> Record:
    """Per class of methods, on the same graphs: share of valid partitions, samples, CPU seconds,
    ratio to the naive.

    ``graphs_above_start`` counts the graphs on which CP-SAT beats the careful greedy's partition,
    where it begins. What learns without a solver does so on the graphs of ``mcm.unsolved``; its
    samples are those of all runs.
    """
    figure, unsolved = (results.load(name, profile) for name in ("mcm.fig5", "mcm.unsolved"))
    names = few_graphs(profile)
    result: list[Row] = []
    for method, group in CLASSES.items():
        runs = [r["result"] for r in records if r["method"] == method]
        cells = {"valid_percent": 100.0, **_from_figure(figure, method, names)}
        if method in UNSOLVED.values():
            drawn, valid = (
                sum(r["value"] for r in results.select(unsolved, method=method, metric=metric))
                for metric in ("samples", "valid")
            )
            cells |= {"samples": float(drawn), "valid_percent": 100.0 * valid / drawn}
        if runs:
            naive, start = (
                [results.value(figure, instance=n, method=rule, metric="throughput") for n in names]
                for rule in ("greedy-naive", "greedy-careful")
            )
            cells["seconds"] = float(np.mean([r["seconds"] for r in runs]))
            cells["improvement"] = float(
                geometric_mean([r["throughput"] / unit for r, unit in zip(runs, naive)])
            )
            cells["graphs_above_start"] = sum(
                r["throughput"] > (1 + ROUNDING) * unit for r, unit in zip(runs, start)
            )
        result += rows("classes", method, cells, n=len(names), **{"class": group})
        result += learnt_rows(figure, method=method)
    return table.assembled(
        result, valid=(r["result"]["valid"] for r in records if r["method"] == "cp-sat")
    )


def _from_figure(figure: Record, method: str, names: Sequence[str]) -> dict[str, float]:
    """Ratio, samples and seconds of a method of Figure 5; seconds are means over all its graphs."""
    ratios = [
        r["value"]
        for r in results.select(figure, method=method, metric="improvement")
        if r["instance"] in names
    ]
    if not ratios:
        return {}
    whole = results.select(figure, instance=INSTANCE, method=method, metric="improvement")[0]
    seconds = results.value(figure, instance=INSTANCE, method=method, metric="seconds")
    return {
        "samples": whole["samples"],
        "seconds": seconds,
        "improvement": float(geometric_mean(ratios)),
    }
