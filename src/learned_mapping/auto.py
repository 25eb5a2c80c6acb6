"""An answer without a method: rules first, then an exact method, then searches, in the time there
is; a bound beside it, and an early end at a proof."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import LearnedMappingError
from learned_mapping.hardware.fitting import DoesNotFitError
from learned_mapping.problem import RULE, Problem, Result, measured, warm_up

SAME = 1e-9
ALL, CHAIN, NONE = "all", "chain", "none"
"""Of which solutions it is proved that none is better: of all, of those under paper 2's chain rule,
of none."""
RULED = 100  # Samples of a rule that tries a few of its kind.
EXACT_OPS = 24  # Up to here CP-SAT proves a schedule in a moment.
STEPS = {
    "mmap": (("priced", 0.0), ("heuristic", 0.0), ("edit-search-repeats", 0.75), ("packing", 1.0)),
    "mcm": (("greedy-careful", 0.0), ("optimum", 0.5), ("cp-sat", 0.5), ("climb", 1.0)),
    "regal": (("one-device", 0.0), ("list-scheduler", 0.0), ("cp-sat", 0.5), ("local-search", 1.0)),
}
"""Methods by problem, in their order, and the share of the time that is left which each may take; a
rule takes what it takes."""


@dataclass(frozen=True)
class Answer:
    """What is known of a task once the time is up."""

    result: Result | None  # The best found; None where nothing valid was.
    refusal: str = ""  # What proves that nothing fits, and the least memory that does.
    least_bytes: float | None = None  # Of each device, where that is known.
    bound: float | None = None  # In seconds none is below it; of a return none is above it.
    proved: str = NONE


LEAST = 0.25  # Of a clock's limit: what is left of it where reading a model took it all.


def answer(
    problem: Problem,
    task: Any,
    clock: Budget,
    share: float = 1.0,
    *,
    seed: int = 0,
    progress: Any = None,
) -> Answer:
    """The best solution by the methods of `STEPS`, and what is proved of it.

    Args:
      clock: whose seconds they take, but for those of compiling.
      share: of what is left of them.
    """
    assert clock.limit_s is not None
    seconds = share * max(clock.limit_s - clock.seconds, LEAST * clock.limit_s)
    end = clock.seconds + seconds
    best: Result | None = None
    bound, chain = _bound(problem, task), None
    for name, part in _steps(problem, task):
        method = problem.method(name)
        if method.kind != RULE and end - clock.seconds <= 0.05 * seconds:
            break
        with clock.uncounted(), suppress(LearnedMappingError):
            warm_up(problem, task, method)
        limit = max(part * (end - clock.seconds), 0.05 * seconds)
        samples = RULED if method.kind == RULE else None
        budget = Budget(seconds=limit, samples=samples, cpu=clock.cpu, progress=progress)
        rng = np.random.default_rng(seed)
        run: Callable[..., Any] = method.run
        start: tuple[Any, ...] = ()
        go_on = _go_on(problem, name)
        if best is not None and go_on and _judged(problem, task, best):
            run, start = go_on, ([best.solution],)
        try:
            outcome = run(task, rng, budget, *start)
        except DoesNotFitError as error:
            least = float(error.least_bytes.max())
            return Answer(None, str(error).partition(": ")[2], least, bound)
        except LearnedMappingError:  # an exact method of another size of graphs
            continue
        found = replace(measured(problem, task, name, outcome, budget), by=name)
        numbers = found.metrics
        if problem.name == "regal" and "bound" in numbers:
            bound = max(bound, numbers["bound"])
        chain = max(chain or 0.0, numbers.get("chain_bound_s", 0.0)) or None
        if best is None or problem.value(task, found.solution) > problem.value(task, best.solution):
            best = found
        proved = _proved(task, best, bound, chain)
        if proved != NONE and _judged(problem, task, best):
            return Answer(best, bound=bound, proved=proved)
    return Answer(best if best and _judged(problem, task, best) else None, bound=bound)


def _judged(problem: Problem, task: Any, found: Result) -> bool:
    return problem.validate(task, found.solution).valid


def cost_of(task: Any, result: Result) -> float:
    """What `Answer.bound` bounds: seconds or bytes, of a program its return."""
    name = getattr(task, "cost_name", "runtime_s")
    return result.metrics["return" if "return" in result.metrics else name]


def _proved(task: Any, best: Result, bound: float, chain: float | None) -> str:
    if "return" in best.metrics:
        return ALL if cost_of(task, best) >= bound - SAME else NONE
    cost = cost_of(task, best) * (1 - SAME)
    if bound >= cost:
        return ALL
    return CHAIN if chain is not None and chain >= cost else NONE


def _steps(problem: Problem, task: Any) -> Iterator[tuple[str, float]]:
    """The methods that take a task of this size."""
    for name, share in STEPS[problem.name]:
        if name == "cp-sat" and problem.name == "mcm":
            from learned_mapping.mcm.rules.cp_sat import is_small_enough

            if not is_small_enough(task.model.graph, task.model.package.chips):
                continue
        if name == "cp-sat" and problem.name == "regal":
            from learned_mapping.regal.bounds.cp_sat import is_modelled

            if task.graph.num_ops > EXACT_OPS or not is_modelled(task):
                continue
        yield name, share


def _go_on(problem: Problem, name: str) -> Callable[..., Any] | None:
    """A method from the best so far on, where it can begin there."""
    return _climb if name == "local-search" else problem.method(name).go_on


def _climb(task: Any, rng: np.random.Generator, budget: Budget, starts: list[Any]) -> Any:
    from learned_mapping.regal.rules.decode import decode, encode
    from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search

    parameters = TUNED_LOCAL_SEARCH[task.objective]
    start = encode(task, starts[0])
    best = local_search(task, rng, budget, parameters=parameters, start=start)
    return decode(task, best), {}


def _bound(problem: Problem, task: Any) -> float:
    """What no solution is better than, by what takes a moment."""
    if problem.name == "mcm":
        from learned_mapping.mcm.bounds.optimum import lower_bound

        return lower_bound(task.model)
    if problem.name == "regal":
        from learned_mapping.regal.methods import floor

        return floor(task)
    from learned_mapping.mmap.bench import bound_of

    return bound_of(task)
