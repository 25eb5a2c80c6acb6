"""The trained networks of `network` in NumPy, and their files: milliseconds for a graph, nothing to
compile.

Parameters are Haiku's, ``{module: {name: array}}``.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from learned_mapping.errors import InputError, MissingNetworkError, expect_choice
from learned_mapping.folders import networks_folder
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.regal.agent.features import EDGE_FEATURES, NODE_FEATURES, Features, features
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance

Parameters = Mapping[str, Mapping[str, np.ndarray]]
Network = TypeVar("Network", bound=Any)

MODELS = ("gnn", "plain", "gas", "mlp")
"""REGAL's graph network with a skip: its heads read an op's encoded attributes beside what the
rounds make of them. ``plain`` has no skip, as equation 1 prints none. Graph-As-Sequence (Section
3.2, baseline 3). ``mlp`` sends no messages: it sees each op by itself."""
EPSILON = 1e-5  # Inside the root of the layer norm, as Haiku's default.
TWO_OPS = Features(
    np.zeros((2, len(NODE_FEATURES)), np.float32), np.zeros((1, len(EDGE_FEATURES)), np.float32),
    np.array([0], np.int32), np.array([1], np.int32), np.array([0, 1], np.int32), 0,
)  # fmt: skip
"""The graph that the arrays of a file are tried on: two ops, one edge."""


def model_of(parameters: Parameters) -> str:
    """The one of `MODELS` that the weights are for, by their modules and the width that the heads
    read."""
    if "forward" in parameters:
        return "gas"
    if not any(name.startswith(("message", "node_update")) for name in parameters):
        return "mlp"
    read = parameters["head_0_a/mlp_0"]["w"].shape[0]
    return "plain" if read == parameters["node_encoder/mlp_out"]["w"].shape[1] else "gnn"


def knows_links(parameters: Parameters) -> bool:
    """Whether the weights are of a network that sees what a transfer takes."""
    return parameters["node_encoder/mlp_0"]["w"].shape[0] == len(NODE_FEATURES)


def columns_of(parameters: Parameters, seen: Features) -> Features:
    """The attributes that the weights are for, without those of links where they know none."""
    return seen if knows_links(parameters) else seen.without_links()


def logits(parameters: Parameters, seen: Features, rounds: int) -> np.ndarray:
    """[N, d + 1, 2, bins] float32: what `network.network` computes for one graph.

    Args:
      parameters: Haiku's.
      seen: attributes of N ops.
      rounds: of message passing.
    """
    seen = columns_of(parameters, seen)
    model, h = model_of(parameters), _perceptron(parameters, "node_encoder", seen.nodes)
    if model == "gas":
        h = _read_in_order(parameters, seen, h)
    elif model != "mlp":
        met = _embed(parameters, seen, h, rounds)
        h = met if model == "plain" else np.concatenate([met, h], axis=1)
    entries = sum(name.startswith("head_") and name.endswith("_a/mlp_out") for name in parameters)
    heads = [
        [_perceptron(parameters, f"head_{i}_{which}", h) for which in "ab"] for i in range(entries)
    ]
    return np.stack([np.stack(pair, axis=1) for pair in heads], axis=1)


def instance_logits(parameters: Parameters, instance: Instance, rounds: int) -> np.ndarray:
    """`logits` for the graph of an instance; errors of `check_served_devices`."""
    check_served_devices(instance)
    return logits(parameters, features(instance), rounds)


def check_served_devices(instance: Instance) -> None:
    """Raises `InputError` for another number of devices than the networks', which the paper too
    holds fixed (2.3)."""
    if instance.machine.devices != 2:
        raise InputError(
            "devices", "", f"the trained networks are for 2 devices, got {instance.machine.devices}"
        )


def write_network(
    path: str | os.PathLike, network: Any, bins: Sequence[float], /, **header: Any
) -> None:
    """Writes weights in float32, the header, the other fields of `network`, and the bins and
    features it is for."""
    said = {name: getattr(network, name) for name in _said(type(network))}
    named = {
        f"{module}:{name}": v
        for module, entry in network.parameters.items()
        for name, v in entry.items()
    }
    arrays = {name: np.asarray(values, np.float32) for name, values in named.items()}
    known = len(NODE_FEATURES) if knows_links(network.parameters) else -1
    read = {
        "bins": list(bins),
        "node_features": list(NODE_FEATURES[:known]),
        "edge_features": list(EDGE_FEATURES[:known]),
    }
    write_checkpoint(path, arrays, header | said | read)


def read_network(
    path: str | os.PathLike, kind: type[Network], bins: Sequence[float]
) -> tuple[Network, dict[str, Any]]:
    """A network of this dataclass, and the header.

    Raises:
      InputError: the file is missing or damaged, or its bins or features are not those of this
        version.
    """
    arrays, header = read_checkpoint(path)
    columns = {"node_features": NODE_FEATURES, "edge_features": EDGE_FEATURES}
    for name, known in {"bins": tuple(bins), **columns}.items():
        stored = header.get(name)
        # A network that knows no links reads the columns before theirs.
        if stored != list(known) and (name == "bins" or stored != list(known[:-1])):
            raise InputError(path, name, "is another than this version's: train anew")
    objective = header.get("objective")
    expect_choice(objective, OBJECTIVES, path, "objective")
    parameters: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        module, _, parameter = name.partition(":")
        if values.dtype != np.float32 or not np.isfinite(values).all():
            raise InputError(path, name, "expected finite float32 numbers")
        parameters.setdefault(module, {})[parameter] = values
    try:
        if logits(parameters, TWO_OPS, 1).shape != (2, 3, 2, len(bins)):
            raise InputError(path, "heads", f"are not 3 pairs over {len(bins)} bins")
        return kind(parameters, **{name: header[name] for name in _said(kind)}), header
    except KeyError as error:
        raise InputError(path, str(error.args[0]), "is missing") from None
    except (ValueError, IndexError) as error:
        raise InputError(path, "", f"its arrays do not fit each other ({error})") from None


def find_network(training: str, name: str, fault: str = "") -> Path:
    """The file of a trained network.

    Args:
      training: with what the names of its kind begin, such as ``reinforce``; empty for those that
        imitate elites.
      name: the rest, such as ``traced-runtime-0``.
      fault: what is said, where there are others, instead of their names.

    Raises:
      MissingNetworkError: there is none of this name.
    """
    folder, start = networks_folder() / "regal", f"{training}-" if training else ""
    kinds = [""] if training else ["synthetic-", "traced-"]
    known = sorted(
        path.stem.removeprefix(start)
        for kind in kinds
        for path in folder.glob(f"{start}{kind}*.npz")
    )
    if name not in known:
        message = f"no network is named {start + name!r}, there are: {', '.join(known) or 'none'}"
        raise MissingNetworkError("network", "", fault if known and fault else message)
    return folder / f"{start}{name}.npz"


def check_objective(objective: str, instance: Instance, name: str) -> None:
    """Raises `InputError` where a network was trained for another objective than the instance's."""
    if objective != instance.objective:
        raise InputError(
            "network", name, f"was trained for {objective}, not for {instance.objective}"
        )


def _said(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name != "parameters"]


def _embed(parameters: Parameters, seen: Features, h: np.ndarray, rounds: int) -> np.ndarray:
    h_edge = _perceptron(parameters, "edge_encoder", seen.edges)
    width = h.shape[1]
    messages = []
    for name, ends in (("message_forward", seen.receivers), ("message_backward", seen.senders)):
        # A layer is linear in each of its three inputs, and in the sum over messages: most products
        # are by node.
        first, last = parameters[f"{name}/mlp_0"], parameters[f"{name}/mlp_out"]
        of_edge = h_edge @ first["w"][2 * width :] + first["b"]
        ones = np.ones(len(ends), np.float32)
        incidence = sparse.csr_matrix((ones, (ends, np.arange(len(ends)))), (len(h), len(ends)))
        constant = np.bincount(ends, minlength=len(h)).astype(h.dtype)[:, None] * last["b"]
        of_ends = first["w"][:width], first["w"][width : 2 * width]
        messages.append((name, *of_ends, of_edge, incidence, last["w"], constant))
    for _ in range(rounds):
        received = np.zeros_like(h)
        for name, of_sender, of_receiver, of_edge, incidence, out, constant in messages:
            x = (h @ of_sender)[seen.senders] + (h @ of_receiver)[seen.receivers] + of_edge
            received += (incidence @ _activation(parameters, name, x)) @ out + constant
        h = _perceptron(parameters, "node_update", np.concatenate([h, received], axis=1))
    return h


def _read_in_order(parameters: Parameters, seen: Features, x: np.ndarray) -> np.ndarray:
    states = [np.zeros_like(x), np.zeros_like(x)]
    for out, name, order in zip(states, ("forward", "backward"), (seen.order, seen.order[::-1])):
        weights = parameters[name]
        width = weights["w_h"].shape[0]
        gates = x @ weights["w_i"] + weights["b"]
        inner, outer = weights["w_h"][:, : 2 * width], weights["w_h"][:, 2 * width :]
        state = np.zeros(width, x.dtype)
        for op in order.tolist():
            # a sigmoid
            z, r = np.split(0.5 * (1 + np.tanh(0.5 * (gates[op, : 2 * width] + state @ inner))), 2)
            state = (1 - z) * state + z * np.tanh(gates[op, 2 * width :] + (r * state) @ outer)
            out[op] = state
    return np.concatenate([*states, x], axis=1)


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
