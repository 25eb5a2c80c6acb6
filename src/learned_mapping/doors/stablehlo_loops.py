"""Loops of StableHLO: how often they run, and what their rounds stack."""

import re
from collections.abc import Sequence
from typing import Any

from learned_mapping.doors.stablehlo_ops import is_splat, maker_of, number_in
from learned_mapping.doors.stablehlo_values import Values
from learned_mapping.programs.trace.loops import SWAPPED, rounds_within


class Loops(Values):
    """What the loops of one module do."""

    def pivots(self, op: Any) -> Any:
        """The pivots, where a loop only exchanges by them the elements of what begins as 0, 1, 2,
        ...; or None."""
        first = maker_of(op.operands[-1])
        if getattr(first, "name", "") == "stablehlo.broadcast_in_dim":
            first = maker_of(first.operands[0])
        whole = [v for v in op.operands if "xi" in str(v.type) or "xui" in str(v.type)]
        scalars = [v for v in op.operands if str(v.type) in ("tensor<i32>", "tensor<i64>")]
        if getattr(first, "name", "") != "stablehlo.iota" or len(whole) != 2:
            return None
        if len(whole) + len(scalars) != len(op.operands):
            return None
        names = [o.operation.name for o in self.within(op.regions[1].blocks[0])]
        return whole[0] if names.count("stablehlo.scatter") == 2 else None

    def stacks(self, body: Any, counter: int | None) -> dict[int, Any]:
        """Place of a carried value -> what every round writes into a row of it, where it does
        nothing else with it: results that a scan stacks."""
        found, ends = {}, list(body.operations)[-1].operands
        for place, (argument, end) in enumerate(zip(body.arguments, ends)):
            if counter is None or len(list(argument.uses)) != 1:
                continue
            written = self.written_row(maker_of(end), argument)
            if written is not None:
                self.skipped[maker_of(end)] = None
                found[place] = written
        return found

    def written_row(self, maker: Any, argument: Any) -> Any:
        """The value that an operation, or the function that it calls, writes into a row of an
        argument; None where it does something else."""
        name = getattr(maker, "name", "")
        if name not in ("stablehlo.dynamic_update_slice", "func.call"):
            return None
        operands = list(maker.operands)
        if name == "func.call":
            block = self.function(maker.attributes["callee"].value).regions[0].blocks[0]
            returned = list(list(block.operations)[-1].operands)
            if argument not in operands or len(returned) != 1:
                return None
            inner = block.arguments[operands.index(argument)]
            value = self.written_row(maker_of(returned[0]), inner)
            arguments = list(block.arguments)
            if value is None or value not in arguments:
                return None
            return operands[arguments.index(value)]
        if operands[0] != argument or self.aval(operands[1]).shape[:1] != (1,):
            return None
        update = maker_of(operands[1])
        if getattr(update, "name", "") in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            if len(list(operands[1].uses)) == 1:
                self.skipped[update] = None
                return update.operands[0]
        return operands[1]

    def trip_count(
        self, condition: Any, body: Any, start: Sequence[float | None]
    ) -> tuple[int | None, int | None, float]:
        """The most times that a loop runs, the place of its counter, and what a round adds to it;
        as `loops.trip_count`."""
        for block in (condition, body):
            for op in block.operations:
                if op.operation.name == "stablehlo.constant" and is_splat(op.operation):
                    stated = number_in(op.operation)
                    if stated is not None:
                        self.numbers[op.operation.results[0]] = stated
        ends = list(body.operations)[-1].operands
        best: tuple[int | None, int | None, float] = (None, None, 0.0)
        given = dict(zip(condition.arguments, start))

        def number(value: Any) -> float | None:
            return given.get(value) if value in given else self.numbers.get(value)

        waiting = list(list(condition.operations)[-1].operands)
        while waiting:
            maker = maker_of(waiting.pop())
            name = getattr(maker, "name", "")
            if name in ("stablehlo.and", "stablehlo.convert"):
                waiting += list(maker.operands)
            if name != "stablehlo.compare":
                continue
            sense = re.search(
                r"\b(LT|LE|GT|GE|NE)\b", str(maker.attributes["comparison_direction"])
            )
            if sense is None:
                continue
            sides, way = list(maker.operands), sense[1].lower()
            if way == "ne" and self.number_of(sides[1]) == 0 and "i1>" in str(sides[0].type):
                waiting.append(sides[0])  # true, as it is converted
                continue
            for counted, limit, sense_of in (
                (sides[0], sides[1], way),
                (sides[1], sides[0], SWAPPED[way]),
            ):
                if counted not in given or given[counted] is None or number(limit) is None:
                    continue
                place = list(condition.arguments).index(counted)
                step = self.step(body, place, ends[place], start)
                rounds = rounds_within(sense_of, number(limit) - given[counted], step)
                if rounds is not None and (best[0] is None or rounds < best[0]):
                    best = rounds, place, step
        return best

    def step(self, body: Any, place: int, end: Any, start: Sequence[float | None]) -> float:
        """The number that a round adds to its counter; 0 where it does something else with it."""
        maker = maker_of(end)
        name, argument = getattr(maker, "name", ""), body.arguments[place]
        if name == "func.call":
            inner = self.function(maker.attributes["callee"].value).regions[0].blocks[0]
            returned = list(inner.operations)[-1].operands
            position = list(maker.results).index(end)
            for o, a in zip(maker.operands, inner.arguments):
                if o == argument:
                    at = list(inner.arguments).index(a)
                    return self.step(inner, at, returned[position], [None] * len(inner.arguments))
            return 0.0
        if name not in ("stablehlo.add", "stablehlo.subtract"):
            return 0.0
        sides = list(maker.operands)
        if argument not in sides or (name == "stablehlo.subtract" and sides[0] != argument):
            return 0.0
        other = sides[1 - sides.index(argument)]
        amount = self.number_of(other)
        if amount is None and other in list(body.arguments):
            amount = start[list(body.arguments).index(other)]
        if amount is None:
            return 0.0
        return -amount if name == "stablehlo.subtract" else amount
