"""Proximal policy optimisation (Schulman et al. 2017) over whole partitions.

Every single choice a_k of a sample (the chip of an op), and every alternative to it that is
credited, has its own ratio and advantage (`credit`):

    r_k = π(a_k) / π_old(a_k),
    J = mean Σ_k w_k min(r_k A_k, clip(r_k, 1 - ε, 1 + ε) A_k) + entropy - value error

The ratio of the whole sample would be a product over hundreds of choices and leave the clip at
once.

`learn_unsolved` does without the constraint solver: what the policy draws is what is judged (paper
2, Section 5.1). Rewards come in two kinds. ``sparse`` is the paper's: throughput, 0 where a
constraint is broken. ``penalty`` tells the
policy how far off it is: the share of edges that neither run backwards nor skip a chip, and 1 more
than the throughput over the naive greedy's for a valid partition, so that valid always beats
invalid. No reward is negative: the value learns log(1 + reward).
"""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import (
    flatten,
    read_checkpoint,
    unflatten,
    write_checkpoint,
)
from learned_mapping.mcm.agent.config import PENALTY, SPARSE, AgentConfig
from learned_mapping.mcm.agent.features import GraphFeatures
from learned_mapping.mcm.agent.moves_policy import MovesPolicy
from learned_mapping.mcm.agent.network import ChipContext, ChipPolicy, Credits
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import Places

SPREAD = 1e-6  # Rewards that differ by less than this share count as equal.
GRADIENT_NORM = 1.0  # A longer gradient is shortened to this.
LIMIT = 2.5  # Advantages are cut off at so many standard deviations.


class Learned(NamedTuple):
    """The state that learning changes. A pytree."""

    parameters: Any
    optimiser: Any


Policy = ChipPolicy | MovesPolicy
Context = ChipContext | GraphFeatures


@lru_cache(maxsize=16)
def make_policy(config: AgentConfig) -> Policy:
    """The policy of a configuration; one each, so that compiled code is shared."""
    return MovesPolicy(config) if config.begun else ChipPolicy(config)


def optimiser_of(config: AgentConfig) -> optax.GradientTransformation:
    """Adam behind a limit on the gradient's norm."""
    return optax.chain(optax.clip_by_global_norm(GRADIENT_NORM), optax.adam(config.learning_rate))


def fresh_optimiser(config: AgentConfig, parameters: Any) -> Learned:
    """Parameters with an optimiser that has seen nothing."""
    return Learned(parameters, optimiser_of(config).init(parameters))


def new_learned(policy: Policy, rng: np.random.Generator) -> Learned:
    """Fresh parameters."""
    return fresh_optimiser(policy.config, policy.new_parameters(rng))


def advantages(rewards: np.ndarray) -> np.ndarray:
    """[B] float32 rewards, brought to mean 0 and deviation 1 and cut off; all 0 where they are
    equal."""
    rewards = np.asarray(rewards, np.float64)
    centred = rewards - rewards.mean()
    deviation = centred.std()
    if deviation < SPREAD * max(abs(rewards.mean()), SPREAD):
        return np.zeros(len(centred), np.float32)
    return np.clip(centred / deviation, -LIMIT, LIMIT).astype(np.float32)


def clipped_gain(
    logs: jax.Array, before: jax.Array, advantage: jax.Array, clip: float
) -> jax.Array:
    """min(r A, clip(r, 1 - ε, 1 + ε) A) of every choice, r = exp(logs - before).

    Args:
      logs, before: [...] log-probabilities now and of the policy that sampled.
      advantage: [...].
      clip: ε.
    """
    ratio = jnp.exp(jnp.clip(logs - before, -10.0, 10.0))
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


@partial(jax.jit, static_argnums=0)
def update(
    policy: Policy,
    learned: Learned,
    context: Context,
    credits: Credits,
    target: jax.Array,
    key: jax.Array,
) -> tuple[Learned, dict[str, jax.Array]]:
    """`epochs` passes over a batch of samples of one graph, in mini-batches.

    Args:
      policy: compared by identity.
      learned: parameters and optimiser.
      context: of the graph, from ``policy.context``.
      credits: of B samples.
      target: [B] float32, of the value.
      key: of the mini-batches.
    """
    config = policy.config
    count = len(target)
    transform = optimiser_of(config)

    def of_alternatives(parameters, batch):
        logs, *further = policy.log_probabilities(parameters, context, batch.state)
        return jnp.take_along_axis(logs, batch.alternatives, axis=2), *further

    before, *_ = of_alternatives(learned.parameters, credits)

    def objective(parameters, rows):
        batch = jax.tree_util.tree_map(lambda x: x[rows], credits)
        logs, entropy, expected = of_alternatives(parameters, batch)
        least = clipped_gain(logs, before[rows], batch.advantage, config.clip)
        error = jnp.square(target[rows] - expected).mean()
        aim = (
            (least * batch.weight).sum((1, 2)).mean()
            + config.entropy * entropy
            - config.value_weight * error
        )
        return -aim, {"entropy": entropy, "value_error": error}

    def step(learned, rows):
        gradient, measured = jax.grad(objective, has_aux=True)(learned.parameters, rows)
        change, optimiser = transform.update(gradient, learned.optimiser, learned.parameters)
        return Learned(optax.apply_updates(learned.parameters, change), optimiser), measured

    keys = jax.random.split(key, config.epochs)
    rows = jax.vmap(lambda k: jax.random.permutation(k, count))(keys)
    size = max(count // config.minibatches, 1)
    rows = rows[:, : size * (count // size)].reshape(-1, size)
    learned, measured = jax.lax.scan(step, learned, rows)
    return learned, jax.tree_util.tree_map(lambda x: x[-1], measured)


def new_key(rng: np.random.Generator) -> jax.Array:
    """A JAX key derived from a generator."""
    return jax.random.PRNGKey(int(rng.integers(2**31)))


class Batch(NamedTuple):
    """B samples of a policy, repaired and judged."""

    partitions: np.ndarray  # [B, N] int32 valid partitions.
    throughput: np.ndarray  # [B] results per second, 0 where one cannot run.
    latencies: np.ndarray  # [B, C] seconds of each chip.
    sampled: Any  # As the policy's `credits` takes it.


def rollouts(
    policy: Policy,
    parameters: Any,
    context: Context,
    env: PartitionEnv,
    rng: np.random.Generator,
    count: int | None = None,
    places: Places | None = None,
) -> Batch:
    """Samples, of which the first `count` alone are judged.

    Args:
      places: where they begin, of a policy that begins somewhere; drawn where None.
    """
    sampled = policy.act(parameters, context, policy.begin(env, rng, places), new_key(rng))
    return Batch(*env.rollout(policy.choice(env, sampled), rng, count), sampled)


def learn(
    policy: Policy,
    learned: Learned,
    context: Context,
    env: PartitionEnv,
    batch: Batch,
    rng: np.random.Generator,
) -> tuple[Learned, dict[str, float]]:
    """PPO on one batch. Rewards are in units of the naive greedy's throughput; the value learns
    log(1 + reward).

    With one graph per batch the normalisation of `advantages` takes any baseline out again, so the
    value is a second task for the embeddings rather than a help against variance.
    """
    rewards = batch.throughput / env.unit
    credits = policy.credits(
        env, batch.sampled, batch.partitions, batch.latencies, advantages(rewards)
    )
    target = jnp.log1p(jnp.asarray(rewards, jnp.float32))
    learned, measured = update(policy, learned, context, credits, target, new_key(rng))
    return learned, {name: float(number) for name, number in measured.items()}


def run(
    policy: Policy,
    learned: Learned,
    env: PartitionEnv,
    rng: np.random.Generator,
    budget: Budget,
    *,
    learning: bool,
    name: str = "",
) -> tuple[np.ndarray, Learned]:
    """([N] int32 the fastest partition sampled, what was learned) within a budget of samples or
    time.

    Args:
      policy, learned: where to start from.
      env: the graph and what judges its partitions.
      rng: of samples, repairs and mini-batches.
      budget: a sample is one partition judged.
      learning: whether PPO follows every full batch, the last one too, so that a run cut in two is
        the whole run; without it the policy stays as it is.
      name: of the run, which a checkpoint of the budget has to bear.
    """
    context = policy.context(env)
    best, places, start = np.zeros(env.num_ops, np.int32), None, env.start
    if start is not None:
        places = start.draw(rng, policy.config.rollouts)
        if budget.remaining_samples != 0:
            best = start.first()
            places.partitions[0], places.throughput[0] = best, env.model.throughput(best)
            budget.record(places.throughput[0])
    (learned, places), best = go_on(budget, name, (learned, places), best, rng)
    took_s = 0.0  # By the last iteration, of 2,000 ops more than a second: half may be too late.
    while not budget.samples or (not budget.spent() and budget.lasts(took_s / 2)):
        begun_s = budget.seconds
        batch = rollouts(
            policy, learned.parameters, context, env, rng, budget.remaining_samples, places
        )
        for assignment, value in zip(batch.partitions, batch.throughput):
            if budget.record(value):
                best = assignment.copy()
        if len(batch.partitions) < policy.config.rollouts:
            # The samples end within a batch: a run that goes on from the checkpoint draws it again,
            # whole.
            break
        if learning:
            learned, _ = learn(policy, learned, context, env, batch, rng)
        if start is not None:
            places = start.after(places, rng, batch.partitions, batch.throughput)
        keep(budget, name, (learned, places), best, rng)
        took_s = budget.seconds - begun_s
    return best, learned


COUNTED = ("samples", "best", "curve_s", "curve_samples", "curve_best")


def keep(
    budget: Budget, run: str, learned: Any, best: np.ndarray, rng: np.random.Generator
) -> None:
    """Writes the budget's checkpoint, where it has one.

    Args:
      run: what tells this run from others: graph, package, method and configuration.
      learned: what was learned and where samples begin, a pytree of arrays.
      best: [N] int32, the fastest partition so far.
      rng: all randomness to come.
    """
    if budget.checkpoint is None:
        return
    counted = {name: getattr(budget, name) for name in COUNTED}
    header = {"kind": "mcm-run", "run": run, "seconds": budget.seconds, "counted": counted}
    header["random"] = rng.bit_generator.state
    write_checkpoint(budget.checkpoint, flatten(learned, "learned") | {"best": best}, header)


def go_on(
    budget: Budget, run: str, learned: Any, best: np.ndarray, rng: np.random.Generator
) -> tuple[Any, np.ndarray]:
    """(what was learned, the best partition) of the budget's checkpoint, where there is one; else
    as given.

    The budget's account and the generator are set to what they were.

    Raises:
      InputError: the file is damaged, or of another run.
    """
    if budget.checkpoint is None or not Path(budget.checkpoint).exists():
        return learned, best
    arrays, header = read_checkpoint(budget.checkpoint)
    if header.get("kind") != "mcm-run" or header.get("run") != run:
        raise InputError(budget.checkpoint, "run", "is a checkpoint of another run")
    restored = unflatten(learned, arrays, "learned", budget.checkpoint)
    try:
        assert arrays["best"].shape == best.shape and arrays["best"].dtype == best.dtype
        rng.bit_generator.state = header["random"]
        for name in COUNTED:
            setattr(budget, name, header["counted"][name])
        budget.spent_before(float(header["seconds"]))
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            budget.checkpoint, "header", f"is damaged ({type(error).__name__})"
        ) from None
    return restored, arrays["best"]


def reward_of(assignment: np.ndarray, env: PartitionEnv, kind: str) -> tuple[float, bool]:
    """(reward in units of the naive greedy's throughput, whether the assignment is valid)."""
    edges = env.graph.op_edges
    if is_valid(assignment, edges):
        return float(kind == PENALTY) + env.model.throughput(assignment) / env.unit, True
    if kind == SPARSE:
        return 0.0, False
    step = assignment[edges[:, 1]] - assignment[edges[:, 0]]
    return float(np.mean((step >= 0) & (step <= 1))), False


def learn_unsolved(
    env: PartitionEnv, config: AgentConfig, rng: np.random.Generator, *, samples: int, reward: str
) -> dict[str, Any]:
    """Trains by PPO without a solver.

    Args:
      env: a graph on a package.
      config: of the policy; `rollouts` samples make a batch.
      samples: assignments to draw, rounded up to whole batches.
      reward: of `config.REWARDS`.

    Returns:
      ``samples``, ``valid``, ``first_valid`` (the number of the first, or None), ``best``
      throughput, and the share of edges that break the chain rule in the first and in the last
      batch.
    """
    policy = make_policy(config)
    learned, context, edges = new_learned(policy, rng), policy.context(env), env.graph.op_edges
    drawn, valid, first, best, broken = 0, 0, None, 0.0, []
    while drawn < samples:
        sampled = policy.act(learned.parameters, context, policy.begin(env, rng), new_key(rng))
        wishes = np.asarray(sampled.chosen)[:, -1, : env.num_ops]
        rewards = np.zeros(len(wishes))
        for i, assignment in enumerate(wishes):
            rewards[i], fine = reward_of(assignment, env, reward)
            if fine:
                valid, first = valid + 1, drawn + i + 1 if first is None else first
                best = max(best, env.model.throughput(assignment))
        drawn += len(wishes)
        step = wishes[:, edges[:, 1]] - wishes[:, edges[:, 0]]
        broken.append(float(np.mean((step < 0) | (step > 1))))
        unknown = np.zeros((len(wishes), env.chips))
        learned, _ = learn(
            policy, learned, context, env, Batch(wishes, rewards * env.unit, unknown, sampled), rng
        )
    ends = {"broken_first": broken[0], "broken_last": broken[-1]}
    return {"samples": drawn, "valid": valid, "first_valid": first, "best": best, **ends}
