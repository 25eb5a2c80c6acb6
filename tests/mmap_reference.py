"""The MMapGame of `rules` once more, in plain Python over sets and lists, slow on purpose: the kernel's and the JAX
environment's yardstick in the differential test. It shares nothing with them but the constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from learned_mapping.mmap.rules.actions import COPY, DROP, DROPPED, NEVER, NO_COPY, NO_OFFSET, PLACED
from learned_mapping.programs.program import NO_ALIAS, Program


class Allocation(NamedTuple):
    """Bytes [offset, offset + size) of fast memory during steps first to last, both included."""

    tensor: int
    first: int
    last: int
    offset: int
    size: int

    def overlaps(self, first: int, last: int, offset: int, size: int) -> bool:
        """Whether it shares a byte and a step with another allocation."""
        in_time = self.first <= last and first <= self.last
        in_space = max(self.offset, offset) < min(self.offset + self.size, offset + size)
        return in_time and in_space


class Outcome(NamedTuple):
    """What a legal action does: I(b) = [start, end], O(b), the reward in s, and (step, supply left) where a copy draws
    on the supply."""

    start: int
    end: int
    offset: int
    reward_s: float
    drained: tuple[tuple[int, float], ...] = ()


@dataclass
class ReferenceState:
    """Everything decisions change."""

    cursor: int
    supply_s: list[float]
    joined: set[int] = field(default_factory=set)
    """u is in it where one copy runs through both u and u + 1."""
    allocations: list[Allocation] = field(default_factory=list)
    in_hbm_from: dict[int, int] = field(default_factory=dict)
    groups: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Decided alias groups: status and offset."""
    placed: dict[int, int] = field(default_factory=dict)
    """B' of each instruction, as the sum of its buffers' 2^bit."""
    saved_s: float = 0.0
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Per decided buffer: action, start, end, offset."""

    def copy(self) -> ReferenceState:
        """A state that shares nothing that decisions change."""
        return ReferenceState(
            self.cursor, list(self.supply_s), set(self.joined), list(self.allocations), dict(self.in_hbm_from),
            dict(self.groups), dict(self.placed), self.saved_s, list(self.taken),
        )  # fmt: skip


class ReferenceGame:
    """A game of one program, step by step, with Drop-backup."""

    def __init__(self, program: Program):
        self.program = program
        self.steps = program.num_instructions
        self.buffers = list(
            zip(
                program.buffer_instruction.tolist(),
                program.buffer_tensor.tolist(),
                program.buffer_is_output.tolist(),
                program.buffer_alias.tolist(),
                program.buffer_bit.tolist(),
                program.buffer_bytes.tolist(),
                program.buffer_demand_s.tolist(),
            )
        )
        self.members: dict[int, list[int]] = {}
        for b, buffer in enumerate(self.buffers):
            self.members.setdefault(buffer[3], []).append(b)
        parameters = {n: 0 for n, is_parameter in enumerate(program.tensor_is_parameter) if is_parameter}
        self.state = ReferenceState(0, program.supply_s.tolist(), in_hbm_from=parameters)
        self.backup = self.state.copy()
        self.forced: set[int] = set()
        self.resets = 0

    @property
    def over(self) -> bool:
        return self.state.cursor == len(self.buffers)

    def outcomes(self) -> dict[int, Outcome]:
        """The legal actions on the buffer at the cursor, and what each would do."""
        state = self.state
        t, tensor, is_output, group, bit, size, demand_s = self.buffers[state.cursor]
        status = state.groups.get(group, (None, NO_OFFSET))[0] if group != NO_ALIAS else None
        legal: dict[int, Outcome] = {}
        if status != DROPPED and group not in self.forced:
            reward = self._benefit(t, bit)
            for action, find in ((COPY, self._copy), (NO_COPY, self._no_copy)):
                found = find(t, tensor, is_output, group, size, demand_s)
                if found is not None:
                    legal[action] = Outcome(found[0], found[1], found[2], reward, tuple(found[3]))
        if status != PLACED:
            legal[DROP] = Outcome(-1, -1, NO_OFFSET, 0.0)
        return legal

    def _benefit(self, t: int, bit: int) -> float:
        if bit < 0:
            return 0.0
        program, placed = self.program, self.state.placed.get(t, 0)
        table = program.latency_s[program.latency_offsets[t] : program.latency_offsets[t + 1]]
        return float(table[placed] - table[placed + 2**bit])

    def _copy(self, t, tensor, is_output, group, size, demand_s):
        state = self.state
        source = state.in_hbm_from.get(tensor, NEVER)
        if size == 0:
            drained, far = [], t
            if not is_output and source > t:
                return None
        else:
            steps = range(t + 1, self.steps) if is_output else range(t - 1, source - 1, -1)
            drained, far = self._transfer(list(steps), demand_s)
            if far is None:
                return None
        start, end = (t, far) if is_output else (far, t)
        if not is_output and any(a.tensor == tensor and a.first <= end and start <= a.last for a in state.allocations):
            return None
        offset = self._offset(t, is_output, group, size, start, end)
        return None if offset is None else (start, end, offset, drained)

    def _transfer(self, steps: list[int], demand_s: float):
        """The supplies left by a copy that uses `steps` in this order, and the step at which it is done (or None)."""
        drained, missing = [], demand_s
        for i, u in enumerate(steps):
            if i > 0 and min(u, steps[i - 1]) in self.state.joined:
                return [], None
            if self.state.supply_s[u] >= missing:
                return [*drained, (u, self.state.supply_s[u] - missing)], u
            missing -= self.state.supply_s[u]
            drained.append((u, 0.0))
        return [], None

    def _no_copy(self, t, tensor, is_output, group, size, demand_s):
        state = self.state
        if is_output:
            end = int(self.program.tensor_live[tensor, 1])
            offset = self._offset(t, is_output, group, size, t, end)
            return None if offset is None else (t, end, offset, [])
        own = [a for a in state.allocations if a.tensor == tensor]
        if not own:
            return None
        latest = max(own, key=lambda a: a.last)
        if group in state.groups and state.groups[group][1] != latest.offset:
            return None
        start = min(latest.last, t) + 1
        if start <= t and any(a.overlaps(start, t, latest.offset, size) for a in state.allocations):
            return None
        return start, t, latest.offset, []

    def _offset(self, t, is_output, group, size, start, end) -> int | None:
        """Rule 7."""
        allocations = self.state.allocations
        if group != NO_ALIAS and group in self.state.groups:
            offset = self.state.groups[group][1]
            members = [self.buffers[b] for b in self.members[group]] if is_output else []
            updated = {buffer[1] for buffer in members if buffer[0] == t and not buffer[2]}
            for a in allocations:
                if a.overlaps(start, end, offset, size):
                    if not (a.tensor in updated and a.last == t and a.offset == offset):
                        return None
            return offset if offset + size <= self.program.fast_bytes else None
        in_time = [a for a in allocations if a.first <= end and start <= a.last]
        for offset in sorted({0, *(a.offset + a.size for a in in_time)}):
            if offset + size <= self.program.fast_bytes:
                if not any(a.overlaps(start, end, offset, size) for a in in_time):
                    return offset
        return None

    def step(self, action: int) -> float:
        """Makes a legal move and settles dead ends by Drop-backup; returns the move's reward in seconds."""
        state = self.state
        outcome = self.outcomes()[action]
        t, tensor, is_output, group, bit, size, _ = self.buffers[state.cursor]
        for u, left in outcome.drained:
            state.supply_s[u] = left
        walked = sorted(u for u, _ in outcome.drained)
        state.joined.update(walked[:-1])
        if action != DROP:
            if outcome.start <= outcome.end:
                state.allocations.append(Allocation(tensor, outcome.start, outcome.end, outcome.offset, size))
            if bit >= 0:
                state.placed[t] = state.placed.get(t, 0) + 2**bit
        if is_output and action == DROP:
            state.in_hbm_from[tensor] = t + 1
        elif is_output and action == COPY:
            state.in_hbm_from[tensor] = outcome.end + 1
        if group != NO_ALIAS and group not in state.groups:
            state.groups[group] = (DROPPED if action == DROP else PLACED, outcome.offset)
        state.saved_s += outcome.reward_s
        state.taken.append((action, outcome.start, outcome.end, outcome.offset))
        state.cursor += 1
        if not self._open_groups():
            self.backup = state.copy()
        while not self.over and not self.outcomes():
            self.forced.add(self.buffers[self.state.cursor][3])
            self.resets += 1
            self.state = self.backup.copy()
        return outcome.reward_s

    def _open_groups(self) -> bool:
        """Whether some alias group is placed in part and not yet decided in full."""
        return any(
            status == PLACED and self.members[group][-1] >= self.state.cursor
            for group, (status, _) in self.state.groups.items()
        )
