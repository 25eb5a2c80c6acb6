"""The search in the game itself: the paper's arm without learning, "pure MCTS using the true
dynamics" (section 5.3).

A network that has learned nothing prefers no action and expects of every position what the
potential says (`selfplay`), so none is asked. The rest is Gumbel MuZero as in `search`, compiled:
a simulation moves the game itself on and takes its moves back.
"""

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from mctx._src.seq_halving import get_table_of_considered_visits

from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.agent.search import VISITS, Decisions
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import NUM_ACTIONS
from learned_mapping.mmap.rules.state import NONE, copy_state, new_state, view


class Numbers(NamedTuple):
    """The numbers of a search."""

    discount: float
    scale: float  # Logits per unit of Q before the first visit, over `VISITS`.
    unit_per_s: float  # Units that a second saved is.
    # [4, S]: the visits that an action of the root has which is next, by the number of legal ones.
    table: np.ndarray
    expected: np.ndarray  # [B + 1] units expected from each buffer on.


class Tree(NamedTuple):
    """A tree of S + 1 nodes at most; node 0 is the root."""

    visits: np.ndarray  # [S + 1, 3] of the actions.
    reward: np.ndarray  # [S + 1, 3] units, of the actions visited.
    child: np.ndarray  # [S + 1, 3]: the nodes after them, or `NONE`.
    value: np.ndarray  # [S + 1]: means of what was found from each node on, units.
    legal: np.ndarray  # [S + 1, 3] bool; none where the game is over.


@numba.njit(cache=True)
def _potential(state, numbers: Numbers) -> float:
    game = state.game[0]
    return numbers.unit_per_s * game.saved_s + numbers.expected[game.cursor]


@numba.njit(cache=True)
def _worth(tree: Tree, node: int, numbers: Numbers) -> np.ndarray:
    """[3] logits of a node's actions by their Q, in units; those without a visit have the mixed
    value (Danihelka et al. 2022, appendix D), illegal ones -inf."""
    q, known, sum_q = np.zeros(NUM_ACTIONS), 0, 0.0
    for action in range(NUM_ACTIONS):
        if tree.visits[node, action] > 0:
            after = tree.value[tree.child[node, action]]
            q[action] = tree.reward[node, action] + numbers.discount * after
            known, sum_q = known + 1, sum_q + q[action]
    count = tree.visits[node].sum()
    mixed = count * sum_q / max(known, 1) / (count + 1.0)
    scale = numbers.scale * (VISITS + tree.visits[node].max())
    for action in range(NUM_ACTIONS):
        if tree.visits[node, action] == 0:
            q[action] = mixed
        q[action] = scale * q[action] if tree.legal[node, action] else -np.inf
    return q


@numba.njit(cache=True)
def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


@numba.njit(cache=True)
def _choose(tree: Tree, node: int, simulation: int, gumbel: np.ndarray, numbers: Numbers) -> int:
    """At the root sequential halving of the actions by Gumbel noise [3]; below it what brings the
    visits nearest to the improved policy."""
    worth, visits = _worth(tree, node, numbers), tree.visits[node]
    score = _softmax(worth) - visits / (1.0 + visits.sum())
    if node == 0:
        turn = numbers.table[tree.legal[0].sum(), simulation]
        score = np.where(visits == turn, gumbel + worth, -np.inf)
    best = NONE
    for action in range(NUM_ACTIONS):
        if tree.legal[node, action] and (best == NONE or score[action] > score[best]):
            best = action
    return best


@numba.njit(cache=True)
def _move(program, state, spare, at_home: bool, action: int) -> bool:
    """Moves the game on to the next choice; `at_home`: it is `state`, else `spare`. A dead end
    cannot be taken back: from there on `spare` is the game. Returns whether it is still `state`."""
    kernel.apply(program, state if at_home else spare, action)
    while True:
        game = state.game[0] if at_home else spare.game[0]
        if game.cursor == len(program.buffers):
            return at_home
        current = state if at_home else spare
        legal = kernel.evaluate(program, current)
        if legal > 1:
            return at_home
        if legal == 0:
            if at_home:
                copy_state(spare, state)
            at_home = False
            kernel.drop_backup(program, spare)
            continue
        for forced in range(NUM_ACTIONS):
            if current.outcomes[forced].legal != 0:
                kernel.apply(program, current, forced)
                break


@numba.njit(cache=True)
def _note(program, state, tree: Tree, node: int) -> None:
    """A new node for the position of a game."""
    over = state.game[0].cursor == len(program.buffers)
    for action in range(NUM_ACTIONS):
        tree.legal[node, action] = not over and state.outcomes[action].legal != 0


@numba.njit(cache=True)
def search(program, state, spare, gumbel: np.ndarray, numbers: Numbers) -> tuple:
    """The improved policy [3] at a choice, and the value of its position, units. The game `state`
    comes back as it was; `spare` is another one of the same program."""
    simulations, game = numbers.table.shape[1], state.game[0]
    shape, start, moves = (simulations + 1, NUM_ACTIONS), game.cursor, game.moves
    tree = Tree(
        np.zeros(shape, np.int64),
        np.zeros(shape),
        np.full(shape, NONE),
        np.zeros(simulations + 1),
        np.zeros(shape, np.bool_),
    )
    nodes, actions = np.zeros(simulations, np.int64), np.zeros(simulations, np.int64)
    kernel.evaluate(program, state)
    _note(program, state, tree, 0)
    count = 1
    for simulation in range(simulations):
        node, depth, at_home = 0, 0, True
        while True:
            action = _choose(tree, node, simulation, gumbel, numbers)
            before = _potential(state if at_home else spare, numbers)
            at_home = _move(program, state, spare, at_home, action)
            after = state if at_home else spare
            tree.reward[node, action] = _potential(after, numbers) - before
            nodes[depth], actions[depth] = node, action
            depth += 1
            node = tree.child[node, action]
            if node == NONE:
                _note(program, after, tree, count)
                tree.child[nodes[depth - 1], action] = count
                count += 1
                break
            if not tree.legal[node].any():
                break
        found = 0.0
        for d in range(depth - 1, -1, -1):
            node, action = nodes[d], actions[d]
            found = tree.reward[node, action] + numbers.discount * found
            visits = tree.visits[node].sum() + 1.0
            tree.value[node] = (tree.value[node] * visits + found) / (visits + 1.0)
            tree.visits[node, action] += 1
        kernel.rewind(program, state, start)
        kernel.evaluate(program, state)
    game.moves = moves
    return _softmax(_worth(tree, 0, numbers)), tree.value[0]


@numba.njit(cache=True)
def _search_all(program, states, spare, gumbels, numbers, policy, value) -> None:
    for g in range(len(value)):
        state = view(states, g)
        if state.game[0].cursor < len(program.buffers):
            policy[g], value[g] = search(program, state, spare, gumbels[g], numbers)


def make_true_decide(config: AgentConfig) -> Callable[..., Decisions]:
    """(games, to_go [B + 1] and unit of `SelfPlay`, generator, temperature [N]) -> `Decisions`."""
    table = get_table_of_considered_visits(NUM_ACTIONS, config.simulations)
    table = np.array(table, np.int64).reshape(NUM_ACTIONS + 1, -1)

    def decide(games: Games, to_go, unit: float, rng, temperature) -> Decisions:
        scale, per_s = config.value_scale / VISITS, unit / games.possible_s
        numbers = Numbers(config.discount, scale, per_s, table, unit * to_go)
        policy, value = np.ones((len(games), NUM_ACTIONS)) / NUM_ACTIONS, np.zeros(len(games))
        noise = rng.gumbel(size=(2, *policy.shape))
        spare = new_state(games.program)
        _search_all(games.program, games.states, spare, noise[0], numbers, policy, value)
        hot = np.where(games.legal, np.log(policy + 1e-20) / temperature[:, None], -np.inf)
        action = np.argmax(hot + noise[1], axis=1)
        return Decisions(action, policy.astype(np.float32), value, np.zeros(len(games)))

    return decide
