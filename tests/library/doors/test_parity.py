"""One meaning for a program, whichever door it came through: what `lmap trace` counts of a function
is what its StableHLO counts, printed by JAX or exported for each platform."""

from pathlib import Path

import pytest
from learned_mapping_builders.zoo.door_cases import RULES, WHOLE
from learned_mapping_builders.zoo.doors import CASES, by_door

from learned_mapping_companion import results
from learned_mapping_companion.mcm.doors import DOORS

DIFFERENT = {
    "sparse": (("text", "cpu", "tpu", "cuda"), "written as gathers and sums"),
    "conv_complex": (("text", "cpu", "cuda"), "three products of real numbers instead of four"),
}
"""Function -> the doors by which it differs, and why."""


def is_alike(one, other):
    flop, weights, between = (abs(a - b) / max(b, 1) for a, b in zip(one, other))
    return flop <= 0.02 and weights <= 0.02 and between <= 0.10


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "doors", [("tpu",), pytest.param(("text", "cpu", "cuda"), marks=pytest.mark.slow)], ids=str
)
def test_a_function_costs_the_same_by_every_door(name, doors):
    """FLOP and weights within 2 %, bytes within 10 %; what differs is listed with a reason, and
    what no longer does is not."""
    traced = by_door(name, "trace")
    for door in doors:
        found = by_door(name, door)
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


def test_the_stored_table_says_which_differ():
    """Catches a table of the book that is older than the list above, or that leaves a function or a
    door out; a form that JAX does not have is no difference."""
    rows = results.load("mcm.doors")["rows"]
    differing = {
        (row["instance"], row["method"])
        for row in rows
        if row["metric"] == "flop" and not row["alike"]
    }
    assert differing == {(name, door) for name, (doors, _) in DIFFERENT.items() for door in doors}
    for door in DOORS:
        taken = {
            row["instance"] for row in rows if row["method"] == door and row["metric"] == "flop"
        }
        assert taken <= set(CASES) and len(taken) >= 0.95 * len(CASES)


def test_what_differs_stands_in_the_book():
    """Would catch a difference that a reader of the page is not told."""
    page = (Path(__file__).resolve().parents[3] / "book/your-model.md").read_text()
    assert all(f"| {reason} |" in page for _, reason in DIFFERENT.values())
