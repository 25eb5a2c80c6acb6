"""Clones a written rule into a policy's weights: where REINFORCE can begin.

    python -m builders.training.regal_clone --seed 0 --out start.npz
    python -m builders.training.regal_reinforce --data traced-memory --seed 0 --start start.npz \
        --out runs/regal

For peak memory the rule is a law of the action space: an op's priority leans with the rank of the
bytes that it frees, and its device a little with the side of the Fiedler vector on which it lies.
It was chosen among some 35 laws on training graphs. Either part alone gains nothing. A policy that
begins at a rule is *REGAL from a cloned rule*, and not the paper's, which begins at random weights.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

from learned_mapping.folders import build_folder
from learned_mapping.regal.agent.forward import MODELS
from learned_mapping.regal.agent.policy import BINS, Policy, write_policy
from learned_mapping.regal.agent.reinforce import (
    ATTRIBUTES,
    RECIPES,
    ReinforceAgent,
    ReinforceConfig,
    policy_step,
)
from learned_mapping.regal.agent.written import rule_bins
from learned_mapping_companion.regal.graphs import DATASETS

from .command import say
from .regal_sets import training_graphs

STEPS = 700
FIRST_RATE, LAST_RATE = 4e-3, 1.5e-3
"""Of Adam; the last for the last three tenths of the steps."""
DATA = "traced-memory"
SOFTENED = 0.35
"""A factor on the heads' weights after cloning, so that REINFORCE begins with something to try:
some .15 nats a head."""


def clone(agent: ReinforceAgent):
    """Parameters after `STEPS` of cross-entropy to the rule's bins on the agent's training
    graphs."""
    bins = [rule_bins(instance, seen) for instance, seen in zip(agent.instances, agent.seen)]
    parameters, memory = agent.parameters, agent.memory
    for step in range(STEPS):
        rng = np.random.default_rng([agent.config.seed, 7, step])
        chosen = agent.choose(rng.permutation(len(agent.instances)))
        batch, total = agent.batch(chosen), int(agent.sizes[chosen].sum())
        weights = np.zeros((batch.graphs.nodes.shape[0], *bins[0].shape[1:], len(BINS)), np.float32)
        rows = np.concatenate([bins[g] for g in chosen])
        weights[:total] = np.eye(len(BINS), dtype=np.float32)[rows] / rows.size
        rate = FIRST_RATE if step < 0.7 * STEPS else LAST_RATE
        parameters, memory, entropy = policy_step(
            parameters, memory, batch, weights, rate, entropy_weight=0.0
        )
        if step % 100 == 99:
            say(f"step {step + 1}: entropy of a head {float(entropy):.3f} nats")
    return parameters


def softened(parameters, factor: float):
    """The same with the last layers of all heads scaled by a factor."""
    last = {name for name in parameters if name.startswith("head_") and name.endswith("mlp_out")}
    return {
        name: {
            part: np.asarray(value) * np.float32(factor if name in last else 1.0)
            for part, value in layer.items()
        }
        for name, layer in parameters.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Clone a rule into a policy.")
    parser.add_argument("--model", choices=MODELS, default="gnn")
    parser.add_argument("--attributes", choices=ATTRIBUTES, default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint, .npz")
    chosen = parser.parse_args()
    jax.config.update("jax_compilation_cache_dir", str(build_folder() / "jax-cache"))
    recipe = RECIPES[DATA] | {"batch_graphs": 12, "batch_ops": 3072}
    given = {"model": chosen.model, "attributes": chosen.attributes}
    config = ReinforceConfig(**recipe, seconds=1.0, seed=chosen.seed, **given)
    agent = ReinforceAgent(training_graphs(DATA, max(s.ops for s in config.stages)), config)
    say(f"{len(agent.instances)} training graphs")
    trained = Policy(softened(clone(agent), SOFTENED), DATASETS[DATA][1], DATA, chosen.seed)
    write_policy(
        chosen.out, trained, {"updates": 0, "cloned": True, "training_graphs": len(agent.instances)}
    )


if __name__ == "__main__":
    main()
