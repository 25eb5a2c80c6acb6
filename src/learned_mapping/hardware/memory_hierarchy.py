"""HBM and CMEM: what one instruction costs by placement, and what a whole mapped program takes, stalls included.

The MMapGame of paper 1 pays a mapping by a proxy, the benefits of its buffers, and assumes that copies never slow the
program down. `program_latency` assumes nothing of the kind: it replays the mapped program on one core, one copy engine
and two memories, so that reward and latency can disagree (paper 1, section 4.2 and Figure 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.replay import LatencyBreakdown, MappingLike, Replay
from learned_mapping.hardware.replay import placed_latency_s as placed_latency_s
from learned_mapping.programs.program import Program

MIB = 2**20


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MemoryHierarchy:
    """One core with a large slow memory (HBM), a small fast one (CMEM) and one copy engine between them.

    The defaults describe a TPUv4i, the paper's machine. "Ten lessons" is Jouppi et al., "Ten lessons from three
    generations shaped Google's TPUv4i", ISCA 2021.
    """

    hbm_bytes_per_s: float = 614e9
    """Bandwidth of HBM, bytes/s (Ten lessons, table 1: 614 GB/s)."""
    cmem_bytes_per_s: float = 4 * 614e9
    """Bandwidth of CMEM, bytes/s. No public figure is known to us: four times HBM is an assumption."""
    copy_bytes_per_s: float = 614e9
    """Bandwidth of the copy engine, bytes/s: at most HBM's, and by default all of it (an upper bound)."""
    cmem_bytes: float = 64.0 * MIB
    """Capacity of CMEM, bytes: 128 MiB on chip (Ten lessons, table 1), of which the compiler of the v4 generation gives
    64 MiB to a core's program."""
    peak_flop_per_s: float = 138e12
    """Peak arithmetic, FLOP/s in bfloat16 (Ten lessons, table 1: 138 TFLOP/s)."""
    overhead_s: float = 1e-6
    """Fixed time of an instruction, seconds. An assumption: about a thousand cycles at 1.05 GHz."""
    contention: float = 0.0
    """How much copies slow down the instruction that runs at the same time, from 0 (not at all: the paper's assumption)
    to 1: an instruction loses this times copy_bytes_per_s / hbm_bytes_per_s of its speed while the engine is busy."""


def check_hierarchy(machine: MemoryHierarchy, source: object = "machine") -> None:
    """Raises `InputError` unless every parameter is usable."""
    for name in ("hbm_bytes_per_s", "cmem_bytes_per_s", "copy_bytes_per_s", "cmem_bytes", "peak_flop_per_s"):
        value = float(getattr(machine, name))
        if not (np.isfinite(value) and value > 0):
            raise InputError(source, name, f"must be above 0 and finite, got {value}")
    if not (np.isfinite(machine.overhead_s) and machine.overhead_s >= 0):
        raise InputError(source, "overhead_s", f"must be finite and not negative, got {machine.overhead_s}")
    slowdown = machine.contention * machine.copy_bytes_per_s / machine.hbm_bytes_per_s
    if not (0 <= machine.contention <= 1 and slowdown < 1):
        raise InputError(source, "contention", f"{machine.contention} must be in [0, 1] and leave HBM some bandwidth")


def machine_of(program: Program, machine: MemoryHierarchy | None = None) -> MemoryHierarchy:
    """`machine` with the capacity and the copy bandwidth the program's file states."""
    base = MemoryHierarchy() if machine is None else machine
    return replace(base, copy_bytes_per_s=program.copy_bytes_per_s, cmem_bytes=float(program.fast_bytes))


def program_latency(program: Program, mapping: MappingLike, machine: MemoryHierarchy | None = None) -> LatencyBreakdown:
    """Replays a valid mapped program in order and says how long it takes.

    1. Instruction t runs for L_t(S), S its buffers in CMEM, after instruction t - 1.
    2. Copies run one at a time on the engine, at ``copy_bytes_per_s``, in the order of their first step (then their
       last). One starts when the engine is free, its data is where it copies from, and its first step is reached: s for
       a copy of an input held over [s, t], t + 1 for a copy of an output of instruction t.
    3. An instruction waits for the copies that bring its inputs to CMEM; one that reads a tensor from HBM waits for the
       copy that brings it there.
    4. An instruction waits before it writes where an unfinished copy to HBM still reads.
    5. An instruction that reads from HBM a tensor that lives in CMEM alone (its output was placed by NoCopy, the input
       is dropped) waits until the tensor has been written back, once; and so does the end of the program for its
       results.
    6. While the engine is busy, instructions lose ``contention * copy_bytes_per_s / hbm_bytes_per_s`` of their speed.

    Eq. 5 and 6 promise that nothing ever waits. Four things break the promise in mappings the game allows: contention;
    write-backs; reading from HBM, or overwriting in place, what is still being copied there; and a short copy in a step
    in the middle of a long one (Eq. 6 lets them share it), which the engine cannot interrupt.

    Args:
      program: the program; its tables are L_I, whatever machine they were made for.
      mapping: a mapping the validator accepts.
      machine: the copy engine's speed and the contention; by default that of the program's file, without contention.

    Raises:
      InputError: a parameter of the machine is unusable.
    """
    machine = machine_of(program) if machine is None else machine
    check_hierarchy(machine)
    return _OneCopy(program, mapping, machine).run()


class _OneCopy(Replay):
    """One copy at a time: each is known by the second it ends when it is queued."""

    HERE = 0.0

    def __init__(self, program: Program, mapping: MappingLike, machine: MemoryHierarchy):
        super().__init__(program, mapping)
        self.copy_bytes_per_s = machine.copy_bytes_per_s
        self.speed = 1.0 - machine.contention * machine.copy_bytes_per_s / machine.hbm_bytes_per_s
        self.engine_free = 0.0
        self.first_busy = 0  # copies before this one ended in the past

    def _copy(self, label: int, size: int, source: float) -> float:
        earliest = max(self.now, source)
        if size == 0:  # nothing to copy does not wait for the engine
            return earliest
        start = max(self.engine_free, earliest)
        self.engine_free = start + size / self.copy_bytes_per_s
        self.copies.append((label, start, self.engine_free))
        return self.engine_free

    def _done(self, place: float) -> bool:
        return place <= self.now

    def _wait(self, places: Iterable[float]) -> Iterator[float]:
        began, self.now = self.now, max([self.now, *places])
        yield self.now - began

    def _drain(self) -> None:
        self.now = max(self.now, self.engine_free)

    def _run(self, t: int) -> float:
        lost = self._lost_s(self.latency[t])
        self.now += self.latency[t] + lost
        return lost

    def _lost_s(self, work: float) -> float:
        """Extra seconds that `work` seconds of an instruction starting now take beside the engine's queue."""
        if self.speed == 1.0:
            return 0.0
        while self.first_busy < len(self.copies) and self.copies[self.first_busy][2] <= self.now:
            self.first_busy += 1
        clock, left = self.now, work
        for _, start, end in self.copies[self.first_busy :]:
            gap = max(0.0, start - clock)
            if gap >= left:
                break
            left -= gap
            clock = max(clock, start)
            if (end - clock) * self.speed >= left:
                return clock + left / self.speed - self.now - work
            left -= (end - clock) * self.speed
            clock = end
        return clock + left - self.now - work
