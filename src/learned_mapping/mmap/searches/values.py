"""Values: tensors that share memory because one is updated into the other in place, and what they are worth."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from learned_mapping.programs.program import Program


def values_of(program: Program) -> list[list[int]]:
    """The tensors of each value, in order of definition; values in the order of their first tensors.

    Two tensors belong to one value if buffers of theirs are in one alias group, directly or through others.
    """
    parent = list(range(program.num_tensors))

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    first: dict[int, int] = {}
    for b in np.flatnonzero(program.buffer_alias >= 0).tolist():
        tensor = int(program.buffer_tensor[b])
        parent[root(tensor)] = root(first.setdefault(int(program.buffer_alias[b]), tensor))
    values: defaultdict[int, list[int]] = defaultdict(list)
    for n in sorted(range(program.num_tensors), key=lambda n: (program.tensor_live[n, 0], n)):
        values[root(n)].append(n)
    return list(values.values())


def values_by_benefit(program: Program, benefit: np.ndarray) -> list[list[int]]:
    """`values_of` the program, the best first; then the larger, then the earlier.

    Args:
      program: the program.
      benefit: [B] of each buffer in fast memory, in any unit. A value's worth is the sum over its definitions and uses
        where they are positive, divided by the square root of its size.
    """
    benefit = np.bincount(program.buffer_tensor, np.maximum(benefit, 0.0), minlength=program.num_tensors)

    def key(value: list[int]) -> tuple[float, int, int, int]:
        size = int(max(program.tensor_bytes[n] for n in value))
        total = sum(float(benefit[n]) for n in value)
        return -total / math.sqrt(max(size, 1)), -size, int(program.tensor_live[value[0], 0]), value[0]

    return sorted(values_of(program), key=key)
