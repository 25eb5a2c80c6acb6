"""Figure 5, Tables 1 and 2 of paper 2, and FIX against SAMPLE: what learning adds on the sixteen
test graphs.

And on sixteen others, on which the optimum is well above the careful greedy.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import PRETRAININGS, checkpoint_digest, checkpoint_path
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.methods import FINE_TUNED, LEARNERS, POLICIES, ZERO_SHOT
from learned_mapping_companion import results, table
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
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
from learned_mapping_companion.table import Record, Records, Rows, rows, sweep

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
SAMPLES = 1000
QUICK_GRAPHS = ("gru_writer_1x6",)
GRAPHS = ("resnet_18", "darknet_53", *QUICK_GRAPHS, "highway_4x4")
"""One of each family with a test graph that every search can partition in a minute."""
MODES = ({"mode": "fix", "credit": "sample"}, {"mode": "fix", "credit": "candidate"},
         {"mode": "sample", "credit": "sample"})  # fmt: skip
MODE_SAMPLES = 400
ROUNDING = 1e-9  # Of throughputs: a closer ratio to 1 is one.
SOLVER_SECONDS = 10.0
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


def checkpoint_of(method: str, seed: int = 0) -> Record:
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
    return [replace(run, config=run.config | checkpoint_of(method, run.seed)) for run in runs]


def learning_rows(instance: str, method: str, records: Records) -> Rows:
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


def learnt_rows(figure: Record, **keys: str) -> Rows:
    """The rows of `LEARNT` of a stored figure."""
    return [row for metric in LEARNT for row in results.select(figure, metric=metric, **keys)]


def available(methods: Sequence[str]) -> list[str]:
    """The methods whose trained policy, where they need one, is there."""
    return [method for method in methods if checkpoint_of(method).get("checkpoint", "none") != ""]


def plan_fig5(
    seeds: int,
    of: str = graphs.PLAIN,
    split: str = "test",
    searches: Sequence[str] = SEARCHES,
) -> Runs:
    """Rules once, searches by seed, all with the same number of samples, on the graphs of a set."""
    for name in graphs.names(split, of):
        yield from sweep("mcm.solve", RULES, [name], {"samples": 1})
        for method in available(searches):
            yield from sweep_of("mcm.solve", method, name, {"samples": SAMPLES}, seeds)


def assemble_fig5(records: Records) -> Rows:
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
    start, end = (
        float(np.mean([np.log(of[n] / naive[n]) for n in names])) for of in (careful, best)
    )
    levels = [(level, f"{level:.2f}") for level in (*LOW_LEVELS, *LEVELS)]
    for share in SHARES if end > start else ():
        levels.append((float(np.exp(start + share / 100 * (end - start))), f"{share}%"))
    for method in methods:
        of_method = lines[lines.method == method]
        group = [record for record in records if record["method"] == method]
        above = 0
        for n, runs in of_method.groupby("instance", sort=False):
            columns = {"throughput": runs.throughput}
            columns |= {metric: runs.throughput / unit[n] for metric, unit in units.items()}
            graph_cells = {"chips": runs.chips.iloc[0], "ops": runs.ops.iloc[0]}
            first, *others = table.summaries(n, method, columns, **graph_cells)
            if trained := trainings_of(method, len(runs)):
                first["by_training"] = runs.throughput.groupby(trained).mean().tolist()
            yield from (first, *others)
            above += table.values_of(others, "metric")["over_careful"] > 1 + ROUNDING
        yield table.row(INSTANCE, method, "graphs_above_careful", int(above), graphs=len(names))
        turns = of_method.groupby(of_method.groupby("instance").cumcount())
        seconds = [np.mean(runs.seconds.to_numpy()) for _, runs in turns]
        yield table.summary_row(INSTANCE, method, "seconds", seconds)
        logs = log_curves(group, naive, group[0]["result"]["samples"])
        searches, behind = method not in RULES, trainings_of(method, logs.shape[1])
        cells = {"curve": curve_of(np.exp(logs.mean((0, 1))))} if searches else {}
        for metric, unit in units.items():
            shift = np.log([unit[n] / naive[n] for n in names])
            yield end_row(INSTANCE, method, metric, logs - shift[:, None, None], behind, **cells)
            cells = {}
        for level in levels if searches else ():
            yield level_row(method, *level, logs, INSTANCE, behind)
        yield from learning_rows(INSTANCE, method, group)
    scores = {method: {n: throughput[n, method] for n in names} for method in methods}
    behind = {method: trainings_of(method, len(runs[names[0]])) for method, runs in scores.items()}
    cells = {"trainings": behind, "graphs": len(names)}
    yield from table.ratio_rows(INSTANCE, scores, CONTRASTS, over_tasks=True, **cells)
    yield from family_rows(scores)


def family_rows(scores: dict[str, dict[str, list[float]]]) -> Rows:
    """Rows ``ratio_over_families`` of `CONTRASTS`: the same ratio, its interval over families,
    graphs and seeds; none where a graph is of no set."""
    graphs_of = {
        name: graphs.family(name) for name in next(iter(scores.values())) if graphs.is_known(name)
    }
    for ours, other in CONTRASTS:
        if {ours, other} <= set(scores) and set(graphs_of) == set(scores[ours]):
            ratio = ratio_over_families(scores[ours], scores[other], graphs_of)
            if ratio is not None:
                cells = {
                    "baseline": other,
                    "families": len(set(graphs_of.values())),
                    "n": len(graphs_of),
                }
                yield table.interval_row(INSTANCE, ours, "ratio_over_families", ratio, **cells)


QUICK = Quick(
    (*RULES, *SEARCHES), QUICK_GRAPHS, config={"samples": 40, "network": "quick"}, plan=plan_fig5
)
PAPER = {"samples": 4, "network": "paper"}
FIG5 = Artifact("mcm.fig5", assemble_fig5, plan_fig5, QUICK, PAPER)


def _untrained(artifact_id: str, **of: str) -> Artifact:
    """The same without what starts from a policy trained before, which is in Figure 5, and whose
    copies the validation graphs chose. ``quick`` opens no set; the fresh one was opened once,
    everything fixed."""
    plan = partial(plan_fig5, searches=UNTRAINED, **of)
    return Artifact(
        artifact_id, assemble_fig5, plan, replace(QUICK, methods=(*RULES, *UNTRAINED)), PAPER
    )


HEADROOM = _untrained("mcm.headroom", of=graphs.HEADROOM)
FRESH = _untrained("mcm.fresh", of=graphs.FRESH)
CNN_RNN = _untrained("mcm.cnn_rnn", of=graphs.CNN_RNN)
CREDIT = _untrained("mcm.credit", split="validation")


def assemble_table2(records: Records, figure: Record) -> Rows:
    """The levels of Figure 5; ``samples_at_least`` counts one more than the budget where a level is
    not reached."""
    reached_rows = results.select(figure, metric="samples")
    counted = [at_least(level) for level in reached_rows]
    stored = read_records(results.runs_path("mcm.fig5", figure["profile"]))
    runs = sorted((stored[run] for run in figure["runs"]), key=lambda record: record["seed"])
    by_method = table.by(runs, "method")
    naive = {r["instance"]: r["result"]["throughput"] for r in by_method[RULES[0]]}
    for entry in (entry for entry in counted if entry["target"] == DECIDING):
        group = by_method[entry["method"]]
        logs = log_curves(group, naive, group[0]["result"]["samples"])
        entry["values"] = reached(np.exp(logs.mean(0)), float(DECIDING)).tolist()
    return reached_rows + counted + learnt_rows(figure)


TABLE2 = Artifact("mcm.table2", assemble_table2)


def plan_modes(seeds: int) -> Runs:
    """The policy from scratch in each mode, small but in ``paper``: modes are compared, no
    sizes."""
    base = {"samples": MODE_SAMPLES, "network": "quick"}
    for name in GRAPHS:
        for mode in MODES:
            yield from sweep("mcm.mode", ["rl"], [name], base | mode, seeds)


def assemble_modes(records: Records) -> Rows:
    """Throughput by graph, mode and credit."""
    lines = table.frame(records)
    for name, of_graph in lines.groupby("instance", sort=False):
        for mode in MODES:
            runs = of_graph[
                (of_graph.config_mode == mode["mode"]) & (of_graph.config_credit == mode["credit"])
            ]
            yield from table.summaries(
                name, "rl", {"throughput": runs.throughput, "seconds": runs.seconds}, **mode
            )
        yield from learning_rows(name, "rl", [r for r in records if r["instance"] == name])


MODE_TABLE = Artifact(
    "mcm.modes",
    assemble_modes,
    plan_modes,
    Quick(instances=QUICK_GRAPHS, config={"samples": 40}),
    {"samples": 2.5, "network": "paper"},
)


def plan_table1(seeds: int) -> Runs:
    """The runs that Figure 5 does not have: a solver's."""
    return sweep("mcm.solve", ["cp-sat"], GRAPHS, {"seconds": SOLVER_SECONDS})


def assemble_table1(records: Records, figure: Record, unsolved: Record) -> Rows:
    """Per class of methods, on the same graphs: share of valid partitions, samples, CPU seconds,
    ratio to the naive.

    ``graphs_above_start`` counts the graphs on which CP-SAT beats the careful greedy's partition,
    where it begins. What learns without a solver does so on the graphs of ``mcm.unsolved``; its
    samples are those of all runs.
    """
    names = [record["instance"] for record in records]
    for method, group in CLASSES.items():
        runs = [r["result"] for r in records if method == "cp-sat"]
        cells = {"valid_percent": 100.0, **_from_figure(figure, method, names)}
        if method in UNSOLVED.values():
            drawn, valid = (
                sum(table.values_of(unsolved["rows"], "instance", method=method, metric=m).values())
                for m in ("samples", "valid")
            )
            cells |= {"samples": float(drawn), "valid_percent": 100.0 * valid / drawn}
        if runs:
            naive, start = (
                np.array(
                    [
                        results.value(figure, instance=n, method=rule, metric="throughput")
                        for n in names
                    ]
                )
                for rule in RULES[:2]
            )
            reached = np.array([r["throughput"] for r in runs])
            cells["seconds"] = float(np.mean([r["seconds"] for r in runs]))
            cells["improvement"] = float(geometric_mean(reached / naive))
            cells["graphs_above_start"] = int((reached > (1 + ROUNDING) * start).sum())
        yield from rows("classes", method, cells, n=len(names), **{"class": group})
        yield from learnt_rows(figure, method=method)


TABLE1 = Artifact(
    "mcm.table1",
    assemble_table1,
    plan_table1,
    Quick(instances=QUICK_GRAPHS, config={"seconds": 1.0}),
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
