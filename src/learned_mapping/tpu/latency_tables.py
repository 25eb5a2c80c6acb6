"""Latency tables L_I(S) of a compiled program, measured the way paper 1 measures them, on the compiler's cost model.

Every instruction is priced under subsets of its buffers in fast memory by compiling probes (`hlo_probe`) through the
compiler's back end. Instructions that do the same work are priced once: with nothing in fast memory, and with as much
as fits. Those that make up most of the saving between the two are priced in detail; those that together move little
are inferred from others of their kind (`infer_prices`). `complete_table` fills in the rest by a stated rule, to be
judged on placements that were never priced for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from learned_mapping.tpu.compiler import TOPOLOGY
from learned_mapping.tpu.hlo_program import HloProgram
from learned_mapping.tpu.latency_plan import (
    ALONE_SHARE,
    OTHERS_SHARE,
    Priceable,
    subset_key,
    worth_a_price,
    worth_detail,
)
from learned_mapping.tpu.probe_prices import Prices, price

CLOCK_HZ = 1.05e9
"""TensorCore clock of TPU v4 and v4i (Jouppi et al. 2021, table 1: 1,050 MHz): one estimated cycle in seconds."""


def price_in_stages(
    module_text: str,
    program: HloProgram,
    planned: Sequence[Priceable],
    *,
    space: int,
    topology: str = TOPOLOGY,
    known: Mapping[str, Mapping[str, int | None]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Prices the ends of every instruction that matters, then units alone and other subsets where the saving is.

    Args:
      module_text: the module before memory assignment, as dumped.
      program: what it holds.
      planned: from `latency_plan.plan`.
      space: the number of the fast memory space.
      topology: what to compile for.
      known: prices found earlier; they are not computed again.
      progress: called with (probes done, probes of this stage).
    """
    options = {"space": space, "topology": topology, "progress": progress}
    ends = [(p, p.ends) for p in worth_a_price(planned)]
    prices = price(module_text, program, ends, known=known, **options)
    alone = [(p, p.alone) for p in worth_detail(planned, prices, ALONE_SHARE)]
    others = [(p, p.others) for p in worth_detail(planned, prices, OTHERS_SHARE)]
    return price(module_text, program, [*alone, *others], known=prices, **options)


def infer_prices(planned: Sequence[Priceable], prices: Mapping[str, Mapping[str, int | None]]) -> Prices:
    """Prices of the instructions that were never priced, from those of their kind that were.

    Nothing in fast memory costs the kind's cycles per byte moved, and as much as fits saves the kind's share of that,
    both summed over the priced instructions, each as often as it occurs. Where none of the kind is priced, all
    kinds count.

    Args:
      planned: from `latency_plan.plan`.
      prices: cycles by signature and `subset_key`.

    Returns:
      Cycles by signature, of `planned` without those that `prices` has.
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
                inferred[item.signature][subset_key(item.fullest)] = round(base * (1 - saved / slow))
    return inferred


def complete_table(unit_bytes: Sequence[int], prices: Mapping[str, float | None]) -> np.ndarray | None:
    """All 2^n latencies from those that are priced.

    A subset S that is not priced takes its additive estimate, L({}) minus the savings of its members alone, but no less
    than the least priced latency of a superset or, where none is priced, of everything priced: savings overlap where
    another resource becomes the limit. A unit not priced alone is taken to save its share, by bytes, of what the units
    of the fullest priced subset that holds it save together.

    Args:
      unit_bytes: bytes of each of the n units.
      prices: cycles by `latency_plan.subset_key`; missing and None entries are filled in.

    Returns:
      [2^n] float64 in the unit of `prices`, entry sum(2^u for u in S); None where L({}) is unknown.
    """
    base = prices.get("")
    if base is None:
        return None
    num_units = len(unit_bytes)
    known = {frozenset(int(u) for u in k.split(",") if u): v for k, v in prices.items() if v is not None}
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
        subset = frozenset(u for u in range(num_units) if entry >> u & 1)
        if subset in known:
            table[entry] = known[subset]
            continue
        above = [v for s, v in known.items() if s >= subset]
        floor = min(above) if above else min(known.values())
        table[entry] = max(base - saving[list(subset)].sum(), floor)
    return table
