"""The networks that propose Beta laws, in Haiku, for training: REGAL's graph network and
Graph-As-Sequence.

Both end in 2 (d + 1) multilayer perceptrons, one for alpha and one for beta of every entry of an
op, shared by all ops (REGAL, A.3). `forward` computes the same in NumPy, for use.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.learning.networks import draw_parameters, mlp
from learned_mapping.regal.agent.features import Features
from learned_mapping.regal.agent.forward import MODELS
from learned_mapping.regal.searches.proposals import BINS

HIDDEN = 32  # Width of every layer; the paper prints none.
ROUNDS = 5  # T, rounds of message passing; the paper prints none.
ENTRIES = 3  # d + 1: an affinity for each of two devices, and a priority.


class Batch(NamedTuple):
    """Several graphs as one, padded to a few sizes so that few shapes are compiled."""

    # Padded by `jraph.pad_with_graphs`: the graphs after the last real one hold the padding.
    graphs: jraph.GraphsTuple
    # [G, L] int32, nodes of each graph in topological order; -1 beyond its end.
    sequence: np.ndarray


def make_batch(
    many: Sequence[Features],
    *,
    nodes: int = 0,
    edges: int = 0,
    graphs: int = 0,
    sequence: int | None = None,
) -> Batch:
    """One batch of several graphs.

    Args:
      many: what the network sees of each.
      nodes, edges, graphs: sizes to pad to; where 0 or too small, the next power of two.
      sequence: L; by default the next power of two to the largest graph. Ops beyond it are left out
        of the sequences.
    """
    tuples = [
        jraph.GraphsTuple(
            nodes=seen.nodes,
            edges=seen.edges,
            senders=seen.senders,
            receivers=seen.receivers,
            globals=None,
            n_node=np.array([len(seen.nodes)]),
            n_edge=np.array([len(seen.edges)]),
        )
        for seen in many
    ]
    joined = jraph.batch_np(tuples)
    total = int(joined.n_node.sum())
    nodes = max(nodes, bucket(total + 1))
    edges = max(edges, bucket(int(joined.n_edge.sum()) + 1))
    graphs = max(graphs, len(many) + 1)
    longest = bucket(int(joined.n_node.max())) if sequence is None else sequence
    sequences = np.full((graphs, longest), -1, np.int32)
    offset = 0
    for row, seen in enumerate(many):
        kept = seen.order[:longest]
        sequences[row, : len(kept)] = kept + offset
        offset += len(seen.order)
    return Batch(jraph.pad_with_graphs(joined, nodes, edges, graphs), sequences)


def bucket(size: int) -> int:
    """The next power of two, at least 32."""
    return 1 << max(5, (size - 1).bit_length())


def graph_of(batch: Batch) -> jax.Array:
    """[N] the graph of each op of a batch."""
    count = batch.graphs.n_node.shape[0]
    nodes = batch.graphs.nodes.shape[0]
    return jnp.repeat(jnp.arange(count), batch.graphs.n_node, total_repeat_length=nodes)


class Perceptron(hk.Module):
    """`mlp` with one hidden layer; called again it uses the same weights."""

    def __init__(self, output: int, name: str):
        super().__init__(name=name)
        self.output = output

    def __call__(self, x: jax.Array) -> jax.Array:
        return mlp(x, (HIDDEN,), self.output, name="mlp")


def heads(h: jax.Array, bins: int = len(BINS)) -> jax.Array:
    """[N, d + 1, 2, bins] logits from [N, H] embeddings."""
    outputs = [[Perceptron(bins, f"head_{i}_{which}")(h) for which in "ab"] for i in range(ENTRIES)]
    return jnp.stack([jnp.stack(pair, axis=1) for pair in outputs], axis=1)


def encode(batch: Batch) -> jax.Array:
    """[N, H] attributes of ops, each op's by itself: h_v = MLP_n(x_v)."""
    return Perceptron(HIDDEN, "node_encoder")(batch.graphs.nodes)


def embed(batch: Batch, h: jax.Array) -> jax.Array:
    """[N, H] embeddings of ops: messages both ways along every edge, T rounds, weights shared by
    the rounds.

    h_v = MLP_n(x_v), h_e = MLP_e(x_e);
    m_e = MLP_msg([h_s, h_t, h_e]), m'_e = MLP'_msg([h_s, h_t, h_e]);
    h_v <- MLP_node([h_v, sum_{e into v} m_e + sum_{e out of v} m'_e])  (REGAL, equation 1).
    """
    graphs = batch.graphs
    h_edge = Perceptron(HIDDEN, "edge_encoder")(graphs.edges)
    forward, backward = (
        Perceptron(HIDDEN, "message_forward"),
        Perceptron(HIDDEN, "message_backward"),
    )
    update = Perceptron(HIDDEN, "node_update")
    count = graphs.nodes.shape[0]
    for _ in range(ROUNDS):
        ends = jnp.concatenate([h[graphs.senders], h[graphs.receivers], h_edge], axis=-1)
        received = jraph.segment_sum(forward(ends), graphs.receivers, count)
        received += jraph.segment_sum(backward(ends), graphs.senders, count)
        h = update(jnp.concatenate([h, received], axis=-1))
    return h


def read_in_order(batch: Batch) -> jax.Array:
    """[N, 3 H] embeddings of ops: a recurrent network reads them in topological order, another one
    in reverse; the last H are the encoded attributes.

    It sees the same attributes of ops as the graph network, but no edges (REGAL, Section 3.2,
    baseline 3).
    """
    present = batch.sequence >= 0
    x = encode(batch)[jnp.maximum(batch.sequence, 0)]
    states = []
    for name, reverse in (("forward", False), ("backward", True)):
        core = hk.GRU(HIDDEN, name=name)

        def step(inputs, state, core=core):
            values, real = inputs
            _, after = core(values, state)
            after = jnp.where(real[:, None], after, state)
            return after, after

        start = jnp.zeros((x.shape[0], HIDDEN))
        inputs = (x.swapaxes(0, 1), present.T)
        out, _ = hk.dynamic_unroll(step, inputs, start, reverse=reverse)
        states.append(out.swapaxes(0, 1))
    h = jnp.concatenate([*states, x], axis=-1)
    count = batch.graphs.nodes.shape[0]
    index = jnp.where(present, batch.sequence, count)
    flat = jnp.zeros((count + 1, h.shape[-1])).at[index.ravel()].set(h.reshape(-1, h.shape[-1]))
    return flat[:count]


def with_skip(batch: Batch) -> jax.Array:
    """[N, 2 H]: `embed`, and `encode` beside it."""
    x = encode(batch)
    return jnp.concatenate([embed(batch, x), x], axis=-1)


@functools.cache
def network(model: str, bins: int = len(BINS)) -> hk.Transformed:
    """The Haiku pair (init, apply) of a model of `MODELS`: ``apply(parameters, batch)``."""
    embeddings = {
        "gnn": with_skip,
        "plain": lambda batch: embed(batch, encode(batch)),
        "gas": read_in_order,
        "mlp": encode,
    }
    if model not in embeddings:
        raise InputError("model", "", f"expected one of {', '.join(MODELS)}, got {model!r}")
    return hk.without_apply_rng(hk.transform(lambda batch: heads(embeddings[model](batch), bins)))


def head_ends(parameters: Mapping[str, Any]) -> list[str]:
    """The modules of the heads' last layers, in order."""
    return sorted(
        name for name in parameters if name.startswith("head_") and name.endswith("mlp_out")
    )


def initial_parameters(model: str, batch: Batch, rng: np.random.Generator) -> Any:
    """Random weights; the heads' last layers are 0, so that every bin is as likely as any other at
    first."""
    drawn = draw_parameters(jax.eval_shape(network(model).init, jax.random.PRNGKey(0), batch), rng)
    return drawn | {
        module: jax.tree.map(np.zeros_like, drawn[module]) for module in head_ends(drawn)
    }
