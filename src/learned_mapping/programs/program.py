"""Program: a scheduled instruction sequence and its buffers. Paper 1 maps it to fast memory."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from learned_mapping.drawn import Drawn
from learned_mapping.errors import InputError, expect_sequence, expect_type, real, told
from learned_mapping.programs.graph import (
    MAX_BYTES,
    MAX_SECONDS,
    check_columns,
    check_distinct,
    check_text,
    check_total_bytes,
    digest_of,
    frozen_array,
)

MAX_INSTRUCTIONS = 200_000
MAX_BUFFERS = 1_000_000
# Latencies are known for subsets of at most this many buffers of an instruction (paper 1, Appendix
# A).
MAX_VARIED = 8
NO_ALIAS = -1
NOT_VARIED = -1


@dataclass(frozen=True, eq=False)
class Program(Drawn):
    """A program P = (I_0, ..., I_{T-1}) of T instructions with B buffers over N tensors (paper 1,
    section 4.1).

    A buffer is one use of a tensor: an input (operand) or an output of one instruction. Logical
    time is the index of an instruction. Buffers stand in the order in which the MMapGame asks for
    them: by instruction, inputs before outputs.
    """

    name: str
    fast_bytes: int  # Capacity of the fast memory (CMEM), max_size of section 4.1, in bytes.
    copy_bytes_per_s: float  # Bandwidth of the one copy engine between HBM and CMEM.
    instruction_names: tuple[str, ...]  # T distinct names.
    instruction_kinds: tuple[str, ...]  # T opcodes, such as ``fusion``.
    tensor_names: tuple[str, ...]  # N distinct names.
    tensor_bytes: np.ndarray  # [N] int64, size(b) of every buffer of the tensor.
    tensor_is_parameter: np.ndarray  # [N] bool, in HBM before the program starts.
    tensor_is_output: np.ndarray  # [N] bool, a result of the program: live to the end.
    buffer_instruction: np.ndarray  # [B] int32, ascending: target_time(b).
    buffer_tensor: np.ndarray  # [B] int32: tensor_id(b).
    # [B] bool: whether the instruction writes the buffer (else it reads it).
    buffer_is_output: np.ndarray
    buffer_alias: np.ndarray  # [B] int32: alias_id(b), numbered from 0, or `NO_ALIAS`.
    # [B] int8: the bit of the buffer in its instruction's latency table, or `NOT_VARIED`.
    buffer_bit: np.ndarray
    # [T + 1] int64: where each instruction's table starts in `latency_s`.
    latency_offsets: np.ndarray
    latency_s: np.ndarray
    """float64, seconds: the tables L_I(S) one after another; entry number sum(2^bit(b) for b in
    S)."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The origin of the program; free form, no part of the digest."""
    source: InitVar[object] = "program"
    """What to name in an error, such as the file."""

    def __post_init__(self, source: object) -> None:
        for name, value in _columns_of(self, source).items():
            object.__setattr__(self, name, value)
        for check in (_check_order, _check_data_flow, _check_aliases, _check_latencies):
            check(self, source)

    @property
    def num_instructions(self) -> int:
        return len(self.instruction_names)

    @property
    def num_buffers(self) -> int:
        return len(self.buffer_tensor)

    @property
    def num_tensors(self) -> int:
        return len(self.tensor_names)

    @functools.cached_property
    def buffer_bytes(self) -> np.ndarray:
        """[B] int64: size(b)."""
        return frozen_array(self.tensor_bytes[self.buffer_tensor], np.int64)

    @functools.cached_property
    def buffer_offsets(self) -> np.ndarray:
        """[T + 1] int64: the buffers of instruction t are ``range(buffer_offsets[t],
        buffer_offsets[t + 1])``."""
        return frozen_array(
            np.searchsorted(self.buffer_instruction, np.arange(self.num_instructions + 1)), np.int64
        )

    @functools.cached_property
    def buffer_demand_s(self) -> np.ndarray:
        """[B] float64, seconds of the copy engine: demand(b) = size(b) / bandwidth (Appendix A)."""
        return frozen_array(self.buffer_bytes / self.copy_bytes_per_s, np.float64)

    @functools.cached_property
    def supply_s(self) -> np.ndarray:
        """[T] float64, seconds: the initial supply of each instruction, L_I(B(I)), all buffers fast
        (Appendix A)."""
        return frozen_array(self.latency_s[self.latency_offsets[1:] - 1], np.float64)

    @functools.cached_property
    def slow_s(self) -> np.ndarray:
        """[T] float64, seconds: L_I({}), every buffer in HBM."""
        return frozen_array(self.latency_s[self.latency_offsets[:-1]], np.float64)

    @functools.cached_property
    def initial_benefit_s(self) -> np.ndarray:
        """[B] float64, seconds: L_I({}) - L_I({b}), the benefit before any decision; 0 for a buffer
        not varied."""
        start = self.latency_offsets[self.buffer_instruction]
        alone = np.where(
            self.buffer_bit >= 0, 1 << np.maximum(self.buffer_bit, 0).astype(np.int64), 0
        )
        return frozen_array(self.latency_s[start] - self.latency_s[start + alone], np.float64)

    @functools.cached_property
    def possible_saving_s(self) -> float:
        """Seconds, at least 0: the sum over instructions of L_I({}) - min over S of L_I(S), the
        best S of each.

        That is L_I({}) - L_I(B(I)) where no buffer is worse off in fast memory, which compiled
        programs do not promise.
        """
        least = np.minimum.reduceat(self.latency_s, self.latency_offsets[:-1])  # no table is empty
        return float(np.sum(self.slow_s - least))

    @functools.cached_property
    def tensor_live(self) -> np.ndarray:
        """[N, 2] int32: live_range, both ends included: from the producer (0 for a parameter) to
        the last use (T - 1 for a result of the program)."""
        live = np.zeros((self.num_tensors, 2), np.int32)
        live[:, 0] = self.num_instructions
        np.minimum.at(live[:, 0], self.buffer_tensor, self.buffer_instruction)
        np.maximum.at(live[:, 1], self.buffer_tensor, self.buffer_instruction)
        live[self.tensor_is_parameter, 0] = 0
        live[self.tensor_is_output, 1] = self.num_instructions - 1
        return frozen_array(live, np.int32)

    @functools.cached_property
    def updated_tensors(self) -> tuple[tuple[int, ...], ...]:
        """[B] the tensors that an output updates in place: those its instruction reads through its
        alias group."""
        updated: list[tuple[int, ...]] = []
        readers: dict[tuple[int, int], tuple[int, ...]] = {}
        columns = (
            self.buffer_instruction,
            self.buffer_alias,
            self.buffer_is_output,
            self.buffer_tensor,
        )
        for t, alias, is_output, tensor in zip(*(column.tolist() for column in columns)):
            updated.append(readers.get((t, alias), ()) if is_output else ())
            if alias != NO_ALIAS and not is_output:
                readers[t, alias] = (*readers.get((t, alias), ()), tensor)
        return tuple(updated)

    @property
    def num_alias_groups(self) -> int:
        return int(self.buffer_alias.max(initial=-1)) + 1

    @functools.cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything but the program's name and metadata."""
        return digest_of(
            self.fast_bytes,
            self.copy_bytes_per_s,
            self.instruction_names,
            self.instruction_kinds,
            self.tensor_names,
            self.tensor_bytes,
            self.tensor_is_parameter,
            self.tensor_is_output,
            self.buffer_instruction,
            self.buffer_tensor,
            self.buffer_is_output,
            self.buffer_alias,
            self.buffer_bit,
            self.latency_offsets,
            self.latency_s,
        )

    def with_memory(
        self, *, fast_bytes: int | None = None, copy_bytes_per_s: float | None = None
    ) -> Self:
        """The same program on a machine with another fast memory (bytes) or copy bandwidth (bytes
        per second).

        Raises:
          InputError: the memory is negative or no whole number, or the bandwidth not above 0.
        """
        fast_bytes = self.fast_bytes if fast_bytes is None else fast_bytes
        rate = self.copy_bytes_per_s if copy_bytes_per_s is None else copy_bytes_per_s
        return replace(self, fast_bytes=fast_bytes, copy_bytes_per_s=rate, source="memory")


def make_program(**columns: Any) -> Program:
    """A program from columns of any kind: arguments, and what is raised, as of `Program`."""
    return Program(**columns)


def _columns_of(given: Program, source: object) -> dict[str, Any]:
    """The fields of a program as it keeps them; raises `InputError` for one that cannot be."""
    sequences = ("instruction_names", "instruction_kinds", "tensor_names", "buffer_tensor")
    for field_name in (*sequences, "latency_s"):
        expect_sequence(getattr(given, field_name), source, field_name)
    metadata = {} if given.metadata is None else given.metadata
    expect_type(metadata, Mapping, "metadata")
    t, b, n = len(given.instruction_names), len(given.buffer_tensor), len(given.tensor_names)
    entries = len(given.latency_s)
    if t == 0:
        raise InputError(source, "instructions", "the program has no instructions")
    if t > MAX_INSTRUCTIONS:
        raise InputError(
            source, "instructions", f"{t} instructions, at most {MAX_INSTRUCTIONS} are supported"
        )
    if b > MAX_BUFFERS:
        raise InputError(source, "buffers", f"{b} buffers, at most {MAX_BUFFERS} are supported")
    check_distinct(source, "instructions", given.instruction_names)
    check_distinct(source, "tensors", given.tensor_names)
    check_text(source, "name", [given.name])
    check_text(source, "instruction_kinds", given.instruction_kinds)
    if (kinds := len(given.instruction_kinds)) != t:
        raise InputError(source, "instruction_kinds", f"{kinds} entries for {t} instructions")
    _check_memory(source, given.fast_bytes, given.copy_bytes_per_s)
    columns = check_columns(
        source,
        tensor_bytes=(given.tensor_bytes, np.int64, n, 0, MAX_BYTES),
        tensor_is_parameter=(given.tensor_is_parameter, bool, n, 0, 1),
        tensor_is_output=(given.tensor_is_output, bool, n, 0, 1),
        buffer_instruction=(given.buffer_instruction, np.int32, b, 0, t - 1),
        buffer_tensor=(given.buffer_tensor, np.int32, b, 0, n - 1),
        buffer_is_output=(given.buffer_is_output, bool, b, 0, 1),
        buffer_alias=(given.buffer_alias, np.int32, b, NO_ALIAS, 2**31 - 2),
        buffer_bit=(given.buffer_bit, np.int8, b, NOT_VARIED, MAX_VARIED - 1),
        latency_s=(given.latency_s, np.float64, entries, 0, MAX_SECONDS),
        latency_offsets=(given.latency_offsets, np.int64, t + 1, 0, entries),
    )
    check_total_bytes(
        source, columns["tensor_bytes"], columns["tensor_bytes"][columns["buffer_tensor"]]
    )
    numbers: dict[int, int] = {}  # alias groups are numbered in the order of their first buffers
    alias = [
        a if a == NO_ALIAS else numbers.setdefault(a, len(numbers))
        for a in columns["buffer_alias"].tolist()
    ]
    columns["buffer_alias"] = frozen_array(alias, np.int32)
    return {
        "name": str(given.name),
        "fast_bytes": int(given.fast_bytes),
        "copy_bytes_per_s": float(given.copy_bytes_per_s),
        "instruction_names": tuple(given.instruction_names),
        "instruction_kinds": tuple(given.instruction_kinds),
        "tensor_names": tuple(given.tensor_names),
        **columns,
        "metadata": dict(metadata),
    }


class Step(NamedTuple):
    """One instruction, as `program_of_steps` takes it."""

    name: str
    kind: str
    buffers: Sequence[tuple[int, bool, int]]
    """Tensor, whether the instruction writes it, alias group or `NO_ALIAS`; inputs before
    outputs."""
    varied: Sequence[int]  # Positions in `buffers` of the bits of the latency table.
    latency_s: Sequence[float] | np.ndarray  # [2^len(varied)] seconds.


def program_of_steps(steps: Sequence[Step], **fields: Any) -> Program:
    """A `Program` from its instructions one by one; the other fields, and what is raised, as in
    `make_program`."""
    try:
        buffers = [
            (
                t,
                *buffer,
                list(step.varied).index(position) if position in step.varied else NOT_VARIED,
            )
            for t, step in enumerate(steps)
            for position, buffer in enumerate(step.buffers)
        ]
        instruction, tensor, is_output, alias, bit = np.array(buffers).reshape(-1, 5).T
        offsets = np.cumsum([0, *(len(step.latency_s) for step in steps)])
        latencies = [latency for step in steps for latency in step.latency_s]
        names, kinds = [step.name for step in steps], [step.kind for step in steps]
    except Exception as error:  # of another's object
        raise InputError(
            fields.get("source", "program"), "steps", f"are no list of `Step` ({error})"
        ) from None
    return make_program(
        instruction_names=names,
        instruction_kinds=kinds,
        buffer_instruction=instruction,
        buffer_tensor=tensor,
        buffer_is_output=is_output,
        buffer_alias=alias,
        buffer_bit=bit,
        latency_offsets=offsets,
        latency_s=latencies,
        **fields,
    )


def _check_memory(source: object, fast_bytes: float, copy_bytes_per_s: float) -> None:
    if not isinstance(fast_bytes, Real) or isinstance(fast_bytes, bool) or fast_bytes % 1:
        raise InputError(
            source, "memory.fast_bytes", f"expected a whole number, got {told(fast_bytes)}"
        )
    rate = real(copy_bytes_per_s, source, "memory.copy_bytes_per_s")
    memory = (("fast_bytes", fast_bytes, MAX_BYTES), ("copy_bytes_per_s", rate, 1e18))
    for name, value, most in memory:
        if not 0 < value <= most:
            fault = f"must be above 0 and at most {most:g}, got {told(value)}"
            raise InputError(source, f"memory.{name}", fault)


def _check_order(p: Program, source: object) -> None:
    key = p.buffer_instruction.astype(np.int64) * 2 + p.buffer_is_output
    bad = np.flatnonzero(np.diff(key) < 0)
    if len(bad):
        where = f"instructions[{p.buffer_instruction[bad[0] + 1]}].buffers"
        raise InputError(source, where, "buffers must stand by instruction, inputs before outputs")
    key = (
        p.buffer_instruction.astype(np.int64) * 2 * max(p.num_tensors, 1)
        + p.buffer_tensor * 2
        + p.buffer_is_output
    )
    unique, first = np.unique(key, return_index=True)
    if len(unique) < len(key):
        repeated = min(set(range(len(key))) - set(first.tolist()))
        t, tensor = p.buffer_instruction[repeated], p.tensor_names[p.buffer_tensor[repeated]]
        raise InputError(
            source,
            f"instructions[{t}].buffers",
            f"tensor {tensor!r} appears twice in the same role",
        )


def _check_data_flow(p: Program, source: object) -> None:
    written_at = np.full(p.num_tensors, -1, np.int64)
    written_at[p.tensor_is_parameter] = -2
    uses = (p.buffer_instruction.tolist(), p.buffer_tensor.tolist(), p.buffer_is_output.tolist())
    for t, tensor, is_output in zip(*uses):
        name, where = p.tensor_names[tensor], f"instructions[{t}].buffers"
        if is_output:
            if written_at[tensor] == -2:
                raise InputError(
                    source,
                    where,
                    f"parameter {name!r} is written; an in-place update is a new tensor",
                )
            if written_at[tensor] >= 0:
                fault = (
                    f"tensor {name!r} is written twice, first by instruction {written_at[tensor]}"
                )
                raise InputError(source, where, fault)
            written_at[tensor] = t
        elif written_at[tensor] == -1 or written_at[tensor] == t:
            raise InputError(source, where, f"tensor {name!r} is read before it is written")
    unused = np.flatnonzero((written_at == -1) & ~p.tensor_is_parameter)
    if len(unused):
        fault = f"tensor {p.tensor_names[unused[0]]!r} is neither parameter nor written"
        raise InputError(source, f"tensors[{unused[0]}]", fault)


def _check_aliases(p: Program, source: object) -> None:
    groups: dict[int, int] = {}
    for i, group in enumerate(p.buffer_alias.tolist()):
        if group == NO_ALIAS:
            continue
        first = groups.setdefault(group, i)
        if p.buffer_bytes[i] != p.buffer_bytes[first]:
            one, other = (p.tensor_names[p.buffer_tensor[j]] for j in (first, i))
            fault = (
                f"alias group of {one!r} and {other!r} mixes sizes {p.buffer_bytes[first]} and"
                f" {p.buffer_bytes[i]}"
            )
            raise InputError(source, f"instructions[{p.buffer_instruction[i]}].buffers", fault)


def _check_latencies(p: Program, source: object) -> None:
    if p.latency_offsets[0] != 0 or p.latency_offsets[-1] != len(p.latency_s):
        raise InputError(source, "latency_offsets", f"must run from 0 to {len(p.latency_s)}")
    bits, starts = p.buffer_bit.tolist(), p.buffer_offsets.tolist()
    for t in range(p.num_instructions):
        varied = sorted(bit for bit in bits[starts[t] : starts[t + 1]] if bit >= 0)
        if varied != list(range(len(varied))):
            raise InputError(
                source, f"instructions[{t}].varied", f"bits {varied} are not 0, 1, 2, ..."
            )
        entries = int(p.latency_offsets[t + 1] - p.latency_offsets[t])
        if entries != 1 << len(varied):
            fault = (
                f"{entries} entries for {len(varied)} varied buffers, expected {1 << len(varied)}"
            )
            raise InputError(source, f"instructions[{t}].latency_s", fault)


def varied_buffers(sizes: Sequence[int]) -> list[int]:
    """Positions of the at most `MAX_VARIED` largest buffers of an instruction, in buffer order.

    The paper keeps latencies for subsets of at most 8 buffers (Appendix A); the others count as
    living in HBM. Ties go to the buffer that comes first.
    """
    return sorted(sorted(range(len(sizes)), key=lambda j: -sizes[j])[:MAX_VARIED])


def instruction_latency_table(flop: float, sizes: Sequence[int], machine: Any) -> np.ndarray:
    """L_I(S) of one instruction over the subsets S of its varied buffers held in fast memory (paper
    1, Appendix A).

    A roofline: L_I(S) = overhead + max(flop / peak, bytes outside S / HBM bandwidth + bytes in S /
      CMEM bandwidth).

    Args:
      flop: floating-point operations of the instruction.
      sizes: bytes of all its buffers; the `varied_buffers` of them may be in S.
      machine: an object with ``peak_flop_per_s``, ``hbm_bytes_per_s``, ``cmem_bytes_per_s`` and
        ``overhead_s``.

    Returns:
      [2^k] float64, seconds, k = min(8, len(sizes)); entry number sum(2^i for varied buffer i in
      S).
    """
    total = float(sum(sizes))
    in_fast = np.zeros(1)
    for position in varied_buffers(sizes):
        in_fast = np.concatenate([in_fast, in_fast + float(sizes[position])])
    moving = (total - in_fast) / machine.hbm_bytes_per_s + in_fast / machine.cmem_bytes_per_s
    return machine.overhead_s + np.maximum(flop / machine.peak_flop_per_s, moving)
