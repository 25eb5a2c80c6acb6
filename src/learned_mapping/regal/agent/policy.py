"""The policy: a graph network that gives every op laws over the bins of its Betas, and the second
network, b(G).

Discretised Beta parameters are actions (REGAL, Section 2.3): 2 (d + 1) categorical laws an op, over
alpha and beta of its d affinities and its priority. b(G) is the paper's baseline (Appendix A.3). In
use, bins are drawn once for each run, for mutants alone.
"""

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
from scipy.special import softmax

from learned_mapping.errors import InputError
from learned_mapping.folders import networks_folder
from learned_mapping.learning.networks import draw_parameters
from learned_mapping.regal.agent import forward, parts
from learned_mapping.regal.agent import network as networks
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.proposals import law_of

BINS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Values of alpha and beta to choose from; the paper prints none. Below 1 a law prefers both ends
to the middle."""
UNIFORM = BINS.index(1.0)
HEAD_SCALE = 3.0
"""Weights of the heads' last layer have the standard deviation HEAD_SCALE / sqrt(width). The
devices are alike, so at laws that do not tell them apart the gradient of every preference between
them is 0: a start from 0 would stay there."""


def policy_logits(parameters: Any, batch: networks.Batch) -> jax.Array:
    """[N, d + 1, 2, bins] of the model that the weights are for."""
    return networks.network(forward.model_of(parameters), len(BINS)).apply(parameters, batch)


def _value(batch: networks.Batch) -> jax.Array:
    inner = networks.Perceptron(networks.HIDDEN, "value_op")(
        networks.embed(batch, networks.encode(batch))
    )
    count = batch.graphs.n_node.shape[0]
    total = jraph.segment_sum(inner, networks.graph_of(batch), count)
    mean = total / jnp.maximum(batch.graphs.n_node, 1)[:, None]
    return networks.Perceptron(1, "value_graph")(mean)[:, 0] - 1.0


value = hk.without_apply_rng(hk.transform(_value))
"""``apply(parameters, batch)`` -> [G], b(G) = MLP_b(mean over ops of MLP_g(h_v)) - 1, of embeddings
of its own (A.3); -1 is the reward of uniform mutants."""


def random_parameters(
    batch: networks.Batch, rng: np.random.Generator, model: str = "gnn"
) -> tuple[Any, Any]:
    """Random weights of the policy and of b(G), for batches like this one."""
    inits = (networks.network(model, len(BINS)).init, value.init)
    shapes = [jax.eval_shape(init, jax.random.PRNGKey(0), batch) for init in inits]
    drawn, second = (draw_parameters(shape, rng) for shape in shapes)
    for module in networks.head_ends(drawn):
        scaled = (
            rng.standard_normal(drawn[module]["w"].shape) * HEAD_SCALE / np.sqrt(networks.HIDDEN)
        )
        drawn[module]["w"] = scaled.astype(np.float32)
    return drawn, second


def sample(probabilities: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """[K, N, d + 1, 2] int8: `count` draws of a bin for every head, from probabilities [N, d + 1,
    2, bins]."""
    below = np.cumsum(probabilities, axis=-1)[..., :-1]
    u = rng.random((count, *below.shape[:-1]), np.float32)
    return (u[..., None] > below).sum(axis=-1, dtype=np.int8)


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained network, or a random one, and what it was trained for."""

    parameters: forward.Parameters
    objective: str  # ``runtime`` or ``memory``.
    dataset: str
    seed: int

    def probabilities(self, instance: Instance) -> np.ndarray:
        """[N, 3, 2, bins], for two devices."""
        logits = forward.instance_logits(self.parameters, instance, networks.ROUNDS)
        return softmax(logits, axis=-1)

    def choices(
        self, instance: Instance, rng: np.random.Generator, *, average: bool = False
    ) -> np.ndarray:
        """[N, d + 1, 2] bins drawn once, for one run; for more than two devices see `parts`.

        Args:
          instance: N ops; raises `InputError` for devices of unlike speed.
          average: draw for every op from the mean of all ops' laws: the same network, blind to
            where an op lies.
        """
        if not instance.machine.alike:
            raise InputError("devices", "", "the networks are for devices of one speed")
        chosen = np.full(
            (instance.graph.num_ops, instance.machine.devices + 1, 2), UNIFORM, np.int8
        )
        for ops, first, second, on_second, p in parts.halves(instance, self, np.array(BINS)):
            if average:
                p = np.broadcast_to(p.mean(axis=0), p.shape)
            drawn = sample(p, 1, rng)[0]
            # A side of several devices is told apart by its own cut; the other side is as here.
            for devices, side, own in ((first, 0, ~on_second), (second, 1, on_second)):
                alone = devices.stop - devices.start == 1
                given = np.ones(len(ops), bool) if alone else ~own
                chosen[ops[given], devices] = drawn[given, side, None]
            if len(ops) == len(chosen):
                chosen[:, -1] = drawn[:, -1]
        return chosen

    def law(
        self, instance: Instance, rng: np.random.Generator, *, average: bool = False
    ) -> MutantLaw:
        """The law of one run: bins drawn once, for mutants alone (Section 2.3)."""
        return law_of(
            np.asarray(BINS)[self.choices(instance, rng, average=average)], in_initial=False
        )


def write_policy(path: str | os.PathLike, trained: Policy, header: dict[str, Any]) -> None:
    """Writes the weights, what `Policy` says of them, and what else the header holds."""
    forward.write_network(path, trained, BINS, **header)


def read_policy(path: str | Path) -> tuple[Policy, dict[str, Any]]:
    """A network and its header; raises `InputError` as `read_network`."""
    return forward.read_network(path, Policy, BINS)


SERVES = {"runtime": "traced-runtime-0", "memory": "traced-memory-0"}
"""Objective -> the network that serves it unless another is named."""
OTHERWISE = {
    "runtime": "regal has networks for it",
    "memory": "regal-cloned and regal-imitation have networks for it",
}
"""The method to ask instead."""


@functools.lru_cache(maxsize=32)
def _read(path: Path) -> Policy:
    return read_policy(path)[0]


def policy_path(objective: str, network: str | None = None, training: str = "reinforce") -> Path:
    """The file of the trained network of this name, or of the one that serves the objective: that
    of `SERVES`, or the first that the training has made for the objective, where it has not made
    that one."""
    folder = networks_folder() / "regal"
    path = folder / f"{training}-{network or SERVES[objective]}.npz"
    others = (
        [] if network or path.exists() else sorted(folder.glob(f"{training}-*-{objective}-*.npz"))
    )
    return others[0] if others else path


def policy_for(
    instance: Instance, network: str | None = None, training: str = "reinforce"
) -> Policy:
    """The trained network of this name, or the one that serves the objective.

    Args:
      training: with which the names of its files begin, as in `REINFORCED`.

    Raises:
      InputError: there is no such network, or it was trained for the other objective.
    """
    path, objective = policy_path(instance.objective, network, training), instance.objective
    fault = "" if network else f"none was trained so for {objective}; {OTHERWISE[objective]}"
    policy = _read(forward.find_network(training, path.stem.removeprefix(f"{training}-"), fault))
    forward.check_objective(policy.objective, instance, path.stem)
    return policy


def untrained(instance: Instance, seed: int = 0) -> Policy:
    """The network as a training of this seed finds it: random weights."""
    return Policy(_random_weights(seed), instance.objective, "none", seed)


@functools.lru_cache(maxsize=32)
def _random_weights(seed: int) -> forward.Parameters:
    """Weights whose shapes are those of any graph's network."""
    batch = networks.make_batch([forward.TWO_OPS.without_links()], sequence=1)
    parameters, _ = random_parameters(batch, np.random.default_rng([seed, 0]))
    return jax.tree.map(np.asarray, parameters)


def reinforced_law(
    instance: Instance, rng: np.random.Generator, method: str = "regal", network: str | None = None
) -> MutantLaw:
    """The law that a method of `REINFORCED` searches by; untrained, `network` is a seed."""
    training = training_of(method, instance.objective)
    policy = (
        policy_for(instance, network, training) if training else untrained(instance, _seed(network))
    )
    return policy.law(instance, rng, average=method.endswith("-average"))


def _seed(network: str | None) -> int:
    if network and not (network.isdecimal() and network.isascii() and len(network) <= 9):
        raise InputError(
            "network", network, "of an untrained network its seed is expected, such as 1"
        )
    return int(network or 0)


REINFORCED = {
    "regal": (
        "reinforce",
        "BRKGA with distributions learned by REINFORCE from random weights, drawn once for mutants",
    ),
    "regal-average": (
        "reinforce",
        "its average distribution for every op: what it learned apart from the graph",
    ),
    "regal-untrained": ("", "the same network with random weights"),
    "regal-no-skip": (
        "plain",
        "regal by equation 1 as printed: its heads do not see an op's own attributes",
    ),
    "regal-cloned": (
        "cloned",
        "regal, begun at weights that have cloned a written rule; for peak memory",
    ),
    "regal-cloned-average": ("cloned", "the same network's average distribution for every op"),
    "regal-clone": (
        "clone",
        "the cloned rule as it is, before REINFORCE: the control of regal-cloned",
    ),
    "gas": (
        "gas",
        "regal with a recurrent network, which reads the ops in order and sees no edges",
    ),
    "idrs": (
        "",
        (
            "random search from the distributions of regal's networks; for peak memory of"
            " regal-cloned's"
        ),
    ),
}
"""Method -> how the names of its networks' files begin, and its description; ``idrs`` draws from
those of REGAL, of either training."""


def training_of(method: str, objective: str) -> str:
    """The training of a method, see `REINFORCED`; laws of ``idrs`` for peak memory began at a
    cloned rule."""
    if method == "idrs":
        return {"runtime": "reinforce", "memory": "cloned"}[objective]
    return REINFORCED[method][0]
