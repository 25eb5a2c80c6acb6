"""The search in the game itself against mctx, which asks the same game through a callback."""

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from learned_mapping.mmap.agent.config import config_for
from learned_mapping.mmap.agent.games import Games, Guide, settle
from learned_mapping.mmap.agent.search import LOWEST_LOGIT, VISITS
from learned_mapping.mmap.agent.true_search import Numbers, make_true_decide, search
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.state import copy_state, new_state, view
from learned_mapping.programs.program import Program
from mmap_games import dead_end_program, hard_program

DISCOUNT, SCALE = 0.9, 1.5
UNIT = 40.0


class _Asked:
    """Copies of a game by number, each moved on once for every question of mctx."""

    def __init__(self, games: Games, to_go: np.ndarray):
        self.games, self.to_go = games, to_go
        self.states = []

    def copy(self, state):
        copied = new_state(self.games.program)
        copy_state(copied, state)
        return copied

    def _potential(self, state) -> float:
        saved = state.game["saved_s"][0] / self.games.possible_s
        return UNIT * (saved + self.to_go[state.game["cursor"][0]])

    def legal(self, state) -> np.ndarray:
        over = state.game["cursor"][0] == self.games.program.num_buffers
        return (state.outcomes["legal"] > 0) & (not over)

    def move(self, action, number) -> tuple:
        """Reward, number and legal actions after an action on a game by its number, [1] each."""
        state = self.copy(self.states[int(number[0])])
        before = self._potential(state)
        if self.legal(state)[int(action[0])]:
            kernel.apply(self.games.program, state, int(action[0]))
            settle(self.games.program, state, True)
        self.states.append(state)
        reward = np.array([self._potential(state) - before], np.float32)
        return reward, np.array([len(self.states) - 1], np.int32), self.legal(state)[None]


def _search_of_mctx(asked: _Asked, simulations: int):
    """legal [1, 3] -> the improved policy [3] and the root's value, without noise, from the first
    of the games asked."""
    shapes = (
        jax.ShapeDtypeStruct((1,), jnp.float32),
        jax.ShapeDtypeStruct((1,), jnp.int32),
        jax.ShapeDtypeStruct((1, 3), bool),
    )

    def recurrent(_, key, action, number):
        reward, after, legal = jax.pure_callback(asked.move, shapes, action, number)
        return mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(legal.any(axis=1), DISCOUNT, 0.0),
            prior_logits=jnp.where(legal, 0.0, LOWEST_LOGIT),
            value=jnp.zeros(1),
        ), after

    def transform(tree, node):
        return mctx.qtransform_completed_by_mix_value(
            tree, node, value_scale=SCALE / VISITS, rescale_values=False
        )

    @jax.jit
    def search(legal):
        output = mctx.gumbel_muzero_policy(
            None,
            jax.random.key(0),
            mctx.RootFnOutput(
                prior_logits=jnp.where(legal, 0.0, LOWEST_LOGIT),
                value=jnp.zeros(1),
                embedding=jnp.zeros(1, jnp.int32),
            ),
            recurrent,
            simulations,
            invalid_actions=~legal,
            qtransform=transform,
            max_num_considered_actions=3,
            gumbel_scale=0.0,
        )
        return output.action_weights[0], output.search_tree.node_values[0, 0]

    return search


@pytest.mark.parametrize(
    ("program", "simulations"),
    [(hard_program(3, 40), 8), (hard_program(1, 30), 32), (dead_end_program(3), 32)],
    ids=["few", "many", "dead ends"],
)
def test_it_is_the_search_of_mctx(program: Program, simulations: int) -> None:
    """Along a random game, dead ends within the search too; catches a simulation that is not taken
    back whole, a visit or a value that goes astray, and an illegal action that counts."""
    from mctx._src.seq_halving import get_table_of_considered_visits

    rng, games, guide = np.random.default_rng(0), Games(program, 1), Guide(program)
    guide.follow(rng.integers(0, 3, program.num_buffers))
    table = np.array(get_table_of_considered_visits(3, simulations), np.int64)
    per_s = UNIT / games.possible_s
    numbers = Numbers(DISCOUNT, SCALE / VISITS, per_s, table.reshape(4, -1), UNIT * guide.to_go)
    spare, moves, asked = new_state(games.program), 0, _Asked(games, guide.to_go)
    by_mctx = _search_of_mctx(asked, simulations)
    while not games.over[0]:
        if moves % 8 == 0:
            state = view(games.states, 0)
            asked.states = [asked.copy(state)]
            expected, value = by_mctx(games.legal[:1])
            before = [
                state.game.copy(),
                state.supply_s.copy(),
                state.steps[["joined", "placed"]].copy(),
                state.groups.copy(),
                state.outcomes.copy(),
            ]
            policy, actual = search(games.program, state, spare, np.zeros(3), numbers)
            np.testing.assert_allclose(policy, expected, atol=2e-4)
            assert actual == pytest.approx(float(value), abs=1e-3)
            after = [*state[:2], state.steps[["joined", "placed"]], state.groups, state.outcomes]
            for one, other in zip(after, before, strict=True):
                np.testing.assert_array_equal(one, other)
        games.step(np.array([rng.choice(np.flatnonzero(games.legal[0]))]))
        moves += 1
    assert moves > 8


def test_decisions_are_legal_and_follow_the_policy_when_cold() -> None:
    """Of many games side by side, some of them over: catches noise or a policy of another game."""
    games, rng = Games(hard_program(3, 40), 6), np.random.default_rng(1)
    decide = make_true_decide(config_for(200, true_dynamics=True, frozen=True))
    to_go = np.zeros(games.program.num_buffers + 1)
    while not games.over.all():
        decisions = decide(games, to_go, 40.0, rng, np.full(6, 1e-6))
        for g in np.flatnonzero(~games.over):
            assert games.legal[g, decisions.action[g]]
            assert decisions.policy[g, decisions.action[g]] == decisions.policy[g].max()
            assert decisions.policy[g, ~games.legal[g]].sum() == 0.0
        games.step(np.where(games.over | (rng.random(6) < 0.3), -1, decisions.action))
