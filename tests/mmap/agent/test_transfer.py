"""What one program's network gives another's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from learned_mapping.mmap.agent import transfer
from learned_mapping.mmap.agent.agent import MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig
from mmap_games import hard_program

SMALL = AgentConfig(
    games=8, moves=8, cold_games=2, simulations=2, width=16, latent=8, id_width=4, batch=32, updates=2,
    unroll=1, replay=2000, evaluate_every=0,
)  # fmt: skip


def leaves(parameters) -> dict[str, np.ndarray]:
    return {
        jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(parameters)
    }


@pytest.fixture(scope="module")
def pretrained():
    programs = [hard_program(3, 40), hard_program(4, 30)]
    return transfer.pretrain(programs, SMALL, 0, samples=40)


def test_all_but_the_tables_is_shared(pretrained):
    """Would catch a table of another program, a layer left behind, and a learner that plays by its old average."""
    parameters, spent = pretrained
    assert spent["games"] >= 40 and spent["updates"] == spent["iterations"] * SMALL.updates
    agent = MMapAgent(hard_program(5, 25), SMALL, 1)
    before = leaves(agent.learner.parameters)
    transfer.take_over(agent.learner, parameters)
    after, given = leaves(agent.learner.average), leaves(parameters)
    tables = {name for name in after if transfer.TABLE in name}
    assert len(tables) == 4
    for name, leaf in after.items():
        assert np.array_equal(leaf, before[name] if name in tables else given[name]), name
    assert any(not np.array_equal(after[name], before[name]) for name in set(after) - tables)


def test_every_program_has_its_turn(pretrained):
    """The shared part differs from what one program alone makes of it; the same seed gives the same parameters."""
    parameters, _ = pretrained
    programs = [hard_program(3, 40), hard_program(4, 30)]
    again, _ = transfer.pretrain(programs, SMALL, 0, samples=40)
    assert all(np.array_equal(leaf, leaves(again)[name]) for name, leaf in leaves(parameters).items())
    alone, _ = transfer.pretrain(programs[:1], SMALL, 0, samples=40)
    shared = [name for name in leaves(alone) if transfer.TABLE not in name]
    assert any(not np.array_equal(leaves(alone)[name], leaves(parameters)[name]) for name in shared)
