"""A position as the prices see it (`searches.priced`): inputs of an agent that begins at the rule's
game and looks at it through its eyes."""

from typing import Any, NamedTuple

import numba
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.observation import PRIOR, signed_log
from learned_mapping.mmap.rules.actions import DROP, NUM_ACTIONS
from learned_mapping.mmap.rules.play import PlayedGame
from learned_mapping.mmap.rules.state import program_arrays
from learned_mapping.mmap.searches.priced import (
    GAMES,
    HALF,
    Priced,
    Rule,
    at_scale,
    blocked_s,
    gains_s,
    priced,
    priced_at,
    value_s,
)
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program

STEEP = 30.0  # Units of value, times this, in the logarithm of the prior.
TUNING = 0.25
LARGEST = 1e4  # Units; what is impossible counts as a loss of so many.


class PricedView(NamedTuple):
    """Prices and stays of a program, and the rule that did best with them."""

    at: Priced
    rule: Rule


def priced_view(program: Program, budget: Budget | None = None) -> tuple[PlayedGame, PricedView]:
    """The best game of the rule, and what it looked at; tuned in at most `TUNING` of the seconds
    that a budget has left."""
    limits: dict[str, Any] = {}
    if budget is not None and budget.left_s is not None:
        limits = {"seconds": TUNING * budget.left_s, "cpu": budget.cpu}
    search = Search(program, Budget(samples=GAMES, **limits))
    rule = priced(search)
    return search.found, view_by(program, rule)


def view_by(program: Program, rule: Rule) -> PricedView:
    """What a rule looks at."""
    arrays = program_arrays(program)
    return PricedView(at_scale(arrays, priced_at(arrays, rule.goal, rule.passes), rule), rule)


@numba.njit(cache=True)
def look_at_prices(program, state, at: Priced, rule: Rule, scale: float, out: np.ndarray) -> None:
    """Fills out [`observation.PRICES`] for an evaluated buffer, seconds times `scale`: what it
    saves beside those placed and beside those planned too; what later uses are worth if it is held
    on to them, and if not; how often plans place it, and copy it; what each placement blocks; the
    value of each legal action; and their prior, the logits of a policy."""
    b, uses = state.game[0].cursor, at.prices.uses
    now_s, rest_s = gains_s(program, state, at)
    gain_s = rule.now * now_s + (1.0 - rule.now) * rest_s
    seconds, best = (now_s, rest_s, uses[b].keep_s, uses[b].out_s), -np.inf
    for i in range(4):
        out[i] = signed_log(max(seconds[i] * scale, -LARGEST))
    out[4], out[5] = uses[b].placings / (2.0 * HALF), uses[b].copyings / (2.0 * HALF)
    value = np.zeros(NUM_ACTIONS)
    for action in range(NUM_ACTIONS):
        outcome = state.outcomes[action]
        if outcome.legal != 0:
            value[action] = scale * value_s(program, state, at, rule, gain_s, action)
            best = max(best, value[action])
            out[8 + action] = signed_log(value[action])
            if action != DROP and outcome.end >= outcome.start:
                out[6 + action] = signed_log(scale * blocked_s(program, state, at, action))
    for action in range(NUM_ACTIONS):
        if state.outcomes[action].legal != 0:
            out[PRIOR + action] = -np.log1p(STEEP * (best - value[action]))
