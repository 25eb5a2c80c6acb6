"""A user's JAX function or torch module, named on the command line: ``MODULE:FUNCTION`` and
``DTYPE[SHAPE]``."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.trace.dataflow import as_input_error, static_positions

MAX_ELEMENTS = 2**48
LONG = sorted(
    {
        np.dtype(kind).name
        for kind in vars(jax.numpy).values()
        if type(kind) is type(jax.numpy.float32)
    }
)
DTYPES = {"pred": "bool"} | {
    re.sub(r"^(bf|[iufc])[a-z]*(?=\d)", r"\1", name): name for name in LONG
}
"""Short names of element types, as JAX writes them; the long names do as well."""


class Example(NamedTuple):
    """A JAX function with example arguments that hold no data."""

    function: Callable
    args: tuple[Any, ...]  # Pytrees of `jax.ShapeDtypeStruct`.
    parameters: tuple[int, ...] | None = None
    """Positions of the arguments that are parameters, optimiser state or model state; None where
    nobody says."""
    donated: tuple[int, ...] = ()  # Positions of the arguments that results may overwrite.


def parse_argument(text: str) -> jax.ShapeDtypeStruct:
    """The abstract array that ``DTYPE[SHAPE]`` names, such as ``f32[8,128]``, ``bf16[1024]`` or
    ``i32[]``.

    Raises:
      InputError: the text is not of that form, the type is unknown, or the array absurdly large.
    """
    match = re.fullmatch(r"\s*(\w+)\s*\[([0-9,\s]*)\]\s*", text)
    if match is None:
        raise InputError("--arg", text, "expected DTYPE[SHAPE], such as f32[8,128] or i32[]")
    dtype, shape = match.groups()
    if dtype not in DTYPES and dtype not in DTYPES.values():
        raise InputError(
            "--arg", text, f"unknown element type {dtype!r}, known are {', '.join(DTYPES)}"
        )
    sizes = [part.strip() for part in shape.split(",")] if shape.strip() else []
    if any(not size.isdigit() or len(size) > 15 for size in sizes):
        raise InputError(
            "--arg", text, "expected a comma-separated list of sizes between the brackets"
        )
    dimensions = tuple(int(size) for size in sizes)
    if (
        len(dimensions) > 32
        or float(np.prod([float(max(d, 1)) for d in dimensions])) > MAX_ELEMENTS
    ):
        raise InputError("--arg", text, f"more than 32 dimensions or {MAX_ELEMENTS} elements")
    return jax.ShapeDtypeStruct(dimensions, jax.numpy.dtype(DTYPES.get(dtype, dtype)))


def load_example(
    spec: str, arguments: Sequence[str] = (), *, parameters: Sequence[int] | None = None
) -> Example:
    """The function that ``MODULE:FUNCTION`` names, with its arguments.

    With `arguments` (each ``DTYPE[SHAPE]``), the function itself is meant. Without, it must take no
    arguments and return ``(function, args)``, ``(function, args, parameters)`` or an `Example`: the
    way for functions of pytrees. A torch module with its example inputs is such a function, and an
    exported program needs none.

    Args:
      spec: an importable module, looked for in the working directory first, or the path of a
        ``.py`` file; a colon; the name of the function, dotted where it is an attribute of
        something.
      parameters: as in `Example`, before what the function returns, unless None.

    Raises:
      InputError: the module or function is missing, fails to import, or returns something else.
    """
    function = load_function(spec)
    if inspect.iscoroutinefunction(function):
        raise InputError(spec, "", "is asynchronous: a function that JAX can trace returns at once")
    given = None if parameters is None else tuple(parameters)
    if arguments:
        args: Any = tuple(parse_argument(text) for text in arguments)
        return _with_donated(spec, Example(function, args, given))
    if is_exported(function):
        return Example(function, (), given)
    if is_torch(function):
        fault = (
            "is a torch module: give --arg DTYPE[SHAPE] for each input, or name a function that"
            " returns both"
        )
        raise InputError(spec, "", fault)
    try:
        signature = inspect.signature(function).parameters.values()
        takes = sum(
            p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            for p in signature
        )
    except (TypeError, ValueError):
        takes = 0
    if takes:
        raise InputError(
            spec,
            "",
            f"takes {takes} argument(s): give --arg DTYPE[SHAPE] for each, or name a function"
            " without arguments that returns (function, args)",
        )
    with as_input_error(spec, "fails"):
        result = function()
    if is_exported(result):
        result = result, ()
    if not isinstance(result, tuple) or not 2 <= len(result) <= 4 or not callable(result[0]):
        raise InputError(
            spec,
            "",
            f"expected (function, args), got {type(result).__name__}: name a function of no"
            " arguments that returns one, or give --arg DTYPE[SHAPE] for each argument",
        )
    case = Example(*result)
    if not isinstance(case.args, tuple | list):
        raise InputError(
            spec,
            "",
            f"expected a tuple of arguments after the function, got {type(case.args).__name__}",
        )
    said = case.parameters if given is None else given
    positions = None if said is None else _positions(spec, said)
    return _with_donated(
        spec, Example(case.function, tuple(case.args), positions, _positions(spec, case.donated))
    )


def graph_of_example(example: Example, name: str, **settings: Any) -> ComputationGraph:
    """The graph of a function or of a torch module, as `graph.trace` and `torch_module` make it;
    parameters of a function are guessed where nobody says which are."""
    if is_torch(example.function):
        from learned_mapping.doors.torch_module import trace_module

        return trace_module(example.function, example.args, example.parameters or (), name)
    from learned_mapping.programs.trace.dataflow import flatten
    from learned_mapping.programs.trace.parameters import graph_with_parameters

    flow = flatten(example.function, *example.args, name=name, **settings)
    return graph_with_parameters(flow, example.parameters)


MODULE, PROGRAM = (
    "torch.nn.modules.module.Module",
    "torch.export.exported_program.ExportedProgram",
)


def is_torch(value: Any) -> bool:
    """Whether a value is a torch module or an exported program, without importing torch."""
    return bool({MODULE, PROGRAM} & _kinds(value))


def is_exported(value: Any) -> bool:
    """Whether a value is a program that `torch.export` made, which holds its own inputs."""
    return PROGRAM in _kinds(value)


def _kinds(value: Any) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}


def _with_donated(spec: str, example: Example) -> Example:
    """The example with the arguments that its function, one of `jax.jit`, says it donates, unless
    others are named."""
    if example.donated or not isinstance(example.function, jax.stages.Wrapped):
        return example
    static = static_positions(example.function, example.args, spec)
    with as_input_error(spec, "cannot be traced"):
        info = example.function.trace(*example.args).args_info[0]
    traced = [i for i in range(len(example.args)) if i not in static]
    donated = [
        i
        for i, arg in zip(traced, info)
        if any(leaf.donated for leaf in jax.tree_util.tree_leaves(arg))
    ]
    return example._replace(donated=tuple(donated))


def _positions(spec: str, value: Any) -> tuple[int, ...]:
    value = (value,) if isinstance(value, int) else value
    if not isinstance(value, tuple | list) or not all(
        isinstance(v, int) and not isinstance(v, bool) for v in value
    ):
        raise InputError(spec, "", f"expected positions of arguments, got {value!r}")
    return tuple(value)


def load_function(spec: str) -> Callable:
    """What ``MODULE:FUNCTION`` names, as `load_example` looks for it; raises `InputError`."""
    module_name, separator, name = spec.rpartition(":")
    if not separator or not module_name or not name:
        raise InputError(spec, "", "expected MODULE:FUNCTION")
    path = Path(module_name)
    if path.suffix == ".py" and not path.is_file():
        raise InputError(path, "", "no such file")
    target: Any
    with as_input_error(spec, "cannot be imported"), beside(spec):
        if path.suffix == ".py":
            loader = importlib.util.spec_from_file_location(path.stem, path)
            assert loader is not None and loader.loader is not None
            target = importlib.util.module_from_spec(loader)
            sys.modules.setdefault(path.stem, target)
            loader.loader.exec_module(target)
        else:
            target = importlib.import_module(module_name)
    for part in name.split("."):
        # a user's module may answer for itself
        with as_input_error(spec, "cannot be looked up", name):
            try:
                target = getattr(target, part)
            except AttributeError:
                raise InputError(spec, name, f"{module_name} has no such function") from None
    if not callable(target):
        raise InputError(spec, name, f"is no function but {type(target).__name__}")
    return target


@contextmanager
def beside(spec: str) -> Iterator[None]:
    """A context in which what lies beside a user's module can be imported, as for a program that is
    run there."""
    path = Path(spec.rpartition(":")[0])
    folder = str(path.parent if path.suffix == ".py" else Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
