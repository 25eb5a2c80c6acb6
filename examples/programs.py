"""One policy for many programs, in one `jit`: proximal policy optimisation on the game in JAX.

Programs are padded to one shape (`mmap.env.padded`), so that games of all run side by side. The
policy is then judged on programs that it never saw, beside a rule that is tuned for each.

    python programs.py --updates 25
"""

import argparse
from functools import partial

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learned_mapping as lm
from learned_mapping.gym import instances
from learned_mapping.mmap.observation import WIDTH
from learned_mapping.mmap.rules.state import program_arrays

env = lm.mmap.env
GAMES, STEPS, EPOCHS, BATCHES = 32, 128, 4, 4  # games side by side, moves of each in an update
RATE, CLIP, ENTROPY, TRACE, GAMMA = 5e-4, 0.2, 0.005, 0.95, 0.98
SHARP, TRUST = 4.0, 0.5  # when judged: how sure it is, how much of what it learned counts
LOW, HIGH = (-3.0, 0.0, 0.0), (2.0, 3.0, 1.0)  # price of a placement, of a copy on top; foresight


def network(seen, odds):
    """Logits [3] and a value []: those of the untrained odds, and what is learned on top."""
    seen = jnp.clip(seen, -5.0, 5.0)
    hidden = hk.nets.MLP((128, 128), activation=jnp.tanh, activate_final=True)(seen)
    change = hk.Linear(3, w_init=hk.initializers.TruncatedNormal(0.001))(hidden)
    return odds + change, hk.nets.MLP((64, 1), activation=jnp.tanh)(seen)[..., 0]


policy = hk.without_apply_rng(hk.transform(network))
optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE))
decide, observe, begun = map(jax.vmap, (env.decide, env.observe, jnp.where))


def beginning(programs):
    """(program, tables, first states, possible seconds, later benefits, prices) of a game of each.
    Games of one program differ in the prices [G, 3] that they are played at."""
    program = env.padded([env.env_program(program) for program in programs])
    tables = env.padded([env.observation_tables(program) for program in programs])
    slots = max(map(env.capacity_for, programs))
    fresh = jax.vmap(env.reset, (0, None))(program, slots)
    fresh = decide(program, fresh, jnp.full(len(programs), -1))
    possible_s = jnp.array([p.possible_saving_s for p in programs])
    later_s = np.zeros((len(programs), program.size.shape[1]))
    for row, one in zip(later_s, programs):
        row[: one.num_buffers] = program_arrays(one).buffers["benefit_left_s"]
    spread = np.arange(len(programs))[:, None] * np.array([0.8192, 0.6711, 0.5498]) % 1  # evenly
    spread[:, 2] = spread[:, 2].round()
    prices = np.array(LOW) + spread * (np.array(HIGH) - LOW)
    return program, tables, fresh, possible_s, jnp.asarray(later_s), jnp.asarray(prices)


def rule_of(game, states):
    """[G, 3] logits of the rule that an untrained policy follows: what a tensor saves, now and
    later, over the bytes and steps that it takes, against the prices of the game."""
    program, tables, _, _, later_s, prices = game
    position, rows = states.position, jnp.arange(len(later_s))
    b = jnp.minimum(position.cursor, later_s.shape[1] - 1)
    size = program.size[rows, b] / program.fast_bytes
    area = size[:, None] * jnp.maximum(position.end - position.start + 1, 0)
    later_s = prices[:, 2] * jnp.maximum(later_s[rows, b], 0.0)
    saving_s = jnp.maximum(position.reward_s, 0.0) + later_s[:, None]
    benefit = saving_s * tables.reward_scale[:, None]
    density = jnp.log(jnp.maximum(benefit, 1e-9) / jnp.maximum(area, 1e-6))
    odds = (density - prices[:, :1]).at[:, 0].add(-prices[:, 1]).at[:, 2].set(0.0)
    return jnp.clip(odds, -6.0, 6.0).astype(jnp.float32)


def look(parameters, game, states):
    """Logits of the legal actions, values, and what they were made of."""
    legal, seen = states.position.legal, observe(*game[:2], states)[0]
    seen = jnp.concatenate([seen, game[5].astype(jnp.float32)], axis=1)
    odds = rule_of(game, states)
    logits, values = policy.apply(parameters, seen, odds)
    return jnp.where(legal, logits, -1e9), values, (seen, odds, legal)


def loss(parameters, batch):
    """PPO's clipped objective, the error of the values, and a bonus for the entropy."""
    seen, odds, legal, actions, laws, advantages, targets = batch
    logits, values = policy.apply(parameters, seen, odds)
    now = jax.nn.log_softmax(jnp.where(legal, logits, -1e9))
    ratio = jnp.exp(jnp.take_along_axis(now, actions[:, None], 1)[:, 0] - laws)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages)
    entropy = -jnp.where(legal, jnp.exp(now) * now, 0.0).sum(axis=1).mean()
    return 0.5 * ((values - targets) ** 2).mean() - gain.mean() - ENTROPY * entropy


def update(game, state):
    """One update; the state, the sum of the returns of the games that ended, and their number."""
    program, _, fresh, possible_s, *_ = game
    parameters, memory, states, key = state

    def move(carry, _):
        states, key = carry
        key, draw = jax.random.split(key)
        logits, values, parts = look(parameters, game, states)
        actions = jax.random.categorical(draw, logits).astype(jnp.int32)
        laws = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
        after = decide(program, states, actions)
        gain_s = after.position.saved_s - states.position.saved_s
        rewards, over = (gain_s / possible_s).astype(jnp.float32), after.over
        share = jnp.where(over, after.position.saved_s / possible_s, 0.0)

        row = (*parts, actions, laws, values, rewards, over, share)
        return (jax.tree.map(partial(begun, over), fresh, after), key), row

    (states, key), rows = jax.lax.scan(move, (states, key), None, STEPS)
    seen, odds, legal, actions, laws, values, rewards, over, share = rows

    def backwards(carry, row):
        advantage, following = carry
        value, reward, goes_on = row
        following = GAMMA * goes_on * following
        advantage = reward + following - value + GAMMA * TRACE * goes_on * advantage
        return (advantage, value), advantage

    columns = (values, rewards, 1.0 - over.astype(jnp.float32))
    last = (jnp.zeros(GAMES, jnp.float32), look(parameters, game, states)[1])
    _, advantages = jax.lax.scan(backwards, last, columns, reverse=True)
    batch = (seen, odds, legal, actions, laws, advantages, advantages + values)
    batch = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)

    def learn(carry, places):
        parameters, memory = carry
        part = jax.tree.map(lambda leaf: leaf[places], batch)
        change, memory = optimiser.update(jax.grad(loss)(parameters, part), memory)
        return (optax.apply_updates(parameters, change), memory), None

    key, *draws = jax.random.split(key, EPOCHS + 1)
    order = jnp.concatenate([jax.random.permutation(draw, len(batch[3])) for draw in draws])
    rows = order.reshape(EPOCHS * BATCHES, -1)
    (parameters, memory), _ = jax.lax.scan(learn, (parameters, memory), rows)
    return (parameters, memory, states, key), (share.sum(), over.sum())


def train(programs, updates, seed=0):
    """Parameters after so many updates. Inside `env.exact`."""
    game = beginning([programs[i % len(programs)] for i in range(GAMES)])
    key, first = jax.random.split(jax.random.PRNGKey(seed))
    parameters = policy.init(first, jnp.zeros(WIDTH + 3, "float32"), jnp.zeros(3, "float32"))
    state = parameters, optimiser.init(parameters), game[2], key
    step = jax.jit(update)
    for number in range(1, updates + 1):
        state, (share, count) = step(game, state)
        mean = float(share) / max(int(count), 1)
        print(f"update {number}: mean return {mean:.3f} of {int(count)} games", flush=True)
    return state[0]


def play(parameters, programs, games, seed=0):
    """Of each program the best return of so many games drawn from the policy, which the validator
    has confirmed. Inside `env.exact`."""
    game = beginning([program for program in programs for _ in range(games)])

    @jax.jit
    def to_the_end(parameters, game, key):
        def move(carry):
            states, key = carry
            key, draw = jax.random.split(key)
            logits, _, (_, odds, _) = look(parameters, game, states)
            action = jax.random.categorical(draw, SHARP * (odds + TRUST * (logits - odds)))
            return decide(game[0], states, jnp.where(states.over, -1, action)), key

        return jax.lax.while_loop(lambda carry: ~carry[0].over.all(), move, (game[2], key))[0]

    states = to_the_end(parameters, game, jax.random.PRNGKey(seed))
    saved = np.asarray(jnp.where(states.overflow, -1.0, states.position.saved_s))
    best = saved.reshape(-1, games).argmax(axis=1) + games * np.arange(len(programs))
    returns = []
    for program, actions in zip(programs, np.asarray(states.position.action)[best]):
        played = lm.mmap.Game(program)
        played.play_actions(actions[: program.num_buffers].astype(np.int64))
        mapping = lm.mmap.mapping_of(program, played.played())
        returns.append(lm.mmap.validate(program, mapping, exact=True).costs["return"])
    return np.array(returns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=25)
    parser.add_argument("--programs", type=int, default=60, help="at most, of each half")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seen, unseen = instances("MMap", most=500), instances("MMap", "test")[: options.programs]
    with env.exact():
        found = play(train(seen[: options.programs], options.updates, options.seed), unseen, 128)
    rule = [lm.mmap.solve(program, "greedy-tuned").metrics["return"] for program in unseen]
    for program, own, tuned in zip(unseen, found, rule):
        print(f"{program.name}: {own:.3f}, greedy-tuned {tuned:.3f}")
    print(f"mean of {len(unseen)}: {found.mean():.3f}, greedy-tuned {np.mean(rule):.3f}")
