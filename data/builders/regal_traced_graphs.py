"""The set ``regal-traced`` of paper 3, and the sets its augmentation makes of it.

The paper mined 372 topologically distinct TensorFlow graphs (Section 3.1) and multiplied running
times and sizes by noise. These are traced from public models; no architecture family stands on two
sides of the split.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices, op_seconds
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import MAX_BYTES, MAX_SECONDS, ComputationGraph, frozen_array
from learned_mapping_companion.datasets.manifest import SPLITS
from learned_mapping_companion.datasets.registry import SETS, stored_manifest

if TYPE_CHECKING:
    from learned_mapping.doors.user_function import Example

INFERENCE, GRADIENT, TRAINING = "inference", "gradient", "training"
"""The forward pass; the forward and the backward pass of the mean square of the outputs; a whole
training step of the zoo, its own loss and its optimiser's update included."""
SEED = 372  # First entry of every noise seed.
SPREAD = 0.3  # Standard deviation of the logarithm of the noise; the paper prints none.
AUGMENTED: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "traced-runtime": {"train": 16_329, "validation": 5_470, "test": 5_266},
        "traced-memory": {"train": 22_400, "validation": 7_400, "test": 7_400},
    }
)
"""Members of the augmented sets by split, the paper's numbers (Section 3.1)."""
OBJECTIVES = ("runtime", "memory")


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One graph to trace."""

    name: str
    family: str
    model: str  # Member of the zoo.
    mode: str  # `INFERENCE`, `GRADIENT` or `TRAINING`.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    """The member's options that differ from its defaults."""


def names(split: str) -> tuple[str, ...]:
    """The graphs of a split, in order; raises `InputError` for an unknown split."""
    if split not in SPLITS:
        raise InputError("split", "", f"expected one of {', '.join(SPLITS)}, got {split!r}")
    return tuple(item.name for item in stored_manifest("regal-traced").split(split))


def configuration(name: str) -> Configuration:
    """What was traced for a graph of the set; raises `InputError` where there is none of this
    name."""
    facts = stored_manifest("regal-traced").item(name).facts
    return Configuration(name, *(facts[field] for field in ("family", "model", "mode", "options")))


@functools.lru_cache(maxsize=512)
def load(name: str) -> ComputationGraph:
    """A stored graph; raises `InputError` for an unknown name or a damaged file."""
    return read_graph(
        SETS["regal-traced"].path / str(stored_manifest("regal-traced").item(name).file)
    )


def model_of(chosen: Configuration) -> "Example":
    """What is traced for a configuration."""
    from . import zoo

    example = zoo.example(chosen.model, **chosen.options)
    return (
        example
        if chosen.mode != GRADIENT
        else example._replace(function=_gradient(example.function))
    )


def trace_configuration(chosen: Configuration) -> ComputationGraph:
    """The graph of a configuration, traced now, without its weights (the paper's model knows
    tensors alone, A.1)."""
    from . import zoo

    graph = zoo.frozen_trace(model_of(chosen), chosen.name)
    return dataclasses.replace(
        graph, op_weight_bytes=frozen_array(np.zeros(graph.num_ops), np.int64)
    )


def _gradient(forward: Callable) -> Callable:
    """Value and gradient, with respect to the first argument, of the outputs' mean square."""
    import jax
    import jax.numpy as jnp

    def run(params: Any, *inputs: Any) -> Any:
        def loss(params: Any) -> Any:
            return sum(
                jnp.mean(jnp.square(x)) for x in jax.tree_util.tree_leaves(forward(params, *inputs))
            )

        return jax.value_and_grad(loss)(params)

    return run


def noisy(
    graph: ComputationGraph,
    rng: np.random.Generator,
    spread: float = SPREAD,
    *,
    objective: str = "runtime",
) -> ComputationGraph:
    """The graph with every op's running time multiplied by log-normal noise, exp(spread z) with z
    standard normal.

    For the objective ``memory`` every tensor's bytes are multiplied too, each by noise of its own.
    Times, which a graph without its own gets from the roofline of `Devices`, are rounded to
    picoseconds, sizes to bytes; what is 0 stays.

    Raises:
      InputError: a negative spread, or an objective other than ``runtime`` and ``memory``.
    """
    if not (np.isfinite(spread) and spread >= 0):
        raise InputError("noise", "spread", f"expected a finite number of at least 0, got {spread}")
    if objective not in OBJECTIVES:
        raise InputError("noise", "objective", f"expected runtime or memory, got {objective!r}")
    factors = np.exp(spread * rng.standard_normal(graph.num_ops))
    picoseconds = np.round(op_seconds(graph, Devices()) * factors * 1e12)
    seconds = np.minimum(picoseconds / 1e12, MAX_SECONDS)
    sizes = graph.tensor_bytes
    if objective == "memory":
        factors = np.exp(spread * rng.standard_normal(graph.num_tensors))
        sizes = np.where(sizes > 0, np.clip(np.round(sizes * factors), 1, MAX_BYTES), 0)
    return dataclasses.replace(
        graph,
        op_seconds=frozen_array(seconds, np.float64),
        tensor_bytes=frozen_array(sizes, np.int64),
    )


def pair(
    dataset: str, split: str, index: int, graphs: Sequence[str]
) -> tuple[str, tuple[int, ...]]:
    """Graph and noise seed of a member of an augmented set of `AUGMENTED`, by its index from 0; the
    graphs of the split, whose names are given, take turns. Raises `InputError` where there is no
    such member."""
    for field, value, known in (("dataset", dataset, AUGMENTED), ("split", split, SPLITS)):
        if value not in known:
            raise InputError(field, "", f"expected one of {', '.join(known)}, got {value!r}")
    if not 0 <= index < AUGMENTED[dataset][split]:
        raise InputError("index", "", f"{index} is outside [0, {AUGMENTED[dataset][split] - 1}]")
    return graphs[index % len(graphs)], (
        SEED,
        list(AUGMENTED).index(dataset),
        SPLITS.index(split),
        index,
    )


def member(graph: ComputationGraph, dataset: str, seed: tuple[int, ...]) -> ComputationGraph:
    """A member of an augmented set made of its graph, with the seed that `pair` names."""
    noisy_graph = noisy(
        graph, np.random.default_rng(seed), objective=dataset.removeprefix("traced-")
    )
    return dataclasses.replace(noisy_graph, name=f"{graph.name}-noise-{seed[-1]}")


def generate(dataset: str, split: str, index: int) -> ComputationGraph:
    """A member of an augmented set, of the stored graphs; raises `InputError` where there is
    none."""
    name, seed = pair(dataset, split, index, names(split))
    return member(load(name), dataset, seed)
