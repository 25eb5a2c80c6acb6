"""HBM and CMEM: what one instruction costs by placement, and what a whole mapped program takes,
stalls included.

The MMapGame of paper 1 pays a mapping by a proxy, the benefits of its buffers, and assumes that
copies never slow the program down. `program_latency` assumes nothing of the kind: it replays the
mapped program on one core, one copy engine and two memories, so that reward and latency can
disagree (paper 1, section 4.2 and Figure 6).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from learned_mapping.errors import InputError, is_traced, real
from learned_mapping.programs.program import Program

COPY, NO_COPY, DROP = 0, 1, 2  # Codes of the actions in a mapping (paper 1, section 4.2).


class MappingLike(Protocol):
    """The part of a mapping that the latency models read; `learned_mapping.mmap.mapping.Mapping`
    has it."""

    @property
    def action(self) -> np.ndarray: ...
    @property
    def offset(self) -> np.ndarray: ...
    @property
    def start(self) -> np.ndarray: ...
    @property
    def end(self) -> np.ndarray: ...


@dataclass(frozen=True)
class LatencyBreakdown:
    """The parts of a mapped program's time, which add up to `total_s`. All in seconds."""

    # From the start of the first instruction to the end of the last instruction, copy or
    # write-back.
    total_s: float
    # Sum of L_I(S): what the game's return accounts for, as ``sum L_I({}) - compute_s``.
    compute_s: float
    arrival_stall_s: float  # Instructions waiting for data that is still being copied.
    overwrite_stall_s: float  # Instructions waiting to write where a copy to HBM still reads.
    write_back_s: float
    """Instructions waiting for tensors that lived in CMEM alone and that they read from HBM, and,
    at the end, results of the program whose only copy is in CMEM."""
    contention_s: float  # Slowdown of instructions while the copy engine takes HBM bandwidth.
    drain_s: float  # Copies still under way after the last instruction.
    instruction_start_s: np.ndarray  # [T] float64: when each instruction starts.
    instruction_end_s: np.ndarray  # [T] float64.
    copies: tuple[tuple[int, float, float], ...]
    """(buffer, start, end) of each copy in the order of their starts; buffer -1 - n is the
    write-back of tensor n."""


def placed_latency_s(program: Program, placed: np.ndarray) -> np.ndarray:
    """[T] float64, seconds: L_I(S) of each instruction, S its buffers that are `placed` ([B] bool)
    in CMEM."""
    bit = np.where(
        placed & (program.buffer_bit >= 0),
        1 << np.maximum(program.buffer_bit, 0).astype(np.int64),
        0,
    )
    subset = np.zeros(program.num_instructions, np.int64)
    np.add.at(subset, program.buffer_instruction, bit)
    return program.latency_s[program.latency_offsets[:-1] + subset]


def copies_by_step(program: Program, mapping: MappingLike) -> dict[int, list[int]]:
    """Buffers whose copy may start when a step is reached, by step; within a step those that end
    first come first.

    A copy of an input at step t held over [s, t] may start at s, a copy of an output of instruction
    t at t + 1. One after the last instruction has the step T.
    """
    keyed: dict[int, list[tuple[int, int]]] = {}
    for b in np.flatnonzero(np.asarray(mapping.action) == COPY).tolist():
        t = int(program.buffer_instruction[b])
        is_output = bool(program.buffer_is_output[b])
        first, last = (t + 1, int(mapping.end[b])) if is_output else (int(mapping.start[b]), t - 1)
        keyed.setdefault(min(first, program.num_instructions), []).append((last, b))
    return {step: [b for _, b in sorted(pairs)] for step, pairs in keyed.items()}


class Replay:
    """The clock, and where each tensor is.

    Where a tensor is, in HBM and in CMEM, is None (it is not there), `HERE`, or what `_copy`
    returned for the copy that brings it. Here that is the second at which it ends: copies run one
    at a time.
    """

    HERE: Any = 0.0

    def __init__(self, program: Program, mapping: MappingLike, machine: "MemoryHierarchy"):
        self.program = program
        self.copy_bytes_per_s = machine.copy_bytes_per_s
        self.speed = 1.0 - machine.contention * machine.copy_bytes_per_s / machine.hbm_bytes_per_s
        self.engine_free = 0.0
        self.first_busy = 0  # copies before this one ended in the past
        action = np.asarray(mapping.action)
        self.action: list[int] = action.tolist()
        self.offset: list[int] = np.asarray(mapping.offset).tolist()
        self.size: list[int] = program.buffer_bytes.tolist()
        self.tensor: list[int] = program.buffer_tensor.tolist()
        self.is_output: list[bool] = program.buffer_is_output.tolist()
        self.latency: list[float] = placed_latency_s(program, action != DROP).tolist()
        self.copies_at = copies_by_step(program, mapping)

        self.now = 0.0
        self.in_hbm = [self.HERE if p else None for p in program.tensor_is_parameter.tolist()]
        self.in_cmem = [self.HERE] * program.num_tensors
        self.leaving: list[tuple[Any, int, int]] = []  # copies to HBM and the offsets they read
        self.copies: list[tuple[int, float, float]] = []
        self.compute = self.arrival = self.overwrite = self.write_back = self.contention = 0.0

    def _copy(self, label: int, size: int, source: Any) -> Any:
        """Queues a copy of `size` bytes that starts no earlier than `source` is there."""
        earliest = max(self.now, source)
        if size == 0:  # nothing to copy does not wait for the engine
            return earliest
        start = max(self.engine_free, earliest)
        self.engine_free = start + size / self.copy_bytes_per_s
        self.copies.append((label, start, self.engine_free))
        return self.engine_free

    def _done(self, place: Any) -> bool:
        return place <= self.now

    def _wait(self, places: Iterable[Any]) -> Iterator[float]:
        """Moves the clock on to the end of every copy; seconds, in one part or in several."""
        began, self.now = self.now, max([self.now, *places])
        yield self.now - began

    def _drain(self) -> None:
        self.now = max(self.now, self.engine_free)

    def _run(self, t: int) -> float:
        """Moves the clock on by instruction t; seconds it lost to copies."""
        lost = self._lost_s(self.latency[t])
        self.now += self.latency[t] + lost
        return lost

    def _lost_s(self, work: float) -> float:
        """Extra seconds that `work` seconds of an instruction starting now take beside the engine's
        queue."""
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

    def run(self) -> LatencyBreakdown:
        """Replays the whole program."""
        starts, ends = [], []
        for t in range(self.program.num_instructions):
            self._prepare(t)
            starts.append(self.now)
            self.compute += self.latency[t]
            self.contention += self._run(t)
            ends.append(self.now)
            for b in self._buffers(t):
                if self.is_output[b]:
                    where = self.in_hbm if self.action[b] == DROP else self.in_cmem
                    where[self.tensor[b]] = self.HERE
        self._start_copies(self.program.num_instructions)
        computed = self.now
        self._drain()
        drained = self.now
        results = np.flatnonzero(self.program.tensor_is_output).tolist()
        for _ in self._wait([self._write_back(n) for n in results if self.in_hbm[n] is None]):
            pass
        self.write_back += self.now - drained
        return LatencyBreakdown(
            total_s=self.now,
            compute_s=self.compute,
            arrival_stall_s=self.arrival,
            overwrite_stall_s=self.overwrite,
            write_back_s=self.write_back,
            contention_s=max(self.contention, 0.0),
            drain_s=drained - computed,
            instruction_start_s=np.array(starts),
            instruction_end_s=np.array(ends),
            copies=tuple(sorted(self.copies, key=lambda copy: (copy[1], copy[2], copy[0]))),
        )

    def _buffers(self, t: int) -> range:
        return range(*self.program.buffer_offsets[t : t + 2].tolist())

    def _write_back(self, tensor: int) -> Any:
        self.in_hbm[tensor] = self._copy(
            -1 - tensor, int(self.program.tensor_bytes[tensor]), self.in_cmem[tensor]
        )
        return self.in_hbm[tensor]

    def _start_copies(self, t: int) -> None:
        for b in self.copies_at.get(t, ()):
            tensor, size = self.tensor[b], self.size[b]
            if self.is_output[b]:
                self.in_hbm[tensor] = self._copy(b, size, self.HERE)
                if size:
                    self.leaving.append(
                        (self.in_hbm[tensor], self.offset[b], self.offset[b] + size)
                    )
            else:
                source = (
                    self._write_back(tensor) if self.in_hbm[tensor] is None else self.in_hbm[tensor]
                )
                self.in_cmem[tensor] = self._copy(b, size, source)

    def _prepare(self, t: int) -> None:
        """Starts the copies of step t and waits for what instruction t needs."""
        self._start_copies(t)
        inputs = [b for b in self._buffers(t) if not self.is_output[b]]
        needed = [
            (self.in_hbm if self.action[b] == DROP else self.in_cmem)[self.tensor[b]]
            for b in inputs
        ]
        for seconds in self._wait(place for place in needed if place is not None):
            self.arrival += seconds
        for b in inputs:
            if self.action[b] == DROP and self.in_hbm[self.tensor[b]] is None:
                for seconds in self._wait([self._write_back(self.tensor[b])]):
                    self.write_back += seconds
        self.leaving = [entry for entry in self.leaving if not self._done(entry[0])]
        for b in self._buffers(t):
            if self.is_output[b] and self.action[b] != DROP and self.size[b] > 0:
                low, high = self.offset[b], self.offset[b] + self.size[b]
                for copy, other_low, other_high in self.leaving:
                    if other_low < high and low < other_high:
                        for seconds in self._wait([copy]):
                            self.overwrite += seconds


MIB = 2**20


@dataclass(frozen=True)
class MemoryHierarchy:
    """One core with a large slow memory (HBM), a small fast one (CMEM) and one copy engine between
    them.

    The defaults describe a TPUv4i, the paper's machine. "Ten lessons" is Jouppi et al., "Ten
    lessons from three generations shaped Google's TPUv4i", ISCA 2021.
    """

    hbm_bytes_per_s: float = 614e9  # Bandwidth of HBM, bytes/s (Ten lessons, table 1: 614 GB/s).
    cmem_bytes_per_s: float = 4 * 614e9
    """Bandwidth of CMEM, bytes/s. No public figure is known to us: four times HBM is an
    assumption."""
    copy_bytes_per_s: float = 614e9
    """Bandwidth of the copy engine, bytes/s: at most HBM's, and by default all of it (an upper
    bound)."""
    cmem_bytes: float = 64.0 * MIB
    """Capacity of CMEM, bytes: 128 MiB on chip (Ten lessons, table 1), of which the compiler of the
    v4 generation gives 64 MiB to a core's program."""
    # Peak arithmetic, FLOP/s in bfloat16 (Ten lessons, table 1: 138 TFLOP/s).
    peak_flop_per_s: float = 138e12
    overhead_s: float = 1e-6
    """Fixed time of an instruction, seconds. An assumption: about a thousand cycles at 1.05 GHz."""
    contention: float = 0.0
    """How much copies slow down the instruction that runs at the same time, from 0 (not at all: the
    paper's assumption) to 1: an instruction loses this times copy_bytes_per_s / hbm_bytes_per_s of
    its speed while the engine is busy."""

    def __post_init__(self) -> None:
        """All parameters in Python's numbers; raises `InputError` for one that cannot be."""
        for name in (f.name for f in fields(self)):
            number = real(getattr(self, name), "machine", name)
            object.__setattr__(self, name, number)
            if is_traced(number) or name == "contention":
                continue
            timed = name == "overhead_s"
            if not (number > 0 or (timed and number == 0)) or number == np.inf:
                what = "finite and not negative" if timed else "above 0 and finite"
                raise InputError("machine", name, f"must be {what}, got {number}")
        slowdown = self.contention * self.copy_bytes_per_s / self.hbm_bytes_per_s
        if not is_traced(slowdown) and not (0 <= self.contention <= 1 and slowdown < 1):
            fault = f"{self.contention} must be in [0, 1] and leave HBM some bandwidth"
            raise InputError("machine", "contention", fault)


def machine_of(program: Program) -> MemoryHierarchy:
    """The default machine with the capacity and the copy bandwidth the program's file states."""
    return replace(
        MemoryHierarchy(),
        copy_bytes_per_s=program.copy_bytes_per_s,
        cmem_bytes=float(program.fast_bytes),
    )


def program_latency(
    program: Program, mapping: MappingLike, machine: MemoryHierarchy | None = None
) -> LatencyBreakdown:
    """Replays a valid mapped program in order and says how long it takes.

    1. Instruction t runs for L_t(S), S its buffers in CMEM, after instruction t - 1.
    2. Copies run one at a time on the engine, at ``copy_bytes_per_s``, in the order of their first
       step (then their last). One starts when the engine is free, its data is where it copies from,
       and its first step is reached: s for a copy of an input held over [s, t], t + 1 for a copy of
       an output of instruction t.
    3. An instruction waits for the copies that bring its inputs to CMEM; one that reads a tensor
       from HBM waits for the copy that brings it there.
    4. An instruction waits before it writes where an unfinished copy to HBM still reads.
    5. An instruction that reads from HBM a tensor that lives in CMEM alone (its output was placed
       by NoCopy, the input is dropped) waits until the tensor has been written back, once; and so
       does the end of the program for its results.
    6. While the engine is busy, instructions lose ``contention * copy_bytes_per_s /
       hbm_bytes_per_s`` of their speed.

    Eq. 5 and 6 promise that nothing ever waits. Four things break the promise in mappings the game
    allows: contention; write-backs; reading from HBM, or overwriting in place, what is still being
    copied there; and a short copy in a step in the middle of a long one (Eq. 6 lets them share it),
    which the engine cannot interrupt.

    Args:
      program: the program; its tables are L_I, whatever machine they were made for.
      mapping: a mapping the validator accepts.
      machine: the copy engine's speed and the contention; by default that of the program's file,
        without contention.

    Raises:
      InputError: a parameter of the machine is unusable.
    """
    found = Replay(program, mapping, machine_of(program) if machine is None else machine).run()
    if not found.total_s < float("inf"):
        raise InputError(
            "machine", "", "copies take longer than a number can say: its rates are too low"
        )
    return found
