"""The relaxed copy rule: several copies under way at once, sharing the bandwidth that the
instructions leave.

Eq. 6 of paper 1 lets one buffer be copied at a time; a compiler need not keep to that.
`shared_copy_latency` replays any mapping and says what it takes when copies overlap, slow each
other down, give way to instructions, and come late. `memory_hierarchy.program_latency` remains the
model with one copy at a time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.memory_hierarchy import (
    DROP,
    LatencyBreakdown,
    MappingLike,
    Replay,
    machine_of,
)
from learned_mapping.programs.program import Program

# What is left of a copy, as a share of its bytes, at which it counts as done: the rounding of sums.
DONE = 1e-12


def shared_copy_latency(
    program: Program, mapping: MappingLike, *, engines: int | None = None
) -> LatencyBreakdown:
    """Replays a mapped program in order, with up to `engines` copies under way at once.

    1. Instruction t runs for L_t(S), S its buffers in CMEM, after instruction t - 1, if nothing
       slows it down.
    2. A copy may start when its first step is reached (s for a copy of an input held over [s, t], t
       + 1 for a copy of an output of instruction t), its data is where it copies from and an engine
       is free; those waiting start in the order of their first steps, then their last.
    3. Copies under way share ``copy_bytes_per_s`` equally.
    4. HBM is shared: an instruction that takes L seconds and moves n bytes from and to HBM wants
       the share f = min(1, n / (L * hbm_bytes_per_s)) of its bandwidth, the copies together c =
       copy_bytes_per_s / hbm_bytes_per_s (at most 1). Of what they want too much, f + c - 1, the
       copies give up all: instructions come first.
    5. Instructions wait for what they need as in `program_latency` (its rules 3 to 5): inputs on
       their way to CMEM or to HBM, memory that a copy still reads, tensors that live in CMEM alone
       and are read from HBM.

    Args:
      mapping: need not be valid: space is not checked, and what was never brought to CMEM counts as
        there.
      engines: copies under way at once; None for no limit.

    Returns:
      As `program_latency` with the bandwidths of the program's file; ``contention_s`` is 0 by rule
      4. Copies may overlap in time.

    Raises:
      InputError: there is no engine, or the program's bandwidth is unusable.
    """
    if engines is not None and engines < 1:
        raise InputError("machine", "engines", f"must be at least 1, got {engines}")
    return _SharedCopies(program, mapping, engines).run()


@dataclass(eq=False, slots=True)
class _Copy:
    """One copy: what is left of it, and what it waits for."""

    label: int
    bytes: int
    source: "_Copy | None"
    left: float  # Bytes.
    start: float = np.inf  # Seconds; infinite until it starts.
    end: float = np.inf  # Seconds; infinite until it is done.

    @property
    def done(self) -> bool:
        return self.end < np.inf


class _SharedCopies(Replay):
    """Copies under way and copies waiting, moved on from event to event."""

    HERE = _Copy(0, 0, None, 0.0, end=0.0)

    def __init__(self, program: Program, mapping: MappingLike, engines: int | None):
        machine = machine_of(program)
        super().__init__(program, mapping, machine)
        self.engines = engines
        self.hbm_bytes_per_s = float(machine.hbm_bytes_per_s)
        self.copy_share = min(float(machine.copy_bytes_per_s) / self.hbm_bytes_per_s, 1.0)
        latency, dropped = np.array(self.latency), np.array(self.action) == DROP
        slow_bytes = np.bincount(
            program.buffer_instruction, program.buffer_bytes * dropped, program.num_instructions
        )
        share = np.divide(
            slow_bytes,
            latency * self.hbm_bytes_per_s,
            out=np.zeros_like(latency),
            where=latency > 0,
        )
        self.hbm_share: list[float] = np.minimum(share, 1.0).tolist()
        self.waiting: list[_Copy] = []
        self.active: list[_Copy] = []

    def _copy(self, label: int, size: int, source: _Copy) -> _Copy:
        if size == 0:
            return source
        self.waiting.append(_Copy(label, size, source, float(size)))
        return self.waiting[-1]

    def _done(self, place: _Copy) -> bool:
        return place.done

    def _wait(self, places: Iterable[_Copy]) -> Iterator[float]:
        for copy in places:
            yield self._advance(0.0, 0.0, copy)

    def _drain(self) -> None:
        while self.active or self.waiting:
            self._admit()
            self._advance(0.0, 0.0, self.active[0])

    def _run(self, t: int) -> float:
        return self._advance(self.latency[t], self.hbm_share[t]) - self.latency[t]

    def _admit(self) -> None:
        """Starts what may start (2)."""
        for copy in self.waiting:
            ready = copy.source is None or copy.source.done
            if ready and (self.engines is None or len(self.active) < self.engines):
                copy.start = self.now
                self.active.append(copy)
        self.waiting = [copy for copy in self.waiting if copy.start == np.inf]

    def _advance(self, work: float, share: float, until: _Copy | None = None) -> float:
        """Runs `work` seconds of an instruction that wants this share of HBM, or waits for a copy;
        seconds it took."""
        began = self.now
        while work > 0 if until is None else not until.done:
            self._admit()
            wanted = self.copy_share if self.active else 0.0
            excess = max(share + wanted - 1.0, 0.0)
            rate = (wanted - excess) * self.hbm_bytes_per_s / max(len(self.active), 1)
            instruction = work if until is None else np.inf
            shortest = (
                min(copy.left for copy in self.active) / rate
                if self.active and rate > 0
                else np.inf
            )
            elapsed = min(instruction, shortest)
            self.now += elapsed
            work = 0.0 if instruction <= shortest else work - elapsed
            if self.active and rate > 0:
                for copy in self.active:
                    copy.left -= elapsed * rate
                    if copy.left <= DONE * copy.bytes:
                        copy.end = self.now
                        self.copies.append((copy.label, copy.start, copy.end))
                self.active = [copy for copy in self.active if not copy.done]
        return self.now - began
