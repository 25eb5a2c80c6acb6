"""A repair's pictures show the domains of its steps."""

import re

import numpy as np
import pytest

from learned_mapping.mcm.repair.solver import LEFT, fix_trace
from learned_mapping.mcm.rules.constraints import example_graph
from learned_mapping_companion.figures import mcm_repair_steps as figures


@pytest.fixture(scope="module")
def repaired():
    """A run under Eq. 4 itself that has to go back."""
    rng = np.random.default_rng(36)
    y = rng.integers(0, 4, 6)
    return y, fix_trace(example_graph(), y, 4, rng, strength="general")


def cells(picture: str, colour: str) -> int:
    return sum(
        path.count("M") for path in re.findall(rf'<path d="([^"]*)" fill="{colour}"/>', picture)
    )


def test_a_cell_for_every_chip_of_every_domain(repaired):
    """Would catch a domain that is not drawn, and a chip drawn as possible that is not."""
    y, steps = repaired
    shown = figures.frames(steps)
    page = figures.repair_steps(example_graph(), y, 4, steps, name="lm-x")
    pictures = re.findall(r"<svg.*?</svg>", page)
    assert len(pictures) == len(shown)
    for picture, frame in zip(pictures, shown):
        left = [
            set(before) - set(after) for before, after in zip(frame.step.before, frame.step.after)
        ]
        assert cells(picture, figures.REMOVED) == sum(map(len, left))
        alone = sum(len(domain) == 1 for domain in frame.step.after)
        assert cells(picture, figures.FIXED) + cells(picture, figures.FORCED) == alone
        assert cells(picture, figures.OPEN) == sum(map(len, frame.step.after)) - alone
        assert picture.count("<circle") == 6


def test_no_step_that_matters_is_left_out(repaired):
    """Would catch a refusal or a way back that no picture shows, and a decision that was undone
    drawn as decided."""
    y, steps = repaired
    shown = figures.frames(steps)
    assert sum(1 + len(frame.quiet) for frame in shown) == len(steps)
    assert all(
        step.before == step.after and step.kind != LEFT for frame in shown for step in frame.quiet
    )
    page = re.sub(
        ' aria-label="[^"]*"', "", figures.repair_steps(example_graph(), y, 4, steps, name="lm-x")
    )
    assert page.count("not kept") == sum(step.kind == LEFT and bool(step.chips) for step in steps)
    assert (
        page.count("a dead end")
        == page.count("goes back")
        == sum(step.undone > 0 for step in steps)
        > 0
    )
    back = next(frame for frame in shown if frame.step.undone)
    assert back.step.blamed[0] not in back.fixed and back.step.op not in back.fixed
    assert figures.summary(steps)["undone"] == back.step.undone


def test_it_stands_alone_under_its_own_name(repaired):
    """Would catch what a browser would fetch, and two on a page whose buttons move one another."""
    y, steps = repaired
    page = figures.repair_steps(example_graph(), y, 4, steps, name="lm-x")
    assert not re.search(r"https?:|//|url\(|@import", page.replace("</", ""))
    assert page.count('id="lm-x"') == 1 and 'getElementById("lm-x")' in page


def test_names_fit_their_column():
    assert figures.short_name("conv_1/conv_general_dilated") == "conv_1/conv"
    assert (
        figures.short_name("reduce_window_sum.1") == "pool.1"
        and figures.short_name("tanh") == "tanh"
    )
