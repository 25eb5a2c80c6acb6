"""Repair by CP-SAT beside the compiled engine: what each keeps of a candidate, its time, what PPO reaches with it."""

import time
from collections.abc import Sequence

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.table import Record, assembled, frame, of_profile, rows, summaries, sweep
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.methods import REPAIRS, Task, solve
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import example_graph
from learned_mapping.mcm.validate import validate

CHIPS = 4
GRAPHS = {"quick": ("lenet",), "full": ("lenet", "alexnet", "unet_3", "convlstm_1x4")}
"""Training graphs, the smallest of four families: a repair by CP-SAT takes a solve for most pairs of op and chip."""
MODES = ("sample", "fix", "nearest")
REPEATS = {"quick": 2, "full": 10}  # Repairs of each kind of candidate,
MANY_REPEATS = {"quick": 2, "full": 125}  # and where they change the fewest ops, which is quicker.
REDRAWN = 0.1
"""Share of the optimum's ops whose chip is drawn anew in a ``near`` candidate; a ``far`` one is drawn whole."""
TRUST = 0.9  # Probability that SAMPLE's distributions give the candidate's chip.
PPO_SAMPLES = {"quick": 20, "full": 120}


def repair_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """Repairs candidates near the optimum and far from it, the same for all methods of a seed;
    these are ``REPAIR-MODE``, of ``engine`` and ``cp-sat``, and of `MODES`.

    Returns:
      Of ``near`` and ``far``: seconds a repair, and of each repair the share of chips kept and the throughput of what
      comes out over the optimum's; and how many partitions were judged and are invalid.
    """
    repair, _, mode = method.rpartition("-")
    graph, chips, count = load_graph(instance), config["chips"], config["repeats"]
    task = Task(graph, ChipPackage(chips=chips), repair=repair)
    best, rng = optimum(task.model), np.random.default_rng([seed, 0])
    far = rng.integers(0, chips, (count, graph.num_ops), dtype=np.int32)
    near = np.where(rng.random(far.shape) < REDRAWN, far, best).astype(np.int32)
    repair_batch(repair_arrays(example_graph()), 2, mode="fix", rng=rng, candidates=np.zeros((1, 6), np.int32))
    numbers: Record = {"ops": graph.num_ops, "validated": 0, "invalid": 0}
    for kind, candidates in (("near", near), ("far", far)):
        wishes = {"candidates": candidates}
        if mode == "sample":
            weights = np.full((count, graph.num_ops, chips), (1 - TRUST) / (chips - 1))
            np.put_along_axis(weights, candidates[..., None].astype(np.int64), TRUST, axis=2)
            wishes = {"weights": weights}
        begin = time.process_time()
        repaired = task.repair(mode=mode, rng=np.random.default_rng([seed, 1]), **wishes)
        numbers[f"{kind}_seconds"] = (time.process_time() - begin) / count
        numbers[f"{kind}_kept"] = np.mean(repaired == candidates, axis=1).tolist()
        unit = task.model.throughput(best)
        numbers[f"{kind}_of_optimum"] = [task.model.throughput(partition) / unit for partition in repaired]
        judged = [validate(graph, task.partition(partition)).valid for partition in repaired]
        numbers["validated"] += count
        numbers["invalid"] += judged.count(False)
    return numbers


def learn_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """The paper's policy from scratch with a repair (``method``): its best result over the optimum's, and the time."""
    graph, package = load_graph(instance), ChipPackage(chips=config["chips"])
    result = solve(graph, "rl", package=package, repair=method, samples=config["samples"], seed=seed, cpu=True)
    task = Task(graph, package)
    best = task.model.throughput(optimum(task.model))
    return {
        "ops": graph.num_ops, "samples": result.samples, "ppo_of_optimum": result.metrics["throughput"] / best,
        "ppo_seconds": result.seconds, "validated": 1,
        "invalid": int(not validate(graph, result.solution, package).valid),
    }  # fmt: skip


def plan_cp_sat(profile: str, seeds: int) -> list[Run]:
    graphs, config = of_profile(GRAPHS, profile), {"chips": CHIPS}
    runs = []
    for mode in MODES:
        repeats = {"repeats": of_profile(MANY_REPEATS if mode == "nearest" else REPEATS, profile)}
        runs += sweep("mcm.cp_sat", [f"engine-{mode}", f"cp-sat-{mode}"], graphs, config | repeats)
    samples = {"samples": of_profile(PPO_SAMPLES, profile)}
    return runs + sweep("mcm.cp_sat_ppo", REPAIRS, graphs, config | samples, 1 if profile == "quick" else min(seeds, 3))


def assemble_cp_sat(profile: str, records: Sequence[Record]) -> Record:
    """The share of candidates that repairs keep, what near ones are worth and take; and what PPO reaches with each."""
    table_rows, table = [], frame(records)
    learns = table.config_samples.notna().rename("learns")
    for (instance, method, learner), runs in table.groupby(["instance", "method", learns], sort=False):
        about = {"ops": int(runs.ops.iloc[0]), "chips": CHIPS}
        if learner:
            reached = {"ppo_of_optimum": runs.ppo_of_optimum.tolist()}
            table_rows += summaries(instance, method, reached, samples=int(runs.samples.max()), **about)
            continue
        line = runs.iloc[0]
        near, far = ([100 * share for share in kept] for kept in (line.near_kept, line.far_kept))
        columns = {"near_kept_percent": near, "near_of_optimum": line.near_of_optimum}
        table_rows += summaries(instance, method, columns, **about)
        table_rows += rows(instance, method, {"near_seconds": line.near_seconds}, **about)
        table_rows += summaries(instance, method, {"far_kept_percent": far}, **about)
    counts = {name: int(table[name].sum()) for name in ("validated", "invalid")}
    return {**assembled(table_rows), **counts}
