"""REINFORCE on what BRKGA makes of a law: estimator, loss, stages, agent (REGAL, Section 2.3 and
Appendix A.3).

The reward of a run is -M / H: its cost over that of uniform mutants at as many evaluations. Per
graph and step K laws are drawn and tried from one initial population with the same random numbers;
the advantage of a law is its reward less the mean of the others', which keeps the gradient's
expectation and takes most of its variance.
"""

import functools
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.learning.settings import NOT_NEGATIVE, ONE_OR_MORE, Ranges, check_settings
from learned_mapping.regal.agent.features import features, printed_columns
from learned_mapping.regal.agent.forward import MODELS
from learned_mapping.regal.agent.network import Batch, bucket, make_batch
from learned_mapping.regal.agent.policy import BINS, policy_logits, random_parameters, sample, value
from learned_mapping.regal.agent.rollouts import rollouts, uniform_cost
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.random_numbers import stream


@dataclass(frozen=True)
class Stage:
    """A part of a training. Short runs tell laws apart for the least time; the last stage is the
    paper's length."""

    share: float  # Of the training's seconds.
    evaluations: int
    rollouts: int  # K, laws tried per graph and step.
    graphs: int  # The first so many training graphs of at most `ops` ops.
    ops: int


BASELINES, ATTRIBUTES = ("group", "network"), ("all", "links", "printed")
RANGES: Ranges = {
    **dict.fromkeys(("batch_graphs", "batch_ops"), ONE_OR_MORE),
    **dict.fromkeys(("rate", "later_rate", "last_rate", "value_rate", "entropy"), NOT_NEGATIVE),
    "seconds": (0.0, np.inf),
}


@dataclass(frozen=True)
class ReinforceConfig:
    """Everything a training depends on besides its graphs."""

    stages: tuple[Stage, ...]
    seconds: float
    """Length of the training, in seconds of `seconds_of`: a count, so that the result does not
    depend on a clock."""
    seed: int = 0
    batch_graphs: int = 16
    batch_ops: int = 1024  # A step takes graphs in random order up to either.
    rate: float = 2e-3  # Of Adam, in the first stage.
    later_rate: float = 1.5e-3  # Of Adam after it, falling to `last_rate` by a cosine.
    last_rate: float = 3e-4
    value_rate: float = 1e-3  # Of b(G)'s Adam.
    entropy: float = 4e-3  # Weight of the entropy, a mean over heads and ops.
    baseline: str = "group"  # Of `BASELINES`: the mean of the graph's other rollouts; or b(G).
    attributes: str = "all"
    """``all`` but those of links, ``links`` too, or ``printed``: the paper's alone, while the
    weights for the others stay 0."""
    model: str = "gnn"  # Of `forward.MODELS`.
    # Digest of the policy whose weights are the first ones; random weights where there is none.
    start: str = ""

    def __post_init__(self) -> None:
        """Raises `InputError` where a field is unusable."""
        for name, known in (("baseline", BASELINES), ("attributes", ATTRIBUTES), ("model", MODELS)):
            if getattr(self, name) not in known:
                raise InputError(
                    "config", name, f"{getattr(self, name)!r} is none of {', '.join(known)}"
                )
        check_settings(self, RANGES)
        if not self.stages or min(stage.rollouts for stage in self.stages) < 2:
            raise InputError(
                "config", "stages", "must be one or more, each of two rollouts or more"
            )


SECONDS = {"synthetic-runtime": 1200.0, "traced-runtime": 720.0, "traced-memory": 480.0}
"""Dataset -> length of a training, in the seconds of `seconds_of`."""
RECIPES: dict[str, dict[str, Any]] = {
    "synthetic-runtime": {
        "stages": (
            Stage(0.18, 180, 256, 64, 50),
            Stage(0.12, 500, 32, 400, 120),
            Stage(0.13, 1060, 32, 400, 120),
            Stage(0.22, 2020, 16, 400, 120),
            Stage(0.35, 5000, 16, 400, 120),
        )
    },
    "traced-runtime": {
        "stages": (
            Stage(0.25, 500, 32, 240, 300),
            Stage(0.20, 1060, 32, 240, 300),
            Stage(0.25, 2020, 16, 240, 300),
            Stage(0.30, 5000, 16, 240, 300),
        ),
        "rate": 4e-4,
        "later_rate": 4e-4,
        "last_rate": 1e-4,
        "batch_graphs": 48,
        "batch_ops": 3072,
    },
    "traced-memory": {
        "stages": (
            Stage(0.65, 1060, 16, 160, 400),
            Stage(0.20, 2020, 16, 160, 400),
            Stage(0.15, 5000, 16, 160, 400),
        ),
        "rate": 1e-4,
        "later_rate": 1e-4,
        "last_rate": 3e-5,
        "batch_graphs": 4,
        "batch_ops": 1536,
        "entropy": 2e-5,
    },
}
"""Dataset -> stages and what else of a configuration is its own.

Peak memory starts from a policy that has cloned a rule, on graphs where that rule helps: from
random weights no law was worth more than the noise of a run. Running time of
traced graphs starts from a policy of synthetic graphs, since runs of 180 or 500 evaluations do not
tell random laws apart there; with the rates and batches of synthetic graphs the noise undoes what
that policy knows.
"""


def seconds_of(ops: np.ndarray, stage: Stage) -> float:
    """About the CPU seconds of a step on graphs of these sizes, on one core of 2026."""
    evaluations = 165 + stage.rollouts * (stage.evaluations - 165)
    return 0.1 + 3e-5 * stage.rollouts * len(ops) + 65e-9 * evaluations * float(np.sum(ops))


def stage_at(config: ReinforceConfig, spent: float) -> int:
    """The number of the stage after `spent` seconds."""
    ends = np.cumsum([stage.share for stage in config.stages]) * config.seconds
    return min(int(np.searchsorted(ends, spent, side="right")), len(ends) - 1)


def rate_at(config: ReinforceConfig, spent: float) -> float:
    """Adam's rate after `spent` seconds."""
    first = config.stages[0].share * config.seconds
    if spent < first:
        return config.rate
    left = 0.5 * (1 + np.cos(np.pi * min((spent - first) / max(config.seconds - first, 1e-9), 1.0)))
    return config.last_rate + (config.later_rate - config.last_rate) * left


def leave_one_out(rewards: np.ndarray) -> np.ndarray:
    """[G, K] rewards less the mean of the graph's K - 1 others: R_k - mean_{j != k} R_j."""
    k = rewards.shape[1]
    return (rewards - rewards.mean(axis=1, keepdims=True)) * (k / (k - 1))


def score_weights(
    choices: list[np.ndarray], advantages: np.ndarray, nodes: int, bins: int
) -> np.ndarray:
    """[nodes, d + 1, 2, bins] float32 W such that sum(W log pi) has REINFORCE's gradient.

    An entry sums the advantages of the laws that took its bin. Graphs count alike but for their
    ops: the score of a graph has a standard deviation that grows with the root of its ops, by which
    it is divided.

    Args:
      choices: of G graphs, [K, N_g, d + 1, 2].
      advantages: [G, K].
      nodes: of the padded batch.
      bins: of a head.
    """
    entries, pair = choices[0].shape[2:]
    weights = np.zeros((nodes, entries, pair, bins), np.float32)
    first = 0
    for chosen, advantage in zip(choices, advantages):
        k, n = chosen.shape[:2]
        scale = advantage.astype(np.float32) / (len(choices) * k * np.sqrt(n) * 10)
        for b in range(bins):
            weights[first : first + n, ..., b] = np.tensordot(
                scale, (chosen == b).astype(np.float32), axes=1
            )
        first += n
    return weights


def policy_loss(
    logits: jax.Array, batch: Batch, weights: jax.Array, entropy_weight: float
) -> tuple[jax.Array, jax.Array]:
    """(-sum(W log pi) less the entropy bonus, mean entropy of a head in nats).

    Args:
      logits: [N, d + 1, 2, bins].
      batch: says which nodes are padding.
      weights: of `score_weights`.
      entropy_weight: of the bonus.
    """
    log_p = jax.nn.log_softmax(logits)
    present = jraph.get_node_padding_mask(batch.graphs)[:, None, None]
    entropy = -(jnp.exp(log_p) * log_p).sum(axis=-1)
    entropy = (entropy * present).sum() / (present.sum() * entropy.shape[1] * entropy.shape[2])
    return -(weights * log_p).sum() - entropy_weight * entropy, entropy


UNIFORM_RUNS = {180: 8, 5000: 2}
"""Evaluations -> runs with uniform mutants whose mean is H; 4 for any other. It scales a graph's
rewards, no more."""

_adam = optax.scale_by_adam(b1=0.9, b2=0.98)
_clip = optax.clip_by_global_norm(1.0)


@jax.jit
def probabilities(parameters: Any, batch: Batch) -> jax.Array:
    """[N, d + 1, 2, bins]."""
    return jax.nn.softmax(policy_logits(parameters, batch))


_values = jax.jit(value.apply)


def _descend(gradient: Any, memory: Any, parameters: Any, rate: jax.Array) -> tuple[Any, Any]:
    clipped, _ = _clip.update(gradient, _clip.init(parameters))
    updates, memory = _adam.update(clipped, memory)
    return jax.tree.map(lambda p, u: p - rate * u, parameters, updates), memory


@functools.partial(jax.jit, static_argnames="entropy_weight")
def policy_step(parameters, memory, batch, weights, rate, entropy_weight):
    """Parameters and Adam's memory after one step of `policy_loss`, and the entropy."""

    def loss(p):
        return policy_loss(policy_logits(p, batch), batch, weights, entropy_weight)

    gradient, entropy = jax.grad(loss, has_aux=True)(parameters)
    return *_descend(gradient, memory, parameters, rate), entropy


@jax.jit
def value_step(parameters, memory, batch, targets, counts, rate):
    """The same for b(G): squared error to [G] mean rewards of graphs with a count of 1."""

    def loss(p):
        error = (value.apply(p, batch) - targets) * counts
        return (error**2).sum() / counts.sum()

    return _descend(jax.grad(loss)(parameters), memory, parameters, rate)


class ReinforceAgent:
    """The policy, b(G) and what they learn from; the `learning.loop.Agent` of paper 3.

    Args:
      instances: training graphs with two devices and one objective.
      start: the policy's first weights; random ones where there are none.
    """

    def __init__(self, instances: Sequence[Instance], config: ReinforceConfig, start: Any = None):
        if not instances:
            raise InputError("training", "graphs", "there are none")
        self.instances, self.config = list(instances), config
        self.seen = [features(instance) for instance in self.instances]
        if config.attributes != "links":
            self.seen = [attributes.without_links() for attributes in self.seen]
        if config.attributes == "printed":
            nodes, edges = printed_columns()
            self.seen = [
                f._replace(nodes=f.nodes * nodes, edges=f.edges * edges) for f in self.seen
            ]
        self.sizes = np.array([instance.graph.num_ops for instance in self.instances])
        self.data_digest = hashlib.sha256(
            "".join(i.graph.digest for i in self.instances).encode()
        ).hexdigest()[:16]
        self.iterations = self.rollouts = 0
        self.spent = self.cpu_s = 0.0
        batch = self.batch([int(np.argmin(self.sizes))])
        drawn = random_parameters(batch, np.random.default_rng([config.seed, 0]), config.model)
        self.parameters, self.value_parameters = drawn if start is None else (start, drawn[1])
        if config.attributes == "printed":  # and no gradient moves them: their inputs are 0
            for kind, keep in zip(("node", "edge"), printed_columns()):
                if layer := self.parameters.get(f"{kind}_encoder/mlp_0"):
                    layer["w"] = layer["w"] * keep[:, None]
        self.memory, self.value_memory = (_adam.init(kind) for kind in (self.parameters, drawn[1]))
        self._uniform: dict[tuple[int, int], float] = {}

    @property
    def done(self) -> bool:
        return self.spent >= self.config.seconds

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any]:
        """One step: graphs, laws, runs, gradient. Never cut short: it takes seconds."""
        started, c = time.process_time(), self.config
        number = stage_at(c, self.spent)
        stage = c.stages[number]
        rng = np.random.default_rng([c.seed, 1, self.iterations])
        chosen = self.choose(
            rng.permutation(np.flatnonzero(self.sizes <= stage.ops)[: stage.graphs])
        )
        batch = self.batch(chosen)
        p = np.asarray(probabilities(self.parameters, batch))
        choices, rewards, first = [], np.zeros((len(chosen), stage.rollouts)), 0
        for row, g in enumerate(chosen):
            bins = sample(p[first : first + self.sizes[g]], stage.rollouts, rng)
            first += self.sizes[g]
            source = stream(c.seed, 2, self.iterations, row)
            costs = rollouts(self.instances[g].arrays, bins, BINS, source, stage.evaluations)
            rewards[row] = -costs / self._uniform_cost(g, stage.evaluations)
            choices.append(bins)
        rate, means = rate_at(c, self.spent), rewards.mean(axis=1)
        guessed = np.asarray(_values(self.value_parameters, batch))[: len(chosen)]
        if c.baseline == "group":
            advantages, scale = leave_one_out(rewards), rewards.std(axis=1).mean()
        else:
            advantages = rewards - guessed[:, None]
            scale = np.sqrt((advantages**2).mean())
        advantages = advantages / max(float(scale), 1e-9)
        weights = score_weights(choices, advantages, batch.graphs.nodes.shape[0], len(BINS))
        self.parameters, self.memory, entropy = policy_step(
            self.parameters, self.memory, batch, weights, rate, entropy_weight=c.entropy
        )
        targets, counts = np.zeros((2, batch.graphs.n_node.shape[0]), np.float32)
        targets[: len(chosen)], counts[: len(chosen)] = means, 1.0
        self.value_parameters, self.value_memory = value_step(
            self.value_parameters, self.value_memory, batch, targets, counts, c.value_rate
        )
        self.iterations += 1
        self.rollouts += rewards.size
        self.spent += seconds_of(self.sizes[chosen], stage)
        self.cpu_s += time.process_time() - started
        return {
            "iteration": self.iterations,
            "seconds": round(self.spent, 2),
            "cpu_s": round(self.cpu_s, 2),
            "stage": number,
            "evaluations": stage.evaluations,
            "rollouts": self.rollouts,
            "reward": float(rewards.mean()),
            "spread": float(rewards.std(axis=1).mean()),
            "entropy": float(entropy),
            "value_error": float(((guessed - means) ** 2).mean()),
            "reward_variance": float(means.var()),
        }

    def choose(self, order: np.ndarray) -> list[int]:
        """The first graphs of `order` that fill a batch."""
        chosen: list[int] = []
        total = 1
        for g in order.tolist():
            if len(chosen) == self.config.batch_graphs or (
                chosen and total + self.sizes[g] > self.config.batch_ops
            ):
                break
            chosen.append(g)
            total += self.sizes[g]
        return chosen

    def batch(self, chosen: list[int]) -> Batch:
        """Training graphs as one padded batch, of the same shape for any."""
        c = self.config
        seen = [self.seen[g] for g in chosen]
        sequence = bucket(int(self.sizes.max())) if c.model == "gas" else 1
        nodes, graphs = c.batch_ops, c.batch_graphs + 1
        return make_batch(seen, nodes=nodes, edges=2 * nodes, graphs=graphs, sequence=sequence)

    def _uniform_cost(self, g: int, evaluations: int) -> float:
        """H of a training graph; the same whenever it is asked for."""
        key = g, evaluations
        if key not in self._uniform:
            runs = UNIFORM_RUNS.get(evaluations, 4)
            seed = self.config.seed, 3, g, evaluations
            self._uniform[key] = uniform_cost(self.instances[g].arrays, seed, evaluations, runs)
        return self._uniform[key]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = flatten(self._tree(), "agent")
        counted = {
            name: getattr(self, name) for name in ("iterations", "rollouts", "spent", "cpu_s")
        }
        return arrays, counted | {"config": _plain(self.config), "data_digest": self.data_digest}

    def restore(
        self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object
    ) -> None:
        for name, expected in (("config", _plain(self.config)), ("data_digest", self.data_digest)):
            if header.get(name) != expected:
                raise InputError(source, name, f"{header.get(name)}, expected {expected}")
        tree = unflatten(self._tree(), arrays, "agent", source)
        self.parameters, self.value_parameters, self.memory, self.value_memory = tree
        for name in ("iterations", "rollouts", "spent", "cpu_s"):
            setattr(self, name, header[name])

    def _tree(self) -> tuple[Any, ...]:
        return self.parameters, self.value_parameters, self.memory, self.value_memory


def _plain(config: ReinforceConfig) -> dict[str, Any]:
    """A configuration as JSON has it."""
    return json.loads(json.dumps(asdict(config)))
