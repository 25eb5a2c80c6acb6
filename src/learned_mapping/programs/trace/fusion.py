"""Operations grouped into instructions, and their order. `schedule` states the rules."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from learned_mapping.programs.trace.operations import Dataflow, Operation
from learned_mapping.programs.trace.primitive_costs import ELEMENT_WISE, IN_PLACE_UPDATES

VIEWS = frozenset(
    "reshape squeeze expand_dims stop_gradient copy copy_p bitcast_convert_type device_put".split()
)
LOOP = ELEMENT_WISE | frozenset(
    "convert_element_type reduce_precision transpose rev slice pad concatenate split".split()
)
"""Operations that one loop over the result computes: they fuse freely."""
CLOSED = frozenset(
    "sort top_k gather cumsum cumprod cummax cummin select_and_scatter_add io_callback"
    " debug_callback debug_print pure_callback ffi_call".split()
) | set(IN_PLACE_UPDATES)
"""Heavy operations that no producer fuses into."""


@dataclass
class Instruction:
    """A group of operations that run as one."""

    name: str
    kind: str  # The only operation's primitive, or ``fusion``.
    position: int  # Where its heavy operation, or else its last one, stands in the dataflow.
    flop: float
    reads: dict[int, int]  # Values read from memory and the bytes read of each.
    writes: list[int]  # Values written to memory.
    in_place: tuple[int, int] | None
    """The value that a slice update or scatter may overwrite, and the bytes that change."""


def fuse(flow: Dataflow) -> tuple[list[Instruction], Callable[[int], int]]:
    """Groups the operations of a dataflow into instructions, in no particular order.

    Returns:
      the instructions, and the function that maps a value to the value whose memory holds it
      (through views).
    """
    view_of: dict[int, int] = {}

    def same_as(value: int) -> int:
        while value in view_of:
            value = view_of[value]
        return value

    operations: list[Operation] = []
    for operation in flow.operations:
        ends = (*operation.inputs[:1], *operation.outputs)
        is_view = operation.kind in VIEWS and len(ends) == 2 and len(operation.outputs) == 1
        if is_view and flow.values[ends[0]].bytes == flow.values[ends[1]].bytes:
            view_of[ends[1]] = ends[0]
        else:
            operations.append(operation._replace(inputs=tuple(map(same_as, operation.inputs))))
    results = {same_as(v) for v in flow.outputs if v is not None}
    recomputed = _recomputed(operations, results)
    reads = []  # of each operation: the stored values that it reads, and the bytes of each
    for operation in operations:
        read = zip(operation.inputs, operation.read_bytes)
        stored = [recomputed.get(value, {value: size}) for value, size in read]
        reads.append(_added(flow, (pair for sizes in stored for pair in sizes.items())))
    members: dict[int, list[int]] = {}
    consumed_by: dict[int, set[int]] = {}
    for i, group in sorted(_groups(flow, operations, reads, results, recomputed).items()):
        members.setdefault(group, []).append(i)
        for value in reads[i]:
            consumed_by.setdefault(value, set()).add(group)
    instructions = []
    for group, ops in members.items():
        inside = {v for i in ops for v in operations[i].outputs}
        external = _added(
            flow, (pair for i in ops for pair in reads[i].items() if pair[0] not in inside)
        )
        root = operations[group]
        writes = [v for v in root.outputs if v in results or consumed_by.get(v, set()) - {group}]
        anchor = next((i for i in ops if _is_heavy(operations[i])), group)
        updates = [operations[i] for i in ops if operations[i].in_place]
        instructions.append(
            Instruction(
                name=root.name,
                kind="fusion" if len(ops) > 1 else root.kind,
                position=anchor,
                flop=sum(operations[i].flop for i in ops),
                reads=external,
                writes=writes,
                in_place=(updates[0].inputs[0], updates[0].update_bytes) if updates else None,
            )
        )
    return instructions, same_as


def _added(flow: Dataflow, pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Value -> the sum of its bytes, of (value, bytes) pairs, at most the whole value: parts read
    one by one are each read, a whole read twice is read once."""
    total: dict[int, int] = {}
    for value, amount in pairs:
        total[value] = min(total.get(value, 0) + amount, flow.values[value].bytes)
    return total


def _is_heavy(operation: Operation) -> bool:
    return operation.kind not in LOOP and operation.kind not in ("broadcast_in_dim", "iota")


def _recomputed(operations: list[Operation], results: set[int]) -> dict[int, dict[int, int]]:
    """Values that are never stored, and what a reader reads in their stead: broadcasts, iotas and
    what is made of nothing but them and scalars."""
    recomputed: dict[int, dict[int, int]] = {}
    for operation in operations:
        if len(operation.outputs) != 1 or operation.outputs[0] in results:
            continue
        constant = all(recomputed.get(v) == {} for v in operation.inputs)
        if operation.kind == "broadcast_in_dim" or (constant and not _is_heavy(operation)):
            instead: dict[int, int] = {}
            for value, amount in zip(operation.inputs, operation.read_bytes):
                instead.update(recomputed.get(value, {value: amount}))
            recomputed[operation.outputs[0]] = instead
    return recomputed


def _groups(
    flow: Dataflow,
    operations: list[Operation],
    reads: list[dict[int, int]],
    results: set[int],
    recomputed: dict[int, dict[int, int]],
) -> dict[int, int]:
    """Operation -> the one in which its instruction ends, but for what its readers recompute."""
    stored = [
        i for i, group in enumerate(operations) if recomputed.keys().isdisjoint(group.outputs)
    ]
    readers: dict[int, list[int]] = {}
    for i in stored:
        for value in reads[i]:
            readers.setdefault(value, []).append(i)

    def size(operation: Operation) -> int:
        return math.prod(flow.values[operation.outputs[0]].shape) if operation.outputs else -1

    groups: dict[int, int] = {}
    has_heavy: dict[int, bool] = {}
    for i in reversed(stored):
        operation = operations[i]
        groups[i] = i
        has_heavy[i] = _is_heavy(operation)
        consumers = [c for v in operation.outputs for c in readers.get(v, [])]
        targets = {groups[c] for c in consumers}
        if len(targets) != 1 or results.intersection(operation.outputs):
            continue
        target = targets.pop()
        if not _is_heavy(operation):
            joins = not any(operations[c].kind in CLOSED for c in consumers)
        else:
            joins = (
                not has_heavy[target]
                and len(operation.outputs) == 1
                and not operation.in_place
                and all(
                    operations[c].kind in LOOP and size(operations[c]) == size(operation)
                    for c in consumers
                )
            )
        if joins:
            groups[i] = target
            has_heavy[target] |= _is_heavy(operation)
    return groups


def order_instructions(
    instructions: Sequence[Instruction], donated: Mapping[int, int]
) -> tuple[list[Instruction], set[tuple[int, int]]]:
    """Sorts instructions topologically, by program order, updates in place as early as they can
    run; `donated` maps an argument value to the result value that may take its place.

    Returns:
      the instructions in order, `position` now being their index, and the (argument, result) pairs
      updated in place: the writer of the result reads the argument, and no instruction reads it
      later. Where a reader of the argument needs the result, there is no such order and no pair.
    """
    writer = {v: i for i, instruction in enumerate(instructions) for v in instruction.writes}
    readers: dict[int, list[int]] = {}
    for i, instruction in enumerate(instructions):
        for v in instruction.reads:
            readers.setdefault(v, []).append(i)
    pairs = {
        (argument, result)
        for argument, result in donated.items()
        if result in writer and writer[result] in readers.get(argument, ())
    }
    order = _sorted(instructions, writer, readers, pairs)
    # some pair asks for a cycle: none of those that ran; try the others singly
    if len(order) < len(instructions):
        ran = set(order)
        doubtful = sorted(pair for pair in pairs if writer[pair[1]] not in ran)
        pairs -= set(doubtful)
        for pair in doubtful:
            if len(_sorted(instructions, writer, readers, pairs | {pair})) == len(instructions):
                pairs.add(pair)
        order = _sorted(instructions, writer, readers, pairs)
    return [replace(instructions[i], position=t) for t, i in enumerate(order)], pairs


def _sorted(
    instructions: Sequence[Instruction],
    writer: Mapping[int, int],
    readers: Mapping[int, list[int]],
    pairs: set[tuple[int, int]],
) -> list[int]:
    """Indices in order; fewer than all where the pairs ask for a cycle."""
    after: list[set[int]] = [set() for _ in instructions]
    for i, instruction in enumerate(instructions):
        for v in instruction.reads:
            if v in writer:
                after[writer[v]].add(i)
    updating = {writer[result] for _, result in pairs}
    for argument, result in pairs:
        for reader in readers[argument]:
            if reader != writer[result]:
                after[reader].add(writer[result])
    waiting = Counter(i for successors in after for i in successors)

    def priority(i: int, now: int) -> int:
        return min(now, instructions[i].position) if i in updating else instructions[i].position

    heap = [(priority(i, -1), i) for i in range(len(instructions)) if not waiting[i]]
    heapq.heapify(heap)
    order = []
    while heap:
        now, i = heapq.heappop(heap)
        order.append(i)
        for successor in sorted(after[i]):
            waiting[successor] -= 1
            if not waiting[successor]:
                heapq.heappush(heap, (priority(successor, now), successor))
    return order
