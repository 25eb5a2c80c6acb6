"""Proximal policy optimisation with a graph network: a chip for one operation after the other.

One policy plays `learned_mapping/Chips-v1` on twenty graphs, and is then judged on ten others that
it never saw, beside chance, the rule that climbs, and the bound. Needs ``learned-mapping[rl]``.

    python ppo.py --updates 60
"""

import argparse

import gymnasium
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learned_mapping as lm
from learned_mapping.gym import instances

ENVS, STEPS, EPOCHS, BATCHES = 16, 64, 3, 4  # games side by side, moves of each in an update
WIDTH, ROUNDS = 32, 2  # of the graph network
RATE, CLIP, ENTROPY, TRACE = 2e-3, 0.2, 0.01, 0.95
CHIPS, TRIES = 4, 16  # chips in the package; samples when a policy is judged


def network(seen):
    """Logits [C] and a value [] of what `Chips-v1` shows of one graph."""
    nodes, (sources, targets) = seen["nodes"], seen["edges"].T
    real = nodes[:, :1]
    hidden = jax.nn.relu(hk.Linear(WIDTH)(nodes))
    for _ in range(ROUNDS):
        from_producers = jnp.zeros_like(hidden).at[targets].add(hidden[sources])
        from_consumers = jnp.zeros_like(hidden).at[sources].add(hidden[targets])
        around = jnp.concatenate([hidden, from_producers, from_consumers], axis=1)
        change = hk.LayerNorm(-1, True, True)(hk.Linear(WIDTH)(around))
        hidden = (hidden + jax.nn.relu(change)) * real  # padding stays at 0
    whole = hidden.sum(axis=0) / real.sum()
    op = jnp.concatenate([hidden[seen["op"]], nodes[seen["op"]], whole])
    value = hk.nets.MLP((WIDTH, 1))(jnp.concatenate([op, seen["loads"]]))[0]
    # Every chip is looked at alike: its load, those beside it, and whether the op can have it.
    loads = jnp.pad(seen["loads"], 1)
    place = jnp.arange(CHIPS) / CHIPS
    chips = jnp.stack([loads[:-2], loads[1:-1], loads[2:], place, seen["mask"]], axis=1)
    chips = jnp.concatenate([chips, jnp.tile(op, (CHIPS, 1))], axis=1)
    logits = hk.nets.MLP((WIDTH, WIDTH, 1))(chips)[:, 0]
    return jnp.where(seen["mask"] > 0, logits, -1e9), value


policy = hk.without_apply_rng(hk.transform(network))
both = jax.vmap(policy.apply, (None, 0))
optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.scale_by_adam())


@jax.jit
def act(parameters, seen, key):
    """Actions, their log-probabilities and the values of many positions."""
    logits, values = both(parameters, seen)
    actions = jax.random.categorical(key, logits)
    laws = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
    return actions, laws, values


def loss(parameters, batch):
    """PPO's clipped objective, the error of the values, and a bonus for the entropy."""
    seen, actions, laws, advantages, targets = batch
    logits, values = both(parameters, seen)
    now = jax.nn.log_softmax(logits)
    ratio = jnp.exp(jnp.take_along_axis(now, actions[:, None], 1)[:, 0] - laws)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages)
    entropy = -(jnp.exp(now) * jnp.where(seen["mask"] > 0, now, 0.0)).sum(axis=1)
    return 0.5 * ((values - targets) ** 2).mean() - gain.mean() - ENTROPY * entropy.mean()


@jax.jit
def learn(parameters, memory, batch, rate):
    """One step of Adam."""
    change, memory = optimiser.update(jax.grad(loss)(parameters, batch), memory)
    return jax.tree.map(lambda old, step: old - rate * step, parameters, change), memory


def stacked(rows):
    """Observations as one, along a leading axis."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def make(graphs):
    """The environment, padded to the largest of all graphs."""
    everything = instances("Chips") + instances("Chips", "test")
    sizes = {"ops": max(g.num_ops for g in everything)}
    sizes["edges"] = max(len(g.op_edges) for g in everything)
    return gymnasium.make("learned_mapping/Chips-v1", instance=graphs, chips=CHIPS, **sizes)


def train(graphs, updates, seed=0):
    """Parameters after so many updates; prints the mean return of the games that ended."""
    envs = [make(graphs) for _ in range(ENVS)]
    seen = [env.reset(seed=seed * ENVS + i)[0] for i, env in enumerate(envs)]
    key, rng = jax.random.PRNGKey(seed), np.random.default_rng(seed)
    parameters = policy.init(key, jax.tree.map(jnp.asarray, seen[0]))
    memory, returns, ended = optimiser.init(parameters), np.zeros(ENVS), []
    for update in range(1, updates + 1):
        moves, rate = [], RATE * (1 - (update - 1) / updates)
        for _ in range(STEPS):
            key, draw = jax.random.split(key)
            before = stacked(seen)
            actions, laws, values = map(np.asarray, act(parameters, before, draw))
            rewards, overs = np.zeros(ENVS), np.zeros(ENVS)
            for i, env in enumerate(envs):
                seen[i], rewards[i], overs[i], _, _ = env.step(int(actions[i]))
                returns[i] += rewards[i]
                if overs[i]:
                    ended.append(returns[i])
                    returns[i], seen[i] = 0.0, env.reset()[0]
            moves.append((before, actions, laws, values, rewards, overs))
        values = np.asarray(act(parameters, stacked(seen), key)[2])
        advantages, advantage = np.zeros((STEPS, ENVS)), 0.0
        for t in reversed(range(STEPS)):
            _, _, _, now, reward, over = moves[t]
            goes_on = 1.0 - over
            advantage = reward + values * goes_on - now + TRACE * goes_on * advantage
            advantages[t], values = advantage, now
        columns = [np.concatenate([move[i] for move in moves]) for i in (1, 2, 3)]
        seen_all = stacked([row for move in moves for row in unstacked(move[0])])
        advantages = advantages.reshape(-1).astype(np.float32)
        batch = (seen_all, *columns[:2], advantages, advantages + columns[2])
        for _ in range(EPOCHS):
            for rows in np.split(rng.permutation(len(advantages)), BATCHES):
                part = jax.tree.map(lambda leaf, rows=rows: leaf[rows], batch)
                parameters, memory = learn(parameters, memory, part, rate)
        if update % 5 == 0:
            mean, count = np.mean(ended), len(ended)
            print(f"update {update}: mean return {mean:.3f} of {count} games", flush=True)
            ended = []
    return parameters


def unstacked(seen):
    """The rows of `stacked` again."""
    return [{name: leaf[i] for name, leaf in seen.items()} for i in range(ENVS)]


def play(env, graph, choose, seed):
    """The throughput of a game over the bound; the validator's word on it."""
    seen, info = env.reset(seed=seed, options={"instance": graph})
    over, bound = False, info["bound"]
    while not over:
        seen, _, over, _, info = env.step(int(choose(seen)))
    verdict = lm.mcm.validate(graph, env.unwrapped.solution)
    assert verdict.valid, verdict
    return verdict.costs["throughput"] / bound


def judge(parameters, graphs, seed=0):
    """Rows (graph, chance, policy, best of `TRIES` of each, climb): throughput over the bound."""
    env, rng, rows = make(graphs), np.random.default_rng(seed), []
    logits = jax.jit(lambda seen: policy.apply(parameters, seen)[0])

    def best(seen):
        return logits(seen).argmax()

    def sample(seen):
        return (np.asarray(logits(seen)) + rng.gumbel(size=CHIPS)).argmax()

    def chance(seen):
        return rng.choice(np.flatnonzero(seen["mask"]))

    for graph in graphs:
        random = [play(env, graph, chance, seed) for _ in range(TRIES)]
        learned = [play(env, graph, best, seed)]
        learned += [play(env, graph, sample, seed) for _ in range(TRIES - 1)]
        climbed = lm.mcm.solve(graph, "climb", chips=CHIPS, samples=200).metrics["throughput"]
        bound = env.reset(options={"instance": graph})[1]["bound"]
        rows.append((random[0], learned[0], max(random), max(learned), climbed / bound))
    return np.array(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--graphs", type=int, default=20, help="at most, of each half")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train_graphs, test_graphs = (instances("Chips", split) for split in ("train", "test"))
    learned = train(train_graphs[: options.graphs], options.updates, options.seed)
    table = judge(learned, test_graphs[: options.graphs])
    names = ("chance", "policy", f"chance, best of {TRIES}", f"policy, best of {TRIES}", "climb")
    print(f"throughput over the bound, mean of {len(table)} graphs that were not trained on:")
    for name, share in zip(names, table.mean(axis=0)):
        print(f"  {name:<20} {share:.3f}")
