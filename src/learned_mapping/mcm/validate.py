"""Is this partition allowed, and what does it cost? Written from paper 2's equations; shares no code with a method.

Plain Python over every edge, chip and tensor. Eq. 4 asks that the longest path between two chips that an edge joins be
that edge: it is broken where another way leads from the one to the other, which sets of the chips in reach tell. The
costs follow the formula at the head of `hardware.chip_package`, tensor by tensor and link by link.
"""

import math
from itertools import accumulate

from learned_mapping.hardware.chip_package import ChipPackage, chip_memory
from learned_mapping.mcm.partition import Partition
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import LISTED, Verdict, Violation, Violations


def validate(
    graph: ComputationGraph,
    partition: Partition,
    package: ChipPackage | None = None,
    *,
    memory: bool = False,
    listed: int | None = LISTED,
) -> Verdict:
    """Judges a partition of `graph`.

    Args:
      package: the chips; `ChipPackage` with the partition's number of chips when None.
      memory: also demand that every chip's memory fits `ChipPackage.sram_bytes`, the dynamic constraint H of Eq. 5.
      listed: violations listed of each rule; all where None.

    Returns:
      A verdict. Costs, where Eq. 2 holds: ``throughput`` (results per second), ``runtime_s``, ``chips_used``,
      ``peak_bytes`` of the fullest chip.
    """
    package = ChipPackage(chips=partition.chips) if package is None else package
    f = [int(chip) for chip in partition.assignment]
    if len(f) != graph.num_ops:
        return Verdict((Violation("assignment", (), f"{len(f)} chips for {graph.num_ops} ops"),))
    broken = Violations(listed)
    outside = [op for op, chip in enumerate(f) if not 0 <= chip < min(partition.chips, package.chips)]
    if outside:
        detail = f"there is no chip {f[outside[0]]}, only {min(partition.chips, package.chips)}"
        broken.add("assignment", [graph.op_names[op] for op in outside], detail)
        return Verdict(broken.all())

    edges = list(dict.fromkeys(zip(graph.edge_producer.tolist(), graph.edge_consumer.tolist())))
    against = [(u, v) for u, v in edges if f[u] > f[v]]
    for u, v in against:
        detail = f"runs from chip {f[u]} back to chip {f[v]}"
        broken.add("Eq. 2 acyclic dataflow", (graph.op_names[u], graph.op_names[v]), detail)
    used = set(f)
    for d in range(max(used)):
        if d not in used:
            broken.add("Eq. 3 no skipping chips", (f"chip {d}",), f"runs no op, but chip {max(used)} does")
    _triangle(graph, f, edges, broken)
    if against:
        return Verdict(broken.all())

    peak = chip_memory(graph, partition.assignment, package.chips).tolist()
    for d in range(package.chips) if memory else ():
        if peak[d] > package.sram_bytes:
            detail = f"needs {peak[d]} bytes, has {int(package.sram_bytes)}"
            broken.add("Eq. 5 dynamic constraint (memory)", (f"chip {d}",), detail)
    runtime = max(_chip_seconds(graph, f, package))
    return Verdict(
        broken.all(),
        {
            "throughput": 1.0 / runtime if runtime > 0 else 0.0,
            "runtime_s": runtime,
            "chips_used": float(len(used)),
            "peak_bytes": float(max(peak)),
        },
    )


def _following(chip_edges: set[tuple[int, int]]) -> tuple[dict[int, list[int]], list[int]]:
    """The chips each chip sends to, and an order of all in which a chip comes before those; shorter where none is."""
    following: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for a, b in sorted(chip_edges):
        following.setdefault(a, []).append(b)
        waiting[a], waiting[b] = waiting.get(a, 0), waiting.get(b, 0) + 1
    order = sorted(d for d in waiting if not waiting[d])
    for a in order:
        for b in following.get(a, ()):
            waiting[b] -= 1
            if not waiting[b]:
                order.append(b)
    return following, order if len(order) == len(waiting) else []


def longest_path(chip_edges: set[tuple[int, int]], start: int) -> dict[int, float] | None:
    """δ of Eq. 4: chip -> length of the longest path to it from `start`, -inf where there is none.

    None where the chips depend on each other in a cycle, so that paths have no longest.
    """
    following, order = _following(chip_edges)
    if chip_edges and not order:
        return None
    delta = dict.fromkeys(order, -math.inf) | {start: 0.0}
    for a in order:
        for b in following.get(a, ()):
            delta[b] = max(delta[b], delta[a] + 1)
    return delta


def _triangle(graph: ComputationGraph, f: list[int], edges: list[tuple[int, int]], broken: Violations) -> None:
    rule = "Eq. 4 chip triangle"
    chip_edges = {(f[u], f[v]) for u, v in edges if f[u] != f[v]}
    following, order = _following(chip_edges)
    if chip_edges and not order:
        # Only possible where Eq. 2 is broken, which is reported with its culprits.
        broken.add(rule, (), "the chips depend on each other in a cycle: δ is not defined")
        return
    reached: dict[int, int] = {}  # chip -> the set of chips it reaches, as bits of one number
    by_detour: dict[int, int] = {}  # the same, over at least two chip edges
    for a in reversed(order):
        direct = by_detour[a] = 0
        for b in following.get(a, ()):
            direct |= 1 << b
            by_detour[a] |= reached[b]
        reached[a] = direct | by_detour[a]
    lengths: dict[int, dict[int, float]] = {}
    for u, v in edges:
        a, b = f[u], f[v]
        if a != b and by_detour[a] >> b & 1 and not broken.full(rule):
            if a not in lengths:
                lengths[a] = longest_path(chip_edges, a)
            detail = f"goes from chip {a} to chip {b}, which a path over {int(lengths[a][b])} chip edges joins too"
            broken.add(rule, (graph.op_names[u], graph.op_names[v]), detail)


def _chip_seconds(graph: ComputationGraph, f: list[int], package: ChipPackage) -> list[float]:
    """Seconds of every chip: ops one by one, then every tensor over every link it crosses."""
    seconds = [0.0] * package.chips
    producers, sizes = graph.tensor_producer.tolist(), graph.tensor_bytes.tolist()
    last = [f[producer] for producer in producers]  # chip of each tensor's last use
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        last[tensor] = max(last[tensor], f[consumer])
    change = [0] * (package.chips + 1)  # of the bytes on link d, from chip d to the next
    for tensor, producer in enumerate(producers):
        change[f[producer]] += sizes[tensor]
        change[last[tensor]] -= sizes[tensor]
    link_bytes = list(accumulate(change))
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
        for consumer in graph.consumers(tensor).tolist():
            read[consumer] += size
    return list(zip(read, written))
