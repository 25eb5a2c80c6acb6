"""The three problems as environments of gymnasium, for agents of other libraries. Needs the extra
``rl``.

    import gymnasium
    import learned_mapping.gym

    env = gymnasium.make("learned_mapping/MMap-v0", instance=program)
    observation, info = env.reset(seed=0)
    ...
    env.unwrapped.solution  # once an episode is over: what the validator and `lmap check` take

Each takes its instance as the argument ``instance``. Rewards have no unit: they are shares or
ratios, stated below.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from matplotlib.backends.backend_agg import FigureCanvasAgg

from learned_mapping.budget import Budget
from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import InputError, is_whole, told
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.draw import picture as draw_partition
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.methods import PROBLEM as PARTITIONING
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.draw import picture as draw_mapping
from learned_mapping.mmap.methods import PROBLEM as MAPPING
from learned_mapping.mmap.observation import WIDTH
from learned_mapping.mmap.rules.play import Game, mapping_of
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.agent.rollouts import uniform_cost
from learned_mapping.regal.draw import picture as draw_schedule
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.proposals import law_of

PATIENCE = 4
"""An episode of `MMap` is cut off after so many steps for each buffer: illegal actions move
nothing."""


class _Mapping(gymnasium.Env):
    """A solution at the end of an episode, and its picture: what the three share."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode
        self.solution: DrawnOn | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        """Begins an episode; raises `InputError` for any option, since an environment knows
        none."""
        if options is not None and (type(options) is not dict or options):
            fault = f"an environment has none and keeps its instance, got {told(options)}"
            raise InputError("options", "", fault)
        super().reset(seed=seed)
        self.solution = None

    def _figure(self) -> Any:
        """The picture of the solution, or of the instance before there is one."""
        raise NotImplementedError

    def render(self) -> np.ndarray | None:
        """[height, width, 3] uint8 in the mode ``rgb_array``."""
        if self.render_mode != "rgb_array":
            return None
        canvas = FigureCanvasAgg(self._figure())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _checked(space: Space, action: Any) -> np.ndarray:
    """An action as its space has it; raises `InputError` where it is none of it."""
    array = np.asarray(action)
    if array.dtype.kind in "iu" and array.size == np.prod(space.shape, dtype=int):
        array = array.reshape(space.shape)
        if space.contains(array.astype(space.dtype) if space.shape else int(array)):
            return array
    raise InputError("action", "", f"expected one of {space}, got {str(action)[:60]}")


class MMap(_Mapping):
    """Paper 1's game: which buffers of a program live in fast memory.

    - Observation: [WIDTH] float32, the position as `mmap.observation` describes it, one buffer in
      hand.
    - Action: 0 Copy, 1 NoCopy, 2 Drop. `action_masks` tells which are legal; one that is not
      changes nothing.
    - Reward: the share of the possible saving that the move saves, less what a Drop-backup takes
      back; rewards sum to the return of the mapping.
    - Termination: after the last buffer. Moves without choice are made at once and are no steps.
    """

    def __init__(self, instance: Program, render_mode: str | None = None):
        super().__init__(render_mode)
        self.program = MAPPING.task(instance)
        self._games = Games(self.program, 1)
        self.observation_space = Box(-np.inf, np.inf, (WIDTH,), np.float32)
        self.action_space = Discrete(3)
        self._steps, self._return = 0, 0.0

    def action_masks(self) -> np.ndarray:
        """[3] bool, which actions are legal; all where the game is over, as one without choice is
        from the start."""
        legal = self._games.legal[0].astype(bool)
        return legal | ~legal.any()

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps, self._return = 0, 0.0
        self._games.restart([0])
        self._games.observe()
        return self._seen()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        chosen, before = int(_checked(self.action_space, action)), self._return
        self._steps += 1
        if not self._games.over[0] and self._games.legal[0, chosen]:
            self._games.step(np.array([chosen]))
            self._return = min(float(self._games.saved[0]), 1.0)
        over = bool(self._games.over[0])
        if over and self.solution is None:
            self.solution = self._mapping()
            self._return = validate(self.program, self.solution).costs["return"]
        cut = not over and self._steps >= PATIENCE * self.program.num_buffers
        observation, info = self._seen()
        return observation, self._return - before, over, cut, info

    def _seen(self) -> tuple[np.ndarray, dict[str, Any]]:
        info = {"action_mask": self.action_masks(), "return": self._return}
        return self._games.vector[0].astype(np.float32), info

    def _mapping(self) -> DrawnOn:
        game = Game(self.program)
        game.play_actions(self._games.played(0))
        return mapping_of(self.program, game.played()).on(self.program)

    def _figure(self) -> Any:
        return draw_mapping(self.program, self.solution)


class _OneStep(_Mapping):
    """An episode of one step: the same observation before and after it."""

    def __init__(
        self,
        graph: ComputationGraph,
        seen: np.ndarray,
        choices: int,
        entries: int,
        render_mode: str | None,
    ):
        super().__init__(render_mode)
        self.graph, self._observation = graph, seen.astype(np.float32).reshape(-1)
        self.observation_space = Box(-np.inf, np.inf, self._observation.shape, np.float32)
        self.action_space = MultiDiscrete([choices] * entries)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self._observation.copy(), {"edges": self.graph.op_edges.copy()}


class Chips(_OneStep):
    """Paper 2: a chip for every operation of a graph, repaired by the constraint solver. An episode
    is one step.

    - Observation: [N * F] float32, the features of the operations on this package, one after the
      other.
    - Action: [N] chips; any is legal, since FIX repairs it. Ops that a group ties together are one
      op here.
    - Reward: throughput of the repaired partition over that of the naive greedy rule.
    """

    def __init__(
        self,
        instance: ComputationGraph,
        chips: int = 36,
        package: ChipPackage | None = None,
        render_mode: str | None = None,
    ):
        self._task = PARTITIONING.task(instance, chips, package)
        graph, self._env = self._task.model.graph, PartitionEnv(self._task.model)
        seen = self._env.features.ops[: graph.num_ops]
        super().__init__(graph, seen, self._env.chips, graph.num_ops, render_mode)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        wanted = _checked(self.action_space, action).astype(np.int32)
        (assignment,), (throughput,), _ = self._env.rollout(wanted[None], self.np_random)
        self.solution = self._task.partition(assignment)
        return (
            self._observation.copy(),
            float(throughput / self._env.unit),
            True,
            False,
            {"throughput": throughput},
        )

    def _figure(self) -> Any:
        graph = self._task.graph
        partition = self.solution or make_partition(
            np.zeros(graph.num_ops, np.int32), self._env.chips
        )
        return draw_partition(graph, partition, self._env.model.package)


class Regal(_OneStep):
    """Paper 3: how a genetic algorithm draws new schedules, by a Beta distribution for each device
    and op.

    - Observation: [N * F] float32, the attributes of the operations, one after the other.
    - Action: [N (d + 1) 2] bins of alpha and beta for d affinities and a priority of every op,
      indices of `BINS`.
    - Reward: -M / H, the cost of the best schedule over that of a search with uniform mutants
      (Section 2.3).
    - An episode is one step: a run of BRKGA of so many evaluations.
    """

    def __init__(
        self,
        instance: Instance | ComputationGraph,
        evaluations: int = 500,
        render_mode: str | None = None,
    ):
        self.task = instance if isinstance(instance, Instance) else Instance(instance)
        if not is_whole(evaluations):
            raise InputError(
                "environment", "evaluations", f"expected a whole number, got {evaluations!r}"
            )
        self.evaluations = evaluations
        self._shape = (self.task.graph.num_ops, self.task.machine.devices + 1, 2)
        self._uniform = uniform_cost(self.task.arrays, (0,), evaluations, 4)
        entries = int(np.prod(self._shape))
        super().__init__(
            self.task.graph, features(self.task).nodes, len(BINS), entries, render_mode
        )

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        law = law_of(
            np.asarray(BINS)[_checked(self.action_space, action).reshape(self._shape)],
            in_initial=False,
        )
        budget = Budget(samples=self.evaluations)
        chromosome = brkga(self.task, self.np_random, budget, law=law)
        self.solution = decode(self.task, chromosome).on(self.task.graph, self.task.machine)
        cost = float(budget.best or 0.0)
        return self._observation.copy(), -cost / self._uniform, True, False, {"cost": cost}

    def _figure(self) -> Any:
        return draw_schedule(self.task.graph, self.solution, self.task.machine)


for _kind in (MMap, Chips, Regal):
    gymnasium.register(f"learned_mapping/{_kind.__name__}-v0", entry_point=_kind)
