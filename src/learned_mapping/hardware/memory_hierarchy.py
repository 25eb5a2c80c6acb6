"""HBM and CMEM: what one instruction costs by placement, and what a whole mapped program takes, stalls included.

The MMapGame of paper 1 pays a mapping by a proxy, the benefits of its buffers, and assumes that copies never slow the
program down. `program_latency` assumes nothing of the kind: it replays the mapped program on one core, one copy engine
and two memories, so that reward and latency can disagree (paper 1, section 4.2 and Figure 6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.copies import DROP, MappingLike, copies_by_step
from learned_mapping.programs.program import Program
from learned_mapping.programs.roofline import instruction_latency_table as instruction_latency_table

MIB = 2**20


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "hbm_bytes_per_s", "cmem_bytes_per_s", "copy_bytes_per_s", "cmem_bytes", "peak_flop_per_s", "overhead_s",
        "contention",
    ],
    meta_fields=[],
)  # fmt: skip
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


@dataclass(frozen=True)
class LatencyBreakdown:
    """Where the time of a mapped program goes. The parts add up to `total_s`. All in seconds."""

    total_s: float
    """From the start of the first instruction to the end of the last instruction, copy or write-back."""
    compute_s: float
    """Sum of L_I(S): what the game's return accounts for, as ``sum L_I({}) - compute_s``."""
    arrival_stall_s: float
    """Instructions waiting for data that is still being copied."""
    overwrite_stall_s: float
    """Instructions waiting to write where a copy to HBM still reads."""
    write_back_s: float
    """Instructions waiting for tensors that lived in CMEM alone and that they read from HBM, and, at the end, results
    of the program whose only copy is in CMEM."""
    contention_s: float
    """Slowdown of instructions while the copy engine takes HBM bandwidth."""
    drain_s: float
    """Copies still under way after the last instruction."""
    instruction_start_s: np.ndarray
    """[T] float64: when each instruction starts."""
    instruction_end_s: np.ndarray
    """[T] float64."""
    copies: tuple[tuple[int, float, float], ...]
    """(buffer, start, end) of each copy in the order of the engine; buffer -1 - n is the write-back of tensor n."""


def placed_latency_s(program: Program, placed: np.ndarray) -> np.ndarray:
    """[T] float64, seconds: L_I(S) of each instruction, S its buffers that are `placed` ([B] bool) in CMEM."""
    bit = np.where(placed & (program.buffer_bit >= 0), 1 << np.maximum(program.buffer_bit, 0).astype(np.int64), 0)
    subset = np.zeros(program.num_instructions, np.int64)
    np.add.at(subset, program.buffer_instruction, bit)
    return program.latency_s[program.latency_offsets[:-1] + subset]


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
    replay = _Replay(program, mapping, machine)
    for t in range(program.num_instructions):
        replay.step(t)
    return replay.finish()


class _Replay:
    """The state of `program_latency` between instructions: the clock, the engine, and where each tensor is."""

    def __init__(self, program: Program, mapping: MappingLike, machine: MemoryHierarchy):
        self.program, self.machine = program, machine
        action = np.asarray(mapping.action)
        self.action: list[int] = action.tolist()
        self.offset: list[int] = np.asarray(mapping.offset).tolist()
        self.size: list[int] = program.buffer_bytes.tolist()
        self.tensor: list[int] = program.buffer_tensor.tolist()
        self.is_output: list[bool] = program.buffer_is_output.tolist()
        self.first_buffer: list[int] = program.buffer_offsets.tolist()
        self.latency: list[float] = placed_latency_s(program, action != DROP).tolist()
        self.copies_at = copies_by_step(program, mapping)

        self.now = 0.0
        self.engine_free = 0.0
        self.in_hbm: list[float | None] = [0.0 if p else None for p in program.tensor_is_parameter.tolist()]
        self.in_cmem: list[float] = [0.0] * program.num_tensors
        self.leaving: list[tuple[float, int, int]] = []  # unfinished copies to HBM: end, offset range
        self.engine: list[tuple[int, float, float]] = []
        self.first_busy = 0  # engine entries before this one ended in the past
        self.compute = self.arrival = self.overwrite = self.write_back = self.contention = 0.0
        self.starts: list[float] = []
        self.ends: list[float] = []

    def _run_engine(self, label: int, earliest: float, size: int) -> float:
        """Queues a copy of `size` bytes; returns when it ends. Nothing to copy does not wait for the engine."""
        if size == 0:
            return earliest
        start = max(self.engine_free, earliest)
        self.engine_free = start + size / self.machine.copy_bytes_per_s
        self.engine.append((label, start, self.engine_free))
        return self.engine_free

    def _write_back(self, tensor: int, earliest: float) -> float:
        end = self._run_engine(-1 - tensor, earliest, int(self.program.tensor_bytes[tensor]))
        self.in_hbm[tensor] = end
        return end

    def _start_copies(self, t: int) -> None:
        for b in self.copies_at.get(t, ()):
            tensor, size = self.tensor[b], self.size[b]
            if self.is_output[b]:
                end = self._run_engine(b, self.now, size)
                self.in_hbm[tensor] = end
                if size:
                    self.leaving.append((end, self.offset[b], self.offset[b] + size))
            else:
                source = self.in_hbm[tensor]
                if source is None:
                    source = self._write_back(tensor, self.now)
                self.in_cmem[tensor] = self._run_engine(b, max(self.now, source), size)

    def step(self, t: int) -> None:
        """Starts the copies of step t, waits for what instruction t needs, runs it."""
        self._start_copies(t)
        buffers = range(self.first_buffer[t], self.first_buffer[t + 1])
        ready = self.now
        for b in buffers:
            if not self.is_output[b]:
                here = self.in_cmem[self.tensor[b]] if self.action[b] != DROP else self.in_hbm[self.tensor[b]]
                if here is not None:
                    ready = max(ready, here)
        self.arrival += ready - self.now
        self.now = ready

        for b in buffers:
            if not self.is_output[b] and self.action[b] == DROP and self.in_hbm[self.tensor[b]] is None:
                end = max(self.now, self._write_back(self.tensor[b], self.now))
                self.write_back += end - self.now
                self.now = end

        self.leaving = [entry for entry in self.leaving if entry[0] > self.now]
        for b in buffers:
            if self.is_output[b] and self.action[b] != DROP and self.size[b] > 0:
                low, high = self.offset[b], self.offset[b] + self.size[b]
                for end, other_low, other_high in self.leaving:
                    if other_low < high and low < other_high and end > self.now:
                        self.overwrite += end - self.now
                        self.now = end

        self.starts.append(self.now)
        slowdown = self._contention_s(self.latency[t])
        self.compute += self.latency[t]
        self.contention += slowdown
        self.now += self.latency[t] + slowdown
        self.ends.append(self.now)
        for b in buffers:
            if self.is_output[b]:
                if self.action[b] == DROP:
                    self.in_hbm[self.tensor[b]] = self.now
                else:
                    self.in_cmem[self.tensor[b]] = self.now

    def _contention_s(self, work: float) -> float:
        """Extra seconds that `work` seconds of an instruction starting now take beside the engine's queue."""
        speed = 1.0 - self.machine.contention * self.machine.copy_bytes_per_s / self.machine.hbm_bytes_per_s
        while self.first_busy < len(self.engine) and self.engine[self.first_busy][2] <= self.now:
            self.first_busy += 1
        if speed == 1.0:
            return 0.0
        clock, left = self.now, work
        for _, start, end in self.engine[self.first_busy :]:
            gap = max(0.0, start - clock)
            if gap >= left:
                break
            left -= gap
            clock = max(clock, start)
            if (end - clock) * speed >= left:
                return clock + left / speed - self.now - work
            left -= (end - clock) * speed
            clock = end
        return clock + left - self.now - work

    def finish(self) -> LatencyBreakdown:
        """Copies of the last step, write-backs of results, and the sum."""
        self._start_copies(self.program.num_instructions)
        computed = self.now
        drained = max(computed, self.engine_free)
        self.now = drained
        for tensor in np.flatnonzero(self.program.tensor_is_output).tolist():
            if self.in_hbm[tensor] is None:
                self.now = max(self.now, self._write_back(tensor, self.now))
        self.write_back += self.now - drained
        return LatencyBreakdown(
            total_s=self.now,
            compute_s=self.compute,
            arrival_stall_s=self.arrival,
            overwrite_stall_s=self.overwrite,
            write_back_s=self.write_back,
            contention_s=self.contention,
            drain_s=drained - computed,
            instruction_start_s=np.array(self.starts),
            instruction_end_s=np.array(self.ends),
            copies=tuple(self.engine),
        )
