"""Trains REGAL's network by imitation on training graphs.

    python -m builders.training.regal_networks --dataset traced-runtime --seed 0 \
        --out checkpoints/regal/traced-runtime-0.npz

The same command goes on where an interrupted one stopped.
"""

import argparse
from pathlib import Path

import jax

from learned_mapping.folders import build_folder
from learned_mapping.regal.agent.learner import Learner, read_learner, write_learner
from learned_mapping.regal.agent.network import ROUNDS
from learned_mapping_companion.regal.graphs import DATASETS

from .command import go_on
from .imitation import RegalAgent, TrainConfig
from .regal_sets import elites_digest, examples


def main() -> None:
    parser = argparse.ArgumentParser(description="Train REGAL's network by imitation.")
    parser.add_argument("--dataset", choices=tuple(DATASETS), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--imitation", type=int, default=TrainConfig.imitation_iterations, help="iterations"
    )
    parser.add_argument(
        "--priorities", type=float, default=TrainConfig.priority_weight, help="weight of their loss"
    )
    parser.add_argument(
        "--batch", type=int, default=TrainConfig.batch_nodes, help="ops in a batch of imitation"
    )
    parser.add_argument(
        "--guide", type=Path, help="a network whose laws find one more elite of each training graph"
    )
    parser.add_argument(
        "--from-chosen",
        action="store_true",
        help="imitate what the chosen spectral law finds, not several vectors'",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the checkpoint, such as data/checkpoints/regal/X.npz",
    )
    chosen = parser.parse_args()
    jax.config.update("jax_compilation_cache_dir", str(build_folder() / "jax-cache"))
    config = TrainConfig(
        seed=chosen.seed, imitation_iterations=chosen.imitation, batch_nodes=chosen.batch,
        priority_weight=chosen.priorities,
    )  # fmt: skip
    guide = None if chosen.guide is None else read_learner(chosen.guide)
    instances = examples(chosen.dataset, guide, from_chosen=chosen.from_chosen)
    agent = RegalAgent(instances, config)
    # Other elites: a run goes on from a state of its own alone.
    go_on(
        agent,
        build_folder() / "regal-training" / f"{chosen.out.stem}-{elites_digest(instances)}",
        every=2,
    )
    objective = DATASETS[chosen.dataset][1]
    write_learner(
        chosen.out, Learner(agent.parameters, ROUNDS, objective, chosen.dataset, config.seed)
    )


if __name__ == "__main__":
    main()
