"""Is this partition allowed, and what does it cost? Written from paper 2's equations; shares no code with a method.

Plain Python over every edge, chip and tensor. Eq. 4 is evaluated as printed, by longest paths between chips; the costs
follow the formula at the head of `hardware.chip_package`, tensor by tensor and link by link.
"""

from __future__ import annotations

import math

from learned_mapping.hardware.chip_package import ChipPackage, chip_memory
from learned_mapping.mcm.partition import Partition
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import Verdict, Violation

MAX_NAMED = 20
"""At most so many violations of one rule are listed; the last says how many more there are."""


def validate(
    graph: ComputationGraph, partition: Partition, package: ChipPackage | None = None, *, memory: bool = False
) -> Verdict:
    """Judges a partition of `graph`.

    Args:
      package: the chips; `ChipPackage` with the partition's number of chips when None.
      memory: also demand that every chip's memory fits `ChipPackage.sram_bytes`, the dynamic constraint H of Eq. 5.

    Returns:
      A verdict. Costs, where Eq. 2 holds: ``throughput`` (results per second), ``runtime_s``, ``chips_used``,
      ``peak_bytes`` of the fullest chip.
    """
    package = ChipPackage(chips=partition.chips) if package is None else package
    f = [int(chip) for chip in partition.assignment]
    if len(f) != graph.num_ops:
        return Verdict((Violation("assignment", (), f"{len(f)} chips for {graph.num_ops} ops"),))
    outside = [op for op, chip in enumerate(f) if not 0 <= chip < min(partition.chips, package.chips)]
    if outside:
        detail = f"there is no chip {f[outside[0]]}, only {min(partition.chips, package.chips)}"
        return Verdict((Violation("assignment", _names(graph, outside), detail),))

    edges = [(int(u), int(v)) for u, v in zip(graph.edge_producer, graph.edge_consumer)]
    edges = list(dict.fromkeys(edges))
    against = [(u, v) for u, v in edges if f[u] > f[v]]
    broken = _listed(
        "Eq. 2 acyclic dataflow",
        [(_names(graph, edge), f"runs from chip {f[edge[0]]} back to chip {f[edge[1]]}") for edge in against],
    )
    used = set(f)
    skipped = [d for d in range(max(used)) if d not in used]
    broken += _listed(
        "Eq. 3 no skipping chips", [((f"chip {d}",), f"runs no op, but chip {max(used)} does") for d in skipped]
    )
    broken += _triangle(graph, f, edges)
    if against:
        return Verdict(tuple(broken))

    peak = [int(b) for b in chip_memory(graph, partition.assignment, package.chips)]
    if memory:
        full = [(d, peak[d]) for d in range(package.chips) if peak[d] > package.sram_bytes]
        broken += _listed(
            "Eq. 5 dynamic constraint (memory)",
            [((f"chip {d}",), f"needs {bytes_} bytes, has {int(package.sram_bytes)}") for d, bytes_ in full],
        )
    runtime = max(_chip_seconds(graph, f, package))
    return Verdict(
        tuple(broken),
        {
            "throughput": 1.0 / runtime if runtime > 0 else 0.0,
            "runtime_s": runtime,
            "chips_used": float(len(used)),
            "peak_bytes": float(max(peak)),
        },
    )


def longest_paths(chips: int, chip_edges: set[tuple[int, int]]) -> list[list[float]] | None:
    """δ of Eq. 4: [C][C] lengths of the longest paths, 0 on the diagonal, -inf where there is no path.

    None where the chips depend on each other in a cycle, so that paths have no longest.
    """
    following: list[list[int]] = [[] for _ in range(chips)]
    waiting = [0] * chips
    for a, b in sorted(chip_edges):
        following[a].append(b)
        waiting[b] += 1
    order = [d for d in range(chips) if not waiting[d]]
    for a in order:
        for b in following[a]:
            waiting[b] -= 1
            if not waiting[b]:
                order.append(b)
    if len(order) < chips:
        return None
    delta = [[0.0 if a == b else -math.inf for b in range(chips)] for a in range(chips)]
    for row in delta:
        for a in order:
            for b in following[a]:
                row[b] = max(row[b], row[a] + 1)
    return delta


def _triangle(graph: ComputationGraph, f: list[int], edges: list[tuple[int, int]]) -> list[Violation]:
    used = sorted(set(f))
    compact = {chip: i for i, chip in enumerate(used)}
    chip_edges = {(compact[f[u]], compact[f[v]]) for u, v in edges if f[u] != f[v]}
    delta = longest_paths(len(used), chip_edges)
    if delta is None:
        # Only possible where Eq. 2 is broken, which is reported with its culprits.
        return [Violation("Eq. 4 chip triangle", (), "the chips depend on each other in a cycle: δ is not defined")]
    found = []
    for u, v in edges:
        length = delta[compact[f[u]]][compact[f[v]]]
        if f[u] != f[v] and length != 1:
            detail = f"goes from chip {f[u]} to chip {f[v]}, which a path over {int(length)} chip edges joins too"
            found.append((_names(graph, (u, v)), detail))
    return _listed("Eq. 4 chip triangle", found)


def _chip_seconds(graph: ComputationGraph, f: list[int], package: ChipPackage) -> list[float]:
    """Seconds of every chip: ops one by one, then every tensor over every link it crosses."""
    seconds = [0.0] * package.chips
    link_bytes = [0] * package.chips
    for tensor in range(graph.num_tensors):
        home = f[graph.tensor_producer[tensor]]
        for link in range(home, max([home, *(f[v] for v in graph.consumers(tensor))])):
            link_bytes[link] += int(graph.tensor_bytes[tensor])
    traffic = bytes_of_ops(graph)
    for op in range(graph.num_ops):
        if graph.op_seconds is not None:
            seconds[f[op]] += float(graph.op_seconds[op])
        elif graph.op_kinds[op] != "input":
            arithmetic = float(graph.op_flop[op]) / package.flop_per_s
            streaming = sum(traffic[op]) / package.sram_bytes_per_s
            streaming += int(graph.op_weight_bytes[op]) / package.weight_bytes_per_s
            seconds[f[op]] += max(arithmetic, streaming) + package.op_overhead_s
    for chip in range(package.chips):
        arriving = link_bytes[chip - 1] if chip else 0
        seconds[chip] += (arriving + link_bytes[chip]) / package.link_bytes_per_s
    return seconds


def bytes_of_ops(graph: ComputationGraph) -> list[tuple[int, int]]:
    """Bytes each op reads and writes, its weights not counted."""
    read, written = [0] * graph.num_ops, [0] * graph.num_ops
    for tensor, producer in enumerate(graph.tensor_producer.tolist()):
        size = int(graph.tensor_bytes[tensor])
        written[producer] += size
        for consumer in set(graph.consumers(tensor).tolist()):
            read[consumer] += size
    return list(zip(read, written))


def _names(graph: ComputationGraph, ops: list[int] | tuple[int, ...]) -> tuple[str, ...]:
    return tuple(graph.op_names[op] for op in ops[:MAX_NAMED])


def _listed(rule: str, found: list[tuple[tuple[str, ...], str]]) -> list[Violation]:
    """One violation each, up to `MAX_NAMED`."""
    violations = [Violation(rule, culprits, detail) for culprits, detail in found[:MAX_NAMED]]
    if len(found) > MAX_NAMED:
        violations.append(Violation(rule, (), f"and {len(found) - MAX_NAMED} more like these"))
    return violations
