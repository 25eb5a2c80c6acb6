"""The relaxed copy rule: several copies under way at once, sharing bandwidth with each other and with the instructions.

Eq. 6 of paper 1 lets one buffer be copied at a time; a compiler need not keep to that. `shared_copy_latency` replays
any mapping and says what it takes when copies overlap, slow each other and the instructions down, and come late.
`memory_hierarchy.program_latency` remains the model with one copy at a time.
"""

from __future__ import annotations

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.copies import DROP, MappingLike, copies_by_step
from learned_mapping.hardware.memory_hierarchy import (
    LatencyBreakdown,
    MemoryHierarchy,
    check_hierarchy,
    machine_of,
    placed_latency_s,
)
from learned_mapping.programs.program import Program

DONE = 1e-12
"""What is left of a copy, as a share of its bytes, at which it counts as done: the rounding of sums."""


def shared_copy_latency(
    program: Program,
    mapping: MappingLike,
    machine: MemoryHierarchy | None = None,
    *,
    engines: int | None = None,
    yields: float = 0.5,
) -> LatencyBreakdown:
    """Replays a mapped program in order, with up to `engines` copies under way at once.

    1. Instruction t runs for L_t(S), S its buffers in CMEM, after instruction t - 1, if nothing slows it down.
    2. A copy may start when its first step is reached (s for a copy of an input held over [s, t], t + 1 for a copy of
       an output of instruction t), its data is where it copies from and an engine is free; those waiting start in the
       order of their first steps, then their last.
    3. Copies under way share ``copy_bytes_per_s`` equally.
    4. HBM is shared: an instruction that takes L seconds and moves n bytes from and to HBM wants the share
       f = min(1, n / (L * hbm_bytes_per_s)) of its bandwidth, the copies together c = copy_bytes_per_s /
       hbm_bytes_per_s (at most 1). Of what they want too much, f + c - 1, the instruction gives up the part `yields`
       and the copies the rest.
    5. Instructions wait for what they need as in `program_latency` (its rules 3 to 5): inputs on their way to CMEM or
       to HBM, memory that a copy still reads, tensors that live in CMEM alone and are read from HBM.

    Args:
      program: the program.
      mapping: need not be valid: space is not checked, and what was never brought to CMEM counts as there.
      machine: bandwidths; by default those of the program's file. Its `contention` is not used: rule 4 stands for it.
      engines: copies under way at once; None for no limit.
      yields: from 0, instructions come first, to 1, copies come first.

    Returns:
      As `program_latency`; ``contention_s`` is what instructions lose to rule 4. Copies may overlap in time.

    Raises:
      InputError: a parameter is unusable.
    """
    machine = machine_of(program) if machine is None else machine
    check_hierarchy(machine)
    if engines is not None and engines < 1:
        raise InputError("machine", "engines", f"must be at least 1, got {engines}")
    if not 0 <= yields <= 1:
        raise InputError("machine", "yields", f"must be in [0, 1], got {yields}")
    replay = _Replay(program, mapping, machine, engines, yields)
    for t in range(program.num_instructions):
        replay.step(t)
    return replay.finish()


def all_slow_latency(program: Program, machine: MemoryHierarchy | None = None) -> float:
    """Seconds of the program with everything in HBM: no copies, nothing to wait for."""
    check_hierarchy(machine_of(program) if machine is None else machine)
    return float(program.slow_s.sum())


class _Copy:
    """One copy: what is left of it, and what it waits for."""

    __slots__ = ("bytes", "end", "label", "left", "source", "start")

    def __init__(self, label: int, size: int, source: _Copy | None):
        self.label, self.bytes, self.source = label, size, source
        self.left = float(size)
        self.start = self.end = None

    @property
    def done(self) -> bool:
        return self.end is not None


class _Replay:
    """The clock, the copies under way and waiting, and where each tensor is."""

    def __init__(self, program: Program, mapping: MappingLike, machine: MemoryHierarchy, engines, yields: float):
        self.program, self.engines, self.yields = program, engines, yields
        self.hbm_bytes_per_s = float(machine.hbm_bytes_per_s)
        self.copy_share = min(float(machine.copy_bytes_per_s) / self.hbm_bytes_per_s, 1.0)
        action = np.asarray(mapping.action)
        self.action: list[int] = action.tolist()
        self.offset: list[int] = np.asarray(mapping.offset).tolist()
        self.size: list[int] = program.buffer_bytes.tolist()
        self.tensor: list[int] = program.buffer_tensor.tolist()
        self.is_output: list[bool] = program.buffer_is_output.tolist()
        self.first_buffer: list[int] = program.buffer_offsets.tolist()
        latency = placed_latency_s(program, action != DROP)
        slow_bytes = np.bincount(
            program.buffer_instruction, program.buffer_bytes * (action == DROP), program.num_instructions
        )
        share = np.divide(slow_bytes, latency * self.hbm_bytes_per_s, out=np.zeros_like(latency), where=latency > 0)
        self.latency: list[float] = latency.tolist()
        self.hbm_share: list[float] = np.minimum(share, 1.0).tolist()
        self.copies_at = copies_by_step(program, mapping)

        self.now = 0.0
        self.waiting: list[_Copy] = []
        self.active: list[_Copy] = []
        self.finished: list[_Copy] = []
        # Per tensor: None where it is not, True where it is, else the copy that brings it.
        self.in_hbm: list[_Copy | bool | None] = [p or None for p in program.tensor_is_parameter.tolist()]
        self.in_cmem: list[_Copy | bool] = [True] * program.num_tensors
        self.leaving: list[tuple[_Copy, int, int]] = []
        self.arrival = self.overwrite = self.write_back = self.contention = 0.0
        self.starts: list[float] = []
        self.ends: list[float] = []

    def _queue(self, label: int, size: int, source: _Copy | bool | None) -> _Copy | bool:
        """The copy, queued; True where there is nothing to copy or wait for."""
        source = source if isinstance(source, _Copy) and not source.done else None
        if size == 0:
            return source or True
        copy = _Copy(label, size, source)
        self.waiting.append(copy)
        return copy

    def _write_back(self, tensor: int) -> None:
        arriving = self.in_cmem[tensor]
        self.in_hbm[tensor] = self._queue(-1 - tensor, int(self.program.tensor_bytes[tensor]), arriving)

    def _start_copies(self, t: int) -> None:
        for b in self.copies_at.get(t, ()):
            tensor, size = self.tensor[b], self.size[b]
            if self.is_output[b]:
                copy = self._queue(b, size, True)
                self.in_hbm[tensor] = copy
                if isinstance(copy, _Copy):
                    self.leaving.append((copy, self.offset[b], self.offset[b] + size))
            else:
                if self.in_hbm[tensor] is None:
                    self._write_back(tensor)
                self.in_cmem[tensor] = self._queue(b, size, self.in_hbm[tensor])

    def _admit(self) -> None:
        """Starts what may start (2)."""
        if not self.waiting:
            return
        still = []
        for copy in self.waiting:
            full = self.engines is not None and len(self.active) >= self.engines
            if full or (copy.source is not None and not copy.source.done):
                still.append(copy)
            else:
                copy.start = self.now
                self.active.append(copy)
        self.waiting = still

    def _advance(self, work: float, share: float, until: _Copy | None = None) -> float:
        """Runs `work` seconds of an instruction that wants this share of HBM, or waits for a copy; seconds it took."""
        began = self.now
        while work > 0 if until is None else not until.done:
            self._admit()
            wanted = self.copy_share if self.active else 0.0
            excess = max(share + wanted - 1.0, 0.0)
            speed = 1.0 - self.yields * excess / share if share > 0 else 1.0
            rate = (wanted - (1.0 - self.yields) * excess) * self.hbm_bytes_per_s / max(len(self.active), 1)
            instruction = work / speed if until is None and speed > 0 else np.inf
            shortest = min(copy.left for copy in self.active) / rate if self.active and rate > 0 else np.inf
            elapsed = min(instruction, shortest)
            self.now += elapsed
            work = 0.0 if instruction <= shortest else work - elapsed * speed
            if self.active and rate > 0:
                for copy in self.active:
                    copy.left -= elapsed * rate
                    if copy.left <= DONE * copy.bytes:
                        copy.end = self.now
                        self.finished.append(copy)
                self.active = [copy for copy in self.active if not copy.done]
        return self.now - began

    def _await(self, where: _Copy | bool | None) -> float:
        return self._advance(0.0, 0.0, where) if isinstance(where, _Copy) and not where.done else 0.0

    def step(self, t: int) -> None:
        """Starts the copies of step t, waits for what instruction t needs, runs it."""
        self._start_copies(t)
        buffers = range(self.first_buffer[t], self.first_buffer[t + 1])
        for b in buffers:
            if not self.is_output[b]:
                tensor = self.tensor[b]
                self.arrival += self._await(self.in_hbm[tensor] if self.action[b] == DROP else self.in_cmem[tensor])
        for b in buffers:
            if not self.is_output[b] and self.action[b] == DROP and self.in_hbm[self.tensor[b]] is None:
                self._write_back(self.tensor[b])
                self.write_back += self._await(self.in_hbm[self.tensor[b]])
        self.leaving = [entry for entry in self.leaving if not entry[0].done]
        for b in buffers:
            if self.is_output[b] and self.action[b] != DROP and self.size[b] > 0:
                low, high = self.offset[b], self.offset[b] + self.size[b]
                for copy, other_low, other_high in self.leaving:
                    if other_low < high and low < other_high:
                        self.overwrite += self._await(copy)
        self.starts.append(self.now)
        self.contention += self._advance(self.latency[t], self.hbm_share[t]) - self.latency[t]
        self.ends.append(self.now)
        for b in buffers:
            if self.is_output[b]:
                if self.action[b] == DROP:
                    self.in_hbm[self.tensor[b]] = True
                else:
                    self.in_cmem[self.tensor[b]] = True

    def finish(self) -> LatencyBreakdown:
        """Copies of the last step, write-backs of results, and the sum."""
        self._start_copies(self.program.num_instructions)
        computed = self.now
        while self.active or self.waiting:
            self._admit()
            self._await(self.active[0])
        drained = self.now
        results = [n for n in np.flatnonzero(self.program.tensor_is_output).tolist() if self.in_hbm[n] is None]
        for tensor in results:
            self._write_back(tensor)
        for tensor in results:
            self._await(self.in_hbm[tensor])
        self.write_back += self.now - drained
        copies = sorted(self.finished, key=lambda copy: (copy.start, copy.end, copy.label))
        return LatencyBreakdown(
            total_s=self.now,
            compute_s=sum(self.latency),
            arrival_stall_s=self.arrival,
            overwrite_stall_s=self.overwrite,
            write_back_s=self.write_back,
            contention_s=max(self.contention, 0.0),
            drain_s=drained - computed,
            instruction_start_s=np.array(self.starts),
            instruction_end_s=np.array(self.ends),
            copies=tuple((copy.label, copy.start, copy.end) for copy in copies),
        )
