"""One meaning for a program, whichever door it came through: what `lmap trace` counts of a function
is what its StableHLO counts, printed by JAX or exported for each platform."""

from pathlib import Path

import jax
import pytest
from jax import export

from learned_mapping.programs.formats import graph_from_json
from learned_mapping.programs.json_io import parse_json
from learned_mapping.programs.trace import models
from learned_mapping.programs.trace.graph import trace
from programs.parity_cases import RULES, WHOLE

DIFFERENT = {
    "sparse": (("text", "cpu", "tpu", "cuda"), "written as gathers and sums"),
    "conv_complex": (("text", "cpu", "cuda"), "three products of real numbers instead of four"),
}
"""Function -> the doors by which it differs, and why."""
CHECKS = [
    export.DisabledSafetyCheck.custom_call("ApproxTopK"),
    export.DisabledSafetyCheck.platform(),
]


def sizes(graph):
    """FLOP, bytes of weights, bytes between ops."""
    return graph.op_flop.sum(), graph.op_weight_bytes.sum(), graph.tensor_bytes.sum()


def by_door(function, args, door):
    """The sizes of a function by its StableHLO, the parser in this process; None where JAX has no
    such form of it, a fault as text."""
    jitted = jax.jit(function)
    if door == "text":
        text = jitted.lower(*args).as_text()
    else:
        try:
            exported = export.export(jitted, platforms=[door], disabled_checks=CHECKS)(*args)
        except (NotImplementedError, ValueError):
            return None
        text = exported.mlir_module()
    code, said = models.answer({"name": "f", "parameters": []}, text.encode())
    return said if code else sizes(graph_from_json(parse_json(said.encode(), "f")))


def is_alike(one, other):
    flop, weights, between = (abs(a - b) / max(b, 1) for a, b in zip(one, other))
    return flop <= 0.02 and weights <= 0.02 and between <= 0.10


CASES = RULES | WHOLE


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "doors", [("tpu",), pytest.param(("text", "cpu", "cuda"), marks=pytest.mark.slow)], ids=str
)
def test_a_function_costs_the_same_by_every_door(name, doors):
    """FLOP and weights within 2 %, bytes within 10 %; what differs is listed with a reason, and
    what no longer does is not."""
    function, args = CASES[name]
    traced = sizes(trace(function, *args, name=name))
    for door in doors:
        found = by_door(function, args, door)
        if found is None:
            continue
        alike = not isinstance(found, str) and is_alike(found, traced)
        differs, reason = DIFFERENT.get(name, ((), ""))
        assert alike == (door not in differs), (door, reason, found, traced)


def test_most_functions_are_alike():
    """Would catch a table of differences that excuses the test."""
    assert set(DIFFERENT) <= set(CASES) and len(WHOLE) >= 40
    for cases in (RULES, WHOLE):
        assert len(set(DIFFERENT) & set(cases)) <= 0.05 * len(cases)


def test_what_differs_stands_in_the_book():
    """Would catch a difference that a reader of the page on formats is not told."""
    page = (Path(__file__).resolve().parents[2] / "book/formats.md").read_text()
    assert all(f"| {reason} |" in page for _, reason in DIFFERENT.values())
