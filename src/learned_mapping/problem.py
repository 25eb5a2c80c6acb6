"""The interface of the three papers: a problem, its methods, and one call that solves.

A problem reads instances, knows its methods by name, and has an independent validator. A method
takes a task (an instance on its hardware), randomness and a budget, and returns a solution.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.compiling import compiling
from learned_mapping.errors import (
    InputError,
    alternative,
    expect_choice,
    is_whole,
    real,
    told,
    truth,
)
from learned_mapping.verdict import LISTED, Verdict

RULE = "rule"
SEARCH = "search"
EXACT = "exact"
PAPER = "paper's learner"
OURS = "our learner"
# What a method is. Colours and dashes of the figures follow it.
KINDS = (RULE, SEARCH, EXACT, PAPER, OURS)
PROFILES = ("quick", "full", "paper")  # Sizes of the networks.

# On a toy, before the clock starts: a tenth of them passes every search's first generation.
WARM_SAMPLES = 1000
RULE_SAMPLES = 1000  # Of one of `Problem.rules` that tries a few of its kind.

Outcome = tuple[Any, dict[str, float]]
Progress = Callable[[int, float, float | None], object]


@dataclass(frozen=True)
class Method:
    """One way to solve a problem."""

    description: str
    run: Callable[[Any, np.random.Generator, Budget], "Outcome | Result"] = field(repr=False)
    """(task, randomness, budget) -> the solution, and what more was found out, such as a bound; or
    a whole result, of a method that keeps the budget's account itself."""
    kind: str = SEARCH  # One of `KINDS`.
    random: bool = True  # Whether the seed matters.
    prepare: Callable[[Any, np.random.Generator], object] | None = field(default=None, repr=False)
    """(task, randomness): compiles what the method needs for the shapes of a task, so that no
    budget pays for it. Where None, shapes do not matter: a run on `Problem.toy` compiles it."""
    then: tuple[str, ...] = ()  # Methods that `go_on` ends with.
    go_on: Callable[[Any, np.random.Generator, Budget, list[Any]], "Outcome | Result"] | None = (
        field(default=None, repr=False)
    )
    """The same from the best of these solutions on, of a method that can."""
    # Whether the method keeps its state in `Budget.checkpoint` and goes on from there.
    resumable: bool = False
    # Of a learner: changes to its defaults.
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    # Set by hand when behaviour changes in a way that the small frozen instances do not show.
    version: int = 1


@dataclass(frozen=True)
class Result:
    """A solution and how it came about."""

    solution: Any
    # What the problem measures of every solution, and what the method adds.
    metrics: dict[str, float]
    curve: dict[str, Any]  # The best value over time and samples, as `Budget.curve` gives it.
    samples: int  # Games, partitions or schedules evaluated.
    seconds: float
    # Whose solution this is, where it is not the method's: a rule's, or of a search that went on
    # from it.
    by: str = ""


class Problem(ABC):
    """A problem of one of the papers, a subclass each; everything heavy is imported inside its
    methods."""

    name: str  # As on the command line.
    seconds: float | None = None
    samples: int | None = None  # A search's limits unless it is told others.
    net: tuple[str, ...] = ()  # Rules that take a moment, see `rules`.
    options: tuple[str, ...] = ()
    """Options of its instances and tasks, on the command line and in files of solutions."""
    retired: tuple[str, ...] = ()  # Options that older files of solutions still have.
    minimised = True  # Whether less is better of the cost that `beside` names.

    @abstractmethod
    def methods(self, profile: str = "full") -> Mapping[str, Method]:
        """Every method by name, in the order of the tables; the profile is the size of the
        networks."""

    def method(self, name: str, profile: str = "full") -> Method:
        """A method by name, or the user's own, ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION``; raises
        `InputError`, which names those there are."""
        expect_choice(profile, PROFILES, "profile")
        known = self.methods(profile)
        if isinstance(name, str) and name in known:
            return known[name]
        file, colon, function = name.rpartition(":") if isinstance(name, str) else ("", "", "")
        if colon and all(part.isidentifier() for part in function.split(".")):
            return _own_method(name, os.path.getmtime(file) if os.path.isfile(file) else 0.0)
        there = alternative(name, known) or f", known are {', '.join(known)}"
        raise InputError("method", "", f"no method is named {told(name)}{there}")

    def expect_resumable(self, method: str, profile: str = "full") -> None:
        """Raises `InputError` for a method that keeps no state in a checkpoint."""
        if not self.method(method, profile).resumable:
            able = [name for name, one in self.methods(profile).items() if one.resumable]
            fault = f"{method} keeps none; {', '.join(able) or 'no method'} of this problem do"
            raise InputError("--checkpoint", "", fault)

    @abstractmethod
    def read(self, path: str, machine: Any = None) -> Any:
        """An instance from its file, as a `hardware.machine.Machine` has it where one is named."""

    @abstractmethod
    def task(self, instance: Any, *args: Any, **options: Any) -> Any:
        """The task of methods: the instance, with hardware and objective. Raises `InputError` for
        bad options."""

    @abstractmethod
    def on_machine(self, machine: Any) -> dict[str, Any]:
        """The options of `task` that say a `hardware.machine.Machine`."""

    @abstractmethod
    def picture(self, instance: Any, solution: Any = None, task: Any = None) -> Any:
        """A figure of an instance, or of a solution on the hardware of its task; raises
        `InputError` for what cannot be drawn."""

    def folded(self, instance: Any) -> Any:
        """The instance with its weights inside the ops that use them, where ``fold`` is an
        option."""
        raise NotImplementedError

    def hint_of(self, instance: Any) -> str:
        """A line on what a user may have missed in an instance; empty where nothing is."""
        return ""

    @abstractmethod
    def toy(self, task: Any) -> Any:
        """A task of a few operations with the options of this one: solving it compiles what solving
        this one needs."""

    def begin(self, task: Any, seed: int) -> tuple[Any, np.random.Generator]:
        """The task as the run of this seed has it, and all randomness of that run."""
        return task, np.random.default_rng(seed)

    @abstractmethod
    def metrics(self, task: Any, solution: Any) -> dict[str, float]:
        """The measurements of every solution, by the code the methods use."""

    @abstractmethod
    def value(self, task: Any, solution: Any) -> float:
        """The value of a solution: more is better, and what searches look for."""

    @abstractmethod
    def validate(self, task: Any, solution: Any, listed: int | None = LISTED) -> Verdict:
        """The independent judge; lists so many violations of each rule, all where None."""

    @abstractmethod
    def read_solution(self, path: str, instance: Any, /) -> Any:
        """A solution from its file."""

    @abstractmethod
    def to_json(self, solution: Any, instance: Any, /) -> dict[str, Any]:
        """The JSON object of a solution's file."""

    def network_of(self, task: Any, method: str) -> Path | None:
        """The file of the network that a method would ask; None for a method that asks none, or has
        none."""
        return None

    def instead_of_optimum(self, task: Any) -> str:
        """The method for a task whose optimum is out of reach."""
        raise NotImplementedError

    def users(self, option: str) -> tuple[str, ...] | None:
        """The methods that an option is for; None where it is for all."""
        return None

    def rules(self, task: Any) -> tuple[str, ...]:
        """The methods that what a user gets is at least as good as, see `solve`."""
        return self.net

    def refuse(self, method: str, options: Iterable[str], dashes: str = "") -> None:
        """Raises `InputError` where one of these options is for other methods."""
        for option in options:
            able = self.users(option)
            if able is not None and method not in able:
                raise InputError(f"{dashes}{option}", "", f"is for {', '.join(able)}")

    def use_of(self, method: str) -> str:
        """The use of a network by a method, in words such as ``, its laws sampled once``; empty
        where only one exists."""
        return ""

    def note_of(self, method: str) -> str:
        """A note for the user who chooses a method, after its description; may be empty."""
        return ""

    def unseen(self, task: Any, method: str) -> str:
        """A line on the hardware that judges what a method finds and that it never sees; empty
        where it sees all."""
        return ""

    def hints(self, task: Any, solution: Any) -> list[str]:
        """Lines for a user whose solution leaves much unused."""
        return []

    def beside(self, task: Any) -> tuple[str, dict[str, float]]:
        """The name of a cost, and that cost of a simple method or of a bound, beside which a
        solution is to be seen."""
        return "", {}


@lru_cache(maxsize=16)
def _own_method(name: str, changed: float) -> Method:
    """A user's function of task, randomness and budget as a method. The module is run once, and
    again where its file has changed."""
    from learned_mapping.doors.user_function import load_function
    from learned_mapping.programs.trace.dataflow import as_input_error

    with redirect_stdout(sys.stderr):  # what the user's code prints is no report
        function = load_function(name)

    def run(task: Any, rng: np.random.Generator, budget: Budget) -> Outcome | Result:
        with as_input_error(name, "fails"), redirect_stdout(sys.stderr):
            return function(task, rng, budget)

    return Method("a method of one's own", run)


def warm_up(problem: Problem, task: Any, method: Method) -> None:
    """Compiles and imports what a method needs for a task, so that no budget pays for it: as it
    says, or by solving a toy. What it refuses then, it refuses again in its run."""
    with compiling(), suppress(InputError):
        if method.prepare is not None:
            method.prepare(*problem.begin(task, 0))
        else:
            method.run(*problem.begin(problem.toy(task), 0), Budget(samples=WARM_SAMPLES))


def solve(
    problem: Problem,
    task: Any,
    method: str,
    *,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Progress | None = None,
    profile: str = "full",
    alone: bool = True,
    checkpoint: str | None = None,
    strict: bool = False,
) -> Result:
    """Solves a task.

    Args:
      problem: which of the three.
      task: as `Problem.task` makes it.
      method: a name of `Problem.methods`.
      seed: decides every random choice. With a limit in samples the result depends on nothing else.
      seconds, samples: the budget; the problem's own where both are None.
      cpu, progress: as in `Budget`.
      profile: the size of the networks: quick, full or paper.
      alone: the method as it is, as tables show it. Otherwise a search or a learner first sees what
        the methods of `Problem.rules` find, within its time, goes on from there if it can, and the
        better solution counts.
      checkpoint: file in which a learner keeps its state, and from which it goes on.
      strict: as in `Budget`.

    Raises:
      InputError: an unknown method, a budget that is not positive, a checkpoint for a method that
        keeps none, or a method of the user's own that returns no solution of this task.
    """
    # What was asked for.
    chosen = problem.method(method, profile)
    if checkpoint is not None:
        problem.expect_resumable(method, profile)
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise InputError(
            "seed",
            "",
            f"expected a whole number from 0 on, got {told(seed)}; it has at most 63 bits",
        )
    if seconds is None and samples is None:
        seconds, samples = problem.seconds, problem.samples
    # Complains before anything is compiled, and says the limits in Python's numbers.
    asked = Budget(
        seconds=seconds,
        samples=samples,
        cpu=cpu,
        progress=progress,
        checkpoint=checkpoint,
        strict=strict,
    )
    seed, seconds, samples, alone = (
        int(seed),
        asked.limit_s,
        asked.limit_samples,
        truth(alone, "alone"),
    )
    # What the answer is never behind.
    rules = () if alone or chosen.kind in (RULE, EXACT) else problem.rules(task)
    rules = () if method in rules else rules
    with compiling():
        for candidate in (chosen, *map(problem.method, (*rules, *(chosen.then if rules else ())))):
            warm_up(problem, task, candidate)
    # The clock begins.
    task, rng = problem.begin(task, seed)
    since = Budget(samples=1, cpu=cpu)
    fallbacks = {rule: _by_rule(problem, rule, task, seed, seconds, cpu) for rule in rules}
    spent = since.seconds
    left = None if seconds is None else max(seconds - spent, 0.05 * seconds)
    budget = Budget(
        seconds=left,
        samples=samples,
        cpu=cpu,
        progress=progress,
        checkpoint=checkpoint,
        strict=strict,
    )
    if chosen.go_on is not None and fallbacks:
        outcome = chosen.go_on(task, rng, budget, list(fallbacks.values()))
    else:
        outcome = chosen.run(task, rng, budget)
    result = measured(problem, task, method, outcome, budget)
    if not fallbacks:
        return result
    return _with_fallback(problem, task, replace(result, seconds=spent + result.seconds), fallbacks)


def _by_rule(
    problem: Problem, rule: str, task: Any, seed: int, seconds: float | None, cpu: bool
) -> Any:
    """The solution of one of `Problem.rules`, in a quarter of the time at most."""
    limit = Budget(seconds=None if seconds is None else seconds / 4, samples=RULE_SAMPLES, cpu=cpu)
    return cast(Outcome, problem.method(rule).run(task, np.random.default_rng(seed), limit))[0]


def measured(
    problem: Problem, task: Any, method: str, outcome: Outcome | Result, budget: Budget
) -> Result:
    """The result of what a method returned, with the problem's own measurements; raises
    `InputError` where a user's method returned no solution of this task."""
    if isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], Mapping):
        outcome = Result(*outcome, budget.curve(), budget.samples, budget.seconds)
    if not isinstance(outcome, Result):
        fault = (
            f"returned a {type(outcome).__name__}, expected a solution and a dictionary of metrics"
        )
        raise InputError(method, "", fault)
    found = outcome.metrics if isinstance(outcome.metrics, Mapping) else {}
    if found is not outcome.metrics or not all(isinstance(name, str) for name in found):
        raise InputError(
            method, "metrics", f"expected numbers by name, got {told(outcome.metrics)}"
        )
    measures = {
        name: real(value, method, f"metrics[{told(name)}]")
        for name, value in found.items()
        if value is not None
    }
    try:
        metrics = problem.metrics(task, outcome.solution)
    except InputError:
        raise
    except Exception as error:
        # complains of what is no solution at all
        broken = problem.validate(task, outcome.solution).violations
        raise InputError(method, "solution", broken[0].detail if broken else str(error)) from error
    return replace(
        outcome,
        metrics=metrics | {name: value for name, value in measures.items() if name not in metrics},
    )


def _with_fallback(
    problem: Problem, task: Any, result: Result, fallbacks: Mapping[str, Any]
) -> Result:
    """A result, with the best of the rules' solutions in its place where that one is better, or as
    good and the other invalid."""
    values = {rule: problem.value(task, solution) for rule, solution in fallbacks.items()}
    best, value = max(values, key=values.__getitem__), problem.value(task, result.solution)
    if values[best] < value or (
        values[best] == value and problem.validate(task, result.solution).valid
    ):
        return result
    bounds = {name: value for name, value in result.metrics.items() if name.startswith("bound")}
    metrics = bounds | problem.metrics(task, fallbacks[best])
    return replace(result, solution=fallbacks[best], metrics=metrics, by=best)


def read_graph_file(path: str, machine: Any = None) -> Any:
    """A graph from a file that holds one or a model, whatever its name, or from a user's function,
    ``MODULE:FUNCTION``; the same on every machine."""
    from learned_mapping.doors import sources

    return sources.read_graph_of(path)


def problem(name: str) -> Problem:
    """A problem by name: mmap, mcm, silicon or regal. Imports that paper's methods, and no
    other's."""
    from importlib import import_module

    rooms = {
        "mmap": "mmap.methods",
        "mcm": "mcm.methods",
        "silicon": "mcm.silicon",
        "regal": "regal.methods",
    }
    if name not in rooms:
        raise InputError("problem", "", f"{name!r} is none of {', '.join(rooms)}")
    return import_module(f"learned_mapping.{rooms[name]}").PROBLEM
