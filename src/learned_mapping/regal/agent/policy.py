"""The policy: a graph network that gives every op laws over the bins of its Betas, and the second network, b(G).

Discretised Beta parameters are actions (REGAL, Section 2.3): 2 (d + 1) categorical laws an op, over alpha and beta of
its d affinities and its priority. b(G) is the paper's baseline (Appendix A.3).
"""

from __future__ import annotations

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
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.learning.networks import draw_parameters
from learned_mapping.regal.agent import forward
from learned_mapping.regal.agent.features import EDGE_FEATURES, NODE_FEATURES, features
from learned_mapping.regal.agent.losses import graph_of
from learned_mapping.regal.agent.network import HIDDEN, ROUNDS, Batch, Perceptron, embed, heads
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.proposals import law_of

BINS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Values of alpha and beta to choose from; the paper prints none. Below 1 a law prefers both ends to the middle."""
HEAD_SCALE = 3.0
"""Weights of the heads' last layer have the standard deviation HEAD_SCALE / sqrt(width). The devices are alike, so at
laws that do not tell them apart the gradient of every preference between them is 0: a start from 0 would stay there."""
DESCRIBED = {"bins": list(BINS), "node_features": list(NODE_FEATURES), "edge_features": list(EDGE_FEATURES)}

policy = hk.without_apply_rng(hk.transform(lambda batch: heads(embed(batch), len(BINS))))
"""``apply(parameters, batch)`` -> [N, d + 1, 2, bins] logits."""


def _value(batch: Batch) -> jax.Array:
    inner = Perceptron(HIDDEN, "value_op")(embed(batch))
    count = batch.graphs.n_node.shape[0]
    total = jraph.segment_sum(inner, graph_of(batch), count)
    return Perceptron(1, "value_graph")(total / jnp.maximum(batch.graphs.n_node, 1)[:, None])[:, 0] - 1.0


value = hk.without_apply_rng(hk.transform(_value))
"""``apply(parameters, batch)`` -> [G], b(G) = MLP_b(mean over ops of MLP_g(h_v)) - 1, of embeddings of its own (A.3);
-1 is the reward of uniform mutants."""


def random_parameters(batch: Batch, rng: np.random.Generator) -> tuple[Any, Any]:
    """Random weights of the policy and of b(G), for batches like this one."""
    shapes = [jax.eval_shape(each.init, jax.random.PRNGKey(0), batch) for each in (policy, value)]
    drawn, second = (draw_parameters(each, rng) for each in shapes)
    for module in sorted(drawn):
        if module.startswith("head_") and module.endswith("mlp_out"):
            scaled = rng.standard_normal(drawn[module]["w"].shape) * HEAD_SCALE / np.sqrt(HIDDEN)
            drawn[module]["w"] = scaled.astype(np.float32)
    return drawn, second


def sample(probabilities: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """[K, N, d + 1, 2] int8: `count` draws of a bin for every head, from probabilities [N, d + 1, 2, bins]."""
    below = np.cumsum(probabilities, axis=-1)[..., :-1]
    u = rng.random((count, *below.shape[:-1]), np.float32)
    return (u[..., None] > below).sum(axis=-1, dtype=np.int8)


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained network, or a random one, and what it was trained for."""

    parameters: forward.Parameters
    objective: str
    """``runtime`` or ``memory``."""
    dataset: str
    seed: int

    def probabilities(self, instance: Instance) -> np.ndarray:
        """[N, d + 1, 2, bins].

        Raises:
          InputError: another number of devices than the network's, which the paper too holds fixed (Section 2.3).
        """
        if instance.pair.devices != 2:
            raise InputError("devices", "", f"the trained networks are for 2 devices, got {instance.pair.devices}")
        return softmax(forward.logits(self.parameters, features(instance), "gnn", ROUNDS), axis=-1)

    def choices(self, instance: Instance, rng: np.random.Generator, *, average: bool = False) -> np.ndarray:
        """[N, d + 1, 2] bins drawn once, for one run.

        Args:
          instance: N ops.
          rng: draws them.
          average: draw for every op from the mean of all ops' laws: the same network, blind to where an op lies.
        """
        p = self.probabilities(instance)
        if average:
            p = np.broadcast_to(p.mean(axis=0), p.shape)
        return sample(p, 1, rng)[0]

    def law(self, instance: Instance, rng: np.random.Generator, *, average: bool = False) -> MutantLaw:
        """The law of one run: bins drawn once, for mutants alone (Section 2.3)."""
        return law_of(np.asarray(BINS)[self.choices(instance, rng, average=average)], in_initial=False)


def write_policy(path: str | os.PathLike, trained: Policy, header: dict[str, Any]) -> None:
    """Writes the weights in float32, what `Policy` says of them, and what else the header holds."""
    arrays = {
        f"{module}:{name}": np.asarray(values, np.float32)
        for module, entry in trained.parameters.items()
        for name, values in entry.items()
    }
    own = {name: getattr(trained, name) for name in ("objective", "dataset", "seed")}
    write_checkpoint(path, arrays, header | own | DESCRIBED)


def read_policy(path: str | Path) -> tuple[Policy, dict[str, Any]]:
    """A network and its header.

    Raises:
      InputError: the file is missing or damaged, or its bins or features are not those of this version.
    """
    arrays, header = read_checkpoint(path)
    for name, expected in DESCRIBED.items():
        if header.get(name) != expected:
            raise InputError(path, name, "is another than this version's: train anew")
    if header.get("objective") not in OBJECTIVES:
        raise InputError(path, "objective", f"{header.get('objective')!r} is not known")
    parameters: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        module, _, parameter = name.partition(":")
        if values.dtype != np.float32 or not np.isfinite(values).all():
            raise InputError(path, name, "expected finite float32 numbers")
        parameters.setdefault(module, {})[parameter] = values
    try:
        trained = Policy(parameters, header["objective"], header["dataset"], header["seed"])
        forward.check(parameters, "gnn", len(NODE_FEATURES), len(EDGE_FEATURES), len(BINS))
    except KeyError as error:
        raise InputError(path, str(error.args[0]), "is missing") from None
    return trained, header
