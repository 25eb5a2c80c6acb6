"""The mapping that the TPU compiler itself made, the production solution to beat, in the game's actions."""

import numpy as np

from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, NO_OFFSET
from learned_mapping.programs.program import Program

from .stays import CompilerMapping


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
