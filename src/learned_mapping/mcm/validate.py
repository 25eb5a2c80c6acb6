"""Is this partition allowed, and what does it cost? Written from paper 2's equations; shares no
code with a method.

Plain Python over every edge, chip and tensor. Eq. 4 asks that the longest path between two chips
that an edge joins be that edge: it is broken where another way leads from the one to the other,
which sets of the chips in reach tell. The costs follow the formula at the head of
`hardware.chip_package`, tensor by tensor and link by link. On silicon they follow the equations of
`hardware.silicon`; a test holds the compiled simulator to them.
"""

import math
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate

import numpy as np

from learned_mapping.errors import InputError, expect_type, truth
from learned_mapping.hardware.chip_package import (
    LEAST_S,
    OP_CLASSES,
    TOO_SLOW,
    ChipPackage,
    Each,
    chip_memory,
    op_classes,
)
from learned_mapping.hardware.silicon import LOOKUPS, Silicon, SiliconParameters
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
      memory: also demand that every chip's memory fits `ChipPackage.sram_bytes`, the dynamic
        constraint H of Eq. 5.
      listed: violations listed of each rule; all where None.

    Returns:
      A verdict. Costs, where Eq. 2 holds: ``throughput`` (results per second), ``runtime_s``,
        ``chips_used``,
      ``peak_bytes``, what the fullest chip holds at most: its weights and the tensors that live
        there.

    Raises:
      InputError: what is given is none of these, a package cannot be, or its rates are too low for
        a time in seconds.
    """
    expect_type(graph, ComputationGraph, "graph")
    expect_type(partition, Partition, "partition")
    package = ChipPackage(chips=partition.chips) if package is None else package
    expect_type(package, ChipPackage, "package")
    memory = truth(memory, "memory")
    f = [int(chip) for chip in partition.assignment]
    if len(f) != graph.num_ops:
        return Verdict((Violation("assignment", (), f"{len(f)} chips for {graph.num_ops} ops"),))
    broken = Violations(listed)
    outside = [
        op for op, chip in enumerate(f) if not 0 <= chip < min(partition.chips, package.chips)
    ]
    if outside:
        detail = f"there is no chip {f[outside[0]]}, only {min(partition.chips, package.chips)}"
        broken.add("assignment", [graph.op_names[op] for op in outside], detail)
        return Verdict(broken.all())

    edges = list(dict.fromkeys(zip(graph.edge_producer.tolist(), graph.edge_consumer.tolist())))
    against = [(u, v) for u, v in edges if f[u] > f[v]]
    for u, v in against:
        detail = f"runs from chip {f[u]} back to chip {f[v]}"
        broken.add("Eq. 2 acyclic dataflow", (graph.op_names[u], graph.op_names[v]), detail)
    fixed = [-1] * graph.num_ops if graph.op_chip is None else graph.op_chip.tolist()
    together: dict[str, list[int]] = {}
    for op, chip in enumerate(fixed):
        if chip not in (-1, f[op]):
            broken.add(
                "fixed chip",
                (graph.op_names[op],),
                f"runs on chip {f[op]}, is fixed to chip {chip}",
            )
        if graph.op_group is not None and graph.op_group[op]:
            together.setdefault(graph.op_group[op], []).append(op)
    for group, ops in together.items():
        chips = sorted({f[op] for op in ops})
        if len(chips) > 1:
            detail = f"group {group!r} is on chips {', '.join(map(str, chips))}, belongs on one"
            broken.add("group on one chip", [graph.op_names[op] for op in ops], detail)
    used = set(f)
    for d in range(max(used)):
        if d not in used:
            broken.add(
                "Eq. 3 no skipping chips", (f"chip {d}",), f"runs no op, but chip {max(used)} does"
            )
    _triangle(graph, f, edges, broken)
    if against:
        return Verdict(broken.all())

    peak = chip_memory(graph, partition.assignment, package.chips).tolist()
    for d in range(package.chips) if memory else ():
        has = _of(package.sram_bytes, d)
        if peak[d] > has:
            detail = f"needs {peak[d]} bytes, has {int(has)}"
            broken.add("Eq. 5 dynamic constraint (memory)", (f"chip {d}",), detail)
    runtime = max(_chip_seconds(graph, f, package))
    if not math.isfinite(runtime):
        raise InputError(graph.name, "", TOO_SLOW)
    return Verdict(
        broken.all(),
        {
            "throughput": 1.0 / max(runtime, LEAST_S),
            "runtime_s": runtime,
            "chips_used": float(len(used)),
            "peak_bytes": float(max(peak)),
        },
    )


def _following(chip_edges: set[tuple[int, int]]) -> tuple[dict[int, list[int]], list[int]]:
    """The chips each chip sends to, and an order of all in which a chip comes before those; empty
    where none is."""
    following: dict[int, list[int]] = {}
    for a, b in chip_edges:
        following.setdefault(a, []).append(b)
    try:
        # it has what each leads to first
        return following, list(TopologicalSorter(following).static_order())[::-1]
    except CycleError:
        return following, []


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


def _triangle(
    graph: ComputationGraph, f: list[int], edges: list[tuple[int, int]], broken: Violations
) -> None:
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
                lengths[a] = longest_path(chip_edges, a) or {}
            detail = (
                f"goes from chip {a} to chip {b}, which a path over {int(lengths[a][b])} chip edges"
                " joins too"
            )
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
            chip = f[op]
            arithmetic = float(graph.op_flop[op]) / _of(package.flop_per_s, chip)
            touched, _, weights = traffic[op]
            streaming = touched / _of(package.sram_bytes_per_s, chip)
            streaming += weights / _of(package.weight_bytes_per_s, chip)
            seconds[chip] += max(arithmetic, streaming) + _of(package.op_overhead_s, chip)
    for chip in range(package.chips):
        if chip:
            seconds[chip] += link_bytes[chip - 1] / _of(package.link_bytes_per_s, chip - 1)
        seconds[chip] += link_bytes[chip] / _of(package.link_bytes_per_s, chip)
    return seconds


def _of(numbers: Each, chip: int) -> float:
    """A number of a chip, where all have the same or each its own."""
    return numbers[chip] if isinstance(numbers, tuple) else numbers


def bytes_of_ops(graph: ComputationGraph) -> list[tuple[int, int, int]]:
    """Bytes of each op: those of tensors it touches, of those it makes, of weights it reads."""
    touched, written, weights = (
        [0] * graph.num_ops,
        [0] * graph.num_ops,
        graph.op_weight_bytes.tolist(),
    )
    for tensor, producer in enumerate(graph.tensor_producer.tolist()):
        size = int(graph.tensor_bytes[tensor])
        written[producer] += size
        for op in (producer, *graph.consumers(tensor).tolist()):
            touched[op] += size
    for op, untouched in enumerate(
        [] if graph.op_untouched_bytes is None else graph.op_untouched_bytes.tolist()
    ):
        touched[op] = max(touched[op] - max(untouched - weights[op], 0), 0)
        weights[op] = max(weights[op] - untouched, 0)
    return list(zip(touched, written, weights))


def validate_on_silicon(
    partition: Partition, silicon: Silicon, *, listed: int | None = LISTED
) -> Verdict:
    """The validator's verdict, and whether half of every chip's memory holds its tensors (H of Eq.
    5).

    Returns:
      A verdict with the costs of `validate`; ``needed_bytes``, the memory that a chip must have
      here, twice the tensors of the fullest; and ``silicon_throughput``, without noise, 0 where the
      partition does not fit.
    """
    graph, package = silicon.graph, silicon.package
    verdict = validate(graph, partition, package, listed=listed)
    if not verdict.costs:  # wrong ids, or an edge that runs backwards
        return verdict
    f = [int(chip) for chip in partition.assignment]
    chip_s, link_s, needed = stages_by_definition(graph, f, package, silicon.parameters)
    broken = Violations(listed)
    for d in range(package.chips):
        has = _of(package.sram_bytes, d)
        if needed[d] > has:
            detail = f"needs {needed[d]} bytes, half of them for tensors, has {int(has)}"
            broken.add("Eq. 5 on silicon", (f"chip {d}",), detail)
    runtime = max(*chip_s, *link_s)
    costs = {**verdict.costs, "needed_bytes": float(max(needed))}
    costs["silicon_throughput"] = 0.0 if broken else 1.0 / max(runtime, LEAST_S)
    return Verdict((*verdict.violations, *broken.all()), costs)


def stages_by_definition(
    graph: ComputationGraph, f: list[int], package: ChipPackage, parameters: SiliconParameters
) -> tuple[list[float], list[float], list[int]]:
    """([C] t_d, [C] b_d, [C] bytes of memory needed) of an assignment that obeys Eq. 2."""
    chips = package.chips
    arrives: list[set[int]] = [set() for _ in range(chips)]
    leaves: list[set[int]] = [set() for _ in range(chips)]
    produced: list[list[int]] = [[] for _ in range(chips)]
    crossing = [(0, 0)] * (chips + 1)  # (bytes, messages) on the link behind each chip, as changes
    for tensor, size in enumerate(graph.tensor_bytes.tolist()):
        home, users = f[graph.tensor_producer[tensor]], {f[v] for v in graph.consumers(tensor)}
        produced[home].append(tensor)
        for chip in users - {home}:
            arrives[chip].add(tensor)
            leaves[home].add(tensor)
        for link, sign in ((home, 1), (max(users, default=home), -1)):
            crossing[link] = (crossing[link][0] + sign * size, crossing[link][1] + sign)
    totals = zip(*(accumulate(column) for column in zip(*crossing)))
    link_s = [
        size / package.link_bytes_per_s + count * parameters.message_s for size, count in totals
    ][:chips]
    ops: list[list[int]] = [[] for _ in range(chips)]
    for op in graph.topological_order.tolist():
        ops[f[op]].append(op)
    rank = {op: i for on_chip in ops for i, op in enumerate(on_chip)}
    # (tensor, chip) -> place of its last use there in the chip's order
    last: dict[tuple[int, int], int] = {}
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        key = (tensor, f[consumer])
        last[key] = max(last.get(key, 0), rank[consumer])

    def peak_bytes(chip: int) -> int:
        """The most bytes of tensors a chip holds while it runs its ops in order."""
        count = len(ops[chip])
        change = [0] * (count + 2)  # of the bytes of what lives here, from one op to the next
        for tensor in [*arrives[chip], *produced[chip]]:
            size, first, kept = int(graph.tensor_bytes[tensor]), 0, False
            if tensor not in arrives[chip]:
                first = rank[int(graph.tensor_producer[tensor])]
                kept = tensor in leaves[chip] or bool(graph.tensor_is_output[tensor])
            change[first] += size
            change[(count if kept else last.get((tensor, chip), first)) + 1] -= size
        buffers = sum(int(graph.tensor_bytes[t]) for t in [*arrives[chip], *leaves[chip]])
        return buffers + max(accumulate(change[:count]), default=0)

    names = [OP_CLASSES[index] for index in op_classes(graph)]
    seconds = _op_seconds(graph, names, package, parameters)
    chip_s, needed = [], [2 * peak_bytes(chip) for chip in range(chips)]
    for chip in range(chips):
        weights = sum(
            int(graph.op_weight_bytes[op]) for op in ops[chip] if graph.op_kinds[op] not in LOOKUPS
        )
        streamed = max(0.0, weights - _of(package.sram_bytes, chip) / 2)
        compute, before = streamed / _of(package.link_bytes_per_s, chip), ""
        for op in ops[chip]:
            if graph.op_kinds[op] == "input" and graph.op_seconds is None:
                continue
            compute += seconds[op]
            compute += parameters.switch_s if before not in ("", names[op]) else 0.0
            before = names[op]
        links = link_s[chip] + (link_s[chip - 1] if chip else 0.0)
        waiting = parameters.contention * compute * links / (compute + links) if compute else 0.0
        chip_s.append(compute + waiting + parameters.sync_s)
    return chip_s, link_s, needed


def _op_seconds(
    graph: ComputationGraph, names: list[str], package: ChipPackage, parameters: SiliconParameters
) -> list[float]:
    """Seconds of each op by the name of its class; an input's count only where the graph brings
    times."""
    seconds = []
    draws = np.random.default_rng(parameters.op_seed).standard_normal(graph.num_ops).tolist()
    for op, (touched, writes, weights) in enumerate(bytes_of_ops(graph)):
        if graph.op_seconds is not None:
            roofline = float(graph.op_seconds[op])
        else:
            table = graph.op_kinds[op] in LOOKUPS and graph.op_weight_bytes[op] > 0
            streaming = touched / _of(package.sram_bytes_per_s, 0)
            streaming += 0.0 if table else weights / _of(package.weight_bytes_per_s, 0)
            roofline = max(float(graph.op_flop[op]) / _of(package.flop_per_s, 0), streaming)
            roofline += writes / _of(package.link_bytes_per_s, 0) if table else 0.0
        if roofline > 0:
            slowdown = 1.0 if names[op] == "matrix" else getattr(parameters, names[op])
            efficiency = (
                1 + parameters.half_efficiency_s / roofline
            ) ** -parameters.efficiency_exponent
            roofline = roofline * slowdown / efficiency * math.exp(parameters.op_spread * draws[op])
        seconds.append(roofline + parameters.launch_s)
    return seconds
