"""Trained policies without a solver: how many of their samples are valid (paper 2, Section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.statistics import summary_row
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.unsolved import REWARDS, learn_unsolved
from learned_mapping.mcm.env import PartitionEnv

Record = dict[str, Any]

CHIPS = 36
GRAPHS = {"quick": ("lenet_inference",), "full": ("lenet_inference", "resnet50_inference", "bert_large_inference")}
SAMPLES = {"quick": 400, "full": 4000, "paper": 20_000}
"""Of a run; five seeds of the profile ``full`` make 20,000."""
LARGE_OPS = 1000
"""A graph with more ops has one seed, but in the profile ``paper``, for the sake of time."""
ROLLOUTS, EPOCHS = 100, 4
NAMES = {kind: f"rl without a solver, {kind}" for kind in REWARDS}


def unsolved_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """PPO without a solver, with ``config["reward"]``."""
    graph = load_graph(instance)
    env = PartitionEnv(ChipModel(graph, ChipPackage(chips=int(config["chips"]))))
    chosen = agent_config(config["network"], rollouts=ROLLOUTS, epochs=EPOCHS)
    rng = np.random.default_rng(seed)
    found = learn_unsolved(env, chosen, rng, samples=int(config["samples"]), reward=config["reward"])
    return found | {"ops": graph.num_ops}


def plan_unsolved(profile: str, seeds: int) -> list[Run]:
    """Both rewards on every graph; the small network but in the profile ``paper``."""
    runs = []
    for name in GRAPHS.get(profile, GRAPHS["full"]):
        large = profile != "paper" and load_graph(name).num_ops > LARGE_OPS
        for kind in REWARDS:
            config = {"chips": CHIPS, "samples": SAMPLES[profile], "reward": kind}
            config |= {"network": "paper" if profile == "paper" else "quick"}
            counts = range(1 if large else seeds)
            runs += [Run("mcm.unsolved", NAMES[kind], name, config, seed) for seed in counts]
    return runs


def assemble_unsolved(profile: str, records: Sequence[Record]) -> Record:
    """By graph and reward: samples and valid ones over all seeds, and per cent of edges that break the chain rule."""
    rows: list[Record] = []
    for instance, method in dict.fromkeys((r["instance"], r["method"]) for r in records):
        found = [r["result"] for r in records if (r["instance"], r["method"]) == (instance, method)]
        key = {"instance": instance, "method": method, "n": len(found)}
        rows.append({**key, "metric": "ops", "value": found[0]["ops"]})
        rows += [{**key, "metric": name, "value": sum(r[name] for r in found)} for name in ("samples", "valid")]
        for end in ("first", "last"):
            values = [100.0 * r[f"broken_{end}"] for r in found]
            rows.append(summary_row(instance, method, f"broken_edges_{end}_percent", values))
    paper = [{"instance": "bert_large_inference", "method": NAMES["sparse"], "metric": "valid", "value": 0}]
    return {"rows": rows, "paper": paper, "validated": 0, "invalid": 0}
