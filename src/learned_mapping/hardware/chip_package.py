"""A package of chips in a row, links one way: the analytical model of paper 2, and the memory each
chip needs.

The model (paper 2, Section 5.1): estimate the latency of every chip executing its ops, take the
maximum; throughput is its reciprocal. The paper gives no formula for one chip's latency. Ours is
the sum of its ops' times and of the time its links are busy:

    t_op = max(flop / flop_per_s,
               activation bytes / sram_bytes_per_s + weight bytes / weight_bytes_per_s) + overhead
    L_d  = bytes on the link d -> d + 1: every tensor produced on a chip a <= d whose last consumer
           sits on a chip b > d
           crosses it, once, however many consumers there are
    t_d  = Σ t_op over the chip's ops + (L_{d-1} + L_d) / link_bytes_per_s
    runtime = max_d t_d,   throughput = 1 / runtime

Chips need not be alike: each then has its own t_op, and each link its own rate.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.errors import InputError, expect_type, expect_whole, is_traced, real
from learned_mapping.hardware.chip_memory import memory_arrays, memory_of
from learned_mapping.programs.graph import MAX_CHIPS, ComputationGraph
from learned_mapping.programs.json_io import Node, expect_schema

MIB = 2**20
MAX_NUMBER = 1e30  # Of any field of a package.
TOO_SLOW = "takes longer on these chips than a number can say: their rates are too low"
LEAST_S = 1e-30
"""Seconds that a run takes at least, so that what takes no time has a throughput too."""
Each = float | tuple[float, ...]
"""One number for all chips, or one for each."""
SPEEDS = (
    "flop_per_s",
    "sram_bytes_per_s",
    "weight_bytes_per_s",
    "link_bytes_per_s",
    "op_overhead_s",
)


@dataclass(frozen=True)
class ChipPackage:
    """A multi-chip edge TPU, as far as the public record describes one.

    Paper 2, Section 3, says "tens of MBs" of SRAM per chip and "tens of GB/s" per link. The
    arithmetic is that of the Edge TPU's data sheet. What neither says is a round number of the
    right order, and says so below.
    """

    chips: int = field(default=36, metadata={"static": True})
    """C, the number of chips in the row (paper 2, Section 5.1, which calls it a ring)."""
    flop_per_s: Each = 4e12  # Arithmetic of one chip, FLOP/s (Edge TPU data sheet: 4 TOPS).
    sram_bytes: Each = 64.0 * MIB
    """Memory of one chip, bytes ("tens of MBs"). Our graphs hold 32-bit numbers: 32 MiB at the
    paper's 16."""
    sram_bytes_per_s: Each = 512e9
    """Bandwidth to activations in SRAM, bytes/s: 1,024 bytes a cycle at 500 MHz; our assumption."""
    # Bandwidth to weights in SRAM, bytes/s; our assumption, the same memory.
    weight_bytes_per_s: Each = 512e9
    # Bandwidth of the link from one chip to the next, bytes/s ("tens of GB/s"); the last chip's
    # leads nowhere.
    link_bytes_per_s: Each = 32e9
    # Fixed time of every op but program inputs, seconds; our assumption.
    op_overhead_s: Each = 5e-7

    def __post_init__(self) -> None:
        """All parameters in Python's numbers; raises `InputError` for one that cannot be."""
        chips = expect_whole(self.chips, "chips", "chips", 1, MAX_CHIPS)
        object.__setattr__(self, "chips", chips)
        for name in (*SPEEDS, "sram_bytes"):
            object.__setattr__(self, name, _usable_each(getattr(self, name), name, chips))

    def each(self, name: str) -> np.ndarray:
        """[C] float64, a field that is one number for all chips or one for each."""
        return np.broadcast_to(np.asarray(getattr(self, name), float), (self.chips,))

    @property
    def alike(self) -> bool:
        """Whether all chips compute and send at one speed; their memory may differ."""
        return all(len(np.unique(self.each(name))) == 1 for name in SPEEDS)

    def of_chip(self, chip: int) -> "ChipPackage":
        """As many chips, all as this one is."""
        own: dict[str, Any] = {
            name: float(self.each(name)[chip]) for name in (*SPEEDS, "sram_bytes")
        }
        return dataclasses.replace(self, **own)


def package_of(node: Node) -> ChipPackage:
    """A package from a JSON object with any of its fields; the others keep their defaults.

    Raises:
      InputError: a field that a package has not, or a value that it cannot have.
    """
    names = [field.name for field in dataclasses.fields(ChipPackage)]
    fields = node.object((), ("schema", *names))
    if "schema" in fields:
        expect_schema(node, "package")
    values: dict[str, Any] = {}
    if "chips" in fields:
        values["chips"] = fields["chips"].integer(1, MAX_CHIPS)
    chips = values.get("chips", ChipPackage.chips)
    for name in names[1:]:
        if name in fields:
            values[name] = _each_of(fields[name], chips, above_0=name != "op_overhead_s")
    return ChipPackage(**values)


def _each_of(node: Node, chips: int, above_0: bool) -> Each:
    """A number, or a list of one for each chip."""
    many = isinstance(node.value, list)
    entries = node.elements(MAX_CHIPS) if many else [node]
    if many and len(entries) != chips:
        node.fail(f"expected a number or {chips}, one a chip, got {len(entries)}")
    numbers = [entry.number(0, MAX_NUMBER) for entry in entries]
    for entry, number in zip(entries, numbers):
        if above_0 and number == 0:
            entry.fail("must be above 0, got 0")
    return tuple(numbers) if many else numbers[0]


def _usable_each(value: Any, name: str, chips: int) -> Each:
    is_row = isinstance(value, np.ndarray) and value.ndim > 0
    if not is_row and not isinstance(value, list | tuple):
        return _usable(value, name)
    if len(value) != chips:
        fault = f"expected a number or {chips}, one a chip, got {len(value)}"
        raise InputError("chips", name, fault)
    row = tuple(_usable(entry, f"{name}[{c}]") for c, entry in enumerate(value))
    return row if len(set(row)) > 1 else row[0]


def _usable(value: object, name: str) -> float:
    number = real(value, "chips", name)
    if is_traced(number):
        return number
    if name.startswith("op_overhead_s"):
        if not 0 <= number < float("inf"):
            raise InputError("chips", name, f"must be at least 0 and finite, got {number}")
    elif not number > 0:
        raise InputError("chips", name, f"must be above 0, got {number}")
    elif number < 1 and name.partition("[")[0] == "sram_bytes":
        raise InputError("chips", name, f"must be a byte or more, got {number}")
    return number


def expect_alike(package: ChipPackage, what: str) -> None:
    """Raises `InputError` where chips or links differ in speed; a field may be traced by JAX."""
    many = [name for name in SPEEDS if isinstance(getattr(package, name), tuple)]
    if many:
        raise InputError("chips", many[0], f"differs from chip to chip: {what} alike chips only")


class GraphWork(NamedTuple):
    """The work of a graph, as the model needs it: N ops, M tensors, E uses. A pytree of arrays."""

    flop: np.ndarray  # [N] float64.
    activation_bytes: np.ndarray  # [N] float64, bytes of its tensors that each op reads and writes.
    weight_bytes: np.ndarray  # [N] float64, bytes of its weights that each op reads.
    is_op: np.ndarray  # [N] float64, 0 for an op of kind ``input``, which takes no time, else 1.
    stated_s: np.ndarray  # [N] float64 seconds the graph itself states, -1 where it states none.
    tensor_producer: np.ndarray  # [M] int32.
    tensor_bytes: np.ndarray  # [M] float64.
    edge_tensor: np.ndarray  # [E] int32, ascending.
    edge_consumer: np.ndarray  # [E] int32.


def graph_work(graph: ComputationGraph) -> GraphWork:
    """The arrays of a graph the model works on."""
    seconds = np.full(graph.num_ops, -1.0) if graph.op_seconds is None else graph.op_seconds
    return GraphWork(
        flop=graph.op_flop,
        activation_bytes=graph.op_tensor_traffic.astype(np.float64),
        weight_bytes=graph.op_weight_traffic.astype(np.float64),
        is_op=np.array([kind != "input" for kind in graph.op_kinds], np.float64),
        stated_s=np.asarray(seconds, np.float64),
        tensor_producer=graph.tensor_producer,
        tensor_bytes=graph.tensor_bytes.astype(np.float64),
        edge_tensor=graph.edge_tensor,
        edge_consumer=graph.edge_consumer,
    )


def op_seconds(work: GraphWork, package: ChipPackage, xp=np) -> np.ndarray:
    """[N] seconds of each op on one chip: the graph's own estimates where it has them, else the
    roofline above.

    Args:
      xp: `numpy` or `jax.numpy`.
    """
    streaming = (
        work.activation_bytes / package.sram_bytes_per_s
        + work.weight_bytes / package.weight_bytes_per_s
    )
    roofline = xp.maximum(work.flop / package.flop_per_s, streaming) + package.op_overhead_s
    return xp.where(work.stated_s < 0, roofline * work.is_op, work.stated_s)


class ChipModel:
    """The analytical model of one graph on one package, in NumPy: op times are computed once,
    partitions are cheap.

    Args:
      memory: whether a partition has to fit the chips' memory too (H of Eq. 5). A throughput is
        then below that of all that fit where it does not: one result in the seconds of all ops and
        of all tensors on two links, over the share of its memory that the fullest chip needs.
    """

    def __init__(self, graph: ComputationGraph, package: ChipPackage, memory: bool = False):
        expect_type(graph, ComputationGraph, "graph")
        expect_type(package, ChipPackage, "package")
        self.graph, self.package, self.alike = graph, package, package.alike
        self.work = graph_work(graph)
        one, links = package.of_chip(0), package.each("link_bytes_per_s")
        self._by_chip: np.ndarray | None = None
        with np.errstate(over="ignore", invalid="ignore"):  # infinite times none, of an input
            self.op_seconds = op_seconds(self.work, one)
            """[N] float64 seconds of each op on a chip, their mean where chips differ."""
            if not self.alike:
                kinds = [op_seconds(self.work, package.of_chip(c)) for c in range(package.chips)]
                self._by_chip = np.stack(kinds)
                self.op_seconds = self._by_chip.mean(axis=0)
            self.tensor_seconds = self.work.tensor_bytes / links.min()
            """[M] float64 seconds a tensor keeps the slowest link busy."""
            self.link_factor = np.ones(package.chips)
            """[C] float64, so many times as long the link behind each chip: at most 1."""
            if not self.alike:
                self.link_factor = np.where(links == links.min(), 1.0, links.min() / links)
            slowest = self.op_seconds if self._by_chip is None else self._by_chip.max(axis=0)
            whole = slowest.sum() + 2.0 * self.tensor_seconds.sum()
        if not np.isfinite(whole):
            raise InputError(graph.name, "", TOO_SLOW)
        self._longest_s = max(float(whole), LEAST_S)
        self.limit = package.each("sram_bytes") if memory else None
        """[C] float64 bytes that a chip's ops may need; None where memory is no part of what is
        valid."""
        self.held = memory_arrays(graph) if memory else None
        offsets = graph.consumer_offsets
        used = np.flatnonzero(np.diff(offsets))
        self._starts = offsets[used]
        self._producer = graph.tensor_producer[used]
        self._used_seconds = self.tensor_seconds[used]

    @property
    def chip_seconds(self) -> np.ndarray:
        """[C, N] float64 seconds of each op on each chip."""
        if self._by_chip is not None:
            return self._by_chip
        return np.broadcast_to(self.op_seconds, (self.package.chips, len(self.op_seconds)))

    def latencies(self, assignment: np.ndarray) -> np.ndarray:
        """[C] float64 seconds t_d of each chip; `assignment` is [N] chip ids in 0..C-1, obeying Eq.
        2."""
        seconds = self.op_seconds
        if self._by_chip is not None:
            seconds = self._by_chip[assignment, np.arange(len(assignment))]
        load = np.bincount(assignment, weights=seconds, minlength=self.package.chips)
        return load + self.link_seconds(assignment)

    def link_seconds(self, assignment: np.ndarray) -> np.ndarray:
        """[C] float64 seconds the two links of each chip are busy."""
        chips = self.package.chips
        if not len(self._starts):
            return np.zeros(chips)
        first = assignment[self._producer]
        last = np.maximum.reduceat(assignment[self.graph.edge_consumer], self._starts)
        crossing = last > first
        change = np.bincount(first[crossing], weights=self._used_seconds[crossing], minlength=chips)
        change -= np.bincount(last[crossing], weights=self._used_seconds[crossing], minlength=chips)
        busy = np.maximum(np.cumsum(change), 0.0)
        if not self.alike:
            busy *= self.link_factor
        return busy + np.concatenate([[0.0], busy[:-1]])

    def runtime(self, assignment: np.ndarray) -> float:
        """Seconds between two results: the maximum of `latencies`."""
        return float(self.latencies(assignment).max())

    def throughput(self, assignment: np.ndarray) -> float:
        """Results per second, 1 / runtime; below that of all that fit where it does not."""
        return self.judged(assignment)[0]

    def memory(self, assignment: np.ndarray) -> np.ndarray:
        """[C] int64 bytes, as `chip_memory`; compiled, of a model with memory."""
        assert self.held is not None
        return memory_of(self.held, np.asarray(assignment, np.int64), self.package.chips)

    def excess(self, assignment: np.ndarray) -> float:
        """The most that a chip needs over what it has: at most 1 where the partition fits, 0 where
        memory is no part of what is valid."""
        if self.limit is None:
            return 0.0
        return float((self.memory(assignment) / self.limit).max())

    def judged(self, assignment: np.ndarray) -> tuple[float, np.ndarray]:
        """(results per second, [C] seconds of each chip): what a package can tell of one run."""
        latencies = self.latencies(assignment)
        if (excess := self.excess(assignment)) > 1.0:
            return 1.0 / (self._longest_s * excess), latencies
        runtime = float(latencies.max())
        return 1.0 / max(runtime, LEAST_S), latencies


def chip_memory(
    graph: ComputationGraph, assignment: np.ndarray | list[int], chips: int
) -> np.ndarray:
    """[C] int64, the most bytes each chip holds: weights of its ops and live activations.

    A first model of what later passes of the compiler decide (the function H of Eq. 5). Every chip
    runs its ops in the graph's topological order. What other chips send is there from the start of
    its turn to the last local use; a tensor made here stays until its last local use, or to the end
    of the turn when it is an output of the graph or goes on to another chip. Tensors that only pass
    through a chip's router take no memory.
    """
    held = np.zeros(chips, np.int64)
    np.add.at(held, assignment, graph.op_weight_bytes)
    freed = np.zeros(graph.num_ops, np.int64)  # by each op, once it has run
    place = np.argsort(graph.topological_order)
    for tensor, size in enumerate(graph.tensor_bytes.tolist()):
        producer = graph.tensor_producer[tensor]
        home = assignment[producer]
        last_use = {home: producer}
        for consumer in sorted(graph.consumers(tensor).tolist(), key=place.__getitem__):
            last_use[assignment[consumer]] = consumer
        for chip, op in last_use.items():
            if chip != home:
                held[chip] += size
            if chip != home or (len(last_use) == 1 and not graph.tensor_is_output[tensor]):
                freed[op] += size
    peak = held.copy()
    for op in graph.topological_order.tolist():
        chip = assignment[op]
        held[chip] += graph.op_output_bytes[op]
        peak[chip] = max(peak[chip], held[chip])
        held[chip] -= freed[op]
    return peak


OP_CLASSES = ("matrix", "attention", "elementwise", "transcendental", "reduction", "movement")
"""``matrix`` multiplies activations by weights the op holds, ``attention`` activations by
activations."""

PRODUCTS = frozenset({"dot_general", "conv_general_dilated"})
TRANSCENDENTAL = frozenset(
    "cbrt cos erf erf_inv exp exp2 expm1 integer_pow lgamma log log1p logistic pow rsqrt sin sqrt"
    " tan tanh".split()
)
REDUCTION_PREFIXES = ("reduce", "cum", "arg", "sort", "top_k")
MOVEMENT = frozenset(
    """
    bitcast_convert_type broadcast_in_dim concatenate convert_element_type copy dynamic_slice
    dynamic_update_slice gather input iota pad reshape rev scatter select_and_gather_add slice
    split squeeze stop_gradient transpose
    """.split()
)


def op_classes(graph: ComputationGraph) -> np.ndarray:
    """[N] int64 index into `OP_CLASSES` of each op, by its kind; what no list names is
    ``elementwise``."""
    return np.array(
        [_class_of(kind, int(w)) for kind, w in zip(graph.op_kinds, graph.op_weight_bytes)],
        np.int64,
    )


def _class_of(kind: str, weight_bytes: int) -> int:
    if kind in PRODUCTS:
        return OP_CLASSES.index("matrix" if weight_bytes else "attention")
    if kind in TRANSCENDENTAL:
        return OP_CLASSES.index("transcendental")
    if kind.startswith(REDUCTION_PREFIXES):
        return OP_CLASSES.index("reduction")
    return OP_CLASSES.index("movement" if kind in MOVEMENT else "elementwise")
