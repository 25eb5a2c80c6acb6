"""Tests of the policy without a solver: what is judged is what was drawn, and only valid
assignments count."""

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import PENALTY, SPARSE, agent_config
from learned_mapping.mcm.agent.ppo import learn_unsolved, reward_of
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping_companion.mcm import graphs


def problem(chips: int) -> PartitionEnv:
    return PartitionEnv(ChipModel(graphs.load_graph("lenet"), ChipPackage(chips=chips)))


def test_rewards_by_hand():
    """Catches a broken assignment that earns throughput, a reward below 0, and one above that of a
    valid partition."""
    here = problem(3)
    valid, edges = np.zeros(here.num_ops, np.int32), here.model.graph.op_edges
    broken = valid.copy()
    broken[edges[0, 0]] = 2
    wrong = np.mean(broken[edges[:, 1]] - broken[edges[:, 0]] < 0)  # chips 2 -> 0 run backwards
    wrong += np.mean(broken[edges[:, 1]] - broken[edges[:, 0]] > 1)
    share = here.model.throughput(valid) / here.unit
    assert reward_of(valid, here, SPARSE) == (share, True) and reward_of(valid, here, PENALTY) == (
        1 + share,
        True,
    )
    assert reward_of(broken, here, SPARSE) == (0.0, False)
    assert reward_of(broken, here, PENALTY) == (1 - wrong, False) and 0 < wrong < 1


def test_nothing_repairs_a_sample():
    """Catches a solver left in: on 36 chips no uniform sample is valid; on one chip every sample
    is."""
    config = agent_config("quick", rollouts=20, epochs=1)
    far = learn_unsolved(problem(36), config, np.random.default_rng(0), samples=40, reward=SPARSE)
    assert (
        far["samples"] == 40
        and far["valid"] == 0
        and far["first_valid"] is None
        and far["broken_first"] > 0.8
    )
    near = learn_unsolved(problem(1), config, np.random.default_rng(0), samples=20, reward=SPARSE)
    assert near["valid"] == 20 and near["first_valid"] == 1 and near["best"] > 0


def test_a_penalty_teaches_step_by_step():
    """Catches a reward that teaches nothing, and parameters that stop being numbers: all ops then
    go to chip 0, which breaks no edge. Without learning the share of broken edges stays within .04
    of the first."""
    config = agent_config("quick", rollouts=20, epochs=4)
    actual = learn_unsolved(
        problem(4), config, np.random.default_rng(0), samples=300, reward=PENALTY
    )
    assert 0 < actual["broken_last"] < actual["broken_first"] - 0.2
