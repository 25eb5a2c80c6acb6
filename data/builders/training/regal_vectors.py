"""Trains the policy that chooses the vector along which the spectral law cuts a graph, by the
reward of BRKGA.

    python -m builders.training.regal_vectors --data synthetic-runtime --seed 0 --out
    checkpoints/regal

All seven actions of a training graph are run, so the gradient of the expected reward is exact: sum
over a of pi(a) times (R(a) less the mean over the actions). A reward is minus the logarithm of the
cost after 5,000 evaluations. Validation graphs are scored beside the race and the vector that
training graphs chose for all.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.budget import Budget
from learned_mapping.learning.checkpoint import write_checkpoint
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.vectors import (
    HIDDEN,
    VECTORS,
    VectorPolicy,
    cut_facts,
    inputs,
    logits,
)
from learned_mapping.regal.methods import EVALUATIONS, best_spectral_law, chosen
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.race import race, winner
from learned_mapping_companion.statistics import bootstrap_interval

from .command import say, write_record
from .regal_sets import training_graphs, watched_graphs

DATA = {"synthetic-runtime": 200, "traced-runtime": 200}
"""Data set -> the most ops of a training graph."""
STREAMS, UPDATES, RATE, WEIGHT = 2, 1000, 1e-2, 3e-3
"""Runs of a graph and vector; steps of Adam, its rate, and the weight of the squared weights."""
VALIDATION = {"synthetic-runtime": 60, "traced-runtime": 40}


def costs(instances: list[Instance], seed: int) -> np.ndarray:
    """[G, 7] mean logarithm of the cost after `EVALUATIONS`, by graph and vector; equal draws for
    all vectors."""
    logs = np.zeros((len(instances), len(VECTORS)))
    for g, instance in enumerate(instances):
        for a, vector in enumerate(VECTORS):
            law = best_spectral_law(instance, vector=vector)
            for run in range(STREAMS):
                budget = Budget(samples=EVALUATIONS)
                brkga(instance, np.random.default_rng([seed, g, run]), budget, law=law)
                logs[g, a] += np.log(budget.best) / STREAMS
        if g % 50 == 49:
            say(f"{g + 1} of {len(instances)} graphs")
    return logs


def races(instances: list[Instance], seed: int) -> np.ndarray:
    """[G, 7, 3] the scores of a race on each graph."""
    ranked = []
    for g, instance in enumerate(instances):
        laws = [best_spectral_law(instance, vector=vector) for vector in VECTORS]
        ranked.append(
            race(instance, np.random.default_rng([seed, g]), Budget(samples=EVALUATIONS), laws)[0]
        )
    return np.stack(ranked)


def fit(
    x: np.ndarray, rewards: np.ndarray, seed: int
) -> tuple[VectorPolicy, list[dict[str, float]]]:
    """A policy after `UPDATES` of the exact gradient of the expected reward, in percent, and its
    curve; from `inputs` [G, 7, X] and rewards [G, 7], with first weights by the seed."""
    flat = x.reshape(-1, x.shape[-1])
    mean, scale = flat.mean(axis=0), flat.std(axis=0) + 1e-6
    standard, gain = (
        jnp.asarray((x - mean) / scale),
        jnp.asarray(100 * (rewards - rewards.mean(axis=1, keepdims=True))),
    )
    rng = np.random.default_rng(seed)
    parameters: Any = {
        "w": jnp.asarray(rng.standard_normal((x.shape[-1], HIDDEN)) / np.sqrt(x.shape[-1])),
        "b": jnp.zeros(HIDDEN),
        "v": jnp.zeros(HIDDEN),
        "linear": jnp.zeros(x.shape[-1]),
    }

    def loss(p):
        expected = (jax.nn.softmax(logits(p, standard)) * gain).sum(axis=1).mean()
        return (
            10 * WEIGHT * ((p["v"] ** 2).sum() + (p["linear"] ** 2).sum())
            + WEIGHT * (p["w"] ** 2).sum()
            - expected
        )

    optimiser = optax.adam(RATE)
    memory = optimiser.init(parameters)

    @jax.jit
    def step(p, m):
        updates, m = optimiser.update(jax.grad(loss)(p), m)
        return optax.apply_updates(p, updates), m

    curve = []
    for update in range(UPDATES):
        parameters, memory = step(parameters, memory)
        if update % 50 == 49:
            p = jax.nn.softmax(logits(parameters, standard))
            entropy = float(-(p * jnp.log(p)).sum(axis=1).mean())
            curve.append(
                {
                    "updates": update + 1,
                    "reward": float((p * gain).sum(axis=1).mean()),
                    "entropy": entropy,
                }
            )
    return VectorPolicy({name: np.asarray(v) for name, v in parameters.items()}, mean, scale), curve


def compared(policy: VectorPolicy, instances: list[Instance], seed: int) -> dict[str, list[float]]:
    """Way to choose -> percent over the vector chosen for all, and its interval over the graphs."""
    logs, scores = costs(instances, seed), races(instances, seed)
    usual = VECTORS.index(chosen()["spectral-law"]["runtime"]["chosen"]["vector"])
    picks = {
        "network": [policy.choice(instance, score) for instance, score in zip(instances, scores)],
        "race": [winner(score) for score in scores],
    }
    rows = np.arange(len(instances))
    said = {}
    for name, pick in picks.items():
        over = 100 * (logs[rows, pick] - logs[:, usual])
        said[name] = [round(float(v), 3) for v in (over.mean(), *bootstrap_interval(over, np.mean))]
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the choice of a smooth vector.")
    parser.add_argument("--data", choices=tuple(DATA), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoint and record")
    options = parser.parse_args()
    graphs = training_graphs(options.data, DATA[options.data])
    say(f"{len(graphs)} training graphs")
    facts = np.stack([cut_facts(instance, features(instance)) for instance in graphs])
    x = inputs(facts, races(graphs, options.seed))
    policy, curve = fit(x, -costs(graphs, options.seed), options.seed)
    watched = watched_graphs(options.data, VALIDATION[options.data], DATA[options.data])
    header = {
        "command": (
            f"python -m builders.training.regal_vectors --data {options.data} --seed {options.seed}"
        ),
        "training_graphs": len(graphs),
        "updates": UPDATES,
        "runs": len(graphs) * len(VECTORS) * STREAMS,
        "over_chosen_percent": compared(policy, watched, 1000),
        "validation_graphs": len(watched),
    }
    network = options.out / f"vector-{options.data}-{options.seed}.npz"
    write_checkpoint(
        network,
        policy.parameters | {"mean": policy.mean, "scale": policy.scale},
        header,
    )
    write_record(network, **header, curve=curve)
    say(str(header["over_chosen_percent"]))


if __name__ == "__main__":
    main()
