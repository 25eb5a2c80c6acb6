"""Every way to map a program that does not learn, by name, behind one call: `solve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.memory_hierarchy import placed_latency_s, program_latency
from learned_mapping.mmap.result import SECONDS, Result
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.edit_search.search import edit_search as segment_search
from learned_mapping.mmap.searches.edit_search.search import warm_up as warm_up_edits
from learned_mapping.mmap.searches.evolution import evolution_logits, evolution_policy, evolution_warm
from learned_mapping.mmap.searches.greedy import ThresholdRule, greedy, greedy_tuned
from learned_mapping.mmap.searches.heuristic import heuristic
from learned_mapping.mmap.searches.search import Search, random_play
from learned_mapping.programs.program import Program


@dataclass(frozen=True)
class Method:
    """One way to map."""

    description: str
    run: Callable[[Search, np.random.Generator], Any] = field(repr=False)
    search: bool = True
    """Whether more budget gives a better mapping; a rule needs a game or two."""
    random: bool = True
    """Whether the seed matters."""
    warm_up: Callable[[], None] = field(default=lambda: None, repr=False)
    """Compiles what only this method needs."""
    plays: bool = True
    """Whether its mapping comes from a game, which takes the shortest copy and the lowest free offset. One that is
    planned obeys the same rules (`validate`), but not these two choices (`validate` with ``exact=True``)."""


METHODS: dict[str, Method] = {
    "random": Method("the best of games of random legal moves", random_play),
    "greedy": Method("place whenever legal", lambda search, rng: greedy(search), search=False, random=False),
    "greedy-tuned": Method("place what saves enough per byte and step; the price is tuned on the program",
                           lambda search, rng: greedy_tuned(search), random=False),
    "heuristic": Method("the compiler's published heuristic, values by the bytes they spare HBM; plans its own offsets "
                        "and copies instead of playing",
                        lambda search, rng: search.offer(heuristic(search.program)),
                        search=False, random=False, plays=False),
    "evolution-logits": Method("evolution strategies over a preference per buffer and action", evolution_logits),
    "evolution-policy": Method("evolution strategies over a linear policy on the game's features", evolution_policy),
    "evolution-warm": Method("evolution-logits, started at the game of greedy-tuned", evolution_warm),
    "segment-search": Method("local search from the game of greedy-tuned: edits drawn at random, played on, kept where "
                             "not worse", segment_search, warm_up=warm_up_edits),
}  # fmt: skip
"""By name, in the order of the tables."""


def solve(
    program: Program,
    method: str,
    *,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
) -> Result:
    """Maps `program`.

    Args:
      program: what to map.
      method: a key of `METHODS`.
      seed: decides every random choice. With a limit in samples the result depends on nothing else.
      seconds, samples: the budget; `SECONDS` where both are None. Every method finishes at least one game.
      cpu, progress: as in `Budget`.

    Raises:
      InputError: an unknown method, or a budget that is not positive.
    """
    if method not in METHODS:
        raise InputError("method", "", f"{method!r} is none of {', '.join(METHODS)}")
    if seconds is None and samples is None:
        seconds = SECONDS
    Budget(seconds=seconds, samples=samples)  # complains before anything is compiled
    warm_up()
    METHODS[method].warm_up()
    budget = Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress)
    search = Search(program, budget)
    METHODS[method].run(search, np.random.default_rng(seed))
    return result_of(search)


def result_of(search: Search) -> Result:
    """What a finished search has found."""
    program, budget = search.program, search.budget
    solution = search.mapping()
    metrics = {
        "return": search.best.value,
        "saving_s": float(np.sum(program.slow_s - placed_latency_s(program, solution.placed))),
        "latency_s": program_latency(program, solution).total_s,
        "resets": float(search.best.resets),
    }
    return Result(solution, metrics, budget.curve(), budget.samples, budget.seconds)


def warm_up() -> None:
    """Compiles the kernel, so that no method's budget pays for it."""
    search = Search(toy_program(), Budget(samples=4))
    search.play_preferences(np.zeros((search.program.num_buffers, 3)))
    search.play_linear_policy(ThresholdRule().weights())
    search.game.rewind(1)
    search.game.play_random(np.random.default_rng(0))
