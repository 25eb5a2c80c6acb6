"""Paper 2 without learning: the rules, sampling without a solver, the exact optimum, repairs; and
PPO unsolved."""

import time
from functools import lru_cache

import numpy as np

from learned_mapping.hardware.chip_package import MIB, ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import REWARDS, agent_config
from learned_mapping.mcm.bounds.optimum import lower_bound
from learned_mapping.mcm.methods import solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules import constraints
from learned_mapping.mcm.rules.constraints import EXAMPLE_PACKAGE, example_graph
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate
from learned_mapping_companion.artifact import Artifact, Quick, Runs, judged
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.statistics import interquartile_mean
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    frame,
    row,
    rows,
    summaries,
    sweep,
)

CHIPS = 36  # Of the paper's package.
BERT, CNN = "bert_large_inference", "resnet50_inference"
UNCONSTRAINED_SAMPLES = 20_000  # Per graph and seed.
UNCONSTRAINED_GRAPHS = (
    "lenet_inference",
    "alexnet_inference",
    "squeezenet_inference",
    CNN,
    "mobilenet_inference",
    "inception_inference",
    "densenet_small_inference",
    "unet_inference",
    "lstm_4_steps",
    "gru_4_steps",
    "bidirectional_tagger_6_steps",
    BERT,
)
CNN_CHIPS = (4, 8, 12, 16)
"""Chips of the CNN, on which an equal share of its time is at least twice its longest op. With
fewer operations a chip, that op decides the outcome and not the partition. ResNet-50 passes up to
24 chips, Inception at 2 only."""
SEARCHES = ("random", "sa")
RULES = ("greedy-naive", "greedy-careful", "optimum")
SEARCH_SAMPLES = 5000
SOLVER_CHIPS = (4, 8)
SOLVER_SECONDS = 60.0  # CP-SAT's limit; more chips than `SOLVER_CHIPS` are beyond it.
CURVE_POINTS = 40
ENGINES = {"sample-chain": "sample", "fix-chain": "fix", "nearest-chain": "nearest"}
"""Method -> mode of `mcm.repair.engine.repair_batch`."""
REPAIR_GRAPHS = ("lenet_inference", "inception_inference", CNN, "densenet121_inference", BERT)
REPAIRS = 300
REDRAWN = 0.2  # Share of the ops whose chip is redrawn in a *near* candidate.
# Of so many repairs per run the independent validator judges; all others pass the fast check.
VALIDATED = 10
UNSOLVED_GRAPHS = ("lenet_inference", CNN, BERT)
UNSOLVED_SAMPLES = 4000  # Of a run; five seeds make 20,000.
# A graph with more ops has one seed, for the sake of time.
LARGE_OPS = 1000
UNSOLVED = {kind: f"rl without a solver, {kind}" for kind in REWARDS}
"""Reward of a policy that is trained without a solver -> its name as a method."""


@lru_cache(maxsize=1)
def _compile() -> None:
    """Has the kernels compiled before anything is timed."""
    for method in (*RULES, *SEARCHES):
        solve(example_graph(), method, package=EXAMPLE_PACKAGE, samples=2)


def example_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """The validator's verdict over one of the example's partitions."""
    graph, chips = example_graph(), EXAMPLE_PACKAGE.chips
    assignment = constraints.EXAMPLE_PARTITIONS[method]
    verdict = validate(graph, make_partition(assignment, chips), EXAMPLE_PACKAGE, memory=True)
    return {"assignment": list(assignment), **verdict.to_json()}


def plan_fig2(seeds: int) -> Runs:
    return sweep("mcm.example", constraints.EXAMPLE_PARTITIONS, ["six-ops"])


def assemble_fig2(records: Records) -> Rows:
    """Four of the five partitions are meant to be invalid; only the one that is not counts as a
    solution."""
    table_rows = []
    for r in records:
        faults = r["result"]["violations"]
        text = (
            "; ".join(f"{v['rule']}: {v['detail']} ({', '.join(v['culprits'])})" for v in faults)
            or "valid"
        )
        key = (r["instance"], r["method"])
        table_rows.append(row(*key, "verdict", text, n=1, assignment=r["result"]["assignment"]))
        table_rows.append(row(*key, "broken_rules", len({v["rule"] for v in faults}), n=1))
    return judged(table_rows, [r for r in records if r["method"] == "valid"])


FIG2 = Artifact("mcm.fig2", assemble_fig2, plan_fig2)


def unconstrained_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """Counts the valid among uniform random assignments."""
    graph, rng = load_graph(instance), np.random.default_rng(seed)
    samples, valid = int(config["samples"]), 0
    for start in range(0, samples, 500):
        count = min(500, samples - start)
        drawn = rng.integers(0, config["chips"], (count, graph.num_ops), dtype=np.int16)
        valid += constraints.valid_count(drawn, graph.op_edges)
    return {"samples": samples, "valid": int(valid), "ops": graph.num_ops}


def plan_unconstrained(seeds: int) -> Runs:
    config = {"chips": CHIPS, "samples": UNCONSTRAINED_SAMPLES}
    return sweep("mcm.unconstrained", ["unconstrained"], UNCONSTRAINED_GRAPHS, config, seeds)


def assemble_unconstrained(records: Records) -> Rows:
    """Samples and valid ones of each graph over all seeds; where a policy learned, also per cent of
    edges that break the chain rule at first and at last."""
    for (instance, method), runs in frame(records).groupby(["instance", "method"], sort=False):
        counts = {"ops": runs.ops.iloc[0], "samples": runs.samples.sum(), "valid": runs.valid.sum()}
        yield from rows(instance, method, counts, n=len(runs))
        ends = [end for end in ("first", "last") if f"broken_{end}" in runs]
        shares = {f"broken_edges_{end}_percent": 100.0 * runs[f"broken_{end}"] for end in ends}
        yield from summaries(instance, method, shares)


QUICK_GRAPHS = ("lenet_inference", CNN)
UNCONSTRAINED = Artifact(
    "mcm.unconstrained", assemble_unconstrained, plan_unconstrained, Quick(instances=QUICK_GRAPHS)
)


def partition_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """One method on one graph: throughput as the validator finds it, and the bound no partition can
    beat."""
    graph, package = load_graph(instance), ChipPackage(chips=int(config["chips"]))
    _compile()
    name = "seconds" if "seconds" in config else "samples"
    budget = {name: config.get(name, 1)}
    result = solve(graph, method, package=package, seed=seed, **budget, cpu="seconds" not in config)
    verdict = validate(graph, result.solution, package)
    proved = {"proved": bool(result.metrics["optimal"])} if "optimal" in result.metrics else {}
    costs = {
        name: verdict.costs.get(name, 0.0) for name in ("throughput", "chips_used", "peak_bytes")
    }
    return {
        **proved,
        "valid": verdict.valid,
        **costs,
        "samples": result.samples,
        "seconds": result.seconds,
        "curve": result.curve,
        "bound": 1.0 / lower_bound(Task(graph, package).model),
        "ops": graph.num_ops,
    }


def plan_optimum(seeds: int) -> Runs:
    for instance, chips in [*((CNN, chips) for chips in CNN_CHIPS), (BERT, CHIPS)]:
        config = {"chips": chips}
        yield from sweep("mcm.partition", RULES, [instance], config)
        samples = {"samples": SEARCH_SAMPLES}
        yield from sweep("mcm.partition", SEARCHES, [instance], config | samples, seeds)
        if chips in SOLVER_CHIPS:
            seconds = {"seconds": SOLVER_SECONDS}
            yield from sweep("mcm.partition", ["cp-sat"], [instance], config | seconds)


def assemble_optimum(records: Records) -> Rows:
    """Throughput by graph and number of chips, its ratio to the naive greedy's and the optimum's,
    memory used."""
    table = frame(records)
    for (instance, chips), group in table.groupby(["instance", "config_chips"], sort=False):
        name = "bert" if instance == BERT else f"{instance.removesuffix('_inference')}-{chips}"
        by_method = dict(list(group.groupby("method", sort=False)))
        single = {rule: by_method[rule].throughput.iloc[0] for rule in ("greedy-naive", "optimum")}
        extra = {"chips": chips, "ops": group.ops.iloc[0].item()}
        for method in (m for m in (*RULES, "cp-sat", *SEARCHES) if m in by_method):
            runs = by_method[method]
            values = runs.throughput.to_numpy()
            curve = _mean_curve(runs.curve.tolist()) if method in SEARCHES else {}
            yield from summaries(name, method, {"throughput": values}, **extra, **curve)
            columns = {
                "gap_percent": (single["optimum"] / values - 1) * 100,
                "over_greedy_naive": values / single["greedy-naive"],
                "seconds": runs.seconds,
                "peak_mib": runs.peak_bytes / MIB,
            }
            yield from summaries(name, method, columns, **extra)
        yield row(name, "bound", "throughput", group.bound.iloc[0], n=1, **extra)


OPTIMUM = Artifact(
    "mcm.optimum",
    assemble_optimum,
    plan_optimum,
    Quick((*RULES, *SEARCHES), only={"chips": (4, 8, CHIPS)}, config={"samples": 200}),
)


def _mean_curve(curves: Records) -> Record:
    """Interquartile mean over seeds of the best throughput after 1, ..., samples partitions."""
    x = np.unique(
        np.round(np.geomspace(1, max(c["samples"][-1] for c in curves), CURVE_POINTS)).astype(int)
    )
    y = [np.asarray(c["y"])[np.searchsorted(c["samples"], x, side="right") - 1] for c in curves]
    best = interquartile_mean(np.array(y), axis=0).tolist()
    return {"curve": {"x": x.tolist(), "y": best, "x_unit": "samples"}}


def repair_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """Repairs a batch of candidates: uniform ones, or the careful greedy's with some chips redrawn
    (``near``)."""
    graph, chips, count = load_graph(instance), int(config["chips"]), int(config["repairs"])
    mode = ENGINES[method]
    rng = np.random.default_rng(seed)
    candidates = rng.integers(0, chips, (count, graph.num_ops), dtype=np.int32)
    if config["candidates"] == "near":
        start = careful_greedy(ChipModel(graph, ChipPackage(chips=chips)))
        candidates = np.where(rng.random(candidates.shape) < REDRAWN, candidates, start)
    options = {"mode": mode, "rng": rng}
    small, drawn = np.zeros((1, 6), np.int32), mode == "sample"
    repair_batch(
        repair_arrays(example_graph()),
        chips,
        **options,
        count=1,
        candidates=None if drawn else small,
    )
    arrays = repair_arrays(graph)
    begin = time.process_time()
    repaired = repair_batch(
        arrays, chips, **options, count=count, candidates=None if drawn else candidates
    )
    seconds = time.process_time() - begin
    judged = [
        validate(graph, make_partition(partition, chips)).valid
        for partition in repaired[:VALIDATED]
    ]
    valid = sum(judged) + sum(
        constraints.is_valid(partition, graph.op_edges) for partition in repaired[VALIDATED:]
    )
    return {
        "ops": graph.num_ops,
        "repairs": count,
        "valid": int(valid),
        "validated": len(judged),
        "invalid": judged.count(False),
        "seconds": seconds,
        "agreement": None if drawn else float(np.mean(repaired == candidates)),
    }


def plan_repair(seeds: int) -> Runs:
    for instance in REPAIR_GRAPHS:
        for method in ENGINES:
            for kind in ("uniform",) if method == "sample-chain" else ("uniform", "near"):
                config = {"chips": CHIPS, "repairs": REPAIRS, "candidates": kind}
                yield from sweep("mcm.repair", [method], [instance], config, seeds)


def assemble_repair(records: Records) -> Rows:
    """Percentages are over all repairs of a run, the interval over runs; the rate is that of
    uniform candidates."""
    table = frame(records)
    keys = ["instance", "method", "config_candidates"]
    for (instance, method, kind), runs in table.groupby(keys, sort=False):
        columns = {}
        if kind == "uniform":
            columns["repairs_per_s"] = runs.repairs / runs.seconds.clip(lower=1e-9)
        columns[f"valid_percent_{kind}"] = 100 * runs.valid / runs.repairs
        if method != "sample-chain":
            columns[f"agreement_percent_{kind}"] = 100 * runs.agreement
        yield from summaries(instance, method, columns, ops=runs.ops.iloc[0], candidates=kind)


REPAIR = Artifact(
    "mcm.repair",
    assemble_repair,
    plan_repair,
    Quick(instances=QUICK_GRAPHS, config={"repairs": 50}),
)


def unsolved_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """PPO without a solver, with ``config["reward"]`` (paper 2, Section 5.1)."""
    from learned_mapping.mcm.agent.ppo import learn_unsolved
    from learned_mapping.mcm.env import PartitionEnv

    graph = load_graph(instance)
    env = PartitionEnv(ChipModel(graph, ChipPackage(chips=int(config["chips"]))))
    chosen = agent_config(config["network"], rollouts=100, epochs=4, credit="candidate")
    rng = np.random.default_rng(seed)
    shares = learn_unsolved(
        env, chosen, rng, samples=int(config["samples"]), reward=config["reward"]
    )
    return shares | {"ops": graph.num_ops}


def plan_unsolved(seeds: int) -> Runs:
    """Both rewards on every graph; the small network but in the profile ``paper``."""
    config = {"chips": CHIPS, "samples": UNSOLVED_SAMPLES, "network": "quick"}
    for name in UNSOLVED_GRAPHS:
        count = 1 if load_graph(name).num_ops > LARGE_OPS else seeds
        for kind in REWARDS:
            of_reward = config | {"reward": kind}
            yield from sweep("mcm.unsolved", [UNSOLVED[kind]], [name], of_reward, count)


UNSOLVED_SHARES = Artifact(
    "mcm.unsolved",
    assemble_unconstrained,
    plan_unsolved,
    Quick(instances=1, config={"samples": 400}),
    {"samples": 5, "network": "paper"},
)
