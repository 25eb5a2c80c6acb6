"""Repair by CP-SAT beside the compiled engine, on equal random numbers: how often the two are
equal, under the chain rule and under Eq. 4, their time, and what the fewest changes keep of a
candidate and are worth to PPO."""

import itertools
import time
from functools import partial

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.methods import solve
from learned_mapping.mcm.repair.cp_sat import cp_sat_batch
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import example_graph
from learned_mapping.mcm.task import ENGINE, NEAREST, Task
from learned_mapping.mcm.validate import validate
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    frame,
    row,
    summaries,
    summary_row,
    sweep,
)

CHIPS = 4
GRAPHS = ("lenet", "alexnet", "unet_3", "convlstm_1x4")
"""Training graphs, the smallest of four families: a repair by CP-SAT takes a solve for most pairs
of op and chip."""
UNJOINED = ("tcn_4", "text_cnn", "wavenet_5")
"""Those of three more with branches, which can leave neighbouring chips unjoined: there Eq. 4
allows more."""
MODES = ("sample", "fix", "nearest")
EQ_4 = "eq-4"  # CP-SAT under Eq. 4 itself, in the place of the chain rule.
REPEATS = 12  # Repairs of each kind of candidate,
MANY_REPEATS = 128  # and by what is quicker: the engine, and the fewest changes.
REDRAWN = 0.1
"""Share of the optimum's ops whose chip is drawn anew in a ``near`` candidate; a ``far`` one is
drawn whole."""
TRUST = 0.9  # Probability that SAMPLE's distributions give the candidate's chip.
PPO_SAMPLES, PPO_SEEDS = 120, 3


def repair_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """Repairs candidates near the optimum and far from it, with the same random numbers for all
    methods of a seed; these are ``REPAIR-MODE``, of ``engine``, ``cp-sat`` and `EQ_4`, and of
    `MODES`.

    Returns:
      Of ``near`` and ``far``: seconds a repair, and of each repair the share of chips kept, the
      throughput of what comes out over the optimum's, and whether it is the engine's; and how many
      partitions were judged and are invalid.
    """
    repair, _, mode = method.rpartition("-")
    graph, chips, count = load_graph(instance), config["chips"], config["repeats"]
    task = Task(graph, ChipPackage(chips=chips))
    engine = task.repair
    chosen = engine if repair == ENGINE else partial(
        cp_sat_batch, task.model.graph, chips, strength="general" if repair == EQ_4 else "chain"
    )  # fmt: skip
    best, rng = optimum(task.model), np.random.default_rng([seed, 0])
    far = rng.integers(0, chips, (count, graph.num_ops), dtype=np.int32)
    near = np.where(rng.random(far.shape) < REDRAWN, far, best).astype(np.int32)
    repair_batch(
        repair_arrays(example_graph()),
        2,
        mode="fix",
        rng=rng,
        candidates=np.zeros((1, 6), np.int32),
    )
    numbers: Record = {"ops": graph.num_ops, "validated": 0, "invalid": 0}
    for kind, candidates in (("near", near), ("far", far)):
        wishes = {"candidates": candidates}
        if mode == "sample":
            weights = np.full((count, graph.num_ops, chips), (1 - TRUST) / (chips - 1))
            np.put_along_axis(weights, candidates[..., None].astype(np.int64), TRUST, axis=2)
            wishes = {"weights": weights}
        begin = time.process_time()
        repaired = chosen(mode=mode, rng=np.random.default_rng([seed, 1]), **wishes)
        numbers[f"{kind}_seconds"] = (time.process_time() - begin) / count
        engines = engine(mode=mode, rng=np.random.default_rng([seed, 1]), **wishes)
        numbers[f"{kind}_equal"] = np.all(repaired == engines, axis=1).tolist()
        numbers[f"{kind}_kept"] = np.mean(repaired == candidates, axis=1).tolist()
        unit = task.model.throughput(best)
        numbers[f"{kind}_of_optimum"] = [
            task.model.throughput(partition) / unit for partition in repaired
        ]
        judged = [validate(graph, task.partition(partition)).valid for partition in repaired]
        numbers["validated"] += count
        numbers["invalid"] += judged.count(False)
    return numbers


def learn_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """The paper's policy from scratch with a repair (``method``): its best result over the
    optimum's, and the time."""
    graph, package = load_graph(instance), ChipPackage(chips=config["chips"])
    result = solve(
        graph, "rl", package=package, repair=method, samples=config["samples"], seed=seed, cpu=True
    )
    task = Task(graph, package)
    best = task.model.throughput(optimum(task.model))
    return {
        "ops": graph.num_ops,
        "samples": result.samples,
        "ppo_of_optimum": result.metrics["throughput"] / best,
        "ppo_seconds": result.seconds,
        "validated": 1,
        "invalid": int(not validate(graph, result.solution, package).valid),
    }


def plan_cp_sat(seeds: int) -> Runs:
    for repair, mode in itertools.product((ENGINE, "cp-sat", EQ_4), MODES):
        many = repair == ENGINE or mode == "nearest"
        config = {"chips": CHIPS, "repeats": MANY_REPEATS if many else REPEATS}
        yield from sweep("mcm.cp_sat", [f"{repair}-{mode}"], [*GRAPHS, *UNJOINED], config)
    config, count = {"chips": CHIPS, "samples": PPO_SAMPLES}, min(seeds, PPO_SEEDS)
    yield from sweep("mcm.cp_sat_ppo", (ENGINE, NEAREST), GRAPHS, config, count)


def assemble_cp_sat(records: Records) -> Rows:
    """The time of each repair; of SAMPLE and FIX by CP-SAT the share of partitions that are the
    engine's, of the others what they keep of candidates and what comes out is worth; and what PPO
    reaches."""
    table = frame(records)
    learns = table.config_samples.notna().rename("learns")
    keys = ["instance", "method", learns]
    for (instance, method, learner), runs in table.groupby(keys, sort=False):
        cells = {"ops": int(runs.ops.iloc[0]), "chips": CHIPS}
        if learner:
            reached, cells["samples"] = runs.ppo_of_optimum.tolist(), int(runs.samples.max())
            yield summary_row(instance, method, "ppo_of_optimum", reached, **cells)
            continue
        line = runs.iloc[0]
        yield row(instance, method, "near_ms", 1e3 * line.near_seconds, **cells)
        if not method.startswith(ENGINE) and not method.endswith("nearest"):
            equal = [*line.near_equal, *line.far_equal]
            cells["n"] = len(equal)
            yield row(instance, method, "equal_percent", 100 * np.mean(equal), **cells)
            continue
        near, far = ([100 * share for share in kept] for kept in (line.near_kept, line.far_kept))
        columns = {
            "near_kept_percent": near,
            "near_of_optimum": line.near_of_optimum,
            "far_kept_percent": far,
        }
        yield from summaries(instance, method, columns, **cells)


CP_SAT = Artifact(
    "mcm.cp_sat",
    assemble_cp_sat,
    plan_cp_sat,
    Quick(instances=1, seeds=1, config={"repeats": 2, "samples": 20}),
)
