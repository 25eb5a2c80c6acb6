"""The hardware models in JAX: their parameters are pytrees, to be swept by a tree map or traced
through ``jit``.

The models themselves do without JAX, whose import takes longer than most of what they are asked.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from learned_mapping.hardware.chip_package import ChipPackage, GraphWork, expect_alike, op_seconds
from learned_mapping.hardware.devices import Devices
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy


def _register(kind: type) -> None:
    """Makes a machine a pytree of its numbers. What a tree map puts in their place, whatever it is,
    is not looked at: the constructor is not asked."""
    static = [f.name for f in dataclasses.fields(kind) if f.metadata.get("static")]
    names = [f.name for f in dataclasses.fields(kind) if f.name not in static]

    def flatten(machine: Any) -> tuple[list[tuple[jax.tree_util.GetAttrKey, Any]], tuple]:
        numbers = [(jax.tree_util.GetAttrKey(name), getattr(machine, name)) for name in names]
        return numbers, tuple(getattr(machine, name) for name in static)

    def unflatten(fixed: tuple, numbers: Iterable[Any]) -> Any:
        machine: Any = object.__new__(kind)
        for name, value in zip((*names, *static), (*numbers, *fixed)):
            object.__setattr__(machine, name, value)
        return machine

    jax.tree_util.register_pytree_with_keys(kind, flatten, unflatten)


for machine in (ChipPackage, Devices, MemoryHierarchy):
    _register(machine)


def chip_latencies(work: GraphWork, assignment: jax.Array, package: ChipPackage) -> jax.Array:
    """[C] seconds of each chip, in JAX: the same model, for `vmap` over assignments or over package
    parameters.

    Args:
      assignment: [N] int chip ids in 0..C-1, obeying Eq. 2.
      package: any of its fields but `chips` may be traced.

    Raises:
      InputError: chips that differ in speed.
    """
    expect_alike(package, "the model in JAX has")
    chips, ops, tensors = package.chips, work.flop.shape[0], work.tensor_bytes.shape[0]
    load = jax.ops.segment_sum(op_seconds(work, package, jnp), assignment, num_segments=chips)
    if not tensors:
        return load
    assert assignment.shape == (ops,)
    first = assignment[work.tensor_producer]
    last = jax.ops.segment_max(
        assignment[work.edge_consumer], work.edge_tensor, num_segments=tensors
    )
    last = jnp.maximum(last, first)
    link = jnp.arange(chips)
    crosses = (first[:, None] <= link) & (link < last[:, None])
    crossing = (crosses * jnp.asarray(work.tensor_bytes)[:, None]).sum(axis=0)
    busy = crossing / jnp.asarray(package.link_bytes_per_s)
    return load + busy + jnp.concatenate([jnp.zeros(1), busy[:-1]])
