"""Every way to map a program, by name, behind one call: `solve`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, cast

import numpy as np

from learned_mapping import problem
from learned_mapping.budget import Budget
from learned_mapping.doors import minimalloc
from learned_mapping.doors.sources import is_function
from learned_mapping.errors import InputError, expect_type
from learned_mapping.hardware.memory_hierarchy import (
    MemoryHierarchy,
    placed_latency_s,
    program_latency,
)
from learned_mapping.mmap.mapping import all_dropped, claimed_share, mapping_to_json, read_mapping
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.edit_search.search import (
    PLAIN,
    REPEATING,
    EditParameters,
    EditSearch,
    edit_search,
)
from learned_mapping.mmap.searches.evolution import (
    MANY_PAIRS,
    evolution_logits,
    evolution_policy,
)
from learned_mapping.mmap.searches.greedy import greedy, greedy_tuned
from learned_mapping.mmap.searches.heuristic import heuristic
from learned_mapping.mmap.searches.priced import GAMES, priced
from learned_mapping.mmap.searches.repack import repack
from learned_mapping.mmap.searches.search import Search, random_play
from learned_mapping.mmap.validate import validate
from learned_mapping.problem import (
    OURS,
    PAPER,
    RULE,
    SEARCH,
    Method,
    Outcome,
    Problem,
    Result,
)
from learned_mapping.programs.formats import program_from_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import read_head, read_json, schema_name
from learned_mapping.programs.program import Program
from learned_mapping.programs.recognition import JSON, MINIMALLOC, kind_of
from learned_mapping.verdict import LISTED, Verdict

SECONDS = 10.0  # Every search gets this much unless told otherwise.
"""Buffers up to which linear programmes tighten a bound in a moment; games of the rule that a
solution is seen beside."""
GOING_ON = {"edit-search-repeats": 0.2, "packing": 0.1}
"""Methods that go on from a learner's best game where rules are allowed beside it -> their share of
the budget."""
UNIT = 2
"""The version of methods that read benefits, since `rules.state.benefit_unit` measures them by what
placements save."""
SIGNED = 3
"""That of agents, and of ppo, since they see what a placement costs as well."""
PRICED, PRICED_START = 2, 4
"""That of `priced`, since its blame looks to the end of an alias group and it tunes how long prices
settle; and that of the edit searches and agents that start at its game."""
PLANS = ("heuristic", "packing")
"""Methods that plan offsets and copies instead of playing: they obey the rules of the game
(`validate`), but not its two choices, the shortest copy and the lowest free offset (`validate` with
``exact=True``)."""


def played(
    play: Callable[[Search, np.random.Generator], Any],
) -> Callable[[Program, np.random.Generator, Budget], Outcome]:
    """A method that plays games of a program, from a function that does so under a `Search`."""

    def run(program: Program, rng: np.random.Generator, budget: Budget) -> Outcome:
        search = Search(program, budget)
        play(search, rng)
        if search.best is None:  # no time for a single game
            search.offer(all_dropped(program))
        return search.mapping(), {"resets": float(search.found.resets)} | search.metrics

    return run


def _learn(
    changes: dict[str, Any], program: Program, rng: np.random.Generator, budget: Budget
) -> Result:
    """The paper's agent, some of its settings changed. What takes long to import is imported
    here."""
    from learned_mapping.learning.loop import seed_of
    from learned_mapping.mmap.agent.config import config_for
    from learned_mapping.mmap.agent.solve import solve as learn

    return learn(
        program,
        seed_of(rng),
        config=config_for(program.num_buffers, **changes),
        seconds=budget.limit_s,
        games=budget.limit_samples,
        cpu=budget.cpu,
        progress=budget.progress,
        checkpoint=budget.checkpoint,
        evaluate=not budget.strict,
    )


def _model_free(search: Search, rng: np.random.Generator) -> None:
    with search.budget.uncounted():
        from learned_mapping.mmap.agent.ppo import learn_and_play

    learn_and_play(search, rng)


def _edits_from(
    parameters: EditParameters,
    program: Program,
    rng: np.random.Generator,
    budget: Budget,
    starts: list[Any],
) -> Outcome:
    """Edit search from the best of the games that solutions become when they are played."""

    def play(search: Search, rng: np.random.Generator) -> None:
        for start in starts:
            search.play_actions(start.action)
        if starts:
            EditSearch(search, rng, parameters).run()
        else:
            edit_search(search, rng, parameters)

    return played(play)(program, rng, budget)


def _learn_and_go_on(
    changes: dict[str, Any],
    program: Program,
    rng: np.random.Generator,
    budget: Budget,
    starts: list[Any],
) -> Result:
    """The agent for a part of the budget, then what `GOING_ON` has, each from the best mapping so
    far, the agent's or that of a start; the result says by whom, where more was found."""

    def part(share: float, **limits: Any) -> Budget:
        seconds = None if budget.limit_s is None else share * budget.limit_s
        samples = (
            None if budget.limit_samples is None else max(int(share * budget.limit_samples), 1)
        )
        return Budget(
            seconds=seconds,
            samples=samples,
            cpu=budget.cpu,
            progress=budget.progress,
            strict=budget.strict,
            **limits,
        )

    result = _learn(
        changes, program, rng, part(1.0 - sum(GOING_ON.values()), checkpoint=budget.checkpoint)
    )
    for name, share in GOING_ON.items():
        search, limit = METHODS[name].go_on, part(share)
        assert search is not None
        solution, numbers = cast(Outcome, search(program, rng, limit, [result.solution, *starts]))
        result = replace(
            result,
            samples=result.samples + limit.samples,
            seconds=result.seconds + limit.seconds,
        )
        if PROBLEM.value(program, solution) > PROBLEM.value(program, result.solution):
            metrics = result.metrics | PROBLEM.metrics(program, solution) | numbers
            result = replace(result, solution=solution, metrics=metrics, by=name)
    return result


def _packed(
    program: Program, rng: np.random.Generator, budget: Budget, starts: list[Any]
) -> Outcome:
    """The better of the best of some mappings and the empty one, each with as much more in it as
    other offsets make room for."""
    value = partial(claimed_share, program)
    found = [repack(program, max(starts, key=value), budget)] if starts else []
    if not found or not budget.spent():
        found.append(repack(program, all_dropped(program), budget))
    return max(found, key=value), {}


def _method(
    description: str, play: Callable, kind: str = SEARCH, *, random: bool = True, version: int = 1
) -> Method:
    return Method(description, played(play), kind, random, version=version)


def _edits(description: str, parameters: EditParameters) -> Method:
    play, go_on = partial(edit_search, parameters=parameters), partial(_edits_from, parameters)
    return Method(description, played(play), SEARCH, go_on=go_on, version=PRICED_START)


def _playing(program: Program, rng: np.random.Generator) -> None:
    """Compiles what games are played with and imports the agent; of networks the run compiles what
    it needs itself, and its budget does not count that."""
    import_module("learned_mapping.mmap.agent.solve")
    played(random_play)(toy_program(), rng, Budget(samples=2))


def _learner(description: str, kind: str = PAPER, version: int = SIGNED, **changes: Any) -> Method:
    go_on = partial(_learn_and_go_on, changes)
    return Method(
        description,
        partial(_learn, changes),
        kind,
        resumable=True,
        go_on=go_on,
        settings=changes,
        version=version,
        prepare=_playing,
        then=tuple(GOING_ON),
    )


METHODS: dict[str, Method] = {
    "random": _method("the best of games of random legal moves", random_play),
    "greedy": _method(
        "place whenever legal", lambda search, rng: greedy(search), RULE, random=False
    ),
    "greedy-tuned": _method(
        "place what saves enough per byte and step; the price is tuned on the program",
        lambda search, rng: greedy_tuned(search),
        random=False,
        version=UNIT,
    ),
    "priced": _method(
        "prices memory and copies by a Lagrangian, then takes what is worth most at these prices",
        lambda search, rng: priced(search),
        RULE,
        random=False,
        version=PRICED,
    ),
    "heuristic": _method(
        "the compiler's published heuristic, values by the bytes they spare HBM; plans its own "
        "offsets and copies instead of playing",
        lambda search, rng: search.offer(heuristic(search.program)),
        RULE,
        random=False,
    ),
    "evolution-logits": _method(
        "evolution strategies over a preference per buffer and action", evolution_logits
    ),
    "evolution-logits-64": _method(
        "evolution-logits with populations of 64 games in place of 8",
        partial(evolution_logits, pairs=MANY_PAIRS),
    ),
    "evolution-policy": _method(
        "evolution strategies over a linear policy on the game's features",
        evolution_policy,
        version=UNIT,
    ),
    "edit-search": _edits(
        "local search from the game of priced: edits drawn at random, played on, kept where not "
        "worse",
        PLAIN,
    ),
    "edit-search-repeats": _edits(
        "edit-search that also decides at one place like at another where the same buffers "
        "come, as in the layers of a network",
        REPEATING,
    ),
    "packing": Method(
        "what fits from its making to its last use without a copy, at offsets searched in canonical"
        " order as MiniMalloc does; plans its own offsets instead of playing",
        lambda program, rng, budget: _packed(program, rng, budget, []),
        random=False,
        go_on=_packed,
    ),
    "muzero": _learner(
        "MMap-MuZero: search in a learned model, self-play; starts anew where it stands still",
        patience=2000,
    ),
    "muzero-priced": _learner(
        "muzero that begins at the game of priced and sees what that rule sees; returns its best"
        " game, windows included",
        OURS,
        PRICED_START,
        priced=True,
    ),
    "muzero-no-backup": _learner(
        "muzero in one round of whole games, where a dead end ends a game with a return of 0",
        backup=False,
        windows=0,
    ),
    "muzero-frozen": _learner(
        "the same windows and merging with the untrained network: the control without learning",
        SEARCH,
        frozen=True,
    ),
    "muzero-priced-frozen": _learner(
        "muzero-priced with the untrained network, which plays like the rule: the control",
        SEARCH,
        PRICED_START,
        priced=True,
        frozen=True,
    ),
    "search-only": _learner(
        "the paper's search without learning: MCTS in the game itself, from an untrained network",
        SEARCH,
        frozen=True,
        windows=0,
        true_dynamics=True,
    ),
    "ppo": Method(
        "proximal policy optimisation of a small network: learns from whole games, without search"
        " or model",
        played(_model_free),
        OURS,
        version=SIGNED,
        prepare=_playing,
    ),
    "learning-only": _learner(
        "the paper's agent with its search disabled: the same network, values and learned model, "
        "which improves the policy by single steps as in Muesli",
        simulations=0,
    ),
    "imitation": _learner(
        "a policy that imitates its best game, without search or learned model",
        SEARCH,
        simulations=0,
        unroll=0,
        imitation=1.0,
    ),
}
"""The methods by name, in the order of the tables; learners in the light size."""
IN_PAPER_SIZE = {"size": "paper", "patience": 0}
WITH_WINDOWS = {"windows": 96}  # Of its games side by side, with prices.


def _in_paper_size(method: Method) -> Method:
    if not method.resumable:
        return method
    settings = {**method.settings, **IN_PAPER_SIZE}
    if method.settings.get("priced"):
        settings |= WITH_WINDOWS
    return _learner(method.description, method.kind, method.version, **settings)


PAPER_METHODS = {name: _in_paper_size(method) for name, method in METHODS.items()}
"""The same with learners in the paper's size."""


class MemoryMapping(Problem):
    """Paper 1: a program, and a mapping of its buffers to fast memory."""

    name = "mmap"
    seconds = SECONDS
    net = ("priced", "heuristic")
    options = ("machine", "size", "device")
    minimised = False

    def methods(self, profile: str = "full") -> Mapping[str, Method]:
        """Every method; with the profile paper the learners have the paper's size."""
        return PAPER_METHODS if profile == "paper" else METHODS

    def read(self, path: str, machine: Any = None) -> Program:
        """A program, also of MiniMalloc's buffers (``.csv``), or what `task` makes of a graph, on
        this machine where one is named."""
        from learned_mapping.hardware.machine import hierarchy_of

        hierarchy = None if machine is None else hierarchy_of(machine)
        kind = "" if is_function(path) else kind_of(read_head(path))
        if kind == MINIMALLOC:
            return self.task(minimalloc.read_minimalloc(path), hierarchy)
        if kind == JSON and schema_name(node := read_json(path)) != "graph":
            return self.task(program_from_json(node), hierarchy)
        graph = problem.read_graph_file(path)
        try:
            return self.task(graph, hierarchy)
        except InputError as error:
            raise InputError(path, error.field, error.fault) from None

    def task(
        self, instance: Program | ComputationGraph, machine: MemoryHierarchy | None = None
    ) -> Program:
        """The program; a graph becomes one by the stated rule of `programs.trace.schedule`, on the
        default machine where none is named. A program has its times: of a machine it takes the
        capacity and the rate of copies."""
        if isinstance(instance, ComputationGraph):
            from learned_mapping.programs.trace.schedule import schedule_graph

            return schedule_graph(instance, machine or MemoryHierarchy())
        expect_type(instance, Program, "program")
        if machine is None:
            return instance
        size, rate = int(machine.cmem_bytes), machine.copy_bytes_per_s
        return replace(instance, fast_bytes=size, copy_bytes_per_s=rate, source="machine")

    def on_machine(self, machine: Any) -> dict[str, Any]:
        """Nothing: `read` has put the program on it."""
        return {}

    def picture(self, instance: Program, solution: Any = None, task: Any = None) -> Any:
        from learned_mapping.mmap.draw import picture

        return picture(instance, solution)

    def toy(self, task: Program) -> Program:
        return toy_program()

    def metrics(self, task: Program, solution: Any) -> dict[str, float]:
        """``return`` (share of the possible saving), ``saving_s`` (seconds spared of HBM) and
        ``latency_s`` (the whole program, with stalls)."""
        costs = {"return": claimed_share(task, solution), "saving_s": self.value(task, solution)}
        return costs | {"latency_s": program_latency(task, solution).total_s}

    def value(self, task: Program, solution: Any) -> float:
        """Seconds spared of HBM."""
        return float(np.sum(task.slow_s - placed_latency_s(task, solution.placed)))

    def users(self, option: str) -> tuple[str, ...]:
        """The learners; of the option ``device`` also PPO, whose network is of one size."""
        also = {"ppo"} if option == "device" else set()
        return tuple(name for name, method in METHODS.items() if method.resumable or name in also)

    def validate(self, task: Program, solution: Any, listed: int | None = LISTED) -> Verdict:
        return validate(task, solution, listed=listed)

    def beside(self, task: Program) -> tuple[str, dict[str, float]]:
        """The rule with prices, and what no mapping exceeds."""
        from learned_mapping.mmap.bounds.upper import proven

        rule = solve(task, "priced", samples=GAMES).metrics["return"]
        return "return", {"priced": rule, "no mapping is above": proven(task)}

    def hints(self, task: Program, solution: Any) -> list[str]:
        """Whether what a mapping spares is lost in its stalls again."""
        slow, mapped = float(task.slow_s.sum()), program_latency(task, solution).total_s
        if mapped <= slow * (1.0 + 1e-9):
            return []
        why = "its copies stall for longer than its placements save"
        if self.value(task, solution) <= 0.0:
            why = "what it places runs no faster in fast memory"
        return [
            f"it is slower than leaving everything in slow memory, {mapped:.6g} s against"
            f" {slow:.6g} s: {why}"
        ]

    def read_solution(self, path: str, instance: Program):
        return read_mapping(path, instance)

    def to_json(self, solution: Any, instance: Program) -> dict[str, Any]:
        return mapping_to_json(solution, instance)


PROBLEM = MemoryMapping()


def solve(program: Program | ComputationGraph, method: str, **limits: Any) -> Result:
    """Maps `program`, or what `PROBLEM.task` makes of a graph; limits (seed, seconds, samples, cpu,
    progress, profile) and errors as in `problem.solve`.

    The result's metrics are those of `MemoryMapping.metrics` and, of a method that plays,
    ``resets`` (dead ends in the best game); a sample is a game, also one played on from the middle
    of another.
    """
    return problem.solve(PROBLEM, PROBLEM.task(program), method, **limits)
