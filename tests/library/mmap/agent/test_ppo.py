"""PPO: what it says of its best game is what that game is, and it learns."""

import jax
import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.folders import data_folder
from learned_mapping.mmap import env
from learned_mapping.mmap.agent import ppo
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.searches.search import Search
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program
from mmap_games import hard_program


def trained(program, count, settings):
    with env.exact():
        state, updates = ppo.start(program, seed=0, settings=settings)
        state, (means, _) = jax.jit(updates, static_argnums=1)(state, count)
        assert not bool(state[2].overflow.any())
    search = Search(program, Budget(samples=1))
    value = search.play_actions(ppo.actions_of(state[4]))
    assert validate(program, search.mapping(), exact=True).valid
    assert value == pytest.approx(float(state[4][0]), rel=1e-5)
    return value, np.asarray(means)


@pytest.mark.slow
def test_its_best_game_is_what_it_says():
    """Catches actions of another game, and rewards that do not sum to the return."""
    value, means = trained(hard_program(3, 60), 6, ppo.Ppo(games=8, steps=64))
    assert value >= means.max() > 0


@pytest.mark.slow
def test_a_run_counts_its_updates():
    """Catches a record that cannot say whether anything was learned."""
    actual = solve(hard_program(3, 60), "ppo", seed=0, samples=300)
    assert (
        actual.metrics["updates"] >= 1
        and validate(hard_program(3, 60), actual.solution, exact=True).valid
    )


@pytest.mark.slow
def test_it_learns_alexnet():
    """A million moves, about two minutes of one core: above .70, where untrained play is near
    .27."""
    value, means = trained(
        read_program(data_folder() / "compiled" / "alexnet_train_batch_32.json.gz"), 120, ppo.Ppo()
    )
    assert value > 0.70 and means[-1] > 2 * means[0]
