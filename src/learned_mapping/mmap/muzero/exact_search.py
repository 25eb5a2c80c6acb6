"""The ablation "search only" (section 5.3, Fig. 7): MCTS with the game's true dynamics, nothing learned.

The rule by which `mctx.muzero_policy` descends, with a uniform prior over legal actions at every node, Dirichlet noise
at the root, and the mean reward of random play over a few decisions as the value of a leaf (the paper does not say what
stands in for the network). The search goes down in the game's own state and takes its moves back.

Inside the tree a dead end is the end: Drop-backup's loss as a reward, and nothing after it.
"""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.muzero import position as position_module
from learned_mapping.mmap.muzero.compiled import source_of
from learned_mapping.mmap.muzero.config import MuZeroConfig
from learned_mapping.mmap.muzero.position import LOST, ONGOING, Position, advance
from learned_mapping.mmap.rules import actions as rules
from learned_mapping.mmap.rules import kernel

PB_C_INIT, PB_C_BASE = 1.25, 19652.0
"""c_1 and c_2 of PUCT, mctx's defaults."""
NO_CHILD = -1


def _compile(source: str):
    @numba.njit(cache=True)
    def select(node, prior, legal, child, visits, rewards, values, counts, discount):
        """The child to go down to: PUCT over Q normalised among the node and its visited children."""
        low = high = values[node]
        q = np.zeros(3)
        for action in range(3):
            if visits[node, action] > 0:
                q[action] = rewards[node, action] + discount * values[child[node, action]]
                low, high = min(low, q[action]), max(high, q[action])
        c = PB_C_INIT + np.log((counts[node] + PB_C_BASE + 1.0) / PB_C_BASE)
        best, best_score = -1, -np.inf
        for action in range(3):
            if legal[node, action]:
                known = q[action] if visits[node, action] > 0 else low
                score = (known - low) / max(high - low, 1e-8)
                score += c * prior[node, action] * np.sqrt(counts[node]) / (visits[node, action] + 1.0)
                if score > best_score:
                    best, best_score = action, score
        return best

    @numba.njit(cache=True)
    def after(program, state, action, drop_backup):
        """Makes a move; returns the game's status and the reward in seconds, that of a dead end included."""
        game = state.game[0]
        before = game.saved_s
        status = advance(program, state, action, False)
        if status == LOST:
            left = state.moves[game.backup].saved_s if drop_backup else 0.0
            return status, left - before
        return status, game.saved_s - before

    @numba.njit(cache=True)
    def roll_out(program, state, decisions, drop_backup, rng):
        """Seconds that random legal play saves within so many decisions."""
        total, status = 0.0, ONGOING
        while status == ONGOING and decisions > 0:
            decisions -= 1
            skip = int(rng.random() * kernel.evaluate(program, state))
            for action in range(3):
                if state.outcomes[action].legal != 0:
                    if skip == 0:
                        status, reward = after(program, state, action, drop_backup)
                        total += reward
                        break
                    skip -= 1
        return total

    @numba.njit(cache=True)
    def search(program, state, root_prior, simulations, discount, decisions, drop_backup, rng):
        """[3] visits of the actions at the state, which is left as it was found."""
        source  # noqa: B018, see `compiled.KERNEL_SOURCE`
        game = state.game[0]
        root, moves = game.cursor, game.moves
        unit = program.possible_saving_s if program.possible_saving_s > 0.0 else 1.0
        size = simulations + 1
        child = np.full((size, 3), NO_CHILD)
        visits, counts = np.zeros((size, 3), np.int64), np.zeros(size)
        rewards, values, prior = np.zeros((size, 3)), np.zeros(size), np.zeros((size, 3))
        legal, ended = np.zeros((size, 3), np.bool_), np.zeros(size, np.bool_)
        path_node, path_action = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for action in range(3):
            legal[0, action] = state.outcomes[action].legal != 0
            prior[0, action] = root_prior[action]
        values[0] = roll_out(program, state, decisions, drop_backup, rng) / unit
        counts[0] = 1.0
        nodes = 1
        for _ in range(simulations):
            kernel.rewind(program, state, root)
            kernel.evaluate(program, state)
            node, depth = 0, 0
            while True:
                action = select(node, prior, legal, child, visits, rewards, values, counts, discount)
                path_node[depth], path_action[depth] = node, action
                depth += 1
                status, reward = after(program, state, action, drop_backup)
                if child[node, action] == NO_CHILD:
                    child[node, action] = nodes
                    rewards[node, action] = reward / unit
                    node = nodes
                    nodes += 1
                    leaf = 0.0
                    if status == ONGOING:
                        share = 1.0 / kernel.evaluate(program, state)
                        for other in range(3):
                            legal[node, other] = state.outcomes[other].legal != 0
                            prior[node, other] = share if legal[node, other] else 0.0
                        leaf = roll_out(program, state, decisions, drop_backup, rng) / unit
                    else:
                        ended[node] = True
                    values[node], counts[node] = leaf, 1.0
                    break
                node = child[node, action]
                if ended[node]:
                    leaf = 0.0
                    counts[node] += 1.0
                    break
            for step in range(depth - 1, -1, -1):
                node, action = path_node[step], path_action[step]
                leaf = rewards[node, action] + discount * leaf
                values[node] = (values[node] * counts[node] + leaf) / (counts[node] + 1.0)
                counts[node] += 1.0
                visits[node, action] += 1
        kernel.rewind(program, state, root)
        kernel.evaluate(program, state)
        game.moves = moves
        return visits[0]

    return search


_search = _compile(source_of(kernel, rules, position_module))


def exact_visits(position: Position, config: MuZeroConfig, rng: np.random.Generator) -> np.ndarray:
    """[3] int64: how often the search visited each action at a position that is not over."""
    legal = position.legal
    prior = np.zeros(3)
    noise = rng.dirichlet(np.full(int(legal.sum()), config.noise_alpha))
    prior[legal] = (1.0 - config.noise_fraction) / legal.sum() + config.noise_fraction * noise
    return _search(
        position.program, position.state, prior, config.simulations, config.discount, config.exact_rollout,
        config.drop_backup, rng,
    )  # fmt: skip


def exact_move(position: Position, config: MuZeroConfig, rng: np.random.Generator) -> int:
    """An action drawn from the visits at the final temperature: without training nothing decays."""
    share = exact_visits(position, config, rng).astype(np.float64)
    share = (share / share.max()) ** (1.0 / config.final_temperature)
    return int(rng.choice(3, p=share / share.sum()))
