"""The rules of the three problems once more, for the tests: other formulations than the
validators', step by step."""

from fractions import Fraction

import networkx as nx

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.mcm.partition import Partition
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.regal.schedule import Schedule

SLACK = 1e-9


def mapping_is_valid(p: Program, mapping: Mapping) -> bool:
    """Draws every placed buffer into a plan of (step, bytes, tensor, buffer) and looks at each step
    for itself."""
    supply = [float(s) for s in p.supply_s]
    copying: dict[tuple[int, int], int] = {}
    held: list[list[tuple[int, int, int]]] = [[] for _ in range(p.num_instructions)]
    # tensor -> last step of its allocations, offset of the one that has it
    reach: dict[int, tuple[int, int]] = {}
    stays: dict[int, list[tuple[int, int]]] = {}
    ready = {int(t): 0 for t in range(p.num_tensors) if p.tensor_is_parameter[t]}
    groups: dict[int, set] = {}
    for b in range(p.num_buffers):
        t, tensor, size = (
            int(p.buffer_instruction[b]),
            int(p.buffer_tensor[b]),
            int(p.buffer_bytes[b]),
        )
        writes, action = bool(p.buffer_is_output[b]), int(mapping.action[b])
        offset, first, last = int(mapping.offset[b]), int(mapping.start[b]), int(mapping.end[b])
        if p.buffer_alias[b] >= 0:
            groups.setdefault(int(p.buffer_alias[b]), set()).add(None if action == 2 else offset)
        if action == 2:
            if (offset, first, last) != (-1, -1, -1):
                return False
            if writes:
                ready[tensor] = t + 1
            continue
        if not 0 <= offset <= p.fast_bytes - size:
            return False
        if action == 0:
            if writes:
                shape = first == t <= last < p.num_instructions
                steps = list(range(t + 1, last + 1))
            else:
                shape = 0 <= first <= last == t
                steps = list(range(t - 1, first - 1, -1))
                if shape and ready.get(tensor, 10**9) > first:
                    return False
                if any(low <= t and first <= high for low, high in stays.get(tensor, [])):
                    return False
            if not shape:
                return False
            left = demand = float(p.buffer_demand_s[b])
            for step in steps:
                drawn = min(supply[step], left)
                supply[step] -= drawn
                left -= drawn
            if left > SLACK * max(demand, float(p.supply_s.max())):
                return False
            for machine in zip(sorted(steps), sorted(steps)[1:]):
                if copying.setdefault(machine, b) != b:
                    return False
            if writes:
                ready[tensor] = last + 1
        elif writes:
            ready[tensor] = 10**9
            if (first, last) != (t, int(p.tensor_live[tensor, 1])):
                return False
        else:
            if tensor not in reach or reach[tensor][1] != offset:
                return False
            if (first, last) != (min(reach[tensor][0], t) + 1, t):
                return False
        for step in range(first, last + 1):
            if size:
                held[step].append((offset, tensor, b))
        if first <= last:
            stays.setdefault(tensor, []).append((first, last))
        if tensor not in reach or last > reach[tensor][0]:
            reach[tensor] = (last, offset)
    if any(len(places) > 1 for places in groups.values()):
        return False
    ends = {b: int(mapping.end[b]) for step in held for _, _, b in step}
    for step, present in enumerate(held):
        for i, one in enumerate(present):
            for other in present[i + 1 :]:
                low, high = sorted((one, other), key=lambda item: item[2])
                meet = one[0] < other[0] + int(p.tensor_bytes[other[1]]) and other[0] < one[
                    0
                ] + int(p.tensor_bytes[one[1]])
                if meet and not _takes_over(p, mapping, low, high, step, ends):
                    if not _takes_over(p, mapping, high, low, step, ends):
                        return False
    return True


def _takes_over(p: Program, mapping: Mapping, old, new, step: int, ends: dict[int, int]) -> bool:
    group = int(p.buffer_alias[new[2]])
    if group < 0 or not p.buffer_is_output[new[2]] or old[0] != new[0]:
        return False
    if (
        int(p.buffer_instruction[new[2]]) != step
        or int(mapping.start[new[2]]) != step
        or ends[old[2]] != step
    ):
        return False
    readers = range(int(p.buffer_offsets[step]), int(p.buffer_offsets[step + 1]))
    return any(
        p.buffer_tensor[b] == old[1] and p.buffer_alias[b] == group and not p.buffer_is_output[b]
        for b in readers
    )


def partition_is_valid(graph: ComputationGraph, partition: Partition) -> bool:
    """Chips 0, 1, 2, ... without a gap, edges forwards, no chip edge that another path makes
    redundant; fixed ops and groups in their places."""
    f = partition.assignment.tolist()
    places, groups = {*enumerate(f)}, {*zip(graph.op_group or (), f)}
    if (
        graph.op_chip is not None
        and {machine for machine in enumerate(graph.op_chip.tolist()) if machine[1] >= 0} - places
    ):
        return False
    if sum(group != "" for group, _ in groups) > len({group for group, _ in groups} - {""}):
        return False
    if set(f) != set(range(len(set(f)))):
        return False
    chips = nx.DiGraph([(f[u], f[v]) for u, v in graph.op_edges.tolist() if f[u] != f[v]])
    if any(u > v for u, v in chips.edges):
        return False
    return set(nx.transitive_reduction(chips).edges) == set(chips.edges)


def partition_costs(
    graph: ComputationGraph, partition: Partition, package: ChipPackage
) -> tuple[float, int]:
    """(seconds between results, most bytes on a chip) in exact arithmetic, chip by chip."""
    f, position = (
        partition.assignment.tolist(),
        {int(op): i for i, op in enumerate(graph.topological_order)},
    )
    slowest, most = Fraction(0), 0

    def rate(name: str, chip: int) -> Fraction:
        number = getattr(package, name)
        return Fraction(number[chip] if isinstance(number, tuple) else number)

    for chip in range(package.chips):
        mine = [op for op in range(graph.num_ops) if f[op] == chip]
        seconds, held = Fraction(0), sum(int(graph.op_weight_bytes[op]) for op in mine)
        spans = []
        for tensor, size in enumerate(graph.tensor_bytes.tolist()):
            home, users = (
                int(graph.tensor_producer[tensor]),
                [int(v) for v in graph.consumers(tensor)],
            )
            far = max([f[home], *(f[v] for v in users)])
            for link in (chip - 1, chip):
                if f[home] <= link < far:
                    seconds += Fraction(size) / rate("link_bytes_per_s", link)
            here = [position[v] for v in users if f[v] == chip]
            if f[home] == chip:
                leaves = any(f[v] != chip for v in users) or bool(graph.tensor_is_output[tensor])
                spans.append(
                    (position[home], 10**9 if leaves else max([position[home], *here]), size)
                )
            elif here:
                spans.append((-1, max(here), size))
        for op in mine:
            read = sum(
                int(graph.tensor_bytes[t])
                for t in range(graph.num_tensors)
                if op in graph.consumers(t)
            )
            result = sum(
                int(b)
                for b, producer in zip(graph.tensor_bytes, graph.tensor_producer)
                if producer == op
            )
            streaming = Fraction(read + result) / rate("sram_bytes_per_s", chip)
            streaming += Fraction(int(graph.op_weight_bytes[op])) / rate("weight_bytes_per_s", chip)
            busy = max(Fraction(float(graph.op_flop[op])) / rate("flop_per_s", chip), streaming)
            overhead = rate("op_overhead_s", chip)
            if graph.op_seconds is not None:
                seconds += Fraction(float(graph.op_seconds[op]))
            elif graph.op_kinds[op] != "input":
                seconds += busy + overhead
        moments = [-1, *(position[op] for op in mine)]
        live = max(
            sum(size for low, high, size in spans if low <= moment <= high) for moment in moments
        )
        slowest, most = max(slowest, seconds), max(most, held + live)
    return float(slowest), most


def schedule_is_valid(graph: ComputationGraph, schedule: Schedule, machine: Devices) -> bool:
    """Goes through the order and keeps what lies where: nothing may be used, sent or run that is
    not there yet."""
    place = schedule.placement.tolist()
    if len(place) != graph.num_ops or any(not 0 <= d < machine.devices for d in place):
        return False
    there: set[tuple[int, int]] = set()
    ran: set[int] = set()
    makes = graph.tensor_producer.tolist()
    for what, target in schedule.order.tolist():
        if target == -1:
            reads = [t for t in range(graph.num_tensors) if what in graph.consumers(t)]
            if (
                not 0 <= what < graph.num_ops
                or what in ran
                or any((t, place[what]) not in there for t in reads)
            ):
                return False
            ran.add(what)
            there |= {(t, place[what]) for t, producer in enumerate(makes) if producer == what}
        else:
            if (
                not 0 <= what < graph.num_tensors
                or not 0 <= target < machine.devices
                or (what, target) in there
            ):
                return False
            wanted = any(place[v] == target for v in graph.consumers(what))
            if (
                not wanted
                or place[makes[what]] == target
                or (what, place[makes[what]]) not in there
            ):
                return False
            there.add((what, target))
    return len(ran) == graph.num_ops
