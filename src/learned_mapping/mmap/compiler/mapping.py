"""The mapping that the TPU compiler itself made, the production solution to beat: told in the game's actions, played
under the game's rules, and compared with other mappings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import ACTION_NAMES, COPY, DROP, NEAREST, NO_COPY, NO_OFFSET, NUM_ACTIONS
from learned_mapping.mmap.rules.play import play_preferences
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


@dataclass(frozen=True)
class Replay:
    """A mapping as the game allows it, and what had to give."""

    mapping: Mapping
    """Obeys every rule, the shortest copies and lowest offsets included."""
    value: float
    """Its return."""
    changed: dict[str, int]
    """`changes` of it."""
    resets: int
    """Dead ends met; each forces an alias group to Drop."""

    @property
    def kept(self) -> float:
        """The share of the decisions that could be made as wanted."""
        return 1.0 - sum(self.changed.values()) / max(len(self.mapping.action), 1)


def replay(program: Program, wanted: Mapping) -> Replay:
    """Makes the decisions of `wanted` in order, at offsets and over intervals as the game chooses them.

    Where one is illegal the nearest legal action is taken, and Drop-backup where none is legal.

    Args:
      program: the program.
      wanted: a mapping of it that need not be valid: only its actions count.
    """
    rank = np.zeros((NUM_ACTIONS, NUM_ACTIONS))
    np.put_along_axis(rank, NEAREST, np.arange(NUM_ACTIONS, 0.0, -1.0)[None], axis=1)
    played = play_preferences(program, rank[wanted.action])
    mapping = make_mapping(program, played.action, played.offset, played.start, played.end)
    return Replay(mapping, played.value, changes(wanted, mapping), played.resets)


def changes(wanted: Mapping, made: Mapping) -> dict[str, int]:
    """Decisions that differ, by what was wanted and what was made: ``"Copy to Drop"`` and so on."""
    moved = Counter(
        f"{ACTION_NAMES[was]} to {ACTION_NAMES[now]}"
        for was, now in zip(wanted.action.tolist(), made.action.tolist())
        if was != now
    )
    return dict(sorted(moved.items()))


def placement_agreement(program: Program, one: Mapping, other: Mapping) -> dict[str, float]:
    """Agreement of placements, fast memory or HBM, buffer by buffer; offsets and intervals do not count.

    Returns:
      ``agreement``, the share of the buffers that both put into the same memory; ``agreement_bytes``, the same by
      bytes; ``agreement_benefit``, among the buffers whose initial benefit is positive, by that benefit (1 where there
      is none); ``kappa``, Cohen's: 1 for equal placements, 0 for what two mappings that place as much share by chance.
    """
    same = one.placed == other.placed
    share = float(same.mean()) if len(same) else 1.0
    p, q = (float(m.placed.mean()) if len(same) else 0.0 for m in (one, other))
    chance = p * q + (1 - p) * (1 - q)

    def weighted(weight: np.ndarray) -> float:
        total = float(weight.sum())
        return float(weight[same].sum()) / total if total > 0 else 1.0

    return {
        "agreement": share,
        "agreement_bytes": weighted(program.buffer_bytes),
        "agreement_benefit": weighted(np.maximum(program.initial_benefit_s, 0.0)),
        "kappa": (share - chance) / (1 - chance) if chance < 1 else 1.0,
    }
