"""Latency tables L_I(S) of a compiled program: which placements to price, and what the others cost.

Paper 1 measures every instruction under every subset of its buffers in fast memory; here `pricing`
asks the compiler's cost model for some of them. Instructions that do the same work are priced once:
with nothing in fast memory, and with as much as fits. Those that make up most of the saving between
the two are priced in detail; those that together move little are inferred from others of their kind
(`infer_prices`). `complete_table` fills in the rest by a stated rule, to be judged on placements
that were never priced for it.
"""

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.programs.program import MAX_VARIED

from .hlo import Module
from .hlo_probe import signature
from .hlo_program import HloProgram

Prices = dict[str, dict[str, int | None]]
"""Cycles by signature and by subset (`subset_key`); None where the compiler gives no estimate."""
Subset = frozenset[int]
"""Units of an instruction in fast memory; a unit is a buffer, or the two buffers of an in-place
update together."""
FULL_UNITS = 3  # Up to this many units every subset is priced.
ENDS_SHARE = 0.985
"""Instructions that make up this share of the bytes moved are priced at all; the others are
inferred from them."""
ALONE_SHARE = 0.85
"""Each unit alone is priced for the instructions that make up this share of the program's possible
saving."""
OTHERS_SHARE = 0.50  # Likewise every unit but one (or, up to `FULL_UNITS` units, every subset).


@dataclass(frozen=True)
class Priceable:
    """An instruction whose placements may be priced."""

    instruction: int  # Its logical time.
    # Equal for instructions that do the same work on units of the same kind (`work_key`).
    signature: str
    kind: str
    """Opcode, and of a fusion what kind: ``kOutput`` (around a convolution), ``kLoop``, ``kInput``,
    ``kCustom``."""
    count: int  # How many instructions of the program do this work.
    units: tuple[tuple[int, ...], ...]
    """The buffers that vary, largest first; buffers that must lie together are one unit."""
    unit_bytes: tuple[int, ...]  # Bytes of each unit; an in-place update takes its place once.
    moved_bytes: int  # Bytes of all its buffers, those too that do not fit the fast memory.
    fullest: Subset  # As much as fits the fast memory, larger units first.
    fast_bytes: int  # Bytes of the fast memory.

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
    """One instruction of each kind of work, control flow aside, in order of first occurrence; of a
    module from before memory assignment. Subsets above the capacity can never be placed and are
    left out."""
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
        moved = int(
            program.tensor_bytes[program.buffer_tensor[program.buffer_instruction == t]].sum()
        )
        instruction = program.instructions[t]
        kind = f"{instruction.opcode} {instruction.attribute('kind') or ''}".strip()
        result.append(
            Priceable(
                t, key, kind, counts[key], units, sizes, moved, frozenset(fullest), fast_bytes
            )
        )
    return sorted(result, key=lambda item: item.instruction)


def work_key(module: Module, program: HloProgram, instruction: int, fast_bytes: int) -> str:
    """A digest equal for instructions that do the same work and whose units stand at the same
    operands and results.

    The work alone is not enough: a parameter updated in place and one that is not are one or two
      units.
    """
    units = varied_units(program, instruction, fast_bytes)
    places = [
        [[place, list(index)] for place, index in sorted(program.buffer_position[b] for b in u)]
        for u in units
    ]
    text = signature(module, program.instructions[instruction]) + json.dumps(places)
    return hashlib.sha256(text.encode()).hexdigest()


def varied_units(
    program: HloProgram, instruction: int, fast_bytes: int
) -> tuple[tuple[int, ...], ...]:
    """The at most `MAX_VARIED` largest buffers of an instruction that fit, buffers of one alias
    group together."""
    buffers = np.flatnonzero(program.buffer_instruction == instruction)
    groups: dict[int, list[int]] = {}
    for b in buffers.tolist():
        alias = int(program.buffer_alias[b])
        groups.setdefault(alias if alias >= 0 else -2 - b, []).append(b)
    size = {k: int(program.tensor_bytes[program.buffer_tensor[v[0]]]) for k, v in groups.items()}
    units, varied = [], 0
    for key in sorted(groups, key=lambda k: (-size[k], groups[k][0])):
        if size[key] <= fast_bytes and varied + len(groups[key]) <= MAX_VARIED:
            units.append(tuple(groups[key]))
            varied += len(groups[key])
    return tuple(units)


def worth_a_price(planned: Sequence[Priceable]) -> list[Priceable]:
    """The fewest instructions that make up `ENDS_SHARE` of the bytes of all buffers, every use
    counted."""
    return _largest(planned, [item.moved_bytes * item.count for item in planned], ENDS_SHARE)


def worth_detail(
    planned: Sequence[Priceable], prices: Mapping[str, Mapping[str, int | None]], share: float
) -> list[Priceable]:
    """The fewest instructions whose savings make up a share of the program's, once the `ends` are
    priced."""
    savings = []
    for item in planned:
        slow, fast = (
            prices.get(item.signature, {}).get(subset_key(s)) for s in (frozenset(), item.fullest)
        )
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


def subset_of(entry: int) -> Subset:
    """The units of an entry of a table, sum(2^u for u in S)."""
    return frozenset(u for u in range(entry.bit_length()) if entry >> u & 1)


def subset_key(subset: Subset) -> str:
    """Unit numbers joined by commas."""
    return ",".join(str(u) for u in sorted(subset))


def infer_prices(
    planned: Sequence[Priceable], prices: Mapping[str, Mapping[str, int | None]]
) -> Prices:
    """Prices of the instructions that were never priced, from those of their kind that were.

    Nothing in fast memory costs the kind's cycles per byte moved, and as much as fits saves the
    kind's share of that, both summed over the priced instructions, each as often as it occurs.
    Where none of the kind is priced, all kinds count. What `prices` has is left out.
    """
    sums: dict[str, np.ndarray] = {}
    for item in planned:
        have = prices.get(item.signature, {})
        slow, fast = have.get(""), have.get(subset_key(item.fullest))
        if slow is not None:
            saved = 0 if fast is None else slow - fast
            for kind in (item.kind, ""):
                sums.setdefault(kind, np.zeros(3))
                sums[kind] += item.count * np.array([item.moved_bytes, slow, saved])
    inferred: Prices = {}
    for item in planned:
        if not prices.get(item.signature) and "" in sums:
            moved, slow, saved = sums.get(item.kind, sums[""])
            base = item.moved_bytes * slow / max(moved, 1)
            inferred[item.signature] = {"": round(base)}
            if item.fullest and slow > 0:
                inferred[item.signature][subset_key(item.fullest)] = round(
                    base * (1 - saved / slow)
                )
    return inferred


def complete_table(
    unit_bytes: Sequence[int], prices: Mapping[str, float | None]
) -> np.ndarray | None:
    """All 2^n latencies from those that are priced.

    A subset S that is not priced takes its additive estimate, L({}) minus the savings of its
    members alone, but no less than the least priced latency of a superset or, where none is priced,
    of everything priced: savings overlap where another resource becomes the limit. A unit not
    priced alone is taken to save its share, by bytes, of what the units of the fullest priced
    subset that holds it save together.

    Args:
      unit_bytes: bytes of each of the n units.
      prices: cycles by `subset_key`; missing and None entries are filled in.

    Returns:
      [2^n] float64 in the unit of `prices`, entry sum(2^u for u in S); None where L({}) is unknown.
    """
    base = prices.get("")
    if base is None:
        return None
    num_units = len(unit_bytes)
    known = {
        frozenset(int(u) for u in k.split(",") if u): v for k, v in prices.items() if v is not None
    }
    saving = np.zeros(num_units)
    for u in range(num_units):
        if frozenset({u}) in known:
            saving[u] = base - known[frozenset({u})]
            continue
        holding = max((s for s in known if u in s), key=lambda s: (len(s), sorted(s)), default=None)
        if holding is not None:
            whole = sum(unit_bytes[v] for v in holding)
            saving[u] = (base - known[holding]) * (unit_bytes[u] / whole if whole else 0.0)
    table = np.empty(1 << num_units)
    for entry in range(1 << num_units):
        subset = subset_of(entry)
        if subset in known:
            table[entry] = known[subset]
            continue
        above = [v for s, v in known.items() if s >= subset]
        floor = min(above) if above else min(known.values())
        table[entry] = max(base - saving[list(subset)].sum(), floor)
    return table
