"""Which placements of a compiled program's instructions to price: one instruction of each kind of work, few subsets."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.programs.program import MAX_VARIED
from learned_mapping.tpu.hlo import Module
from learned_mapping.tpu.hlo_probe import signature
from learned_mapping.tpu.hlo_program import HloProgram

Subset = frozenset[int]
"""Units of an instruction in fast memory; a unit is a buffer, or the two buffers of an in-place update together."""
FULL_UNITS = 3
"""Up to this many units every subset is priced."""
ENDS_SHARE = 0.985
"""Instructions that make up this share of the bytes moved are priced at all; the others are inferred from them."""
ALONE_SHARE = 0.85
"""Each unit alone is priced for the instructions that make up this share of the program's possible saving."""
OTHERS_SHARE = 0.50
"""Likewise every unit but one (or, up to `FULL_UNITS` units, every subset)."""


@dataclass(frozen=True)
class Priceable:
    """An instruction whose placements may be priced."""

    instruction: int
    """Its logical time."""
    signature: str
    """Equal for instructions that do the same work on units of the same kind (`work_key`)."""
    kind: str
    """Opcode, and of a fusion what kind: ``kOutput`` (around a convolution), ``kLoop``, ``kInput``, ``kCustom``."""
    count: int
    """How many instructions of the program do this work."""
    units: tuple[tuple[int, ...], ...]
    """The buffers that vary, largest first; buffers that must lie together are one unit."""
    unit_bytes: tuple[int, ...]
    """Bytes of each unit; an in-place update takes its place once."""
    moved_bytes: int
    """Bytes of all its buffers, those too that do not fit the fast memory."""
    fullest: Subset
    """As much as fits the fast memory, larger units first."""
    fast_bytes: int
    """Bytes of the fast memory."""

    @property
    def ends(self) -> tuple[Subset, ...]:
        """Nothing fast, and as much as possible."""
        return tuple(dict.fromkeys((frozenset(), self.fullest)))

    @property
    def alone(self) -> tuple[Subset, ...]:
        return tuple(frozenset({u}) for u in range(len(self.units)))

    @property
    def others(self) -> tuple[Subset, ...]:
        """Every other subset worth a price: all of them for few units, else all units but one."""
        n = len(self.units)
        sizes = range(2, n) if n <= FULL_UNITS else (n - 1,)
        subsets = (frozenset(s) for k in sizes for s in itertools.combinations(range(n), k))
        return tuple(s for s in subsets if self.fits(s))

    def fits(self, subset: Subset) -> bool:
        return sum(self.unit_bytes[u] for u in subset) <= self.fast_bytes


def plan(module: Module, program: HloProgram, *, fast_bytes: int) -> list[Priceable]:
    """One instruction of each kind of work, control flow aside, in order of first occurrence.

    Args:
      module, program: before memory assignment.
      fast_bytes: capacity; larger subsets can never be placed and are left out.
    """
    steps = range(len(program.instructions))
    keys = [None if program.opaque[t] else work_key(module, program, t, fast_bytes) for t in steps]
    counts = Counter(keys)
    result = []
    for key, t in {key: t for t, key in reversed(list(enumerate(keys))) if key is not None}.items():
        units = varied_units(program, t, fast_bytes)
        sizes = tuple(int(program.tensor_bytes[program.buffer_tensor[unit[0]]]) for unit in units)
        fullest, room = set(), fast_bytes
        for u, size in enumerate(sizes):
            if size <= room:
                fullest.add(u)
                room -= size
        moved = int(program.tensor_bytes[program.buffer_tensor[program.buffer_instruction == t]].sum())
        kind = f"{program.instructions[t].opcode} {program.instructions[t].attribute('kind') or ''}".strip()
        result.append(Priceable(t, key, kind, counts[key], units, sizes, moved, frozenset(fullest), fast_bytes))
    return sorted(result, key=lambda item: item.instruction)


def work_key(module: Module, program: HloProgram, instruction: int, fast_bytes: int) -> str:
    """A digest equal for instructions that do the same work and whose units stand at the same operands and results.

    The work alone is not enough: a parameter updated in place and one that is not are one or two units.
    """
    units = varied_units(program, instruction, fast_bytes)
    places = [[[place, list(index)] for place, index in sorted(program.buffer_position[b] for b in u)] for u in units]
    text = signature(module, program.instructions[instruction]) + json.dumps(places)
    return hashlib.sha256(text.encode()).hexdigest()


def varied_units(program: HloProgram, instruction: int, fast_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The at most `MAX_VARIED` largest buffers of an instruction that fit, buffers of one alias group together."""
    buffers = np.flatnonzero(program.buffer_instruction == instruction)
    groups: dict[int, list[int]] = {}
    for b in buffers.tolist():
        alias = int(program.buffer_alias[b])
        groups.setdefault(alias if alias >= 0 else -2 - b, []).append(b)
    size = {k: int(program.tensor_bytes[program.buffer_tensor[v[0]]]) for k, v in groups.items()}
    units, taken = [], 0
    for key in sorted(groups, key=lambda k: (-size[k], groups[k][0])):
        if size[key] <= fast_bytes and taken + len(groups[key]) <= MAX_VARIED:
            units.append(tuple(groups[key]))
            taken += len(groups[key])
    return tuple(units)


def worth_a_price(planned: Sequence[Priceable], share: float = ENDS_SHARE) -> list[Priceable]:
    """The fewest instructions that make up a share of the bytes of all buffers, every use counted."""
    return _largest(planned, [item.moved_bytes * item.count for item in planned], share)


def worth_detail(
    planned: Sequence[Priceable], prices: Mapping[str, Mapping[str, int | None]], share: float
) -> list[Priceable]:
    """The fewest instructions whose savings make up a share of the program's, once the `ends` are priced.

    Args:
      planned: from `plan`.
      prices: cycles by signature and `subset_key`.
      share: in [0, 1].
    """
    savings = []
    for item in planned:
        slow, fast = (prices.get(item.signature, {}).get(subset_key(s)) for s in (frozenset(), item.fullest))
        savings.append(0 if slow is None or fast is None else max(slow - fast, 0) * item.count)
    return _largest(planned, savings, share)


def _largest(planned: Sequence[Priceable], weights: Sequence[int], share: float) -> list[Priceable]:
    wanted, total, chosen = share * sum(weights), 0, []
    for i in sorted(range(len(planned)), key=lambda i: (-weights[i], planned[i].instruction)):
        if total >= wanted or not weights[i]:
            break
        total += weights[i]
        chosen.append(planned[i])
    return chosen


def subset_key(subset: Subset) -> str:
    """Unit numbers joined by commas."""
    return ",".join(str(u) for u in sorted(subset))
