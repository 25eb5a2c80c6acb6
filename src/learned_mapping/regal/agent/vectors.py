"""A policy with one action for the whole graph: along which smooth vector the spectral law cuts it.

Per op a reward of 5,000 evaluations says next to nothing (`companion.regal.effect`); between the
cuts of a graph the differences are as large as a run's noise. The paper's policy has no such action
(Section 2.3): this one is ours.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.regal.agent.features import NODE_FEATURES, PLACES, Features, features
from learned_mapping.regal.agent.forward import check_served_devices, find_network
from learned_mapping.regal.rules.instance import Instance

VECTORS = PLACES
"""The seven actions."""
FACTS = ("ops cut", "bytes cut", "balance by depth", "along the order", "log ops", "parallelism")
HIDDEN = 4
DEPTHS = 8  # Slices of a graph by depth, in which a cut is to leave both devices alike.


def cut_facts(instance: Instance, seen: Features) -> np.ndarray:
    """[7, `FACTS`] what the cut along each of `VECTORS` looks like.

    The share of the edges that it cuts, and of the bytes; by how much the seconds of the two sides
    differ within slices of equal depth, as a share of all; how much it follows the order; and two
    facts of the graph alone.
    """
    graph, seconds = instance.graph, instance.arrays.seconds
    column = {name: seen.nodes[:, i].astype(float) for i, name in enumerate(NODE_FEATURES)}
    slices = np.minimum(((column["depth"] + 1) / 2 * DEPTHS).astype(int), DEPTHS - 1)
    whole = np.bincount(slices, seconds, DEPTHS)
    bytes_of_edge = graph.tensor_bytes[graph.edge_tensor].astype(float)
    rows = []
    for name in VECTORS:
        side = column[name] >= 0
        cut = side[seen.senders] != side[seen.receivers]
        apart = np.abs(2 * np.bincount(slices, seconds * side, DEPTHS) - whole).sum() / max(
            seconds.sum(), 1e-300
        )
        ranks = np.argsort(graph.topological_order).astype(float)
        spread = ranks.std() * column[name].std()
        along = abs(np.cov(ranks, column[name], bias=True)[0, 1]) / spread if spread > 0 else 0.0
        share = bytes_of_edge[cut].sum() / max(bytes_of_edge.sum(), 1.0)
        of_graph = (np.log(len(side)) / 5 - 1, column["parallelism"][0])
        rows.append((cut.mean() if len(cut) else 0.0, share, apart, along, *of_graph))
    return np.array(rows)


def inputs(facts: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """[..., 7, 2 F + 10]: facts [..., 7, F], the same less their mean over the vectors, the scores
    [..., 7, 3] of `race` less theirs, and which vector it is."""
    relative, raced = (values - values.mean(axis=-2, keepdims=True) for values in (facts, scores))
    which = np.broadcast_to(np.eye(len(VECTORS)), (*facts.shape[:-1], len(VECTORS)))
    return np.concatenate([facts, relative, raced, which], axis=-1)


def logits(parameters: Mapping[str, ArrayLike], x: jax.Array) -> jax.Array:
    """[..., 7] of `inputs` [..., 7, X], standardised: one hidden layer beside a linear one."""
    return (
        jnp.tanh(x @ parameters["w"] + parameters["b"]) @ parameters["v"] + x @ parameters["linear"]
    )


@dataclass(frozen=True, eq=False)
class VectorPolicy:
    """Weights of `logits`, with the means and the scales of its inputs over the training graphs."""

    parameters: dict[str, np.ndarray]
    mean: np.ndarray
    scale: np.ndarray

    def choice(self, instance: Instance, scores: np.ndarray) -> int:
        """The place of the likeliest of `VECTORS`, by the scores of a race; no randomness."""
        x = inputs(cut_facts(instance, features(instance)), scores)
        return int(np.argmax(logits(self.parameters, (x - self.mean) / self.scale)))


def check_served(instance: Instance) -> None:
    """Raises `InputError` for another number of devices than two, or for peak memory, for which
    nothing was trained."""
    check_served_devices(instance)
    if instance.objective != "runtime":
        raise InputError(
            "objective", instance.objective, "regal-vector was trained for running time alone"
        )


@functools.lru_cache(maxsize=8)
def vector_policy(network: str = "traced-runtime-0") -> VectorPolicy:
    """The trained policy of this name; raises `InputError` where there is none."""
    path = find_network("vector", network)
    arrays, _ = read_checkpoint(path)
    try:
        named = {name: arrays[name] for name in ("w", "b", "v", "linear")}
        return VectorPolicy(named, arrays["mean"], arrays["scale"])
    except KeyError as error:
        raise InputError(path, str(error.args[0]), "is missing") from None
