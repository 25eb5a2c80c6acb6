"""Trains REGAL's networks and the Graph-As-Sequence baseline on training graphs; validation graphs watch.

    python -m learned_mapping.companion.training.regal_networks --dataset traced-runtime --seed 0 \
        --out data/checkpoints/regal/traced-runtime-0.npz

The state of the training and its log, one JSON object a line, are kept beside each other in the build folder; the same
command goes on where an interrupted one stopped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.companion.regal.graphs import DATASETS
from learned_mapping.companion.training.regal_sets import (
    VALIDATION_GRAPHS,
    elites_digest,
    examples,
    kind_and_objective,
    references,
    validation_instances,
)
from learned_mapping.folders import build_folder
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.regal.agent.imitation import RegalAgent
from learned_mapping.regal.agent.learner import Learner, Variant, read_learner, write_learner
from learned_mapping.regal.agent.losses import TrainConfig
from learned_mapping.regal.agent.network import MODELS, ROUNDS
from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw, brkga

WATCH = Variant()
"""The variant whose validation gap the log holds."""


def gap_percent(costs: Iterable[float], best: np.ndarray) -> float:
    """Geometric-mean gap in percent."""
    return float(100 * (np.exp(np.log(np.array(list(costs)) / best).mean()) - 1))


def search(instance: Instance, law: MutantLaw | None, seed: int) -> float:
    """What BRKGA finds with this law in `EVALUATIONS`."""
    budget = Budget(samples=EVALUATIONS)
    brkga(instance, np.random.default_rng(seed), budget, law=law)
    return budget.best


def evaluation(dataset: str, model: str, seed: int, count: int):
    """A function from a network's parameters to its gap on validation graphs, for the log."""
    instances, (_, objective) = validation_instances(dataset, count), kind_and_objective(dataset)
    best = references(instances)

    def evaluate(parameters: Any) -> dict[str, float]:
        learner = Learner(parameters, model, ROUNDS, objective, dataset, seed)
        rng = np.random.default_rng(0)
        costs = [search(each, learner.law(each, rng, WATCH), 0) for each in instances]
        return {"validation_gap_percent": gap_percent(np.minimum(costs, 1e300), best)}

    return evaluate


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train REGAL's network or the Graph-As-Sequence baseline.")
    parser.add_argument("--dataset", choices=tuple(DATASETS), required=True)
    parser.add_argument("--model", choices=MODELS, default="gnn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--imitation", type=int, default=TrainConfig.imitation_iterations, help="iterations")
    parser.add_argument("--priorities", type=float, default=TrainConfig.priority_weight, help="weight of their loss")
    parser.add_argument("--batch", type=int, default=TrainConfig.batch_nodes, help="ops in a batch of imitation")
    parser.add_argument("--reinforce", type=int, default=TrainConfig.reinforce_iterations, help="iterations")
    parser.add_argument("--guide", type=Path, help="a network whose laws find one more elite of each training graph")
    parser.add_argument(
        "--from-chosen", action="store_true", help="imitate what the chosen spectral law finds, not several vectors'"
    )
    parser.add_argument("--validation", type=int, default=VALIDATION_GRAPHS, help="graphs the log's gap is measured on")
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint, such as data/checkpoints/regal/X.npz")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_compilation_cache_dir", str(build_folder() / "jax-cache"))
    config = TrainConfig(
        model=chosen.model,
        seed=chosen.seed,
        imitation_iterations=chosen.imitation,
        reinforce_iterations=chosen.reinforce,
        priority_weight=chosen.priorities,
        batch_nodes=chosen.batch,
    )
    guide = None if chosen.guide is None else read_learner(chosen.guide)
    found = examples(
        chosen.dataset,
        lambda done, of: _report(f"elites of graph {done + 1} of {of}"),
        guide,
        from_chosen=chosen.from_chosen,
    )
    watch = evaluation(chosen.dataset, chosen.model, chosen.seed, chosen.validation) if chosen.validation else None
    agent = RegalAgent(found, config, watch)
    folder = build_folder() / "regal-training"
    # Other elites: a run goes on from a state of its own alone.
    stem = f"{chosen.out.stem}-{elites_digest(found)}"
    state = folder / f"{stem}.state.npz"
    resume(agent, state)
    log = Log(folder / f"{stem}.jsonl", agent.iterations)
    start, append = time.perf_counter(), log.append

    def append_and_report(row: dict[str, Any]) -> None:
        append(row)
        words = " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        _report(f"{time.perf_counter() - start:.0f} s {words}")

    log.append = append_and_report
    train(agent, lambda: False, log=log, checkpoint=state, every=2)
    objective = kind_and_objective(chosen.dataset)[1]
    write_learner(chosen.out, Learner(agent.parameters, config.model, ROUNDS, objective, chosen.dataset, config.seed))
    return 0


def _report(text: str) -> None:
    print(f"\r{text}", end="" if text.startswith("elites") else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
