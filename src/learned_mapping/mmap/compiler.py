"""The mapping that the TPU compiler itself made, the production solution to beat: told in the game's actions, and
changed no more than the game's rules demand."""

import math

import numpy as np

from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, NO_OFFSET
from learned_mapping.mmap.searches.heuristic import Planner, Settings
from learned_mapping.programs.program import Program
from learned_mapping.tpu.stays import CompilerMapping


def mapping_of_compiler(program: Program, compiler: CompilerMapping) -> Mapping:
    """Tells the compiler's stays in the game's three actions.

    A stay that begins by a copy is Copy of its first use and NoCopy of the others. A stay that begins with the defining
    instruction is Copy of the output where the compiler copies it back to HBM, else NoCopy, which takes the live range.
    The compiler obeys rules of its own: `mmap.validate.validate` says which of the game's it breaks.
    """
    action = np.full(program.num_buffers, DROP)
    offset, start, end = (np.full(program.num_buffers, NO_OFFSET) for _ in range(3))
    for stay in compiler.stays:
        held = -1
        for position, b in enumerate(stay.buffers):
            step = int(program.buffer_instruction[b])
            offset[b] = stay.offset
            if program.buffer_is_output[b]:
                copied = stay.evicted is not None
                action[b] = COPY if copied else NO_COPY
                start[b] = step
                end[b] = held = stay.evicted if copied else int(program.tensor_live[stay.tensor, 1])
            elif position == 0:
                action[b] = COPY
                start[b], end[b] = stay.start, step
                held = step
            else:
                action[b] = NO_COPY
                start[b], end[b] = min(held, step) + 1, step
                held = max(held, step)
    return make_mapping(program, action, offset, start, end)


def legalise(program: Program, wanted: Mapping) -> Mapping:
    """The placements of `wanted` as far as Eq. 4 to 6 and the intervals allow: a valid mapping, deterministic.

    Tensors come in the order of what they save, each at its own offset where that is free: what gives is what the
    game's rules cost, not what their order does.

    What is in HBM stays there. A copy takes the fewest steps that Eq. 5 and 6 allow; where there is none, a buffer of
    a tensor in fast memory is kept there, and where a stay cannot be extended the tensor is copied again. Offsets are
    the wanted ones or, where those are taken, those of the smallest free chunks. `wanted` need not be valid: its
    actions and offsets count.
    """
    return _Legaliser(program, wanted).plan()


class _Legaliser(Planner):
    def __init__(self, program: Program, wanted: Mapping):
        super().__init__(program, Settings(overlap=1.0, longest=math.inf, by_tables=True))
        self.wanted_action: list[int] = wanted.action.tolist()
        self.wanted_offset: list[int] = wanted.offset.tolist()

    def place(self, tensor: int) -> None:
        held, offset, in_hbm = -1, NO_OFFSET, 0
        if tensor in self.definition:
            b = self.definition[tensor]
            found = None if self.wanted_action[b] == DROP else self._define(tensor, b)
            if found is None:
                self.drop_group(b)
                in_hbm = self.step[b] + 1
            else:
                offset, held, in_hbm = found
        for b in self.uses[tensor]:
            wanted = self.wanted_action[b]
            order = () if wanted == DROP else (wanted, COPY + NO_COPY - wanted)
            for action in order:
                if action == NO_COPY and held >= 0 and self._extend(tensor, b, held, offset, held):
                    break
                if action == COPY and in_hbm is not None and self._fetch(tensor, b, max(in_hbm, held + 1)):
                    offset = int(self.offset[b])
                    break
            else:
                self.drop_group(b)
                continue
            held = max(held, self.step[b])

    def _offset(self, b: int, start: int, end: int, updated: tuple[int, ...] = ()) -> int | None:
        """Where the buffer may be over [start, end]: the group's offset, the wanted one, any; None where nowhere."""
        allowed, prescribed = self.group_of(b)
        size = int(self.program.buffer_bytes[b])
        if not allowed:
            return None
        offset = self.wanted_offset[b] if prescribed is None else prescribed
        if self.space.is_free(start, end, offset, size, updated):
            return offset
        return None if prescribed is not None else self.space.best_fit(start, end, size)

    def _define(self, tensor: int, b: int) -> tuple[int, int, int | None] | None:
        """Places an output: (offset, last step held, first step in HBM or None)."""
        t, updated = self.step[b], self.program.updated_tensors[b]
        live_end = int(self.program.tensor_live[tensor, 1])
        wanted = self.wanted_action[b]
        for action in (wanted, COPY + NO_COPY - wanted):
            if action == NO_COPY:
                if wanted == COPY and self.program.tensor_is_output[tensor]:
                    continue  # a result that is to be evicted is not kept to the end instead
                offset = self._offset(b, t, live_end, updated)
                if offset is not None:
                    self.enter(b, NO_COPY, offset, t, live_end)
                    return offset, live_end, None
                continue
            out = (t, t) if self.bytes[tensor] == 0 else self.copies.shortest(b, self.program.num_instructions - 1)
            offset = None if out is None else self._offset(b, t, out[1], updated)
            if offset is not None and (self.bytes[tensor] == 0 or self.copies.add(b, *out)):
                self.enter(b, COPY, offset, t, out[1])
                return offset, out[1], out[1] + 1
        return None

    def _fetch(self, tensor: int, b: int, earliest: int) -> bool:
        t = self.step[b]
        if earliest > t:
            return False
        span = (t, t) if self.bytes[tensor] == 0 else self.copies.shortest(b, earliest)
        offset = None if span is None else self._offset(b, span[0], t)
        if offset is None or (self.bytes[tensor] > 0 and not self.copies.add(b, *span)):
            return False
        self.enter(b, COPY, offset, span[0], t)
        return True
