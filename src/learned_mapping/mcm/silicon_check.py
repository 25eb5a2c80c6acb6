"""What a partition does on silicon, written from the equations of `hardware.silicon` alone, in plain Python.

Op by op, tensor by tensor, link by link; shares no code with the compiled simulator, which a test holds to it.
"""

from itertools import accumulate

from learned_mapping.hardware.chip_package import OP_CLASSES, ChipPackage, op_classes
from learned_mapping.hardware.silicon import LOOKUPS, Silicon, SiliconParameters
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.validate import bytes_of_ops, validate
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import LISTED, Verdict, Violations


def validate_on_silicon(partition: Partition, silicon: Silicon, *, listed: int | None = LISTED) -> Verdict:
    """The validator's verdict, and whether every chip's memory holds what the silicon keeps there (H of Eq. 5).

    Returns:
      A verdict with the costs of `validate`, but ``peak_bytes`` as the silicon needs them; and ``silicon_throughput``,
      without noise, 0 where the partition does not fit.
    """
    graph, package = silicon.graph, silicon.package
    verdict = validate(graph, partition, package, listed=listed)
    if not verdict.costs:  # wrong ids, or an edge that runs backwards
        return verdict
    f = [int(chip) for chip in partition.assignment]
    chip_s, link_s, peak = stages_by_definition(graph, f, package, silicon.parameters)
    broken = Violations(listed)
    for d in range(package.chips):
        if peak[d] > package.sram_bytes:
            broken.add("Eq. 5 on silicon", (f"chip {d}",), f"needs {peak[d]} bytes, has {int(package.sram_bytes)}")
    runtime = max(*chip_s, *link_s)
    costs = {**verdict.costs, "peak_bytes": float(max(peak))}
    costs["silicon_throughput"] = 1.0 / runtime if runtime > 0 and not broken else 0.0
    return Verdict((*verdict.violations, *broken.all()), costs)


def stages_by_definition(
    graph: ComputationGraph, f: list[int], package: ChipPackage, parameters: SiliconParameters
) -> tuple[list[float], list[float], list[int]]:
    """([C] t_d, [C] b_d, [C] peak bytes) of an assignment that obeys Eq. 2."""
    chips = package.chips
    arrives: list[set[int]] = [set() for _ in range(chips)]
    leaves: list[set[int]] = [set() for _ in range(chips)]
    made: list[list[int]] = [[] for _ in range(chips)]
    crossing = [(0, 0)] * (chips + 1)  # (bytes, messages) on the link behind each chip, as changes
    for tensor, size in enumerate(graph.tensor_bytes.tolist()):
        home, users = f[graph.tensor_producer[tensor]], {f[v] for v in graph.consumers(tensor)}
        made[home].append(tensor)
        for chip in users - {home}:
            arrives[chip].add(tensor)
            leaves[home].add(tensor)
        for link, sign in ((home, 1), (max(users, default=home), -1)):
            crossing[link] = (crossing[link][0] + sign * size, crossing[link][1] + sign)
    totals = zip(*(accumulate(column) for column in zip(*crossing)))
    link_s = [size / package.link_bytes_per_s + count * parameters.message_s for size, count in totals][:chips]
    ops: list[list[int]] = [[] for _ in range(chips)]
    for op in graph.topological_order.tolist():
        ops[f[op]].append(op)
    rank = {op: i for mine in ops for i, op in enumerate(mine)}
    last: dict[tuple[int, int], int] = {}  # (tensor, chip) -> place of its last use there in the chip's order
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        key = (tensor, f[consumer])
        last[key] = max(last.get(key, 0), rank[consumer])
    traffic, names = bytes_of_ops(graph), [OP_CLASSES[index] for index in op_classes(graph)]
    chip_s, peaks = [], []
    for chip in range(chips):
        live, peak = _live_bytes(graph, chip, ops[chip], made[chip], arrives[chip], leaves[chip], last)
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
    graph: ComputationGraph,
    chip: int,
    mine: list[int],
    made: list[int],
    arrives: set[int],
    leaves: set[int],
    last: dict[tuple[int, int], int],
) -> tuple[list[tuple[int, int]], int]:
    """A chip's ops in order, each with the bytes held while it runs; and the most bytes ever held."""
    rank = {op: i for i, op in enumerate(mine)}
    weights = sum(int(graph.op_weight_bytes[op]) for op in mine if graph.op_kinds[op] not in LOOKUPS)
    change = [0] * (len(mine) + 2)  # of the bytes of what lives here, from one op to the next
    for tensor in [*arrives, *made]:
        size, first, kept = int(graph.tensor_bytes[tensor]), 0, False
        if tensor not in arrives:
            first = rank[int(graph.tensor_producer[tensor])]
            kept = tensor in leaves or bool(graph.tensor_is_output[tensor])
        change[first] += size
        change[(len(mine) if kept else last.get((tensor, chip), first)) + 1] -= size
    buffers = sum(int(graph.tensor_bytes[t]) for t in arrives) + sum(int(graph.tensor_bytes[t]) for t in leaves)
    held = [weights + buffers + live for live in accumulate(change[: len(mine)])]
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
