"""The independent judge of mappings, written from the paper's equations and the resolved rules.

It shares no code with the game, its kernel or any method. It goes through the decisions in the
order they were made and keeps simple books: the allocations, the supply left at each step, who
copies when. Sorted lists and pointers past steps without supply keep its time near the number of
buffers, whatever the mapping.
"""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import expect_type, truth
from learned_mapping.hardware.memory_hierarchy import (
    MemoryHierarchy,
    machine_of,
    program_latency,
)
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.programs.program import Program
from learned_mapping.verdict import LISTED, Verdict, Violation, Violations

# Slack on a copy's seconds: relative to its demand, and to the largest supply.
TOLERANCE, ROUNDING = 1e-9, 1e-12

CAPACITY = "section 4.1 capacity"
OVERLAP = "section 4.1 no overlap"
INTERVAL = "Appendix A interval"
COVER = "Eq. 5 supply covers demand"
ONE_COPY = "Eq. 6 one copy at a time"
SAME_OFFSET = "Eq. 4 alias group at one offset"
ALL_OR_NONE = "section 4.2 alias group all placed or all dropped"
SOURCE = "rule 2 data in HBM before it is copied"
RESIDENT = "rule 1 no copy of a resident tensor"
PRECEDENT = "section 4.2 NoCopy needs an allocation"
LIVE_RANGE = "Appendix A NoCopy of an output takes the live range"
ACTION = "section 4.2 an action is Copy, NoCopy or Drop"
DROPPED = "section 4.2 a dropped buffer has no allocation"
# Judged only with ``exact=True``:
LATEST = "Appendix A shortest copy interval"
LOWEST = "Appendix A lowest offset"


@dataclass(frozen=True)
class _Allocation:
    """Fast memory held by one buffer: steps [start, end], bytes [offset, offset + size)."""

    buffer: int
    tensor: int
    start: int
    end: int
    offset: int
    size: int


def validate(
    program: Program,
    mapping: Mapping,
    machine: MemoryHierarchy | None = None,
    *,
    exact: bool = False,
    listed: int | None = LISTED,
) -> Verdict:
    """Judges a mapping: is it physically valid, and what does it cost?

    Checked are capacity and non-overlap of allocations (section 4.1), Eq. 4, 5 and 6, alias groups
    placed whole or not at all, the form of each interval, that a copy's source is in HBM before it
    starts and its target not yet in fast memory, and that NoCopy extends an allocation of the same
    tensor at its offset. Supply is used up in the order of the decisions: a copy takes what it
    needs from the step nearest to its instruction on.

    Args:
      machine: for the latency; by default the copy engine of the program's file.
      exact: also require what the game would have chosen: the shortest copy interval and the lowest
        free offset.
      listed: violations listed of each rule; all where None.

    Returns:
      A verdict. Costs of a valid mapping: ``return`` (share of the possible saving), ``saving_s``
      (seconds, the sum of L_I({}) - L_I(S)), ``latency_s`` (seconds, the whole program with its
      stalls).
    """
    expect_type(program, Program, "program")
    expect_type(mapping, Mapping, "mapping")
    machine = machine_of(program) if machine is None else machine
    expect_type(machine, MemoryHierarchy, "machine")
    exact = truth(exact, "exact")
    lengths = {
        len(column) for column in (mapping.action, mapping.offset, mapping.start, mapping.end)
    }
    if lengths != {program.num_buffers}:
        return Verdict(
            (
                Violation(
                    "mapping", (), f"{max(lengths)} decisions for {program.num_buffers} buffers"
                ),
            )
        )
    judge = _Judge(program, mapping, exact, Violations(listed))
    for b in range(program.num_buffers):
        judge.decide(b)
    judge.check_alias_groups()
    judge.check_overlaps()
    if judge.violations:
        return Verdict(judge.violations.all())
    saving, possible = _savings_s(program, mapping)
    costs = {"return": saving / possible if possible > 0 else 0.0, "saving_s": saving}
    return Verdict((), costs | {"latency_s": program_latency(program, mapping, machine).total_s})


def _savings_s(program: Program, mapping: Mapping) -> tuple[float, float]:
    """Seconds that a mapping saves, and that none exceeds; both exact sums, so that no rounding
    lifts one above."""
    savings, most = [], []
    for t in range(program.num_instructions):
        table = program.latency_s[program.latency_offsets[t] : program.latency_offsets[t + 1]]
        entry = 0
        for b in range(program.buffer_offsets[t], program.buffer_offsets[t + 1]):
            if mapping.action[b] != 2 and program.buffer_bit[b] >= 0:
                entry += 2 ** int(program.buffer_bit[b])
        savings.append(float(table[0]) - float(table[entry]))
        most.append(float(table[0]) - float(table.min()))
    return math.fsum(savings), math.fsum(most)


class _Judge:
    """The books: what has been decided so far, and every violation found."""

    def __init__(self, program: Program, mapping: Mapping, exact: bool, violations: Violations):
        self.program, self.exact, self.violations = program, exact, violations
        self.action, self.offset = mapping.action.tolist(), mapping.offset.tolist()
        self.start, self.end = mapping.start.tolist(), mapping.end.tolist()
        self.supply = program.supply_s.tolist()
        self.largest_supply = max(self.supply)
        steps = range(program.num_instructions + 2)
        # [t + 1]: the last step with supply at or before step t, plus 1; a chain of hints
        self.earlier = list(steps)
        self.later = list(steps)  # [t]: the same to the other side
        # (u, v, buffer), sorted: its copy takes the pairs (u, u + 1) .. v
        self.copies: list[tuple[int, int, int]] = []
        self.allocations: list[_Allocation] = []
        self.latest: dict[int, _Allocation] = {}  # tensor -> its allocation that ends last
        self.in_hbm_from: dict[int, int | None] = {
            int(n): 0 for n in np.flatnonzero(program.tensor_is_parameter)
        }  # None: never
        self.group_offset: dict[int, int] = {}

    def name(self, b: int) -> str:
        """A buffer as people say it: the tensor, how it is used, and where."""
        p = self.program
        verb = "written by" if p.buffer_is_output[b] else "read by"
        tensor, instruction = (
            p.tensor_names[p.buffer_tensor[b]],
            p.instruction_names[p.buffer_instruction[b]],
        )
        return f"buffer {b}: {tensor} {verb} {instruction}"

    def broken(self, rule: str, detail: str, *buffers: int) -> None:
        self.violations.add(rule, [self.name(b) for b in buffers], detail)

    def decide(self, b: int) -> None:
        """Judges the decision on buffer b given those before it, and enters it in the books."""
        p = self.program
        t, tensor, is_output = (
            int(p.buffer_instruction[b]),
            int(p.buffer_tensor[b]),
            bool(p.buffer_is_output[b]),
        )
        action, offset, start, end = self.action[b], self.offset[b], self.start[b], self.end[b]
        size = int(p.buffer_bytes[b])
        if action not in (0, 1, 2):
            return self.broken(ACTION, f"action {action}", b)
        if action == 2:
            if (offset, start, end) != (-1, -1, -1):
                self.broken(
                    DROPPED, f"offset {offset} and steps [{start}, {end}], expected none", b
                )
            if is_output:
                self.in_hbm_from[tensor] = t + 1
            return
        if offset < 0 or offset + size > p.fast_bytes:
            self.broken(CAPACITY, f"bytes [{offset}, {offset + size}) of {p.fast_bytes}", b)
        if action == 0:
            fits = self.copy_output(b, t, tensor) if is_output else self.copy_input(b, t, tensor)
        else:
            fits = self.keep_output(b, t, tensor) if is_output else self.keep_input(b, t, tensor)
        allocation = _Allocation(b, tensor, start, end, offset, size)
        if fits and self.exact and not (action == 1 and not is_output):
            self.check_lowest(allocation)
        group = int(p.buffer_alias[b])
        if group >= 0:
            self.group_offset.setdefault(group, offset)
        self.allocations.append(allocation)
        if tensor not in self.latest or end > self.latest[tensor].end:
            self.latest[tensor] = allocation

    def copy_input(self, b: int, t: int, tensor: int) -> bool:
        start, end = self.start[b], self.end[b]
        if end != t or not 0 <= start <= t:
            self.broken(
                INTERVAL,
                f"copy of an input at step {t} holds [{start}, {end}], expected [s, {t}], s <= {t}",
                b,
            )
            return False
        available = self.in_hbm_from.get(tensor)
        if available is None:
            self.broken(SOURCE, "its data never gets to HBM", b)
        elif start < available:
            self.broken(SOURCE, f"copied from step {start} on, in HBM from step {available} on", b)
        held = self.latest.get(tensor)
        if held is not None and max(held.start, start) <= min(held.end, t):
            self.broken(
                RESIDENT,
                f"[{start}, {t}] while held over [{held.start}, {held.end}]",
                b,
                held.buffer,
            )
        self.use_supply(b, start, t - 1, -1)
        return True

    def copy_output(self, b: int, t: int, tensor: int) -> bool:
        start, end = self.start[b], self.end[b]
        if start != t or not t <= end < self.program.num_instructions:
            last = self.program.num_instructions - 1
            self.broken(
                INTERVAL,
                f"copy of an output at {t} holds [{start}, {end}], expected [{t}, e], e <= {last}",
                b,
            )
            return False
        self.in_hbm_from[tensor] = end + 1
        self.use_supply(b, t + 1, end, 1)
        return True

    def keep_output(self, b: int, t: int, tensor: int) -> bool:
        last = int(self.program.tensor_live[tensor, 1])
        self.in_hbm_from[tensor] = None
        if (self.start[b], self.end[b]) != (t, last):
            self.broken(
                LIVE_RANGE, f"holds [{self.start[b]}, {self.end[b]}], expected [{t}, {last}]", b
            )
            return False
        return True

    def keep_input(self, b: int, t: int, tensor: int) -> bool:
        latest = self.latest.get(tensor)
        if latest is None:
            self.broken(PRECEDENT, "its tensor has no allocation", b)
            return False
        expected = (min(latest.end, t) + 1, t)
        if (self.start[b], self.end[b]) != expected:
            held = f"holds [{self.start[b]}, {self.end[b]}]"
            self.broken(
                INTERVAL,
                f"{held}, expected [{expected[0]}, {t}] after step {latest.end}",
                b,
                latest.buffer,
            )
        if self.offset[b] != latest.offset:
            self.broken(
                PRECEDENT,
                f"offset {self.offset[b]}, the tensor is at {latest.offset}",
                b,
                latest.buffer,
            )
        return True

    def use_supply(self, b: int, low: int, high: int, direction: int) -> None:
        """Eq. 5 and 6 for a copy over the steps low..high, from the one nearest to the instruction
        on."""
        demand = float(self.program.buffer_demand_s[b])
        slack = TOLERANCE * demand + ROUNDING * self.largest_supply
        left, needed, length = demand, 0, max(high - low + 1, 0)
        step = self.with_supply(high if direction < 0 else low, direction)
        while left > 0 and low <= step <= high:
            needed = (high - step if direction < 0 else step - low) + 1
            used = min(self.supply[step], left)
            self.supply[step] -= used
            left -= used
            step = self.with_supply(step, direction) if self.supply[step] <= 0 else step
        if left > 0:
            needed = length
        span = f"[{low}, {high}]" if length else "(none)"
        if left > slack:
            self.broken(
                COVER, f"{demand:.6g} s needed, steps {span} have {demand - left:.6g} s left", b
            )
        if self.exact and needed < length:
            self.broken(LATEST, f"{needed} steps suffice, takes {length}", b)
        if low < high and not self.violations.full(ONE_COPY):
            for rival in sorted(self.take_engine(b, low, high)):
                self.broken(ONE_COPY, f"both copy over two or more steps of {span}", b, rival)

    def with_supply(self, step: int, direction: int) -> int:
        """The nearest step with supply left, from `step` on; -1 or past the end where there is
        none."""
        hints, at, last = (
            (self.earlier, step + 1, 0) if direction < 0 else (self.later, step, len(self.supply))
        )
        visited = []
        while at != last and self.supply[at - (direction < 0)] <= 0:
            visited.append(at)
            at = hints[at] if hints[at] != at else at + direction
        for passed in visited:
            hints[passed] = at
        return at - (direction < 0)

    def take_engine(self, b: int, low: int, high: int) -> set[int]:
        """Enters a copy over the pairs of steps from low to high; the buffers whose copies have
        some of them."""
        i, position, pieces, rivals = bisect_left(self.copies, (low,)), low, [], set()
        if i and self.copies[i - 1][1] > low:
            i -= 1
        first = i
        while i < len(self.copies) and self.copies[i][0] < high:
            start, end, rival = self.copies[i]
            rivals.add(rival)
            pieces += [(position, start, b)] * (start > position) + [self.copies[i]]
            position = max(position, end)
            i += 1
        self.copies[first:i] = pieces + [(position, high, b)] * (high > position)
        return rivals

    def check_lowest(self, new: _Allocation) -> None:
        """The offset, with ``exact``, is the group's if it has one, else the lowest free one (rule
        7)."""
        group = int(self.program.buffer_alias[new.buffer])
        if group in self.group_offset:
            return  # Eq. 4 is judged for the whole group at the end
        busy = sorted(
            (a.offset, a.offset + a.size)
            for a in self.allocations
            if a.start <= new.end and new.start <= a.end and a.size > 0 and new.size > 0
        )
        lowest = 0
        for low, high in busy:
            if low >= lowest + new.size:
                break
            lowest = max(lowest, high)
        if new.offset != lowest:
            self.broken(LOWEST, f"at {new.offset}, {lowest} is free", new.buffer)

    def check_alias_groups(self) -> None:
        """Eq. 4, and that a group is placed whole or not at all."""
        p = self.program
        members: dict[int, list[int]] = {}
        for b in np.flatnonzero(p.buffer_alias >= 0).tolist():
            members.setdefault(int(p.buffer_alias[b]), []).append(b)
        for group, buffers in members.items():
            placed = [b for b in buffers if self.action[b] != 2]
            dropped = [b for b in buffers if self.action[b] == 2]
            if placed and dropped:
                detail = f"group {group}: {len(placed)} placed, {len(dropped)} dropped"
                self.broken(ALL_OR_NONE, detail, placed[0], dropped[0])
            for b in placed[1:]:
                if self.offset[b] != self.offset[placed[0]]:
                    detail = f"group {group}: offsets {self.offset[placed[0]]} and {self.offset[b]}"
                    self.broken(SAME_OFFSET, detail, placed[0], b)
                    break

    def check_overlaps(self) -> None:
        """No byte is held twice at one step, but for the step of an in-place update.

        A sweep over the steps. Those that hold bytes nobody else holds stand sorted by offset, so
        that a new one meets only its neighbours; those that were caught, or are being taken over,
        stand beside them.
        """
        free: list[tuple[int, int]] = []  # offset and number of what is held, disjoint
        beside: list[int] = []
        ends: list[tuple[int, int]] = []
        held = [a for a in self.allocations if a.start <= a.end and a.size > 0]
        pairs: list[tuple[int, int]] = []
        for i in sorted(range(len(held)), key=lambda i: held[i].start):
            new = held[i]
            while ends and ends[0][0] < new.start:
                gone = heapq.heappop(ends)[1]
                place = bisect_left(free, (held[gone].offset, gone))
                if place < len(free) and free[place][1] == gone:
                    del free[place]
                else:
                    beside.remove(gone)
            if self.violations.listed is not None and len(pairs) > self.violations.listed:
                break
            heapq.heappush(ends, (new.end, i))
            last = bisect_left(free, (new.offset + new.size,))
            first = bisect_right(free, (new.offset, len(held)))
            while (
                first
                and held[free[first - 1][1]].offset + held[free[first - 1][1]].size > new.offset
            ):
                first -= 1
            met = [number for _, number in free[first:last]]
            met += [j for j in beside if held[j].offset < new.offset + new.size]
            met = [j for j in met if held[j].offset + held[j].size > new.offset]
            wrong = [j for j in met if not self.updates_in_place(held[j], new)]
            wrong = [j for j in wrong if not self.updates_in_place(new, held[j])]
            if wrong:
                pairs += [(min(i, j), max(i, j)) for j in wrong]
                beside.append(i)
                continue
            for number in met:  # a tensor that gives its place to an update
                place = bisect_left(free, (held[number].offset, number))
                if place < len(free) and free[place][1] == number:
                    del free[place]
                    beside.append(number)
            insort(free, (new.offset, i))
        for i, j in sorted(pairs):
            one, other = held[i], held[j]
            steps = f"[{max(one.start, other.start)}, {min(one.end, other.end)}]"
            high = min(one.offset + one.size, other.offset + other.size)
            common = f"[{max(one.offset, other.offset)}, {high})"
            self.broken(
                OVERLAP, f"both hold bytes {common} over steps {steps}", one.buffer, other.buffer
            )

    def updates_in_place(self, old: _Allocation, new: _Allocation) -> bool:
        """Whether `new` takes over the space of `old` in the step where its instruction updates it
        in place."""
        p = self.program
        t, group = int(p.buffer_instruction[new.buffer]), int(p.buffer_alias[new.buffer])
        if (
            group < 0
            or not p.buffer_is_output[new.buffer]
            or (new.start, old.end, old.offset) != (t, t, new.offset)
        ):
            return False
        return any(
            not p.buffer_is_output[b]
            and p.buffer_tensor[b] == old.tensor
            and p.buffer_alias[b] == group
            for b in range(p.buffer_offsets[t], p.buffer_offsets[t + 1])
        )
