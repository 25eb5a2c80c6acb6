"""Valid repairs per second on one core by graph, updates of the policy, the gains of all single
moves and pushes, and measurements of a method that learns op times."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.ppo import make_policy, new_learned
from learned_mapping.mcm.agent.ppo import run as learn
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.mcm.searches.moves import move_arrays, pushes, single_moves
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.mcm.task import Task
from learned_mapping.programs.synthetic import random_graph
from learned_mapping_companion.datasets.registry import builder

CHIPS = 36
GRAPHS = {
    "bert_large_inference": 10_000.0,
    "densenet121_inference": None,
    "inception_inference": None,
}
"""Graph -> least valid repairs per second on one core, where there is a bar."""


def benchmark(
    graphs: Sequence[str] = tuple(GRAPHS), *, count: int = 1000, repeats: int = 3
) -> list[dict[str, Any]]:
    """Rows with keys name, value, unit and bar (None where there is none); CPU time, best of
    `repeats`."""
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
            valid = float(
                np.mean(
                    [is_valid(row, graph.op_edges) for row in repaired[:: max(1, count // 100)]]
                )
            )
            rows.append(
                {
                    "name": f"{label}: repairs",
                    "value": count / seconds,
                    "unit": "1/s",
                    "bar": GRAPHS.get(name),
                }
            )
            rows.append({"name": f"{label}: valid", "value": valid, "unit": "share", "bar": 1.0})
    return rows + learning() + credits_of_moves() + learned_chips()


LEARNER_OPS, LEARNER_CHIPS, UPDATES, MOST_SECONDS = 150, 12, 50, 2.0


def learning() -> list[dict[str, Any]]:
    """CPU seconds of `UPDATES` updates of ``rl``, a credit for each op included, once everything is
    compiled."""
    config = agent_config()
    task = Task(
        random_graph(np.random.default_rng(0), "layered", LEARNER_OPS),
        ChipPackage(chips=LEARNER_CHIPS),
    )
    policy, env, seconds = make_policy(config), PartitionEnv(task.model, task.arrays), 0.0
    for updates in (2, UPDATES):
        rng, start = np.random.default_rng(0), time.process_time()
        learn(
            policy,
            new_learned(policy, rng),
            env,
            rng,
            Budget(samples=updates * config.rollouts),
            learning=True,
        )
        seconds = time.process_time() - start
    name = f"rl, {task.model.graph.num_ops} ops, {UPDATES} updates"
    return [{"name": name, "value": seconds, "unit": "s", "bar": MOST_SECONDS}]


def credits_of_moves(repeats: int = 200) -> list[dict[str, Any]]:
    """CPU microseconds an edge to know all single moves, and all pushes, of a partition, on graphs
    of growing size."""
    rows = []
    for ops in (150, 600, 2400):
        graph = random_graph(np.random.default_rng(0), "layered", ops)
        task = Task(graph, ChipPackage(chips=CHIPS))
        arrays, (y,) = (
            move_arrays(task.model),
            repair_batch(task.arrays, CHIPS, mode="sample", rng=np.random.default_rng(0), count=1),
        )
        known = arrays, y, task.model.latencies(y)
        kinds = {
            "single moves": (single_moves, known),
            "pushes": (pushes, (*known, np.arange(ops), ops)),
        }
        for kind, (gains_of, given) in kinds.items():
            gains_of(*given)  # compiles
            start = time.process_time()
            for _ in range(repeats):
                gains_of(*given)
            microseconds = (time.process_time() - start) / repeats / len(graph.op_edges) * 1e6
            name = f"all {kind}, {ops} ops"
            rows.append({"name": name, "value": microseconds, "unit": "µs an edge", "bar": None})
    return rows


MEASUREMENTS, MOST_LEARNED_S = 60, 3.0


def learned_chips() -> list[dict[str, Any]]:
    """CPU seconds of `MEASUREMENTS` measurements of ``learned-times`` on BERT, compiled."""
    graph = fold_cheap_sources(builder("zoo").graph("bert_large_inference"))
    method, task, seconds = SILICON.method("learned-times"), SILICON.task(graph), 0.0
    for samples in (2, MEASUREMENTS):
        measured, rng = SILICON.begin(task, 0)
        start = time.process_time()
        method.run(measured, rng, Budget(samples=samples))
        seconds = time.process_time() - start
    name = f"learned-times, {graph.num_ops} ops, {MEASUREMENTS} measurements"
    return [{"name": name, "value": seconds, "unit": "s", "bar": MOST_LEARNED_S}]
