"""The game played at prices: each buffer's action of highest value, given what it would really
occupy.

The value of an action is what the buffer saves, less the price of the memory and of the copy that
the rules make it take, and what the later uses of its tensor are worth from there on
(`mmap.bounds.prices`). From it goes the blame: what planned stays of other tensors are worth that
fit beside what is in fast memory now, and would no more, as far as the price paid does not cover
that; of an alias group until the last of its buffers may leave. A few numbers of the rule are tuned
on the program itself, game by game.
"""

import functools
import itertools
from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.bounds import prices as lagrangian
from learned_mapping.mmap.bounds.prices import Prices
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP
from learned_mapping.mmap.rules.state import NONE, GameState, ProgramArrays, record
from learned_mapping.mmap.searches.search import Search

GAMES = 60  # After which tuning stops, even where the budget would allow more.
HALF = lagrangian.PASSES * (lagrangian.PASSES + 1) // 4  # Of the weights of all passes.
SMALLEST = 0.005  # Share of the fast memory from which on a planned stay can be blocked.
SEEN, NEAR = 32, 64
"""Planned stays that a blame looks at, and how many steps behind the end of an action it looks."""

STAY = record("buffer start end copy_first copy_last worth_s")
"""A stay that most plans want: the buffer it begins with, its steps, those of its copy (0, 0
without one), and what its uses save."""


class Priced(NamedTuple):
    """Prices, and what plans hold at them."""

    prices: Prices
    stays: np.ndarray  # `STAY`, in the order of their decisions.
    after: np.ndarray  # [B]: how many of these begin with a buffer or before it.
    reach: np.ndarray  # [B]: the last step that its alias group takes at least besides, or `NONE`.


class Rule(NamedTuple):
    """The numbers of the rule."""

    goal: float  # Share of the memory up to which plans may ask; of the others a little less.
    memory: float  # The scale of the prices of memory.
    copies: float  # That of pairs of steps and of supply.
    blame: float  # The weight of what is blocked.
    now: float  # The weight of what a buffer saves beside those placed, not those planned.
    passes: int = lagrangian.PASSES  # After which the prices are taken.


FIRST = (
    Rule(0.77, 0.8, 0.8, 0.4, 0.3),
    Rule(0.77, 1.0, 2.0, 2.5, 0.0),
    Rule(0.77, 0.8, 0.4, 1.0, 0.0),
    Rule(0.77, 0.4, 0.8, 0.0, 0.3),
    Rule(0.77, 1.0, 1.0, 0.4, 0.0),
)
FACTORS = {"goal": 0.15, "memory": 0.7, "copies": 0.7, "blame": 0.7, "now": 0.7}
"""The logarithms of the first factors by which tuning changes the numbers."""
LOWEST = 0.1  # What a smaller number counts as.
OTHER = {lagrangian.PASSES: 4 * lagrangian.PASSES, 4 * lagrangian.PASSES: lagrangian.PASSES}
"""Passes -> those that tuning tries beside them. Where tensors that fill the memory exclude each
other, prices take longer to settle."""
GOALS = np.array([1.0, 0.93, 0.93])  # Of memory, pairs and supply, in shares of the first.


@numba.njit(cache=True)
def planned_stays(program: ProgramArrays, uses: np.ndarray, stays: np.ndarray) -> int:
    """Fills `stays` [B] with those that half of the passes held, in the order of their decisions;
    returns how many."""
    count = 0
    for b in range(len(uses)):
        buffer, copied = program.buffers[b], uses[b].copyings >= HALF
        if uses[b].placings < HALF or buffer.bytes < SMALLEST * program.fast_bytes:
            continue
        if buffer.is_output == 0 and not copied:
            continue
        stay, worth_s, j = stays[count], uses[b].gain_s, uses[b].next
        stay.buffer, stay.start = b, lagrangian.first_step(program, uses, b)
        stay.end, stay.copy_first, stay.copy_last = buffer.instruction, 0, 0
        if copied:
            stay.copy_first, stay.copy_last = lagrangian.copy_steps(program, uses, b)
        if buffer.is_output != 0:
            stay.end = stay.copy_last if copied else buffer.live_end
        while j != NONE and uses[j].placings >= HALF > uses[j].copyings:
            worth_s += uses[j].gain_s
            stay.end = max(stay.end, program.buffers[j].instruction)
            j = uses[j].next
        stay.worth_s = worth_s
        count += 1 if worth_s > 0.0 else 0
    return count


@numba.njit(cache=True)
def group_reach(program: ProgramArrays, uses: np.ndarray, reach: np.ndarray) -> None:
    """Fills `reach` [B]: once a buffer is placed, so are the later ones of its alias group, at its
    offset, an output until it is copied out at the earliest."""
    ends = np.full(max(program.num_groups, 1), NONE)
    for b in range(len(uses) - 1, -1, -1):
        buffer = program.buffers[b]
        reach[b] = NONE
        if buffer.alias == NONE:
            continue
        reach[b], end = ends[buffer.alias], buffer.instruction
        if buffer.is_output != 0:
            end = buffer.live_end if uses[b].far == NONE else min(uses[b].far, buffer.live_end)
        ends[buffer.alias] = max(ends[buffer.alias], end)


@numba.njit(cache=True)
def largest_gap(program: ProgramArrays, state: GameState, step: int, low: int, top: int) -> int:
    """Bytes of the largest free chunk beside what is held at `step` or later, and beside
    [low, top)."""
    gap, free, waits, count = 0, 0, top > low, state.game[0].num_live
    for i in range(count + 1):
        if waits and (i == count or state.live[i].offset > low):
            gap, free, waits = max(gap, low - free), max(free, top), False
        if i < count and state.rectangles[state.live[i].rectangle].end >= step:
            gap, free = max(gap, state.live[i].offset - free), max(free, state.live[i].top)
    return max(gap, program.fast_bytes - free)


@numba.njit(cache=True)
def blocked_s(program, state, at: Priced, action: int) -> float:
    """What planned stays save whose room or copy an action on the evaluated buffer takes."""
    b, o, total_s, seen, first, last = state.game[0].cursor, state.outcomes[action], 0.0, 0, 0, 0
    if action == COPY:
        first, last = kernel.copy_span(program, b, o.start, o.end)
    end, alias = max(o.end, at.reach[b]), program.buffers[b].alias
    for k in range(at.after[b], len(at.stays)):
        stay, other = at.stays[k], program.buffers[at.stays[k].buffer]
        if seen >= SEEN or other.instruction > end + NEAR:
            break
        if other.tensor == program.buffers[b].tensor or (alias != NONE and other.alias == alias):
            continue
        if min(last, stay.copy_last) > max(first, stay.copy_first):
            joined = 0
            for u in range(stay.copy_first, stay.copy_last):
                joined |= state.steps[u].joined
            if joined == 0:
                total_s += stay.worth_s
                continue
        if stay.start > end or stay.end < o.start:
            continue
        seen += 1
        step, top = max(stay.start, state.game[0].now), o.offset + program.buffers[b].bytes
        if largest_gap(program, state, step, 0, 0) >= other.bytes:
            if largest_gap(program, state, step, o.offset, top) < other.bytes:
                total_s += stay.worth_s
    return total_s


@numba.njit(cache=True)
def value_s(program, state, at: Priced, rule: Rule, gain_s: float, action: int) -> float:
    """The value of a legal action on the evaluated buffer, which saves `gain_s` if it is placed."""
    b, o, sums_s, uses = (
        state.game[0].cursor,
        state.outcomes[action],
        at.prices.sums_s,
        at.prices.uses,
    )
    buffer, tensor = program.buffers[b], state.tensors[program.buffers[b].tensor]
    if action == DROP and tensor.end < buffer.instruction:
        return uses[b].out_s
    later_s = lagrangian.beyond_s(program, uses, sums_s, b, max(o.end, tensor.end))
    if action == DROP:
        return later_s
    price_s = lagrangian.hold_s(uses, sums_s, b, o.start, o.end)
    if action == COPY:
        price_s += lagrangian.copy_s(sums_s, *kernel.copy_span(program, b, o.start, o.end))
    if max(o.end, at.reach[b]) < o.start or buffer.bytes == 0:
        return gain_s - price_s + later_s
    lost_s = rule.blame * blocked_s(program, state, at, action)
    return gain_s - max(price_s, lost_s) + later_s


@numba.njit(cache=True)
def gains_s(program, state, at: Priced) -> tuple[float, float]:
    """What the evaluated buffer saves beside those placed, and beside those planned too; each with
    its alias group's payment."""
    b, uses = state.game[0].cursor, at.prices.uses
    t = program.buffers[b].instruction
    placed = rest = state.steps[t].placed
    for k in range(b + 1, program.first_buffer[t + 1]):
        if program.buffers[k].bit >= 0 and uses[k].placings >= HALF:
            rest |= 1 << program.buffers[k].bit
    now_s = kernel.benefit_s(program, b, placed) + uses[b].pay_s
    return now_s, kernel.benefit_s(program, b, rest) + uses[b].pay_s


@numba.njit(cache=True)
def choose(program, state, at: Priced, rule: Rule) -> int:
    """The legal action of highest value on the evaluated buffer."""
    now_s, rest_s = gains_s(program, state, at)
    gain_s = rule.now * now_s + (1.0 - rule.now) * rest_s
    best, best_s = NONE, 0.0
    for action in range(3):
        if state.outcomes[action].legal != 0:
            worth_s = value_s(program, state, at, rule, gain_s, action)
            if best == NONE or worth_s > best_s:
                best, best_s = action, worth_s
    return best


@numba.njit(cache=True)
def play_priced(program: ProgramArrays, state: GameState, at: Priced, rule: Rule) -> None:
    """A whole game by `choose`."""
    kernel.restart(program, state)
    while state.game[0].cursor < len(program.buffers):
        if kernel.evaluate(program, state) == 0:
            kernel.drop_backup(program, state)
        else:
            kernel.apply(program, state, choose(program, state, at, rule))


def priced_at(program: ProgramArrays, goal: float, passes: int) -> Priced:
    """The prices of a program at a goal after so many passes, with the stays planned."""
    prices = lagrangian.prices_of(program, lagrangian.FIRST, goal * GOALS, passes)
    stays = np.zeros(program.num_buffers, STAY)
    stays = stays[: planned_stays(program, prices.uses, stays)]
    after = np.searchsorted(stays["buffer"], np.arange(program.num_buffers), side="right")
    reach = np.zeros(program.num_buffers, np.int64)
    group_reach(program, prices.uses, reach)
    return Priced(prices, stays, after, reach)


def at_scale(program: ProgramArrays, at: Priced, rule: Rule) -> Priced:
    """The same, its sums and values at the scales of a rule."""
    scale = np.array([[rule.memory], [rule.copies], [rule.copies]])
    at.prices.sums_s[:, 1:] = np.cumsum(scale * at.prices.price_s, axis=1)
    lagrangian.look_ahead(program, at.prices.uses, at.prices.sums_s)
    return at


def priced(search: Search, share: float = 1.0) -> Rule:
    """The best of the games of a few rules, then of those that differ from the best in one number,
    by steps that halve when nothing helps; returns the best rule. Stops after `GAMES`, or this
    share of the budget."""
    program, values = search.game.program, dict[Rule, float]()
    priced_once = functools.cache(functools.partial(priced_at, program))

    def better(best: Rule, rule: Rule) -> Rule:
        if values and (rule in values or len(values) >= GAMES or search.budget.spent(share)):
            return best
        at = at_scale(program, priced_once(rule.goal, rule.passes), rule)
        play_priced(program, search.game.state, at, rule)
        values[rule] = search.finish()
        return rule if values[rule] > values[best] else best

    best, step = functools.reduce(better, FIRST, FIRST[0]), 1.0
    while step > 0.2 and len(values) < GAMES and not search.budget.spent(share):
        before, best = best, better(best, best._replace(passes=OTHER[best.passes]))
        for name, way in itertools.product(FACTORS, (step, -step)):
            number = max(getattr(best, name), LOWEST)
            number = round(number * float(np.exp(way * FACTORS[name])), 3)
            best = better(best, best._replace(**{name: number}))
        step = step if best != before else step / 2.0
    return best
