"""ComputationGraph: ops, the tensors they produce, and who consumes them. Papers 2 and 3 map it."""

import functools
import hashlib
import heapq
import html
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, expect_sequence, expect_type, shown, told
from learned_mapping.programs.json_io import MAX_NAME

MAX_OPS = 100_000
MAX_EDGES = 2_000_000
MAX_BYTES = 2**50  # Largest tensor, or weights of one op, in bytes: a pebibyte.
MAX_TOTAL_BYTES = 2**61
"""Largest sum over all that a graph or a program reads, writes and holds: no 64-bit sum of its
parts can overflow."""
MAX_FLOP = 1e21
MAX_SECONDS = 1e9
MAX_CHIPS = 4096
"""Chips of a package: every model and every judge keeps numbers for each chip, and a hundred times
the paper's 36 is beyond any ring."""
# Columns of a graph that it may do without.
OPTIONAL = ("op_seconds", "op_untouched_bytes", "op_chip")
Lists = tuple[tuple[int, ...], ...]


def frozen_array(values: Any, dtype: Any) -> np.ndarray:
    """A read-only copy of `values` without negative zeros: equal values, equal bytes."""
    array = np.array(values, dtype=dtype)
    if array.dtype.kind == "f":
        array += 0.0
    array.setflags(write=False)
    return array


def plain_array(values: Any, source: object, field: str) -> np.ndarray:
    """Anything array-like as an array; raises `InputError` for what is none, and for one that a
    mask hides parts of."""
    try:
        array = np.asarray(values)
        masked = np.ma.is_masked(values)
    except Exception:  # of another's object
        raise InputError(
            source, field, f"expected an array of numbers, got {told(values)}"
        ) from None
    if masked:
        raise InputError(source, field, "has entries that are masked")
    return array


def whole_array(
    values: Any, source: object, field: str, dtype: Any, columns: int | None = None
) -> np.ndarray:
    """A read-only array [K], or [K, columns], of whole numbers; raises `InputError` for other
    shapes and for numbers that are none or beyond the type."""
    array, limits = plain_array(values, source, field), np.iinfo(dtype)
    if not array.size and array.ndim == 1:
        array = np.zeros(0 if columns is None else (0, columns), dtype)
    if array.ndim != 1 + (columns is not None) or array.shape[1:] != (
        () if columns is None else (columns,)
    ):
        raise InputError(source, field, f"has the shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise InputError(source, field, f"expected integers, got {array.dtype}")
    if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
        raise InputError(source, field, f"has a number of more than {limits.bits} bits")
    return frozen_array(array, dtype)


def digest_of(*parts: Any) -> str:
    """The SHA-256 of arrays and strings, in hexadecimal: equal content, equal digest."""
    h = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            h.update(f"{part.dtype.str}{part.shape}".encode())
            h.update(np.ascontiguousarray(part).tobytes())
        else:
            h.update(repr(part).encode())
        h.update(b"\0")
    return h.hexdigest()


@dataclass(frozen=True, eq=False)
class ComputationGraph:
    """A directed acyclic graph of N ops, M tensors and E uses of a tensor by an op.

    An op's parameters are not tensors of the graph: they stay on the op, as `op_weight_bytes`. A
    tensor that several ops consume is one tensor with several edges. Ops may stand in any order;
    `topological_order` sorts them. Whatever it is made from is checked, and kept in read-only
    arrays and tuples; edges may come in any order, repeated ones are dropped.

    Raises:
      InputError: lengths differ, a name is repeated, an index dangles, a size is negative, absurd
        or not finite, an op uses its own output, the ops form a cycle, or ops of one group are
        fixed to different chips.
    """

    name: str
    op_names: tuple[str, ...]  # N distinct names.
    op_kinds: tuple[str, ...]
    """N primitive names, such as ``dot_general``; ``input`` for a source that stands for a program
    input."""
    op_flop: np.ndarray  # [N] float64, floating-point operations.
    op_weight_bytes: np.ndarray  # [N] int64, bytes of parameters the op holds.
    op_seconds: np.ndarray | None
    """[N] float64 running-time estimates in seconds, or None: a hardware model then derives
    them."""
    tensor_names: tuple[str, ...]  # M distinct names.
    tensor_producer: np.ndarray  # [M] int32, the op that produces each tensor.
    tensor_bytes: np.ndarray  # [M] int64.
    # [M] bool, whether the tensor leaves the graph and so must be kept to the end.
    tensor_is_output: np.ndarray
    # [E] int32, ascending; the tensor used. (edge_tensor, edge_consumer) pairs are distinct.
    edge_tensor: np.ndarray
    edge_consumer: np.ndarray  # [E] int32, the op that uses it.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The origin of the graph; free form, no part of the digest."""
    op_untouched_bytes: np.ndarray | None = None
    """[N] int64, bytes of its weights and then of its tensors that an op neither reads nor writes,
    such as what a slice leaves out; None where every op touches them whole."""
    op_chip: np.ndarray | None = None
    """[N] int32, the chip an op is fixed to in paper 2, -1 for any; None where all are."""
    op_group: tuple[str, ...] | None = None
    """N names: ops of one name belong on one chip in paper 2, those of no name anywhere; None where
    none has a name."""
    source: InitVar[object] = "graph"
    """What to name in an error, such as the file."""

    def __post_init__(self, source: object) -> None:
        for name, value in _columns_of(self, source).items():
            object.__setattr__(self, name, value)
        _check_dataflow(self, source)

    @property
    def num_ops(self) -> int:
        return len(self.op_names)

    @property
    def num_tensors(self) -> int:
        return len(self.tensor_names)

    @property
    def num_edges(self) -> int:
        return len(self.edge_tensor)

    @functools.cached_property
    def edge_producer(self) -> np.ndarray:
        """[E] int32, the op at the start of each edge."""
        return frozen_array(self.tensor_producer[self.edge_tensor], np.int32)

    @functools.cached_property
    def consumer_offsets(self) -> np.ndarray:
        """[M + 1] int64; tensor m is consumed by
        ``edge_consumer[consumer_offsets[m]:consumer_offsets[m + 1]]``."""
        return frozen_array(
            np.searchsorted(self.edge_tensor, np.arange(self.num_tensors + 1)), np.int64
        )

    def consumers(self, tensor: int) -> np.ndarray:
        """The ops that use `tensor`."""
        return self.edge_consumer[self.consumer_offsets[tensor] : self.consumer_offsets[tensor + 1]]

    @functools.cached_property
    def op_edges(self) -> np.ndarray:
        """[K, 2] int32, distinct (producer, consumer) pairs in ascending order: the op-level edges
        E of the papers."""
        return frozen_array(
            np.unique(np.stack([self.edge_producer, self.edge_consumer], axis=1), axis=0), np.int32
        )

    @functools.cached_property
    def op_inputs(self) -> Lists:
        """N: the tensors each op uses, ascending."""
        return _grouped(self.num_ops, self.edge_consumer, self.edge_tensor)

    @functools.cached_property
    def op_outputs(self) -> Lists:
        """N: the tensors each op produces, ascending."""
        return _grouped(self.num_ops, self.tensor_producer, np.arange(self.num_tensors))

    @functools.cached_property
    def op_producers(self) -> Lists:
        """N: the distinct ops whose tensors each op uses, ascending."""
        return _grouped(self.num_ops, self.op_edges[:, 1], self.op_edges[:, 0])

    @functools.cached_property
    def op_consumers(self) -> Lists:
        """N: the distinct ops that use a tensor of each op, ascending."""
        return _grouped(self.num_ops, self.op_edges[:, 0], self.op_edges[:, 1])

    @functools.cached_property
    def topological_order(self) -> np.ndarray:
        """[N] int32, ops so that each comes after all whose tensors it uses; ties by the ops' own
        order."""
        return frozen_array(_kahn(self, range(self.num_ops)), np.int32)

    @functools.cached_property
    def op_output_bytes(self) -> np.ndarray:
        """[N] int64, bytes of all tensors each op produces."""
        totals = np.zeros(self.num_ops, np.int64)
        np.add.at(totals, self.tensor_producer, self.tensor_bytes)
        return frozen_array(totals, np.int64)

    @functools.cached_property
    def op_input_bytes(self) -> np.ndarray:
        """[N] int64, bytes of all tensors each op consumes (parameters not included)."""
        totals = np.zeros(self.num_ops, np.int64)
        np.add.at(totals, self.edge_consumer, self.tensor_bytes[self.edge_tensor])
        return frozen_array(totals, np.int64)

    @functools.cached_property
    def op_weight_traffic(self) -> np.ndarray:
        """[N] int64, bytes of its weights that each op reads."""
        untouched = 0 if self.op_untouched_bytes is None else self.op_untouched_bytes
        return frozen_array(np.maximum(self.op_weight_bytes - untouched, 0), np.int64)

    @functools.cached_property
    def op_tensor_traffic(self) -> np.ndarray:
        """[N] int64, bytes of its tensors that each op reads and writes."""
        whole = self.op_input_bytes + self.op_output_bytes
        if self.op_untouched_bytes is not None:
            whole = whole - np.clip(self.op_untouched_bytes - self.op_weight_bytes, 0, whole)
        return frozen_array(whole, np.int64)

    @functools.cached_property
    def op_is_tied(self) -> np.ndarray:
        """[N] bool, whether an op is fixed to a chip or belongs to a group."""
        chip = np.full(self.num_ops, -1) if self.op_chip is None else self.op_chip
        return frozen_array(
            (chip >= 0) | np.array([bool(g) for g in self.op_group or [""] * self.num_ops]), bool
        )

    @functools.cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything but the graph's name and metadata."""
        seconds = np.zeros(0) if self.op_seconds is None else self.op_seconds
        return digest_of(
            self.op_names,
            self.op_kinds,
            self.op_flop,
            self.op_weight_bytes,
            seconds,
            self.tensor_names,
            self.tensor_producer,
            self.tensor_bytes,
            self.tensor_is_output,
            self.edge_tensor,
            self.edge_consumer,
            *(() if self.op_untouched_bytes is None else (self.op_untouched_bytes,)),
            *(() if self.op_chip is None else ("chip", self.op_chip)),
            *(() if self.op_group is None else ("group", self.op_group)),
        )

    def _repr_html_(self) -> str:
        name, flop, weights = (
            html.escape(self.name),
            float(self.op_flop.sum()),
            int(self.op_weight_bytes.sum()),
        )
        return (
            f"<b>{name}</b>: {self.num_ops} ops, {self.num_tensors} tensors, {self.num_edges}"
            f" edges, {flop / 1e9:.3g} GFLOP, {weights / 2**20:.3g} MiB of weights"
        )


def make_graph(
    *,
    op_weight_bytes: Any = None,
    op_seconds: Any = None,
    tensor_is_output: Any = None,
    **columns: Any,
) -> ComputationGraph:
    """A graph from columns of any kind: arguments, and what is raised, as of `ComputationGraph`."""
    return ComputationGraph(
        op_weight_bytes=op_weight_bytes,
        op_seconds=op_seconds,
        tensor_is_output=tensor_is_output,
        **columns,
    )


def _columns_of(given: ComputationGraph, source: object) -> dict[str, Any]:
    """The fields of a graph as it keeps them; raises `InputError` for one that cannot be."""
    groups = given.op_group
    for field_name in ("op_names", "op_kinds", "tensor_names", "edge_tensor", "op_group"):
        if field_name != "op_group" or groups is not None:
            expect_sequence(getattr(given, field_name), source, field_name)
    metadata = {} if given.metadata is None else given.metadata
    expect_type(metadata, Mapping, "metadata")
    n, m, uses = len(given.op_names), len(given.tensor_names), len(given.edge_tensor)
    if n == 0:
        raise InputError(source, "ops", "the graph has no ops")
    if n > MAX_OPS:
        raise InputError(source, "ops", f"{n} ops, at most {MAX_OPS} are supported")
    if uses > MAX_EDGES:
        raise InputError(source, "edges", f"{uses} edges, at most {MAX_EDGES} are supported")
    check_distinct(source, "ops", given.op_names)
    check_distinct(source, "tensors", given.tensor_names)
    weights = np.zeros(n) if given.op_weight_bytes is None else given.op_weight_bytes
    leaves = np.zeros(m) if given.tensor_is_output is None else given.tensor_is_output
    columns = check_columns(
        source,
        op_flop=(given.op_flop, np.float64, n, 0, MAX_FLOP),
        op_weight_bytes=(weights, np.int64, n, 0, MAX_BYTES),
        tensor_bytes=(given.tensor_bytes, np.int64, m, 0, MAX_BYTES),
        op_seconds=(given.op_seconds, np.float64, n, 0, MAX_SECONDS),
        op_untouched_bytes=(given.op_untouched_bytes, np.int64, n, 0, MAX_TOTAL_BYTES),
        op_chip=(given.op_chip, np.int32, n, -1, MAX_CHIPS - 1),
        tensor_producer=(given.tensor_producer, np.int32, m, 0, n - 1),
        tensor_is_output=(leaves, bool, m, 0, 1),
        edge_tensor=(given.edge_tensor, np.int32, uses, 0, m - 1),
        edge_consumer=(given.edge_consumer, np.int32, uses, 0, n - 1),
    )
    check_text(source, "name", [given.name])
    check_text(source, "op_kinds", given.op_kinds)
    if len(given.op_kinds) != n:
        raise InputError(source, "op_kinds", f"{len(given.op_kinds)} entries for {n} ops")
    sizes = columns["tensor_bytes"]
    check_total_bytes(source, sizes, columns["op_weight_bytes"], sizes[columns["edge_tensor"]])
    edges = np.unique(np.stack([columns["edge_tensor"], columns["edge_consumer"]], axis=1), axis=0)
    for side, column in zip(edges.T, ("edge_tensor", "edge_consumer")):
        columns[column] = frozen_array(side, np.int32)
    for column, nothing in (("op_untouched_bytes", 0), ("op_chip", -1)):
        if columns[column] is not None and columns[column].max() == nothing:
            columns[column] = None
    check_groups(source, given.op_names, groups, columns["op_chip"])
    return {
        "name": str(given.name),
        "op_names": tuple(given.op_names),
        "op_kinds": tuple(given.op_kinds),
        "tensor_names": tuple(given.tensor_names),
        **columns,
        "op_group": None if groups is None or not any(groups) else tuple(groups),
        "metadata": dict(metadata),
    }


def _check_dataflow(graph: ComputationGraph, source: object) -> None:
    """Raises `InputError` where an op uses what it makes, touches less than nothing, or waits for
    itself."""
    loops = np.flatnonzero(graph.edge_producer == graph.edge_consumer)
    if len(loops):
        op = graph.edge_consumer[loops[0]]
        raise InputError(source, f"ops[{op}]", f"op {graph.op_names[op]!r} uses its own output")
    if graph.op_untouched_bytes is not None:
        whole = graph.op_weight_bytes + graph.op_input_bytes + graph.op_output_bytes
        over = np.flatnonzero(graph.op_untouched_bytes > whole)
        if len(over):
            raise InputError(
                source, f"ops[{over[0]}].untouched_bytes", "more than its weights and tensors have"
            )
    if len(graph.topological_order) < graph.num_ops:
        stuck = sorted(set(range(graph.num_ops)) - set(graph.topological_order.tolist()))
        fault = f"the graph has a cycle through or before op {graph.op_names[stuck[0]]!r}"
        raise InputError(source, f"ops[{stuck[0]}]", fault)


def without_ops(
    graph: ComputationGraph,
    folded: np.ndarray,
    metadata: Mapping[str, Any],
    **columns: np.ndarray | None,
) -> ComputationGraph:
    """The graph without the ops `folded` and their tensors; what uses these is said to do without.

    Args:
      graph: N ops.
      folded: [N] bool.
      metadata: added to the graph's.
      columns: [N] of the whole graph, in the place of its own op_flop, op_weight_bytes and
        op_seconds.
    """
    ops, tensors = np.flatnonzero(~folded), np.flatnonzero(~folded[graph.tensor_producer])
    edges = np.flatnonzero(~folded[graph.edge_producer] & ~folded[graph.edge_consumer])
    new_op, new_tensor = np.cumsum(~folded) - 1, np.cumsum(~folded[graph.tensor_producer]) - 1
    names = ("op_flop", "op_weight_bytes", "op_seconds", "op_untouched_bytes", "op_chip")
    stored = {name: getattr(graph, name) for name in names}
    if graph.op_untouched_bytes is not None:
        # An op that loses the tensor it touches a part of touches all that is left; its other
        # inputs are small.
        lost, gone = np.zeros(graph.num_ops, np.int64), folded[graph.edge_producer]
        np.add.at(lost, graph.edge_consumer[gone], graph.tensor_bytes[graph.edge_tensor[gone]])
        lost -= np.minimum(
            lost, columns.get("op_weight_bytes", graph.op_weight_bytes) - graph.op_weight_bytes
        )
        stored["op_untouched_bytes"] = np.where(
            2 * lost >= graph.op_untouched_bytes, 0, graph.op_untouched_bytes
        )
    return make_graph(
        name=graph.name,
        op_names=[graph.op_names[i] for i in ops],
        op_kinds=[graph.op_kinds[i] for i in ops],
        op_group=None if graph.op_group is None else [graph.op_group[i] for i in ops],
        **{
            name: None if values is None else values[ops]
            for name, values in (stored | columns).items()
        },
        tensor_names=[graph.tensor_names[i] for i in tensors],
        tensor_producer=new_op[graph.tensor_producer[tensors]],
        tensor_bytes=graph.tensor_bytes[tensors],
        tensor_is_output=graph.tensor_is_output[tensors],
        edge_tensor=new_tensor[graph.edge_tensor[edges]],
        edge_consumer=new_op[graph.edge_consumer[edges]],
        metadata={**graph.metadata, **metadata},
        source=graph.name,
    )


def check_distinct(source: object, field: str, names: Sequence[str]) -> None:
    """Raises `InputError` where a name is none that `check_text` takes, or repeated."""
    check_text(source, field, names)
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            fault = f"duplicate name {shown(name)!r}, first used by {field}[{seen[name]}]"
            raise InputError(source, f"{field}[{i}].name", fault)
        seen[name] = i


def check_text(source: object, field: str, names: Sequence[str]) -> None:
    """Raises `InputError` where a name is no string of 1 to `MAX_NAME` characters that can be
    printed on one line."""
    for i, name in enumerate(names):
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
            what = f"1 to {MAX_NAME} printable characters" if isinstance(name, str) else "a string"
            place = field if field == "name" else f"{field}[{i}].name"
            got = shown(name) if isinstance(name, str) else told(name)
            raise InputError(source, place, f"expected {what}, got {got}")


def check_groups(
    source: object, names: Sequence[str], groups: Sequence[str] | None, chips: np.ndarray | None
) -> None:
    """Raises `InputError` where not every op has the name of a group, or none, or two of one have
    different chips."""
    if groups is not None and len(groups) != len(names):
        raise InputError(source, "op_group", f"{len(groups)} entries for {len(names)} ops")
    fixed: dict[str, int] = {}
    for op, group in enumerate(() if groups is None else groups):
        if not (isinstance(group, str) and group == ""):
            check_text(source, "op_group", [group])
        if group and chips is not None and chips[op] >= 0:
            first = fixed.setdefault(group, op)
            if chips[first] != chips[op]:
                same = f"op {shown(names[first])!r} of the same group {shown(group)!r}"
                raise InputError(
                    source, f"ops[{op}].chip", f"{chips[op]}, but {same} has {chips[first]}"
                )


def check_total_bytes(source: object, *sizes: np.ndarray) -> None:
    """Raises `InputError` where sizes in bytes together pass `MAX_TOTAL_BYTES`."""
    total = sum(float(size.sum(dtype=float)) for size in sizes)
    if total > MAX_TOTAL_BYTES:
        raise InputError(
            source,
            "bytes",
            f"{total:.4g} in all, read, written and held; at most {MAX_TOTAL_BYTES:.4g}",
        )


def check_columns(source: object, **columns: tuple[Any, Any, int, float, float]) -> dict[str, Any]:
    """Frozen arrays of columns given as (values, type, length, lowest, highest); one of `OPTIONAL`
    may stay None.

    Raises:
      InputError: a column is not `length` finite numbers in that range, whole ones where its type
        is.
    """
    checked = {}
    for name, (values, dtype, length, low, high) in columns.items():
        if values is not None or name not in OPTIONAL:
            array = plain_array(values, source, name)
            if array.shape != (length,):
                raise InputError(source, name, f"shape {array.shape}, expected ({length},)")
            if length and array.dtype.kind not in "biuf":
                raise InputError(source, name, f"expected numbers, got {array.dtype}")
            bad = (
                np.flatnonzero(~(np.isfinite(array) & (array >= low) & (array <= high)))
                if length
                else np.zeros(0, int)
            )
            if len(bad):
                raise InputError(
                    source, f"{name}[{bad[0]}]", f"{array[bad[0]]} is outside [{low}, {high:g}]"
                )
            if length and array.dtype.kind == "f" != np.dtype(dtype).kind and (array % 1).any():
                where = np.flatnonzero(array % 1)[0]
                raise InputError(
                    source, f"{name}[{where}]", f"expected a whole number, got {array[where]}"
                )
        checked[name] = None if values is None else frozen_array(array, dtype)
    return checked


def _grouped(count: int, keys: np.ndarray, values: np.ndarray) -> Lists:
    groups: list[list[int]] = [[] for _ in range(count)]
    for key, value in zip(keys.tolist(), values.tolist()):
        groups[key].append(value)
    return tuple(map(tuple, groups))


def _kahn(graph: ComputationGraph, keys: Sequence[float]) -> list[int]:
    """A topological order by Kahn's algorithm: of the ops that are ready the one with the smallest
    key, of equals the first; shorter than N where there is a cycle."""
    waiting = [len(producers) for producers in graph.op_producers]
    ready = [(keys[op], op) for op in range(graph.num_ops) if not waiting[op]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, op = heapq.heappop(ready)
        order.append(op)
        for target in graph.op_consumers[op]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, (keys[target], target))
    return order


def longest_paths(following: Sequence[Sequence[int]], order: np.ndarray) -> np.ndarray:
    """[N] int64, edges on the longest path from each op along `following`; `order` has an op after
    all it leads to."""
    depth = np.zeros(len(following), np.int64)
    for u in order.tolist():
        depth[u] = max((depth[v] + 1 for v in following[u]), default=0)
    return depth


def random_order(graph: ComputationGraph, rng: np.random.Generator) -> np.ndarray:
    """[N] int32, a topological order: of the ops that are ready, each time the one with the
    smallest random key."""
    return np.array(_kahn(graph, rng.random(graph.num_ops).tolist()), np.int32)


def late_order(graph: ComputationGraph) -> np.ndarray:
    """[N] int32, a topological order: longest path behind first, so each op as late as its
    consumers allow."""
    depth = longest_paths(graph.op_consumers, graph.topological_order[::-1])
    return np.argsort(-depth, kind="stable").astype(np.int32)
