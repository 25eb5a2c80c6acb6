"""Proximal policy optimisation on the game in JAX, many games side by side, a whole training in one
`jit`.

The control without search or model: a small network sees what the light network of `muzero` sees,
and learns from games alone. After PureJaxRL (Lu et al. 2022), with masked actions and a reward that
is the share of the possible saving.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.compiling import compiling
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.observation import WIDTH
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program


class Ppo(NamedTuple):
    """Settings. Those of PureJaxRL but for the discount, which a game of thousands of moves cannot
    have."""

    games: int = 32
    steps: int = 256  # Moves of each game between two updates.
    epochs: int = 4
    batches: int = 4
    width: int = 128
    rate: float = 1e-3
    trace: float = 0.95  # Lambda of the advantages.
    clip: float = 0.2
    entropy: float = 0.01


STOCK = Ppo()
PIECE = 16  # Moves of each game between two looks at the clock.
LATE_S = 0.5  # An update whose moves are later than that after the limit is left.


def network(width: int) -> hk.Transformed:
    """Logits [3] and value [] of what is seen [WIDTH]."""

    def forward(seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = hk.nets.MLP((width, width), activation=jnp.tanh, activate_final=True)(seen)
        logits = hk.Linear(3, w_init=hk.initializers.TruncatedNormal(0.001))(hidden)
        return logits, hk.nets.MLP((width // 2, 1), activation=jnp.tanh)(seen)[..., 0]

    return hk.without_apply_rng(hk.transform(forward))


def start(program: Program, seed: int, settings: Ppo = STOCK) -> tuple[Any, Any]:
    """The state of a training at its start, and `updates`, which goes on from one: a pure function
    for `jit`. Both inside `env.exact`."""
    env_program, tables = env.env_program(program), env.observation_tables(program)
    capacity = env.capacity_for(program)

    @jax.jit
    def begin(env_program: Any, key: jax.Array) -> Any:
        fresh = env.decide(env_program, env.reset(env_program, capacity), jnp.asarray(-1))
        fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * settings.games), fresh)
        key, first = jax.random.split(key)
        parameters = network(settings.width).init(first, jnp.zeros(WIDTH, jnp.float32))
        best = (jnp.float64(-1.0), jnp.zeros(program.num_buffers, jnp.int8))
        return parameters, _optimiser(settings).init(parameters), fresh, key, best

    state = begin(env_program, jax.random.PRNGKey(seed))
    saving_s = program.possible_saving_s or 1.0
    play, learn = parts(settings, env_program, tables, state[2], saving_s)
    return state, partial(updates, partial(play, count=settings.steps), learn)


def _optimiser(settings: Ppo) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(0.5), optax.adam(settings.rate))


def updates(play: Callable, learn: Callable, state: Any, count: int) -> Any:
    """`count` updates on; returns the state, whose last part is the best whole game (return, [B]
    actions), and of each update the mean return of the games that ended in it, and how many these
    were."""
    return jax.lax.scan(lambda state, _: learn(*play(state)), state, None, count)


def parts(
    settings: Ppo, program: Any, tables: Any, fresh: Any, possible_s: float
) -> tuple[Callable, Callable]:
    """The two parts of an update, pure functions: `count` moves of each game, which returns the
    state and the moves, and what is learned from `steps` of them, in one piece or several."""
    net, optimiser, rows = network(settings.width), _optimiser(settings), jnp.arange(settings.games)

    def policy(parameters, seen, legal):
        logits, value = net.apply(parameters, seen)
        return jax.nn.log_softmax(jnp.where(legal, logits, -1e9)), value

    def look(games):
        return jax.vmap(env.observe, (None, None, 0))(program, tables, games)[
            0
        ], games.position.legal

    def move(carry, _):
        parameters, games, key, best = carry
        key, draw = jax.random.split(key)
        seen, legal = look(games)
        laws, value = policy(parameters, seen, legal)
        action = jax.random.categorical(draw, laws).astype(jnp.int32)
        after = jax.vmap(env.decide, (None, 0, 0))(program, games, action)
        reward = ((after.position.saved_s - games.position.saved_s) / possible_s).astype(
            jnp.float32
        )
        share = jnp.where(after.over, after.position.saved_s / possible_s, -1.0)
        g = jnp.argmax(share)
        better = (share[g] > best[0]) & ~after.overflow[g]
        best = (
            jnp.where(better, share[g], best[0]),
            jnp.where(better, after.position.action[g], best[1]),
        )
        moves = (seen, legal, action, laws[rows, action], value, reward, after.over, share)
        return (parameters, chosen(after.over, fresh, after), key, best), moves

    def loss(parameters, batch):
        seen, legal, action, law, advantage, target = batch
        laws, value = policy(parameters, seen, legal)
        ratio = jnp.exp(jnp.take_along_axis(laws, action[:, None], 1)[:, 0] - law)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = jnp.minimum(
            ratio * advantage, jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip) * advantage
        )
        entropy = -jnp.where(legal, jnp.exp(laws) * laws, 0.0).sum(-1)
        return (
            0.5 * ((value - target) ** 2).mean() - gain.mean() - settings.entropy * entropy.mean()
        )

    def descend(carry, batch):
        parameters, memory = carry
        change, memory = optimiser.update(jax.grad(loss)(parameters, batch), memory)
        return (optax.apply_updates(parameters, change), memory), None

    def play(state, count):
        parameters, memory, games, key, best = state
        (_, games, key, best), moves = jax.lax.scan(
            move, (parameters, games, key, best), None, count
        )
        return (parameters, memory, games, key, best), moves

    def learn(state, *pieces):
        parameters, memory, games, key, best = state
        moves = jax.tree.map(lambda *rows: jnp.concatenate(rows), *pieces)
        seen, legal, action, law, value, reward, over, share = moves

        def backwards(carry, row):
            advantage, following = carry
            value, reward, goes_on = row
            advantage = reward + following * goes_on - value + settings.trace * goes_on * advantage
            return (advantage, value), advantage

        last = policy(parameters, *look(games))[1]
        carry = (jnp.zeros_like(last), last)
        _, advantage = jax.lax.scan(
            backwards, carry, (value, reward, 1.0 - over.astype(jnp.float32)), reverse=True
        )
        flat = (seen, legal, action, law, advantage, advantage + value)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), flat)
        key, draw = jax.random.split(key)
        order = [
            jax.random.permutation(k, len(flat[2])) for k in jax.random.split(draw, settings.epochs)
        ]
        order = jnp.concatenate(order).reshape(settings.epochs * settings.batches, -1)
        (parameters, memory), _ = jax.lax.scan(
            lambda carry, row: descend(carry, jax.tree.map(lambda leaf: leaf[row], flat)),
            (parameters, memory),
            order,
        )
        ended = over.sum()
        mean = jnp.where(over, share, 0.0).sum() / jnp.maximum(ended, 1)
        return (parameters, memory, games, key, best), (mean, ended)

    return play, learn


def chosen(which: jax.Array, yes: env.EnvState, no: env.EnvState) -> env.EnvState:
    """The G states, each of the one kind or the other; which [G] bool."""
    return jax.tree.map(
        lambda a, b: jnp.where(which.reshape(-1, *[1] * (b.ndim - 1)), a, b), yes, no
    )


def actions_of(best: tuple[jax.Array, jax.Array]) -> np.ndarray:
    """[B] int64: the decisions of the best whole game."""
    return np.asarray(best[1]).astype(np.int64)


def learn_and_play(search: Search, rng: np.random.Generator) -> None:
    """Trains until the budget is spent, update by update; the best whole game is then the search's.
    What is compiled before the first is not counted. An update that is late is left: the games that
    ended in it count."""
    program, budget = search.program, search.budget
    if program.possible_saving_s <= 0.0:
        return
    with env.exact():
        with budget.uncounted(), compiling():
            if Games(program, 1).over.all():
                return
            state, go_on = start(program, int(rng.integers(2**31)))
            play, learn = go_on.args
            play = partial(play, count=PIECE)
            pieces = [jax.eval_shape(play, state)[1]] * (STOCK.steps // PIECE)
            play = jax.jit(play).lower(state).compile()
            learn = jax.jit(learn).lower(state, *pieces).compile()
        search.metrics["updates"], took_s = 0.0, 0.0
        while not budget.spent() and budget.lasts(took_s / 2):
            moves: list[Any] = []
            begun_s, ended = budget.seconds, 0
            while len(moves) < len(pieces) and budget.lasts(-LATE_S):
                state, played = play(state)
                moves.append(played)
                # JAX would compile the index
                ended += int(np.asarray(played[-2]).sum())
            if len(moves) == len(pieces) and budget.lasts(0.0):
                state, _ = learn(state, *moves)
                search.metrics["updates"] += 1.0
            budget.record(max(float(state[-1][0]), 0.0), ended)
            took_s = budget.seconds - begun_s
    if budget.best is not None and budget.best > 0.0:
        search.game.restart()
        search.game.play_actions(actions_of(state[-1]))
        search.best = search.game.played()
