"""Pre-trains paper 2's policy on the 66 training graphs and chooses a checkpoint on the 5
validation graphs.

    python -m builders.training.mcm_policy chips --seed 0 --out checkpoints/mcm/chips-0.npz
    python -m builders.training.mcm_policy moves --seed 0 --out checkpoints/mcm/moves-0.npz

A run that is stopped goes on from ``--work`` and ends with the same numbers. The test graphs are
never read.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from learned_mapping.folders import build_folder
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.agent.checkpoints import save_policy
from learned_mapping.mcm.agent.config import SIZES, agent_config
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.methods import MOVES, POLICIES
from learned_mapping.mcm.searches.even_cut import Start
from learned_mapping.mcm.task import Task
from learned_mapping_companion.mcm import graphs

from .command import go_on, say
from .pretrain import FINALISTS, SAMPLES, SETTINGS, SNAPSHOTS, Pretraining, choose


def env_of(name: str, balanced: bool = False) -> PartitionEnv:
    """A graph of the set ``mcm-graphs`` on as many chips as its manifest says, judged by the
    analytical model."""
    task = Task(graphs.load_graph(name), ChipPackage(chips=graphs.chips(name)))
    start = Start(task.model, task.arrays) if balanced else None
    return PartitionEnv(task.model, task.arrays, start)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pre-train the policy of paper 2.")
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint, .npz")
    parser.add_argument(
        "policy",
        choices=tuple(POLICIES),
        help="over chips, the same with one credit a sample, or of pushes from a partition",
    )
    parser.add_argument("--profile", choices=tuple(SIZES), default="full")
    parser.add_argument("--samples", type=int, help="partitions judged (default: the profile's)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after so long; the next call goes on")
    parser.add_argument(
        "--work", type=Path, help="folder of the unfinished run (default: in build/)"
    )
    chosen = parser.parse_args(arguments)
    samples = SAMPLES[chosen.profile] if chosen.samples is None else chosen.samples
    fixed, balanced = POLICIES[chosen.policy], chosen.policy == MOVES
    settings = {} if balanced else SETTINGS
    name = f"{chosen.policy}-{chosen.profile}-{chosen.seed}"
    work = chosen.work or build_folder() / "mcm-training" / name
    config = agent_config(chosen.profile, **fixed)
    training = agent_config(chosen.profile, **fixed, **settings)
    makers = [partial(env_of, name, balanced) for name in graphs.names("train")]
    agent = Pretraining(
        training, makers, samples=samples, snapshots=SNAPSHOTS[chosen.profile], seed=chosen.seed
    )
    if not go_on(agent, work, every=20, minutes=chosen.minutes):
        say(f"{agent.iterations} of {agent.total} iterations done; the same call goes on")
        return 4
    validation = [env_of(name, balanced) for name in graphs.names("validation")]
    best, rows = choose(
        config, agent.snapshots, validation, finalists=FINALISTS[chosen.profile], report=say
    )
    facts = {
        "set": "mcm-graphs", "samples": samples, "seed": chosen.seed, "profile": chosen.profile,
        **settings,
        "iteration": best, "scores": rows,
    }  # fmt: skip
    save_policy(chosen.out, config, agent.snapshots[best], facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
