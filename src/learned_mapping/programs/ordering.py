"""The order of a program's instructions, and which of them update a donated argument in place."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

from learned_mapping.programs.trace.fusion import Instruction


def order_instructions(
    instructions: Sequence[Instruction], donated: Mapping[int, int]
) -> tuple[list[Instruction], set[tuple[int, int]]]:
    """Sorts instructions topologically, by program order, updates in place as early as they can run.

    Args:
      instructions: in any order.
      donated: argument value -> the result value that may take its place.

    Returns:
      the instructions in order, `position` now being their index, and the (argument, result) pairs updated in place:
      the writer of the result reads the argument, and no instruction reads it later. Where a reader of the argument
      needs the result, there is no such order and no pair.
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
    if len(order) < len(
        instructions
    ):  # some pair asks for a cycle: those that could run are none, try the others singly
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
    updating = set()
    for argument, result in pairs:
        updating.add(writer[result])
        for reader in readers[argument]:
            if reader != writer[result]:
                after[reader].add(writer[result])
    waiting = [0] * len(instructions)
    for successors in after:
        for i in successors:
            waiting[i] += 1

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
