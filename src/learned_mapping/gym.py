"""The three problems as environments of gymnasium, for agents of other libraries. Needs the extra
``rl``.

    import gymnasium
    import learned_mapping.gym

    env = gymnasium.make("learned_mapping/MMap-v0")
    observation, info = env.reset(seed=0)
    ...
    env.unwrapped.solution  # once an episode is over: what the validator and `lmap check` take

The argument ``instance`` is one, a list of which each reset draws one, or an iterator that each
reset asks for the next; where it is None, the first of `instances`. ``reset(options={"instance":
...})`` takes another. What `reset` tells has its name and ``bound``, which no solution exceeds.
Rewards have no unit: they are shares or ratios, stated below.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from matplotlib.backends.backend_agg import FigureCanvasAgg

from learned_mapping.budget import Budget
from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import InputError, expect_choice, expect_whole, is_whole, told
from learned_mapping.hardware.chip_package import LEAST_S, ChipPackage, expect_alike
from learned_mapping.mcm.agent.features import NUM_FEATURES, graph_features
from learned_mapping.mcm.bounds.optimum import lower_bound
from learned_mapping.mcm.draw import picture as draw_partition
from learned_mapping.mcm.env import Domains, PartitionEnv
from learned_mapping.mcm.methods import PROBLEM as PARTITIONING
from learned_mapping.mcm.partition import Partition, make_partition
from learned_mapping.mcm.searches.moves import POWER
from learned_mapping.mcm.task import Task
from learned_mapping.mmap import bench
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.draw import picture as draw_mapping
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.methods import PROBLEM as MAPPING
from learned_mapping.mmap.observation import WIDTH
from learned_mapping.mmap.rules.play import Game, mapping_of
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.graph import ComputationGraph, plain_array
from learned_mapping.programs.program import Program
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.agent.rollouts import uniform_cost
from learned_mapping.regal.draw import picture as draw_schedule
from learned_mapping.regal.methods import floor
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.proposals import law_of

PATIENCE = 4
"""An episode of many steps is cut off after so many for each buffer or operation: illegal actions
move nothing."""
STRICT, NEAREST = "strict", "nearest"
LEGAL = (STRICT, NEAREST)
"""What an illegal action does: nothing, or what the nearest legal one does."""
TRAIN, TEST = "train", "test"
SEEDS = {TRAIN: range(20), TEST: range(1000, 1010)}
"""Of the synthetic graphs of a split."""


def instances(kind: str, split: str = TRAIN, most: int = 1000) -> tuple[Any, ...]:
    """Instances to train on, or others to judge an agent by.

    Args:
      kind: ``MMap``, the programs of MMapBench, every third of them held out; ``Chips`` or
        ``Regal``, synthetic graphs of 24 to 63 operations.
      split: ``train`` or ``test``.
      most: buffers of a program at most.
    """
    expect_choice(kind, ("MMap", "Chips", "Regal"), "kind")
    expect_choice(split, SEEDS, "split")
    if kind == "MMap":
        rows = enumerate(bench.standings().values())
        chosen = [row for i, row in rows if (i % 3 == 2) == (split == TEST)]
        return tuple(bench.load(row.program) for row in chosen if row.buffers <= most)
    graphs, families = [], tuple(GRAPH_FAMILIES)
    for seed in SEEDS[split]:
        rng, family = np.random.default_rng(seed), families[seed % len(families)]
        count, name = int(rng.integers(24, 64)), f"{family} {seed}"
        graphs.append(random_graph(rng, family, count, name=name))
    return tuple(graphs)


class _Mapping(gymnasium.Env, ABC):
    """A solution at the end of an episode, its picture, and the instances: what all share."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 1}
    kind: ClassVar[str]
    solution: DrawnOn | None = None

    def __init__(self, instance: Any, render_mode: str | None):
        self.render_mode = render_mode
        self._prepared: dict[int, tuple[Any, float]] = {}
        if instance is None:
            instance = instances(self.kind)[0]
        several = instance if isinstance(instance, list | tuple | Iterator) else (instance,)
        tasks: Iterator[Any] = map(self._task_of, several)
        self._first: Any = next(tasks, None)
        if self._first is None:
            raise InputError("instance", "", "expected at least one, got none")
        tasks = chain((self._first,), tasks)
        self._tasks = tasks if isinstance(several, Iterator) else tuple(tasks)

    @abstractmethod
    def _task_of(self, instance: Any) -> Any:
        """What is played on: an instance and its hardware; raises `InputError` for anything
        else."""

    @abstractmethod
    def _prepare(self, task: Any) -> tuple[Any, float]:
        """What an episode needs of a task, and what no solution of it exceeds."""

    def _most(self, count: Callable[[Any], int], given: int | None, name: str) -> int:
        """The most of something in a task of the list, or the number that the user gave."""
        if given is not None:
            return expect_whole(given, "environment", name, 1, 10**9)
        if not isinstance(self._tasks, tuple):
            fault = "has to be given: an iterator does not tell its largest graph"
            raise InputError("environment", name, fault)
        return max(map(count, self._tasks))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        """Begins an episode, on the option ``instance`` where that is given; raises `InputError`
        for any other option, and where an iterator has ended."""
        if options is not None and (type(options) is not dict or {*options} - {"instance"}):
            fault = f"the only one is 'instance', got {told(options)}"
            raise InputError("options", "", fault)
        if seed is not None:
            seed = expect_whole(seed, "environment", "seed", 0, 2**63 - 1)
        super().reset(seed=seed)
        self.solution = None
        self.task = self._next() if not options else self._task_of(options["instance"])
        kept = self._prepared.get(id(self.task))
        self._ready, self.bound = self._prepare(self.task) if kept is None else kept
        if isinstance(self._tasks, tuple) and any(self.task is task for task in self._tasks):
            self._prepared[id(self.task)] = self._ready, self.bound

    def _next(self) -> Any:
        """One of the list by chance, or the next of the iterator."""
        if isinstance(self._tasks, tuple):
            count = len(self._tasks)
            return self._tasks[int(self.np_random.integers(count)) if count > 1 else 0]
        task = next(self._tasks, None)
        if task is None:
            raise InputError("instance", "", "the iterator has ended")
        return task

    @abstractmethod
    def _figure(self) -> Any:
        """The picture of the solution, or of the instance before there is one."""

    def render(self) -> np.ndarray | None:
        """[height, width, 3] uint8 in the mode ``rgb_array``."""
        if self.render_mode != "rgb_array":
            return None
        canvas = FigureCanvasAgg(self._figure())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _checked(space: Space, action: Any) -> np.ndarray:
    """An action as its space has it; raises `InputError` where it is none of it."""
    array, shape = plain_array(action, "action", ""), space.shape or ()
    if array.dtype.kind in "iu" and array.size == math.prod(shape):
        array = array.reshape(shape)
        if space.contains(array.astype(space.dtype) if shape else int(array)):
            return array
    raise InputError("action", "", f"expected one of {space}, got {told(action)}")


class _Stepwise(_Mapping):
    """An episode of many choices, of which some are illegal at times."""

    def __init__(self, instance: Any, legal: str, render_mode: str | None):
        super().__init__(instance, render_mode)
        expect_choice(legal, LEGAL, "environment", "legal")
        self._nearest = legal == NEAREST

    @abstractmethod
    def action_masks(self) -> np.ndarray:
        """[n] bool, which actions are legal."""

    def _legal(self, action: Any) -> int | None:
        """The action, or the legal one nearest to it; None where it is illegal."""
        chosen = int(_checked(self.action_space, action))
        legal = np.flatnonzero(self.action_masks())
        if self._nearest:
            return int(legal[np.abs(legal - chosen).argmin()])
        return chosen if chosen in legal else None


class MMap(_Stepwise):
    """Paper 1's game: which buffers of a program live in fast memory.

    - Observation: [WIDTH] float32, the position as `mmap.observation` describes it, one buffer in
      hand.
    - Action: 0 Copy, 1 NoCopy, 2 Drop. `action_masks` tells which are legal. One that is not
      changes nothing; with ``legal="nearest"`` it becomes the legal one of the nearest number.
    - Reward: the share of the possible saving that the move saves, less what a Drop-backup takes
      back; rewards sum to the return of the mapping.
    - Termination: after the last buffer. Moves without choice are made at once and are no steps.
    - Bound: of the return.
    """

    kind = "MMap"
    solution: Mapping | None

    def __init__(self, instance: Any = None, legal: str = STRICT, render_mode: str | None = None):
        super().__init__(instance, legal, render_mode)
        self.observation_space = Box(-np.inf, np.inf, (WIDTH,), np.float32)
        self.action_space = Discrete(3)

    @property
    def program(self) -> Program:
        """The program that is played."""
        return self.task

    def _task_of(self, instance: Any) -> Program:
        return MAPPING.task(instance)

    def _prepare(self, task: Program) -> tuple[Games, float]:
        return Games(task, 1), bench.bound_of(task)

    def action_masks(self) -> np.ndarray:
        """[3] bool, which actions are legal; all where the game is over, as one without choice is
        from the start."""
        legal = self._ready.legal[0].astype(bool)
        return legal | ~legal.any()

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps, self._return = 0, 0.0
        self._ready.restart([0])
        self._ready.observe()
        observation, info = self._seen()
        return observation, info | {"instance": self.task.name, "bound": self.bound}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        chosen, before, games = self._legal(action), self._return, self._ready
        self._steps += 1
        if not games.over[0] and chosen is not None:
            games.step(np.array([chosen]))
            self._return = min(float(games.saved[0]), 1.0)
        over = bool(games.over[0])
        if over and self.solution is None:
            self.solution = self._mapping()
            self._return = validate(self.task, self.solution).costs["return"]
        cut = not over and self._steps >= PATIENCE * self.task.num_buffers
        observation, info = self._seen()
        return observation, self._return - before, over, cut, info

    def _seen(self) -> tuple[np.ndarray, dict[str, Any]]:
        info = {"action_mask": self.action_masks(), "return": self._return}
        return self._ready.vector[0, :WIDTH].astype(np.float32), info

    def _mapping(self) -> Mapping:
        game = Game(self.task)
        game.play_actions(self._ready.played(0))
        return mapping_of(self.task, game.played()).on(self.task)

    def _figure(self) -> Any:
        return draw_mapping(self.task, self.solution)


class _Chips(_Mapping):
    """A graph on a package of chips, and the picture of a partition."""

    kind = "Chips"
    solution: Partition | None
    _chips: int
    _package: ChipPackage | None

    def _task_of(self, instance: Any) -> Task:
        task = PARTITIONING.task(instance, self._chips, self._package)
        expect_alike(task.model.package, "the environments see")
        return task

    def _figure(self) -> Any:
        graph, package = self.task.graph, self.task.model.package
        nowhere = np.zeros(graph.num_ops, np.int32)
        partition = self.solution or make_partition(nowhere, package.chips)
        return draw_partition(graph, partition, package)


class ChipsByOp(_Chips, _Stepwise):
    """Paper 2 as Algorithm 1 has it: a chip for one operation after the other, in topological
    order.

    - Observation: ``nodes`` [ops + 1, 5 + F] float32: whether there is such an op, is in hand, is
      decided, the smallest and the largest chip it can have over C, its features; ``edges``
      [edges, 2] int32, from producer to consumer, padded by loops at the last row; ``loads`` [C]
      float32, seconds of each chip over an even share, those of ops undecided spread over the chips
      they can have; ``mask`` [C] int8, legal chips of the op in hand; ``op``, its row.
    - Action: a chip. `action_masks` tells which leave a valid partition possible, by the
      constraint engine. One that does not changes nothing; with ``legal="nearest"`` it becomes the
      nearest that does.
    - Reward: the change of V of `searches.moves`, the surrogate of the ``exact`` credit, over
      `loads`, so that each op is credited with what its chip costs; the last one settles links and
      the surrogate: rewards sum to the logarithm of the throughput over that of an even share.
    - Termination: after the last op. Ops with one chip left are decided at once and are no steps.
    - Bound: of the throughput, results per second.

    ``ops`` and ``edges`` are the sizes padded to, where graphs come from an iterator.
    """

    action_space: Discrete

    def __init__(
        self,
        instance: Any = None,
        chips: int = 4,
        package: ChipPackage | None = None,
        ops: int | None = None,
        edges: int | None = None,
        legal: str = STRICT,
        render_mode: str | None = None,
    ):
        self._chips, self._package = chips, package
        super().__init__(instance, legal, render_mode)
        self._ops = self._most(lambda task: task.model.graph.num_ops, ops, "ops")
        self._edges = self._most(lambda task: len(task.model.graph.op_edges), edges, "edges")
        count = self._first.model.package.chips
        nodes = (self._ops + 1, 5 + NUM_FEATURES)
        self.observation_space = Dict({
            "nodes": Box(-np.inf, np.inf, nodes, np.float32),
            "edges": Box(0, self._ops, (self._edges, 2), np.int32),
            "loads": Box(0.0, np.inf, (count,), np.float32),
            "mask": Box(0, 1, (count,), np.int8),
            "op": Discrete(self._ops + 1),
        })  # fmt: skip
        self.action_space = Discrete(count)

    def _prepare(self, task: Task) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        model, graph = task.model, task.model.graph
        _fits(graph.name, graph.num_ops, self._ops, "ops")
        _fits(graph.name, len(graph.op_edges), self._edges, "edges")
        features = graph_features(graph, model.work, model.package).ops[: graph.num_ops]
        edges = np.full((self._edges, 2), self._ops, np.int32)
        edges[: len(graph.op_edges)] = graph.op_edges
        return (features, edges), 1.0 / max(lower_bound(model), LEAST_S)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        model = self.task.model
        self._seconds, count = model.op_seconds, model.package.chips
        self._even = max(float(self._seconds.sum()) / count, LEAST_S)
        self._domains = Domains(self.task.arrays, count)
        self._order = self._domains.order(model.graph.topological_order)
        self._decided, self._steps = 0, 0
        self._go_on()
        self._start, self._worth = self._value(), 0.0
        seen, info = self._seen()
        return seen, info | {"instance": model.graph.name, "bound": self.bound}

    def _go_on(self) -> None:
        """Decides ops with one chip left; after the last, there is a solution."""
        low, high = self._range = self._domains.bounds()
        while self._decided < len(self._order):
            op = int(self._order[self._decided])
            if low[op] < high[op]:
                return
            self._domains.decide(op, int(low[op]))
            low, high = self._range = self._domains.bounds()
            self._decided += 1
        self.solution = self.task.partition(low)

    def action_masks(self) -> np.ndarray:
        """[C] bool, chips that the op in hand can have; all where the episode is over."""
        chips, (low, high) = np.arange(self.action_space.n), self._range
        if self.solution is not None:
            return np.ones(len(chips), bool)
        op = self._order[self._decided]
        return (low[op] <= chips) & (chips <= high[op])

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        chosen, before = self._legal(action), self._worth
        self._steps += 1
        if self.solution is None and chosen is not None:
            self._domains.decide(int(self._order[self._decided]), chosen)
            self._decided += 1
            self._go_on()
            self._worth = self._value() - self._start
        over = self.solution is not None
        seen, info = self._seen()
        if over:
            info["throughput"] = self.task.model.throughput(self._range[0])
            self._worth = float(np.log(info["throughput"] * self._even))
        cut = not over and self._steps >= PATIENCE * len(self._order)
        return seen, self._worth - before, over, cut, info

    def _loads(self) -> np.ndarray:
        """[C] float64 seconds of each chip over an even share."""
        low, high = self._range
        part, ends = self._seconds / (high - low + 1), np.zeros(self.action_space.n + 1)
        np.add.at(ends, low, part)
        np.add.at(ends, high + 1, -part)
        return np.maximum(np.cumsum(ends)[:-1], 0.0) / self._even

    def _value(self) -> float:
        """V: minus the logarithm of the p-norm mean of the loads."""
        return -float(np.log(max((self._loads() ** POWER).mean(), LEAST_S))) / POWER

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        (features, edges), (low, high) = self._ready, self._range
        n, mask, last = len(features), self.action_masks(), len(self._order) - 1
        op, nodes = int(self._order[min(self._decided, last)]), np.zeros((self._ops + 1, 5), float)
        nodes[:n] = np.stack([
            np.ones(n),
            np.arange(n) == op,
            low == high,
            low / self.action_space.n,
            high / self.action_space.n,
        ], axis=1)  # fmt: skip
        static = np.concatenate([features, np.zeros((self._ops + 1 - n, NUM_FEATURES))])
        seen = {
            "nodes": np.concatenate([nodes, static], axis=1).astype(np.float32),
            "edges": edges.copy(),
            "loads": self._loads().astype(np.float32),
            "mask": mask.astype(np.int8),
            "op": np.int64(op),
        }
        return seen, {"action_mask": mask}


class _OneStep(_Mapping):
    """An episode of one step: the same observation before and after it. What is padded to ``ops``
    operations shows zeros there, and ignores what an action says of them."""

    observation_space: Box

    def _spaces(self, ops: int | None, width: int, choices: int, entries: int) -> None:
        self._ops = self._most(lambda task: self._graph(task).num_ops, ops, "ops")
        self.observation_space = Box(-np.inf, np.inf, (self._ops * width,), np.float32)
        self.action_space = MultiDiscrete([choices] * (self._ops * entries))

    @abstractmethod
    def _graph(self, task: Any) -> ComputationGraph:
        """The graph of a task."""

    @abstractmethod
    def _shown(self) -> np.ndarray:
        """[N, F], what is seen of the operations."""

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.graph = self._graph(self.task)
        _fits(self.graph.name, self.graph.num_ops, self._ops, "ops")
        self._observation = np.zeros(self.observation_space.shape, np.float32)
        observation = self._shown().reshape(-1)
        self._observation[: len(observation)] = observation
        info = {"instance": self.graph.name, "bound": self.bound}
        return self._observation.copy(), info | {"edges": self.graph.op_edges.copy()}


class Chips(_Chips, _OneStep):
    """Paper 2: a chip for every operation of a graph, repaired by the constraint solver. An episode
    is one step.

    - Observation: [N * F] float32, the features of the operations on this package, one after the
      other.
    - Action: [N] chips; any is legal, since FIX repairs it. Ops that a group ties together are one
      op here.
    - Reward: throughput of the repaired partition over that of the naive greedy rule.
    - Bound: of the throughput, results per second.
    """

    def __init__(
        self,
        instance: Any = None,
        chips: int = 36,
        package: ChipPackage | None = None,
        ops: int | None = None,
        render_mode: str | None = None,
    ):
        self._chips, self._package = chips, package
        super().__init__(instance, render_mode)
        self._spaces(ops, NUM_FEATURES, self._first.model.package.chips, 1)

    def _graph(self, task: Task) -> ComputationGraph:
        return task.model.graph

    def _prepare(self, task: Task) -> tuple[PartitionEnv, float]:
        return PartitionEnv(task.model), 1.0 / max(lower_bound(task.model), LEAST_S)

    def _shown(self) -> np.ndarray:
        return self._ready.features.ops[: self.graph.num_ops]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        wanted = _checked(self.action_space, action).astype(np.int32)[: self.graph.num_ops]
        (assignment,), (throughput,), _ = self._ready.rollout(wanted[None], self.np_random)
        self.solution = self.task.partition(assignment)
        reward, info = float(throughput / self._ready.unit), {"throughput": throughput}
        return self._observation.copy(), reward, True, False, info


class Regal(_OneStep):
    """Paper 3: how a genetic algorithm draws new schedules, by a Beta distribution for each device
    and op.

    - Observation: [N * F] float32, the attributes of the operations, one after the other.
    - Action: [N (d + 1) 2] bins of alpha and beta for d affinities and a priority of every op,
      indices of `BINS`.
    - Reward: -M / H, the cost of the best schedule over that of a search with uniform mutants
      (Section 2.3).
    - An episode is one step: a run of BRKGA of so many evaluations.
    - Bound: no cost is below it, in seconds or bytes.
    """

    kind = "Regal"
    solution: Schedule | None

    def __init__(
        self,
        instance: Any = None,
        evaluations: int = 500,
        ops: int | None = None,
        render_mode: str | None = None,
    ):
        if not is_whole(evaluations):
            fault = f"expected a whole number, got {evaluations!r}"
            raise InputError("environment", "evaluations", fault)
        self.evaluations = evaluations
        super().__init__(instance, render_mode)
        self._columns = self._first.machine.devices + 1
        width = features(self._first).nodes.shape[1]
        self._spaces(ops, width, len(BINS), 2 * self._columns)

    def _task_of(self, instance: Any) -> Instance:
        return instance if isinstance(instance, Instance) else Instance(instance)

    def _graph(self, task: Instance) -> ComputationGraph:
        return task.graph

    def _prepare(self, task: Instance) -> tuple[float, float]:
        if task.machine.devices + 1 != self._columns:
            fault = f"{task.machine.devices} devices, the environment has {self._columns - 1}"
            raise InputError("instance", task.graph.name, fault)
        return uniform_cost(task.arrays, (0,), self.evaluations, 4), floor(task)

    def _shown(self) -> np.ndarray:
        return features(self.task).nodes

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        chosen = _checked(self.action_space, action).reshape(self._ops, self._columns, 2)
        law = law_of(np.asarray(BINS)[chosen[: self.graph.num_ops]], in_initial=False)
        budget = Budget(samples=self.evaluations)
        chromosome = brkga(self.task, self.np_random, budget, law=law)
        self.solution = decode(self.task, chromosome).on(self.graph, self.task.machine)
        cost = float(budget.best or 0.0)
        return self._observation.copy(), -cost / self._ready, True, False, {"cost": cost}

    def _figure(self) -> Any:
        return draw_schedule(self.task.graph, self.solution, self.task.machine)


def _fits(name: str, count: int, most: int, what: str) -> None:
    """Raises `InputError` where a graph is larger than the arrays of the environment."""
    if count > most:
        fault = f"has {count} {what}, the environment is made for {most}: give it {what}={count}"
        raise InputError("instance", name, fault)


_KINDS: dict[str, Callable[..., gymnasium.Env]] = {
    "MMap-v0": MMap,
    "Chips-v0": Chips,
    "Chips-v1": ChipsByOp,
    "Regal-v0": Regal,
}
for _id, _kind in _KINDS.items():
    gymnasium.register(f"learned_mapping/{_id}", entry_point=_kind)
