"""The knowledge of a trained agent, measured along its own best game, where everything can be
played out exactly.

The rest of a game after a deviation is played like the best game, so an exact outcome is that of
one decision. The model's Q is what it expects under its policy, discounted: part of the
disagreement is that.
"""

import dataclasses
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import spearmanr

from learned_mapping.mmap.agent.agent import MMapAgent
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.replay import Replay
from learned_mapping.mmap.agent.search import Decisions, make_decide, make_search
from learned_mapping.mmap.agent.selfplay import play_out
from learned_mapping.mmap.rules.actions import NUM_ACTIONS
from learned_mapping_companion.artifact import Record

POSITIONS = 600
"""Decisions that are looked at, at most."""
BATCH = 64
"""Positions and games side by side."""
MORE = 32
"""Simulations of a search that looks further than the one the agent learned with."""
POINTS = 300
"""Pairs of them that are drawn."""
SAME = 1e-6
"""Exact outcomes that differ by less, in units, are equal."""


class Along(NamedTuple):
    """A game, and decisions of it."""

    guide: Guide
    game: Replay  # All its decisions, in order.
    rows: np.ndarray  # [N] which of them are looked at.


def along_best(agent: MMapAgent) -> Along:
    """The best whole game of the agent alone (of whatever means, where it has none), with decisions
    even over it."""
    return along(
        agent, agent.play.best.actions if agent.best_whole is None else agent.best_whole.actions
    )


def along(agent: MMapAgent, actions: np.ndarray) -> Along:
    """A game by its actions [B], with decisions even over it."""
    guide = Guide(agent.program)
    guide.follow(actions)
    game = agent.play.demonstration(guide.actions, 1.0)
    rows = np.unique(np.linspace(0, game.size - 1, min(game.size, POSITIONS)).astype(int))
    return Along(guide, game, rows)


def correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    return (
        None if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0 else float(spearmanr(x, y).statistic)
    )


def unroll(agent: MMapAgent, along: Along, steps: int) -> list[Record]:
    """Imagined rewards against those of the game, ``steps`` decisions on from each position; one
    entry per step k: rank correlation, mean absolute error, mean absolute reward, all in units, and
    the pairs themselves."""
    networks, batch = agent.networks, along.game.batch(along.rows, steps)

    @jax.jit
    def imagine(parameters, vector, ids, action):
        state, rewards = networks.represent(parameters, vector, ids), []
        for k in range(steps):
            state, reward = networks.dynamics(parameters, state, action[:, k])
            rewards.append(networks.atoms.decode(reward))
        return jnp.stack(rewards, axis=1)

    imagined = np.asarray(
        imagine(
            agent.learner.parameters,
            batch.vector.astype(np.float32),
            batch.ids,
            batch.action.astype(np.int32),
        )
    )
    steps_seen = []
    for k in range(steps):
        there = batch.inside[:, k]
        true, ours = batch.reward[there, k].astype(float), imagined[there, k].astype(float)
        steps_seen.append(
            {
                "step": k + 1,
                "n": len(true),
                "rank_correlation": correlation(true, ours),
                "error": float(np.abs(ours - true).mean()),
                "size": float(np.abs(true).mean()),
                "pairs": np.stack([true, ours], axis=1)[:: max(len(true) // POINTS, 1)]
                .round(4)
                .tolist(),
            }
        )
    return steps_seen


def outcomes(agent: MMapAgent, along: Along) -> list[Record]:
    """Every legal alternative to the decisions looked at: buffer, action, and in units, relative to
    the decision that was made, the exact outcome, the learned model's Q, the logit of the policy
    head."""
    networks, fields = agent.networks, along.game.fields
    discount = agent.config.discount

    @jax.jit
    def imagine(parameters, vector, ids):
        state = networks.represent(parameters, vector, ids)

        def after(action):
            following, reward = networks.dynamics(parameters, state, jnp.full(len(vector), action))
            value = networks.atoms.decode(networks.predict(parameters, following).value)
            return networks.atoms.decode(reward) + discount * value

        return jnp.stack([after(a) for a in range(NUM_ACTIONS)], axis=1), networks.predict(
            parameters, state
        ).policy

    games = Games(agent.program, BATCH)
    alternatives = []
    for first in range(0, len(along.rows), BATCH):
        rows = along.rows[first : first + BATCH]
        padded = np.resize(rows, BATCH)
        q, logit = imagine(
            agent.learner.parameters,
            fields["vector"][padded].astype(np.float32),
            fields["ids"][padded],
        )
        q, logit = np.asarray(q), np.asarray(logit)
        chosen, legal, buffer = (
            fields["action"][rows].astype(int),
            fields["legal"][rows],
            fields["ids"][rows, 0],
        )
        for action in range(NUM_ACTIONS):
            at = np.flatnonzero(legal[:, action] & (chosen != action))
            if not len(at):
                continue
            games.start_at(along.guide, np.arange(len(at)), buffer[at].astype(np.int64))
            games.observe()
            games.step(np.where(np.arange(BATCH) < len(at), action, -1))
            values = games.end_like(along.guide, np.arange(len(at)), agent.program.num_buffers)
            exact = agent.play.unit * (values - along.guide.saved[-1])
            games.restart(range(len(at)))
            for i, row in enumerate(at):
                alternatives.append({
                    "buffer": int(buffer[row]), "action": action, "exact": float(exact[i]),
                    "q": float(q[row, action] - q[row, chosen[row]]),
                    "logit": float(logit[row, action] - logit[row, chosen[row]]),
                })  # fmt: skip
    return alternatives


def compared(alternatives: list[Record]) -> Record:
    """Rank correlations of Q and logit with the exact outcome of `outcomes`, of Q also among those
    alone that change anything, how Q scatters where nothing changes, and how many alternatives
    gain, change nothing, cost."""
    exact, q, logit = (
        np.array([row[name] for row in alternatives], float) for name in ("exact", "q", "logit")
    )
    same = np.abs(exact) <= SAME
    shares = {"gain": exact > SAME, "same": same, "cost": exact < -SAME}
    return {
        "alternatives": len(alternatives),
        "rank_correlation": correlation(exact, q),
        "logit_rank_correlation": correlation(exact, logit),
        "moving_rank_correlation": correlation(exact[~same], q[~same]),
        "scatter": float(np.std(q[same])) if same.any() else None,
        **{
            f"share_{name}": float(mask.mean()) if len(alternatives) else 0.0
            for name, mask in shares.items()
        },
    }


def searched(agent: MMapAgent, along: Along) -> Record:
    """The search tree of the decision at which it disagrees most with the policy head, and what is
    true there; a decision with three legal actions comes before one with two.

    ``nodes`` begin with the root: parent, action that led there, visits, value, reward, prior
    probability. ``exact`` is the outcome of each root action relative to the decision of the best
    game, in units; None where it is not legal.
    """
    networks, fields, rows = agent.networks, along.game.fields, along.rows
    search = make_search(networks, dataclasses.replace(agent.config, frozen=False))
    seen = (fields["vector"][rows].astype(np.float32), fields["ids"][rows], fields["legal"][rows])
    several = seen[2].sum(axis=1) > 2
    output, logits = search(agent.learner.parameters, *seen, jax.random.key(agent.seed))
    head = np.asarray(jax.nn.softmax(logits))
    change = np.abs(np.asarray(output.action_weights) - head).sum(axis=1) + several
    i = int(np.argmax(change))
    tree, buffer = output.search_tree, int(seen[1][i, 0])
    count = int((np.asarray(tree.node_visits[i]) > 0).sum())
    nodes = []
    for n in range(count):
        parent = int(tree.parents[i, n])
        action = int(tree.action_from_parent[i, n])
        prior = (
            None
            if parent < 0
            else float(jax.nn.softmax(tree.children_prior_logits[i, parent])[action])
        )
        reward = None if parent < 0 else float(tree.children_rewards[i, parent, action])
        nodes.append({
            "parent": parent, "action": action, "visits": int(tree.node_visits[i, n]),
            "value": float(tree.node_values[i, n]), "reward": reward, "prior": prior,
        })  # fmt: skip
    others = outcomes(agent, along._replace(rows=rows[i : i + 1]))
    exact = {outcome["action"]: outcome["exact"] for outcome in others} | {
        int(fields["action"][rows[i]]): 0.0
    }
    return {
        "buffer": buffer,
        "tensor": agent.program.tensor_names[agent.program.buffer_tensor[buffer]],
        "made": int(fields["action"][rows[i]]),
        "legal": seen[2][i].tolist(),
        "nodes": nodes,
        "head": head[i].tolist(),
        "policy": np.asarray(output.action_weights[i]).tolist(),
        "exact": [exact.get(action) for action in range(NUM_ACTIONS)],
        "changes_mind": float(
            (np.argmax(np.asarray(output.action_weights), axis=1) != np.argmax(head, axis=1)).mean()
        ),
    }


def played(
    agent: MMapAgent, count: int, temperature: float
) -> tuple[dict[str, list[float]], np.ndarray]:
    """Returns of whole games by one network, ``count`` each by the search, the search with `MORE`
    simulations and the policy head alone; and the actions [B] of a game of the last."""
    returns, parameters = {}, agent.learner.parameters
    for name, simulations in (("search", agent.config.simulations), ("more", MORE), ("head", 0)):
        decide = make_decide(
            agent.networks, dataclasses.replace(agent.config, simulations=simulations)
        )
        games, numbers = Games(agent.program, count), itertools.count()

        def move(
            games: Games, temperatures: np.ndarray, decide=decide, numbers=numbers
        ) -> Decisions:
            return decide(
                parameters,
                games.vector,
                games.ids,
                games.legal,
                agent.seed,
                next(numbers),
                temperatures,
            )

        play_out(games, move, temperature)
        returns[name] = games.saved.tolist()
    return returns, games.played(0)
