"""Double deep Q-learning without masks: which buffers of AlexNet live in fast memory.

Q-learning asks for the best action and knows of no illegal ones; ``legal="nearest"`` plays the
legal action next to the one it names. Needs ``learned-mapping[rl]``.

    python dqn.py --moves 20000
"""

import argparse
from collections import deque

import gymnasium
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learned_mapping as lm
from learned_mapping.mmap.bench import load

WIDTH, BATCH, MEMORY, RATE = 128, 128, 50_000, 5e-4
GAMMA, AHEAD, UNIT = 0.98, 5, 0.03  # discount, moves until the next value, a return that is large
EVERY, COPY = 4, 500  # moves between two steps of Adam, and between two copies of the network
BEGIN, EXPLORED = 1000, 0.4  # moves by chance, and the share of all moves until little is explored
LEAST = 0.02  # of moves by chance, from then on

network = hk.without_apply_rng(
    hk.transform(lambda seen: hk.nets.MLP((WIDTH, WIDTH, 3))(seen.astype(jnp.float32)))
)
optimiser = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(RATE))
values_of = jax.jit(network.apply)


@jax.jit
def learn(parameters, memory, target, batch):
    """One step of Adam towards what `AHEAD` moves earned and the best value after them."""
    seen, actions, rewards, after, over = batch

    def loss(parameters):
        chosen = jnp.take_along_axis(network.apply(parameters, seen), actions[:, None], 1)[:, 0]
        best = network.apply(parameters, after).argmax(axis=1)
        following = jnp.take_along_axis(network.apply(target, after), best[:, None], 1)[:, 0]
        wanted = rewards / UNIT + jnp.where(over, 0.0, GAMMA**AHEAD * following)
        return optax.huber_loss(chosen, jax.lax.stop_gradient(wanted)).mean()

    change, memory = optimiser.update(jax.grad(loss)(parameters), memory)
    return optax.apply_updates(parameters, change), memory


class Replay:
    """The last moves, of which batches are drawn."""

    def __init__(self, width):
        self.count = 0
        self.seen = np.zeros((2, MEMORY, width), np.float32)  # before a move and after it
        self.actions = np.zeros(MEMORY, np.int32)
        self.rewards = np.zeros(MEMORY, np.float32)
        self.over = np.zeros(MEMORY, bool)

    def add(self, seen, action, reward, after, over):
        place = self.count % MEMORY
        self.seen[0, place], self.seen[1, place] = seen, after
        self.actions[place], self.rewards[place], self.over[place] = action, reward, over
        self.count += 1

    def batch(self, rng):
        rows = rng.integers(min(self.count, MEMORY), size=BATCH)
        before, after = self.seen[:, rows]
        return before, self.actions[rows], self.rewards[rows], after, self.over[rows]


def train(env, moves, seed=0):
    """Parameters after so many moves; prints the mean return of the games that ended."""
    rng, replay = np.random.default_rng(seed), Replay(env.observation_space.shape[0])
    seen, _ = env.reset(seed=seed)
    parameters = target = network.init(jax.random.PRNGKey(seed), seen[None])
    memory, returns, latest = optimiser.init(parameters), [], deque()
    for move in range(1, moves + 1):
        explored = (move - BEGIN) / max(EXPLORED * moves, 1)
        if move <= BEGIN or rng.random() < max(1.0 - explored, LEAST):
            action = int(rng.integers(3))
        else:
            action = int(values_of(parameters, seen).argmax())
        after, reward, over, cut, info = env.step(action)
        latest.append((seen, action, reward))
        seen = after
        while latest and (over or cut or len(latest) == AHEAD):
            gain = sum(GAMMA**i * earned for i, (_, _, earned) in enumerate(latest))
            before, chosen, _ = latest.popleft()
            replay.add(before, chosen, gain, after, over)
        if over or cut:
            returns.append(info["return"])
            seen, _ = env.reset()
        if move > BEGIN and move % EVERY == 0:
            parameters, memory = learn(parameters, memory, target, replay.batch(rng))
        if move % COPY == 0:
            target = parameters
        if move % 2000 == 0:
            print(f"{move} moves: mean return {np.mean(returns[-20:]):.3f}", flush=True)
    return parameters


def play(env, parameters):
    """The return of the game of highest values, which the validator has confirmed."""
    seen, _ = env.reset()
    over = False
    while not over:
        seen, _, over, _, info = env.step(int(values_of(parameters, seen).argmax()))
    verdict = lm.mmap.validate(env.unwrapped.program, env.unwrapped.solution, exact=True)
    assert verdict.valid, verdict
    return info["return"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    program = load("alexnet_train_batch_32")
    env = gymnasium.make(
        "learned_mapping.gym:learned_mapping/MMap-v0", instance=program, legal="nearest"
    )
    learned = train(env, options.moves, options.seed)
    bound = env.reset()[1]["bound"]
    print(f"return {play(env, learned):.3f}; no mapping is above {bound:.3f}")
