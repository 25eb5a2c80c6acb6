"""A mapped program replayed in order: which copies it asks for, what it waits for, and where its time goes.

`Replay` knows the clock and where each tensor is. How copies run and what they cost an instruction is the subclass's:
one copy at a time in `memory_hierarchy`, several in `copy_engines`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from learned_mapping.programs.program import Program

COPY, NO_COPY, DROP = 0, 1, 2
"""Codes of the actions in a mapping (paper 1, section 4.2)."""


class MappingLike(Protocol):
    """What the latency models read of a mapping; `learned_mapping.mmap.mapping.Mapping` has it."""

    action: np.ndarray
    offset: np.ndarray
    start: np.ndarray
    end: np.ndarray


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
    """(buffer, start, end) of each copy in the order of their starts; buffer -1 - n is the write-back of tensor n."""


def placed_latency_s(program: Program, placed: np.ndarray) -> np.ndarray:
    """[T] float64, seconds: L_I(S) of each instruction, S its buffers that are `placed` ([B] bool) in CMEM."""
    bit = np.where(placed & (program.buffer_bit >= 0), 1 << np.maximum(program.buffer_bit, 0).astype(np.int64), 0)
    subset = np.zeros(program.num_instructions, np.int64)
    np.add.at(subset, program.buffer_instruction, bit)
    return program.latency_s[program.latency_offsets[:-1] + subset]


def copies_by_step(program: Program, mapping: MappingLike) -> dict[int, list[int]]:
    """Buffers whose copy may start when a step is reached, by step; within a step those that end first come first.

    A copy of an input at step t held over [s, t] may start at s, a copy of an output of instruction t at t + 1. One
    after the last instruction has the step T.
    """
    keyed: dict[int, list[tuple[int, int]]] = {}
    for b in np.flatnonzero(np.asarray(mapping.action) == COPY).tolist():
        t = int(program.buffer_instruction[b])
        is_output = bool(program.buffer_is_output[b])
        first, last = (t + 1, int(mapping.end[b])) if is_output else (int(mapping.start[b]), t - 1)
        keyed.setdefault(min(first, program.num_instructions), []).append((last, b))
    return {step: [b for _, b in sorted(pairs)] for step, pairs in keyed.items()}


class Replay(ABC):
    """The clock, and where each tensor is.

    Where a tensor is, in HBM and in CMEM, is None (it is not there), `HERE`, or what `_copy` returned for the copy that
    brings it.
    """

    HERE: Any

    def __init__(self, program: Program, mapping: MappingLike):
        self.program = program
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

    @abstractmethod
    def _copy(self, label: int, size: int, source: Any) -> Any:
        """Queues a copy of `size` bytes that starts no earlier than `source` is there."""

    @abstractmethod
    def _done(self, place: Any) -> bool:
        """Whether a copy has ended."""

    @abstractmethod
    def _wait(self, places: Iterable[Any]) -> Iterator[float]:
        """Moves the clock on to the end of every copy; seconds, in one part or in several."""

    @abstractmethod
    def _run(self, t: int) -> float:
        """Moves the clock on by instruction t; seconds it lost to copies."""

    @abstractmethod
    def _drain(self) -> None:
        """Moves the clock on to the end of all copies."""

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
        self.in_hbm[tensor] = self._copy(-1 - tensor, int(self.program.tensor_bytes[tensor]), self.in_cmem[tensor])
        return self.in_hbm[tensor]

    def _start_copies(self, t: int) -> None:
        for b in self.copies_at.get(t, ()):
            tensor, size = self.tensor[b], self.size[b]
            if self.is_output[b]:
                self.in_hbm[tensor] = self._copy(b, size, self.HERE)
                if size:
                    self.leaving.append((self.in_hbm[tensor], self.offset[b], self.offset[b] + size))
            else:
                source = self._write_back(tensor) if self.in_hbm[tensor] is None else self.in_hbm[tensor]
                self.in_cmem[tensor] = self._copy(b, size, source)

    def _prepare(self, t: int) -> None:
        """Starts the copies of step t and waits for what instruction t needs."""
        self._start_copies(t)
        inputs = [b for b in self._buffers(t) if not self.is_output[b]]
        needed = [(self.in_hbm if self.action[b] == DROP else self.in_cmem)[self.tensor[b]] for b in inputs]
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
