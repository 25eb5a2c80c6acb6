"""A stretch of a real game, move by move, as a piece of HTML: a frame per move, with buttons.

Each frame has the memory so far and, in three columns, what Copy, NoCopy and Drop would do to memory and copy supply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.companion.figures import svg
from learned_mapping.companion.figures.mmap import state_after
from learned_mapping.errors import InputError
from learned_mapping.mmap.rules.actions import ACTION_NAMES, COPY, DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program
from learned_mapping.style import GRID, INK, PALETTE, PAPER, byte_unit

TAKEN, MINE, NEW, LEFT = "#BBBBBB", PALETTE[0], PALETTE[1], PALETTE[5]
"""Memory of other tensors, of the buffer's tensor so far, what the action adds; supply that is left."""
LEGEND = {
    TAKEN: "other tensors",
    MINE: "the tensor so far",
    NEW: "what the action takes",
    LEFT: "supply left",
    GRID: "supply used before",
}
WIDTH, TOP, MEMORY, SUPPLY, SPACE = 700, 22, 130, 46, 14
"""Pixels: the picture's width, room for a title, heights of a panel's memory and supply, between panels."""
SIGHT = 0.01
"""A buffer of at least this share of the fast memory can be seen in a picture."""
MARGIN = 2
"""Steps shown on each side of those that the actions concern."""


@dataclass(frozen=True)
class Consequence:
    """What one action would do."""

    legal: bool
    start: int
    end: int
    """Steps; end < start where the action takes no memory."""
    offset: int
    reward_s: float
    copy_s: float
    """Seconds of the copy engine."""
    supply_s: np.ndarray
    """[T] seconds left after it."""
    dead_end: bool
    """Whether the game then goes back."""


@dataclass(frozen=True)
class Frame:
    """One decision: the state before it, what each action would do, and what was done."""

    buffer: int
    taken: int
    value: float
    """The return before it."""
    held: np.ndarray
    """[H, 5] int64: start, end, offset and bytes of each allocation, and 1 where it is the buffer's tensor."""
    supply_s: np.ndarray
    """[T] seconds left before it."""
    consequences: tuple[Consequence, ...]
    """By action."""


def _frame(program: Program, game: Game, taken: int) -> Frame:
    b, made = game.cursor, game.state.moves[: game.cursor]
    held = np.flatnonzero((made["action"] != DROP) & (made["end"] >= made["start"]))
    own = program.buffer_tensor[held] == program.buffer_tensor[b]
    columns = (made["start"][held], made["end"][held], made["offset"][held], program.buffer_bytes[held], own)
    before, outcomes, found = game.snapshot(), game.outcomes.copy(), []
    value, supply_s, resets = game.value, game.state.supply_s.copy(), game.resets
    for action, outcome in enumerate(outcomes):
        after, dead_end, legal = supply_s, False, bool(outcome["legal"])
        if legal:
            game.step(action)
            after, dead_end = game.state.supply_s.copy(), game.resets > resets
            game.restore(before)
        copy_s = float(program.buffer_demand_s[b]) if action == COPY and legal else 0.0
        place = (int(outcome[name]) for name in ("start", "end", "offset"))
        found.append(Consequence(legal, *place, float(outcome["reward_s"]), copy_s, after, dead_end))
    return Frame(b, taken, value, np.stack(columns, axis=1).astype(np.int64), supply_s, tuple(found))


def frames(program: Program, actions: Sequence[int], first: int, count: int) -> list[Frame]:
    """The decisions `first` to ``first + count - 1`` of a game.

    Args:
      program: what is mapped.
      actions: [B] of a finished game.
      first, count: which decisions; fewer frames where the game ends.

    Raises:
      InputError: `first` is no decision of the game, `count` is not positive, or an action is not legal.
    """
    if not 0 <= first < program.num_buffers or count < 1:
        raise InputError("first, count", "", f"{first}, {count} of {program.num_buffers} decisions")
    game = state_after(program, actions[:first])
    found = []
    while len(found) < count and not game.over:
        taken = int(actions[game.cursor])
        found.append(_frame(program, game, taken))
        game.step(taken)
    return found


def liveliest(program: Program, actions: Sequence[int], count: int) -> int:
    """The first of `count` decisions in a row with the most different actions and choices about buffers in sight."""
    game, choices = Game(program), []
    seen = program.buffer_bytes >= SIGHT * program.fast_bytes
    while not game.over:
        choices.append(int(game.legal.sum()) - 1 if seen[game.cursor] else 0)
        game.step(int(actions[game.cursor]))

    def score(first: int) -> tuple[int, int]:
        taken = np.asarray(actions[first : first + count])[seen[first : first + count]]
        each = np.bincount(taken, minlength=len(ACTION_NAMES))
        return int(np.minimum(each, 2).sum()), sum(choices[first : first + count])

    return max(range(max(len(choices) - count, 0) + 1), key=score)


def window(program: Program, shown: Sequence[Frame]) -> tuple[int, int]:
    """First and last step that any action of any frame concerns, and a margin."""
    steps = [int(program.buffer_instruction[frame.buffer]) for frame in shown]
    for each in (each for frame in shown for each in frame.consequences):
        if each.legal and each.end >= each.start >= 0:
            steps += [each.start, each.end]
    return max(min(steps) - MARGIN, 0), min(max(steps) + MARGIN, program.num_instructions - 1)


class _Panel:
    """Memory and supply over a range of steps, at a place of the picture."""

    def __init__(self, program: Program, steps: tuple[int, int], x: float, y: float, width: float):
        self.program, self.steps, self.x, self.y, self.width = program, steps, x, y, width
        self.unit = width / (steps[1] - steps[0] + 1)
        self.least = float(np.log(max(program.supply_s.max(), 1e-12) / 1e4))
        self.most = float(np.log(max(program.supply_s.max(), 1e-12)))

    def box(self, start: int, end: int, offset: int, size: int, fill: str, more: str = "") -> str:
        """An allocation; empty where none of it is in sight."""
        first, last = max(start, self.steps[0]), min(end, self.steps[1])
        if first > last:
            return ""
        scale = MEMORY / self.program.fast_bytes
        bottom = self.y + MEMORY - offset * scale
        x, width = self.x + (first - self.steps[0]) * self.unit, (last - first + 1) * self.unit
        return svg.rectangle(x, bottom - size * scale, width, max(size * scale, 0.5), fill, more)

    def memory(self, frame: Frame) -> Iterator[str]:
        """What is held before the move, the capacity and the buffer's step."""
        yield svg.rectangle(self.x, self.y, self.width, MEMORY, "none", f'stroke="{GRID}"')
        for start, end, offset, size, own in frame.held.tolist():
            yield self.box(start, end, offset, size, MINE if own else TAKEN, f'stroke="{PAPER}" stroke-width="0.4"')
        t = int(self.program.buffer_instruction[frame.buffer])
        x = self.x + (t - self.steps[0] + 0.5) * self.unit
        look = f'stroke="{INK}" stroke-width="0.8" stroke-dasharray="2 2"'
        yield svg.line(x, self.y, x, self.y + MEMORY + 4 + SUPPLY, look)

    def supply(self, before_s: np.ndarray, after_s: np.ndarray) -> Iterator[str]:
        """Bars on a logarithmic scale of four decades: used before, used by the move, left."""
        base = self.y + MEMORY + 4 + SUPPLY
        levels = ((self.program.supply_s, before_s, GRID), (before_s, after_s, NEW), (after_s, None, LEFT))
        for seconds, below, fill in levels:
            bars = []
            for u in range(self.steps[0], self.steps[1] + 1):
                share = (np.log(max(seconds[u], 1e-300)) - self.least) / (self.most - self.least)
                if share > 0 and (below is None or below[u] < seconds[u]):
                    x, width, height = self.x + (u - self.steps[0]) * self.unit, 0.85 * self.unit, SUPPLY * share
                    bars.append(svg.box_path(x, base - height, width, height))
            yield svg.path(bars, f'fill="{fill}"')


def draw(program: Program, frame: Frame, steps: tuple[int, int]) -> str:
    """One frame as inline SVG: the whole program above, the three actions below in a window of steps."""
    height = 2 * (TOP + MEMORY + 4 + SUPPLY) + 2 * SPACE + 6
    scale, unit = byte_unit(program.fast_bytes)
    whole = _Panel(program, (0, program.num_instructions - 1), 4, TOP, WIDTH - 8)
    title = f"the memory so far: {program.num_instructions} steps, {program.fast_bytes / scale:g} {unit}"
    parts = [svg.words(4, 14, title)]
    parts += [*whole.memory(frame), *whole.supply(frame.supply_s, frame.supply_s)]
    width = (WIDTH - 8 - 2 * SPACE) / 3
    y = 2 * TOP + MEMORY + 4 + SUPPLY + SPACE
    for action, each in enumerate(frame.consequences):
        panel = _Panel(program, steps, 4 + action * (width + SPACE), y, width)
        title = f"{ACTION_NAMES[action]}: " + (f"saves {each.reward_s * 1e6:.3g} µs" if each.legal else "not legal")
        chosen = action == frame.taken
        weight = 'font-weight="bold"' if chosen else ""
        parts.append(svg.words(panel.x, y - 8, title + " (taken)" * chosen, weight))
        parts += panel.memory(frame)
        if each.legal and each.end >= each.start >= 0:
            size = int(program.buffer_bytes[frame.buffer])
            parts.append(panel.box(each.start, each.end, each.offset, size, NEW, f'stroke="{INK}" stroke-width="0.8"'))
        parts += panel.supply(frame.supply_s, each.supply_s)
        if chosen:
            outline = f'stroke="{INK}" stroke-width="1.6"'
            parts.append(svg.rectangle(panel.x - 3, y - 3, width + 6, MEMORY + SUPPLY + 10, "none", outline))
    return svg.picture(WIDTH, height, parts)


def tell(program: Program, frame: Frame) -> str:
    """The move in words."""
    b = frame.buffer
    scale, unit = byte_unit(max(int(program.buffer_bytes[b]), 1))
    role = "output" if program.buffer_is_output[b] else "input"
    words = (
        f"Buffer {b}: {role} {program.tensor_names[program.buffer_tensor[b]]} of step {program.buffer_instruction[b]}, "
        f"{program.buffer_bytes[b] / scale:,.4g} {unit}. The return so far is {frame.value:.4f}."
    )
    for action, each in enumerate(frame.consequences):
        name = ACTION_NAMES[action]
        if not each.legal:
            words += f" {name} is not legal."
        elif action != DROP and each.end >= each.start:
            words += f" {name} would hold steps {each.start} to {each.end} at offset {each.offset:,}"
            words += f" and take {each.copy_s * 1e6:.3g} µs of copying." if action == COPY else "."
        elif action != DROP:
            words += f" {name} finds the tensor there and takes nothing."
        if each.dead_end:
            words += f" After {name} no action is legal, and Drop-backup goes back."
    return words


def stepthrough(program: Program, shown: Sequence[Frame]) -> str:
    """The frames as HTML with buttons; at most one on a page.

    Raises:
      InputError: there are no frames.
    """
    steps = window(program, shown) if shown else (0, 0)
    return svg.stepper([(draw(program, frame, steps), tell(program, frame)) for frame in shown], LEGEND, "move")
