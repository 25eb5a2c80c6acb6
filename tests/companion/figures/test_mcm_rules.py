"""The page's table of verdicts is the validator's, and each rule can be broken alone."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

from learned_mapping.companion.figures.mcm_rules import RULES, five_ops, rule_explorer, verdicts
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import example_graph
from learned_mapping.mcm.validate import validate


@pytest.fixture(scope="module")
def page():
    return rule_explorer(*five_ops(), [0, 1, 2, 2, 2])


def test_the_page_has_the_validators_verdict_on_every_assignment(page):
    """Would catch a row in another place than the script looks it up, and a fault that lost its culprits."""
    graph, package = five_ops()
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page).group(1))
    assert len(data["rows"]) == package.chips**graph.num_ops == 243
    for chips in itertools.product(range(package.chips), repeat=graph.num_ops):
        place = 0
        for chip in chips:  # as the script does
            place = place * data["chips"] + chip
        verdict = validate(graph, make_partition(np.array(chips), 3), package, memory=True)
        shown = [data["faults"][i] for i in data["rows"][place]]
        assert shown == [[fault.rule, list(fault.culprits), fault.detail] for fault in verdict.violations]
        assert data["seconds"][place] == verdict.costs.get("runtime_s")


def test_each_rule_can_be_broken_alone():
    """Would catch an example that hides a rule behind another, and a rule without a line on the page."""
    table = verdicts(*five_ops())
    broken = [{rule for rule in RULES for i in row if table["faults"][i][0].startswith(rule)} for row in table["rows"]]
    assert all({rule} in broken for rule in RULES) and set() in broken
    assert all(any(fault[0].startswith(rule) for rule in RULES) for fault in table["faults"])


def test_it_stands_alone_and_takes_the_keyboard(page):
    """Would catch what a browser would fetch, and ops that only a mouse can move."""
    assert not re.search(r"https?:|src=|href=|@import", page)
    assert page.count('role="button" tabindex="0"') == 5 and "keydown" in page


def test_what_does_not_fit_is_refused():
    graph, package = five_ops()
    with pytest.raises(InputError, match="outside"):
        rule_explorer(graph, package, [0, 0, 0, 0, 3])
    with pytest.raises(InputError, match="2 chips for 5 ops"):
        rule_explorer(graph, package, [0, 0])
    with pytest.raises(InputError, match="too many"):
        verdicts(example_graph(), ChipPackage(chips=36))
