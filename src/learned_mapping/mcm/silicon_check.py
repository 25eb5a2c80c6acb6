"""What a partition does on silicon, written from the equations of `hardware.silicon` alone, in plain Python.

Op by op, tensor by tensor, link by link; shares no code with the compiled simulator, which a test holds to it.
"""

from __future__ import annotations

from learned_mapping.hardware.chip_package import OP_CLASSES, ChipPackage, op_classes
from learned_mapping.hardware.silicon import LOOKUPS, Silicon, SiliconParameters
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.validate import MAX_NAMED, bytes_of_ops, validate
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import Verdict, Violation


def validate_on_silicon(partition: Partition, silicon: Silicon) -> Verdict:
    """The validator's verdict, and whether every chip's memory holds what the silicon keeps there (H of Eq. 5).

    Returns:
      A verdict with the costs of `validate`, but ``peak_bytes`` as the silicon needs them; and ``silicon_throughput``,
      without noise, 0 where the partition does not fit.
    """
    graph, package = silicon.graph, silicon.package
    verdict = validate(graph, partition, package)
    if not verdict.costs:  # wrong ids, or an edge that runs backwards
        return verdict
    f = [int(chip) for chip in partition.assignment]
    chip_s, link_s, peak = stages_by_definition(graph, f, package, silicon.parameters)
    full = [d for d in range(package.chips) if peak[d] > package.sram_bytes]
    broken = [
        Violation("Eq. 5 on silicon", (f"chip {d}",), f"needs {int(peak[d])} bytes, has {int(package.sram_bytes)}")
        for d in full[:MAX_NAMED]
    ]
    runtime = max(*chip_s, *link_s)
    costs = {**verdict.costs, "peak_bytes": float(max(peak))}
    costs["silicon_throughput"] = 1.0 / runtime if runtime > 0 and not full else 0.0
    return Verdict((*verdict.violations, *broken), costs)


def stages_by_definition(
    graph: ComputationGraph, f: list[int], package: ChipPackage, parameters: SiliconParameters
) -> tuple[list[float], list[float], list[int]]:
    """([C] t_d, [C] b_d, [C] peak bytes) of an assignment that obeys Eq. 2."""
    chips = package.chips
    arrives: list[set[int]] = [set() for _ in range(chips)]
    leaves: list[set[int]] = [set() for _ in range(chips)]
    link_s = [0.0] * chips
    for tensor in range(graph.num_tensors):
        home, users = f[graph.tensor_producer[tensor]], {f[v] for v in graph.consumers(tensor)}
        for chip in users - {home}:
            arrives[chip].add(tensor)
            leaves[home].add(tensor)
        for link in range(home, max(users, default=home)):
            link_s[link] += int(graph.tensor_bytes[tensor]) / package.link_bytes_per_s + parameters.message_s
    traffic, names = bytes_of_ops(graph), [OP_CLASSES[index] for index in op_classes(graph)]
    chip_s, peaks = [], []
    for chip in range(chips):
        live, peak = _live_bytes(graph, f, chip, arrives[chip], leaves[chip])
        compute, before = 0.0, ""
        for op, held in live:
            if graph.op_kinds[op] == "input" and graph.op_seconds is None:
                continue
            fullness = (held / package.sram_bytes - parameters.spill_from) / (1 - parameters.spill_from)
            seconds = _op_seconds(graph, op, names[op], traffic[op], package, parameters)
            compute += seconds * (1 + parameters.spill_slowdown * max(0.0, fullness) ** 2)
            compute += parameters.switch_s if before not in ("", names[op]) else 0.0
            before = names[op]
        links = link_s[chip] + (link_s[chip - 1] if chip else 0.0)
        waiting = parameters.contention * compute * links / (compute + links) if compute else 0.0
        chip_s.append(compute + waiting + parameters.sync_s)
        peaks.append(peak)
    return chip_s, link_s, peaks


def _live_bytes(
    graph: ComputationGraph, f: list[int], chip: int, arrives: set[int], leaves: set[int]
) -> tuple[list[tuple[int, int]], int]:
    """The chip's ops in order, each with the bytes held while it runs; and the most bytes ever held."""
    mine = [int(op) for op in graph.topological_order if f[op] == chip]
    rank = {op: i for i, op in enumerate(mine)}
    size = [int(b) for b in graph.tensor_bytes]
    weights = sum(int(graph.op_weight_bytes[op]) for op in mine if graph.op_kinds[op] not in LOOKUPS)
    buffers = sum(size[t] for t in arrives) + sum(size[t] for t in leaves)
    spans = []  # (tensor, first rank, last rank) of what lives here
    for tensor in range(graph.num_tensors):
        producer = int(graph.tensor_producer[tensor])
        uses = [rank[v] for v in graph.consumers(tensor).tolist() if v in rank]
        if tensor in arrives:
            spans.append((tensor, 0, max(uses)))
        elif producer in rank:
            kept = tensor in leaves or graph.tensor_is_output[tensor]
            spans.append((tensor, rank[producer], len(mine) if kept else max(uses, default=rank[producer])))
    held = [sum(size[t] for t, first, last in spans if first <= i <= last) for i in range(len(mine))]
    held = [weights + buffers + h for h in held]
    return list(zip(mine, held)), max(held, default=0)


def _op_seconds(
    graph: ComputationGraph,
    op: int,
    name: str,
    traffic: tuple[int, int],
    package: ChipPackage,
    parameters: SiliconParameters,
) -> float:
    if graph.op_seconds is not None:
        roofline = float(graph.op_seconds[op])
    else:
        (reads, writes), weights = traffic, int(graph.op_weight_bytes[op])
        table = graph.op_kinds[op] in LOOKUPS and weights > 0
        streaming = (reads + writes) / package.sram_bytes_per_s
        streaming += 0.0 if table else weights / package.weight_bytes_per_s
        roofline = max(float(graph.op_flop[op]) / package.flop_per_s, streaming)
        roofline += writes / package.link_bytes_per_s if table else 0.0
    if roofline == 0:
        return parameters.launch_s
    slowdown = 1.0 if name == "matrix" else getattr(parameters, name)
    efficiency = (1 + parameters.half_efficiency_s / roofline) ** -parameters.efficiency_exponent
    return roofline * slowdown / efficiency + parameters.launch_s
