"""Ten lines as a user writes them, for the type checker alone: `make lint` says whether the public
names have types."""

from collections.abc import Callable
from typing import Any

import jax

import learned_mapping as lm
from learned_mapping.problem import Result
from learned_mapping.programs.trace.graph import trace
from learned_mapping.verdict import Verdict


def throughput_of(function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> float:
    """Results per second on four chips of a function of one's own."""
    graph = trace(function, *arguments, name="mine", parameters=0)
    actual: Result = lm.mcm.solve(graph, "greedy-careful", chips=4, seed=0)
    verdict: Verdict = lm.mcm.validate(graph, actual.solution)
    assert verdict.valid and actual.seconds >= 0.0, verdict.violations
    schedule: Result = lm.regal.solve(lm.regal.Instance(graph), "brkga", samples=500)
    assert lm.regal.validate(graph, schedule.solution).valid
    return actual.metrics["throughput"]
