"""A graph from a torch module and example inputs: what `torch.export` makes of them, operation by
operation.

Torch is the user's own installation, imported on the first call. Each ATen operation becomes the
primitive of JAX that does the same, and costs what that costs; the graphs differ where JAX lays a
function out in other operations. Contractions are counted by torch's own counter
(`torch.utils.flop_counter`), everything else by `primitive_costs`.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.trace.dataflow import _Builder, as_input_error
from learned_mapping.programs.trace.graph import fold_sources, graph_of_dataflow
from learned_mapping.programs.trace.names import ATEN
from learned_mapping.programs.trace.operations import Dataflow
from learned_mapping.programs.trace.primitive_costs import IN_PLACE_UPDATES

DECOMPOSED = (
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "native_group_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional",
    "gelu",
    "silu",
    "native_dropout",
    "addcmul",
    "addcdiv",
    "mse_loss",
    "nll_loss_forward",
    "softplus",
    "hardsigmoid",
    "hardswish",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "_adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "mean",
    "leaky_relu",
    "elu",
)
"""Operations that are laid out as what they consist of, besides those that `torch.export` lays out
so by itself."""
PARAMETER_KINDS = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")


def trace_module(
    module: Any, args: Sequence[Any] = (), parameters: Sequence[int] = (), name: str | None = None
) -> ComputationGraph:
    """The computation graph of a torch module.

    Parameters, buffers and constants of the module are weights of the ops that use them, as
    parameters are in `graph.trace`; inputs of the module become ops of kind ``input``.

    Args:
      module: a `torch.nn.Module`, exported here in the mode that it is in (training or evaluation),
        or a `torch.export.ExportedProgram`.
      args: example inputs of a module: tensors, containers of tensors, or `jax.ShapeDtypeStruct`.
      parameters: positions of the inputs, tensor by tensor, that are parameters as well.
      name: the graph's name, by default that of the module's class.

    Raises:
      InputError: torch cannot export the module; a shape is dynamic; an op holds functions
        (`torch.cond` and its like); nothing is computed; no input has the position of a parameter.
    """
    name = name or type(module).__name__
    flow, weights = flow_of(module, args, name)
    graph = graph_of_dataflow(flow, [*weights, *flow.arguments_at(parameters, "parameters")])
    import torch

    metadata = {k: v for k, v in graph.metadata.items() if k != "jax"} | {
        "torch": torch.__version__
    }
    return fold_sources(replace(graph, metadata=metadata))


def flow_of(module: Any, args: Sequence[Any], name: str) -> tuple[Dataflow, list[int]]:
    """The dataflow of a module or an exported program, and the values of what the module holds."""
    return _Reader(name).read(_exported(module, args, name))


def _exported(module: Any, args: Sequence[Any], name: str) -> Any:
    """An exported program of core ATen operations, the composite ones of `DECOMPOSED` laid out."""
    import torch
    from torch._decomp import get_decompositions
    from torch.export import default_decompositions, export

    with as_input_error(name, "cannot be exported by torch"):
        program = module
        if isinstance(module, torch.nn.Module):
            example = jax.tree.map(lambda leaf: _tensor(leaf, module), tuple(args))
            program = export(module, example)
        table = default_decompositions()
        table.update(get_decompositions([getattr(torch.ops.aten, op) for op in DECOMPOSED]))
        table[torch.ops.aten.var_mean.correction] = _var_mean
        table[torch.ops.aten.var.correction] = lambda *args, **named: _var_mean(*args, **named)[0]
        table[torch.ops.aten.linalg_vector_norm.default] = _norm
        return program.run_decompositions(table)


def _var_mean(
    x: Any, dim: Any = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Any, Any]:
    """The variance and the mean, which comes first, as in JAX."""
    mean = x.mean(dim, True)
    apart = (x - mean).abs() if x.is_complex() else x - mean
    variance = (apart**2).sum(dim, keepdim) / (x.numel() / max(mean.numel(), 1) - correction)
    return variance, mean if keepdim else mean.reshape(variance.shape)


def _norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The Euclidean norm as in JAX; another one stays torch's own operation."""
    return (
        (x * x).sum(dim, keepdim).sqrt()
        if ord == 2 and not (dtype or x.is_complex())
        else NotImplemented
    )


def _tensor(leaf: Any, module: Any) -> Any:
    """A tensor of zeros where the module is for an abstract array; anything else as it is."""
    import torch

    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    place = next((parameter.device for parameter in module.parameters()), "cpu")
    return torch.zeros(leaf.shape, dtype=getattr(torch, str(leaf.dtype)), device=place)


class _Reader:
    """An exported program as a dataflow."""

    def __init__(self, name: str):
        self.name, self.builder = name, _Builder(name, 1)
        self.known: dict[Any, list[tuple[int, Any] | None]] = {}
        """Node -> value and abstract array of each result, None for what is no tensor."""

    def read(self, program: Any) -> tuple[Dataflow, list[int]]:
        """The dataflow, whose arguments are the module's inputs, and the values of what the module
        holds."""
        kinds = {s.arg.name: s.kind.name for s in program.graph_signature.input_specs}
        weights: list[int] = []
        arguments: list[int] = []
        outputs: list[int | None] = []
        for node in program.graph.nodes:
            if node.op == "output":
                ends = [
                    pair
                    for leaf in jax.tree.leaves(node.args[0])
                    for pair in self.known.get(leaf, ())
                ]
                outputs = [pair[0] for pair in ends if pair is not None]
            elif node.op == "call_function":
                self.operation(node)
            else:
                avals = [] if (kind := kinds.get(node.name)) == "TOKEN" else self.arrays(node)
                known = [
                    None if a is None else (self.builder.value(a, node.name), a) for a in avals
                ]
                self.known[node] = known
                (weights if kind in PARAMETER_KINDS else arguments).extend(
                    pair[0] for pair in known if pair
                )
        return (
            self.builder.dataflow([*weights, *arguments], [[v] for v in arguments], outputs),
            weights,
        )

    def arrays(self, node: Any) -> list[Any]:
        """The abstract arrays of a node's results, None for each that is no tensor."""
        import torch

        value = node.meta.get("val")
        avals: list[jax.ShapeDtypeStruct | None] = []
        for result in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(result, torch.Tensor):
                avals.append(None)
                continue
            if not all(isinstance(size, int) for size in result.shape):
                shape = shown(f"[{', '.join(map(str, result.shape))}]")
                raise InputError(
                    self.name, node.name, f"a dynamic shape, {shape}: export it with fixed shapes"
                )
            kind = str(result.dtype).removeprefix("torch.")
            try:
                avals.append(jax.ShapeDtypeStruct(tuple(result.shape), jnp.dtype(kind)))
            except TypeError:
                raise InputError(
                    self.name, node.name, f"element type {shown(kind)} is not known"
                ) from None
        return avals

    def operation(self, node: Any) -> None:
        """Lays out one node; an item of a node of several results is one of its values."""
        from torch.fx.node import map_arg

        if node.target is operator.getitem:
            source, place = node.args
            self.known[node] = [self.known[source][place]]
            return
        target, args, results = node.target, node.args, self.arrays(node)
        if str(target) == "with_effects":  # a token, an operation that is to stay, its operands
            target, args, results[0] = args[1], args[2:], None
        packet = getattr(target, "overloadpacket", None)
        if packet is None or any(n.op == "get_attr" for n in node.all_input_nodes):
            fault = f"{shown(str(target))} holds functions of its own: export the module without it"
            raise InputError(self.name, node.name, fault)
        if isinstance(node.meta.get("val"), list | tuple):  # only what is asked for, as in JAX
            asked = {user.args[1] for user in node.users}
            results = [aval if place in asked else None for place, aval in enumerate(results)]
        kind, given = _primitive(target, args, node.kwargs)
        nodes: list[Any] = []
        map_arg((args, node.kwargs), nodes.append)
        operands = [known for n in nodes for known in self.known[n] if known is not None]
        place = IN_PLACE_UPDATES.get(kind, 0)
        if place and len(operands) > place:
            operands.insert(place, operands.pop())  # the update comes last in torch
        elif place:
            kind = "select_n"
        values, avals = [v for v, _ in operands], [aval for _, aval in operands]
        typed = [aval for aval in results if aval is not None]
        params = _parameters(kind, given, avals, results)
        flop = _counted(node, packet, args)
        new = iter(
            self.builder.emit(kind, _scope(node), values, avals, typed, params, flop=flop)
            if typed
            else ()
        )
        self.known[node] = [None if aval is None else (next(new), aval) for aval in results]


def _scope(node: Any) -> str:
    """The place in the module where a node was made, such as ``layers.0/self_attn``."""
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return paths[-1].replace(".", "/") if paths and isinstance(paths[-1], str) else ""


def _counted(node: Any, packet: Any, args: Sequence[Any]) -> float | None:
    """FLOP by torch's own counter; None of what it does not count."""
    from torch.utils.flop_counter import flop_registry

    count: Callable | None = flop_registry.get(packet)
    if count is None:
        return None
    args, named = jax.tree.map(
        lambda leaf: leaf.meta["val"] if hasattr(leaf, "meta") else leaf,
        (tuple(args), dict(node.kwargs)),
    )
    return float(count(*args, **named, out_val=node.meta["val"]))


def _primitive(
    target: Any, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The primitive that an ATen operation is, and the operation's arguments by name, sizes for
    each dimension."""
    schema = target._schema.arguments
    given = (
        {a.name: a.default_value for a in schema}
        | dict(zip((a.name for a in schema), args))
        | {**named}
    )
    once = [
        a for a in schema if a.N and isinstance(given[a.name], list) and len(given[a.name]) == 1
    ]
    given |= {a.name: given[a.name] * a.N for a in once}
    aten = str(target.overloadpacket).removeprefix("aten.").removeprefix("prims.")
    kind = ATEN.get(aten, aten)
    if kind == "pow" and isinstance(given.get("exponent"), int):
        kind = "integer_pow"
    elif kind == "scatter" and (given.get("accumulate") or given.get("reduce")):
        kind = "scatter-add"
    return kind, given


def _parameters(
    kind: str, given: Mapping[str, Any], avals: Sequence[Any], results: Sequence[Any]
) -> dict[str, Any]:
    """The parameters of a primitive that the rules of `primitive_costs` ask for, from those of the
    ATen operation."""
    if kind in ("sort", "top_k"):
        extra = {"k": given["k"]} if kind == "top_k" else {}
        return {"dimension": given["dim"] % max(len(avals[0].shape), 1), **extra}
    if kind == "integer_pow":
        return {"y": given["exponent"]}
    if kind == "fft":
        return {"fft_lengths": [max(avals[0].shape[d], results[0].shape[d]) for d in given["dim"]]}
    if kind.startswith("reduce_window"):
        return {"window_dimensions": given["kernel_size"]}
    if kind == "svd":
        return {"compute_uv": results[::2] != [None, None], "full_matrices": given["full_matrices"]}
    if kind == "eig":
        return {
            "compute_left_eigenvectors": False,
            "compute_right_eigenvectors": results[1:] not in ([], [None]),
        }
    return {}
