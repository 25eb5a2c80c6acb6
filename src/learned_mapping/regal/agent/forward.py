"""The trained networks of `network` in NumPy: milliseconds for a graph of any size, nothing to compile.

Parameters are Haiku's, ``{module: {name: array}}``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from learned_mapping.regal.agent.features import Features

Parameters = Mapping[str, Mapping[str, np.ndarray]]

EPSILON = 1e-5
"""Inside the root of the layer norm, as Haiku's default."""


def logits(parameters: Parameters, seen: Features, model: str, rounds: int) -> np.ndarray:
    """[N, d + 1, 2, bins] float32: what `network.gnn` or `network.gas` computes for one graph.

    Args:
      parameters: Haiku's.
      seen: attributes of N ops.
      model: ``gnn`` or ``gas``.
      rounds: of message passing.
    """
    h = _gas(parameters, seen) if model == "gas" else _gnn(parameters, seen, rounds)
    entries = sum(name.startswith("head_") and name.endswith("_a/mlp_out") for name in parameters)
    heads = [[_perceptron(parameters, f"head_{i}_{which}", h) for which in "ab"] for i in range(entries)]
    return np.stack([np.stack(pair, axis=1) for pair in heads], axis=1)


def _gnn(parameters: Parameters, seen: Features, rounds: int) -> np.ndarray:
    h = _perceptron(parameters, "node_encoder", seen.nodes)
    h_edge = _perceptron(parameters, "edge_encoder", seen.edges)
    width = h.shape[1]
    messages = []
    for name, ends in (("message_forward", seen.receivers), ("message_backward", seen.senders)):
        # A layer is linear in each of its three inputs, and in the sum over messages: most products are by node.
        first, last = parameters[f"{name}/mlp_0"], parameters[f"{name}/mlp_out"]
        of_edge = h_edge @ first["w"][2 * width :] + first["b"]
        incidence = _incidence(ends, len(h))
        constant = np.bincount(ends, minlength=len(h)).astype(h.dtype)[:, None] * last["b"]
        messages.append(
            (name, first["w"][:width], first["w"][width : 2 * width], of_edge, incidence, last["w"], constant)
        )
    for _ in range(rounds):
        received = np.zeros_like(h)
        for name, of_sender, of_receiver, of_edge, incidence, last, constant in messages:
            x = (h @ of_sender)[seen.senders] + (h @ of_receiver)[seen.receivers] + of_edge
            received += (incidence @ _activation(parameters, name, x)) @ last + constant
        h = _perceptron(parameters, "node_update", np.concatenate([h, received], axis=1))
    return h


def _incidence(ends: np.ndarray, nodes: int) -> sparse.csr_matrix:
    """[N, E] 1 where an edge has this end."""
    ones = np.ones(len(ends), np.float32)
    return sparse.csr_matrix((ones, (ends, np.arange(len(ends)))), (nodes, len(ends)))


def _gas(parameters: Parameters, seen: Features) -> np.ndarray:
    x = _perceptron(parameters, "node_encoder", seen.nodes)
    states = [np.zeros_like(x), np.zeros_like(x)]
    for out, name, order in zip(states, ("forward", "backward"), (seen.order, seen.order[::-1])):
        weights = parameters[name]
        width = weights["w_h"].shape[0]
        gates = x @ weights["w_i"] + weights["b"]
        inner, outer = weights["w_h"][:, : 2 * width], weights["w_h"][:, 2 * width :]
        state = np.zeros(width, x.dtype)
        for op in order.tolist():
            z, r = np.split(_sigmoid(gates[op, : 2 * width] + state @ inner), 2)
            state = (1 - z) * state + z * np.tanh(gates[op, 2 * width :] + (r * state) @ outer)
            out[op] = state
    return np.concatenate([*states, x], axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _perceptron(parameters: Parameters, name: str, x: np.ndarray) -> np.ndarray:
    """One hidden layer with layer norm and ReLU."""
    first, last = parameters[f"{name}/mlp_0"], parameters[f"{name}/mlp_out"]
    return _activation(parameters, name, x @ first["w"] + first["b"]) @ last["w"] + last["b"]


def _activation(parameters: Parameters, name: str, x: np.ndarray) -> np.ndarray:
    """Layer norm and ReLU of a perceptron's hidden layer."""
    norm = parameters[f"{name}/mlp_norm_0"]
    x = x - x.mean(axis=1, keepdims=True)
    scale = norm["scale"] / np.sqrt(np.einsum("nh,nh->n", x, x) / x.shape[1] + EPSILON)[:, None]
    return np.maximum(x * scale + norm["offset"], 0.0)


def check(parameters: Parameters, model: str, nodes: int, edges: int, bins: int) -> None:
    """Raises `KeyError` naming the first module or array that is missing or of a shape that does not fit."""
    width = parameters["node_encoder/mlp_out"]["b"].shape[0]
    sizes = {"node_encoder": (nodes, width)}
    if model == "gnn":
        sizes["edge_encoder"] = (edges, width)
        sizes |= {name: (3 * width, width) for name in ("message_forward", "message_backward")}
        sizes["node_update"] = (2 * width, width)
    heads = {f"head_{i}_{which}": (width if model == "gnn" else 3 * width, bins) for i in range(3) for which in "ab"}
    for name, (inside, outside) in (sizes | heads).items():
        hidden = parameters[f"{name}/mlp_0"]["b"].shape[0]
        shapes = {
            ("mlp_0", "w"): (inside, hidden), ("mlp_norm_0", "scale"): (hidden,), ("mlp_norm_0", "offset"): (hidden,),
            ("mlp_out", "w"): (hidden, outside), ("mlp_out", "b"): (outside,),
        }  # fmt: skip
        for (layer, array), shape in shapes.items():
            if parameters[f"{name}/{layer}"][array].shape != shape:
                raise KeyError(f"{name}/{layer}:{array} of shape {shape}")
    for name in ("forward", "backward") if model == "gas" else ():
        for array, shape in {"w_i": (width, 3 * width), "w_h": (width, 3 * width), "b": (3 * width,)}.items():
            if parameters[name][array].shape != shape:
                raise KeyError(f"{name}:{array} of shape {shape}")
