"""Paper 1's Figure 8: the best layout found of one program beside the compiler's, a tensor of several stays marked.

The paper shows alexnet_train_batch_32. Here the program is the one on which `OURS` is furthest ahead in `mmap.table3`,
and the tensor the one that it gives most separate stays in fast memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap import speedup as mmap_speedup
from learned_mapping.companion.mmap.runs import COMPILER, counted, load, plan_run
from learned_mapping.companion.mmap.speedup import AGENT, OURS, SECONDS
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY, NO_OFFSET
from learned_mapping.programs.program import Program

WITHOUT_OFFSETS = "heuristic"
"""What stands for the compiler where its mapping does not say at which offsets."""
SHARE = 0.02
"""A tensor is marked if it takes at least this share of the fast memory, so that it can be seen."""
FIELDS = ("action", "offset", "start", "end")

PAPER_FIG8 = ("alexnet_train_batch_32", 1.17)
"""Figure 8: the agent's latency improvement of 17%, on a chip."""


@dataclass(frozen=True)
class Stay:
    """One uninterrupted stay of a tensor in fast memory."""

    start: int
    end: int
    """Steps, both included."""
    offset: int
    """Bytes."""
    loaded: bool
    """Copied in from HBM; else written there by its instruction."""


def stays(program: Program, mapping: Mapping, tensor: int) -> list[Stay]:
    """The stays of a tensor, in order.

    A placed output or an input's Copy begins one; an input's NoCopy extends the one before.
    """
    found: list[Stay] = []
    for b in np.flatnonzero((program.buffer_tensor == tensor) & mapping.placed).tolist():
        start, end, offset = int(mapping.start[b]), int(mapping.end[b]), int(mapping.offset[b])
        loaded = not program.buffer_is_output[b] and int(mapping.action[b]) == COPY
        if loaded or program.buffer_is_output[b] or not found:
            found.append(Stay(start, end, offset, loaded))
        elif end > found[-1].end:
            found[-1] = Stay(found[-1].start, end, found[-1].offset, found[-1].loaded)
    return found


def marked_tensor(program: Program, mapping: Mapping) -> int:
    """The tensor of most stays among those of at least `SHARE` of the fast memory; of equals the largest, then first.

    Where no tensor of that size is placed, all tensors count.
    """
    counts = np.array([len(stays(program, mapping, tensor)) for tensor in range(program.num_tensors)])
    large = (program.tensor_bytes >= SHARE * program.fast_bytes) & (counts > 0)
    candidates = np.flatnonzero(large if large.any() else np.ones_like(large)).tolist()
    return max(candidates, key=lambda tensor: (counts[tensor], program.tensor_bytes[tensor], -tensor))


def chosen_program(profile: str) -> str:
    """The program of the largest speedup in the stored `mmap.table3`; without one, the table's first."""
    table = results.stored("mmap.table3", profile)
    order = [] if table is None else mmap_speedup.ranked(table)
    return order[0]["instance"] if order else mmap_speedup.programs(profile)[0]


def has_offsets(mapping: Mapping) -> bool:
    """Whether every placed buffer has a place that can be drawn."""
    return bool((mapping.offset[mapping.placed] > NO_OFFSET).all())


def plan_fig8(profile: str, seeds: int) -> list[Run]:
    """One run of `OURS` with the seconds of `mmap.table3`, its mapping kept; the compiler's mapping."""
    name, config = chosen_program(profile), {"seconds": SECONDS[profile], "keep": True}
    runs = [plan_run(OURS, name, config)]
    if has_offsets(load(name)[1]):
        return runs + [plan_run(method, name, {}) for method in COMPILER]
    return [*runs, plan_run(WITHOUT_OFFSETS, name, config)]


def assemble_fig8(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Two rows with mappings and the marked tensor's stays; what it holds under both; returns and speedups.

    ``held_byte_steps`` is the tensor's bytes times the steps at which it is in fast memory.
    """
    agent, compiler, *within = records
    name = agent["instance"]
    program, own = load(name)
    mapping = make_mapping(program, **agent["result"]["mapping"])
    stored = compiler["result"].get("mapping")
    mappings = {OURS: mapping, compiler["method"]: own if stored is None else make_mapping(program, **stored)}
    tensor = marked_tensor(program, mapping)
    rows: list[dict[str, Any]] = []
    for record in (agent, compiler):
        method = record["method"]
        found, costs = stays(program, mappings[method], tensor), record["result"]["costs"]
        rows.append(
            {
                **_row(name, method, "return", costs.get("return", 0.0)),
                "program": record["config"]["program"],
                "seconds": record["config"].get("seconds"),
                "mapping": {field: getattr(mappings[method], field).tolist() for field in FIELDS},
                "tensor": program.tensor_names[tensor],
                "tensor_bytes": int(program.tensor_bytes[tensor]),
                "live": program.tensor_live[tensor].tolist(),
                "stays": [[stay.start, stay.end, stay.offset] for stay in found],
            }
        )
        numbers = {
            "latency_s": latency_s(record),
            "placed": int(mappings[method].placed.sum()),
            "stays": len(found),
            "loads": sum(stay.loaded for stay in found),
            "held_byte_steps": int(program.tensor_bytes[tensor]) * held_steps(found),
        }
        rows += [_row(name, method, metric, value) for metric, value in numbers.items()]
    for metric, record in zip(("speedup", "speedup_kept"), (compiler, *within)):
        rows.append(_row(name, OURS, metric, latency_s(record) / latency_s(agent)) | {"baseline": record["method"]})
    paper = [_row(PAPER_FIG8[0], AGENT, "speedup", PAPER_FIG8[1])]
    return {"rows": rows, "paper": paper, **counted(records)}


def held_steps(found: Sequence[Stay]) -> int:
    """Steps in at least one of the stays."""
    return len({step for stay in found for step in range(stay.start, stay.end + 1)})


def latency_s(record: dict[str, Any]) -> float:
    """Of a record of `mmap_runs.run_method`; an invalid mapping counts as everything in HBM."""
    return float(record["result"]["costs"].get("latency_s", record["result"]["slow_s"]))


def _row(instance: str, method: str, metric: str, value: float) -> dict[str, Any]:
    return {"instance": instance, "method": method, "metric": metric, "value": value, "n": 1}
