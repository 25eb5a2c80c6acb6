"""One network over many programs: all but the tables of ids is shared, trained in turns, and fine-tuned on another."""

from collections.abc import Mapping, Sequence
from typing import Any

from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.learner import Learner
from learned_mapping.mmap.agent.network import Parameters
from learned_mapping.programs.program import Program

TABLE = "_table"
"""How the name of a table of ids ends: it belongs to one program."""


def take_over(learner: Learner, parameters: Parameters) -> None:
    """Gives the learner another program's parameters, all but the tables of ids; its optimiser stays as it is. Both are
    of the same configuration."""
    learner.parameters = _joined(learner.parameters, parameters)
    learner.average = learner.parameters


def _joined(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    joined = {}
    for name, entry in own.items():
        if isinstance(entry, Mapping):
            joined[name] = _joined(entry, other.get(name, {}))
        else:
            joined[name] = entry if name.endswith(TABLE) else other[name]
    return joined


def pretrain(programs: Sequence[Program], config: AgentConfig, seed: int, **limits: Any) -> tuple[Parameters, dict]:
    """Trains one network on several programs, an iteration on each in turn.

    Args:
      programs: at least one, with something to decide in each.
      config: of every agent; it must not depend on a program.
      seed: of all agents.
      **limits: of the `AgentBudget`; compiling is not charged.

    Returns:
      The parameters, and what was spent: iterations, updates, whole games, seconds.
    """
    agents = [MMapAgent(program, config, seed) for program in programs]
    budget = AgentBudget(**limits)
    for agent in agents:
        agent.start(budget)
    parameters, turn = agents[0].learner.parameters, 0
    while not budget.spent():
        agent = agents[turn % len(agents)]
        take_over(agent.learner, parameters)
        if agent.iterate(budget.spent) is None:
            break
        parameters = agent.learner.parameters
        turn += 1
    updates = sum(agent.learner.updates for agent in agents)
    return parameters, {
        "iterations": turn, "updates": updates, "games": budget.samples, "seconds": budget.seconds,
    }  # fmt: skip
