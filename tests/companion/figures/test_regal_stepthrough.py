"""Two evolutions picture by picture: what is drawn is what the generations hold, and the page needs nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from learned_mapping.companion.figures.regal_stepthrough import (
    Scales,
    agreed,
    blend,
    draw,
    generations,
    share_on_one,
    stepthrough,
    tell,
)
from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import DevicePair
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.rules.instance import Instance

NUMBERS = (0, 1, 5)


@pytest.fixture(scope="module")
def instance():
    return Instance(random_graph(np.random.default_rng(2), "layered", 24))


@pytest.fixture(scope="module")
def searches(instance):
    return {name: generations(instance, np.random.default_rng(seed), 5) for seed, name in enumerate(("one", "<two>"))}


def test_a_picture_for_each_generation_and_nothing_from_elsewhere(instance, searches):
    """Catches a generation without a picture, names that are taken for HTML, and whatever a browser would fetch."""
    text = stepthrough(instance, searches, NUMBERS)
    assert re.findall(r'data-frame="(\d+)"', text) == ["0", "1", "2"]
    assert text.count("<svg") == 3 and text.count("<button") == 2 and 'data-noun="picture"' in text
    assert "<two>" not in text and "&lt;two&gt;" in text
    assert not re.search(r"https?:|//|url\(|@import|(?:src|href)=", text.replace("</", ""))
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(picture)
    assert text == stepthrough(instance, searches, NUMBERS)


def test_every_chromosome_and_every_op_is_drawn(instance, searches):
    """Catches dots or ops left out, and bars that are not as long as the schedule."""
    frame = {name: found[5] for name, found in searches.items()}
    scales = Scales(instance, (each for found in searches.values() for each in found))
    root = ElementTree.fromstring(draw(instance, frame, scales))
    paths = {
        kind: [p.get("d") for p in root.iter("path") if p.get("class") == kind] for kind in ("costs", "ops", "memory")
    }
    assert sum(path.count("h0") for path in paths["costs"]) == sum(len(each.fitness) for each in frame.values())
    assert sum(path.count("z") for path in paths["ops"]) == 2 * instance.graph.num_ops
    assert len(list(root.iter("circle"))) == 2 * instance.graph.num_ops
    assert len(paths["memory"]) == 4, "two devices in two columns"
    words = tell(instance, frame, scales)
    assert f"{frame['one'].best_fitness * 1e3:.4g} ms" in words and "Generation 5, after 500 evaluations" in words


def test_the_paint_is_the_elites_vote(instance, searches):
    """By hand: all on device 0, all on 1, divided. Catches the other device's share and colours the wrong way round."""
    assert blend(0) == "#0072b2" and blend(1) == "#d55e00" and blend(0.5) == "#eeeeee"
    for generation in searches["one"]:
        share = share_on_one(generation)
        on_one = [
            sum(int(row[op]) for row in generation.elite_devices) / len(generation.elite_devices) for op in range(24)
        ]
        assert share.tolist() == pytest.approx(on_one)
        assert agreed(generation) == sum(s <= 0.1 + 1e-9 or s >= 0.9 - 1e-9 for s in on_one)


def test_what_cannot_be_shown_is_refused(instance, searches):
    with pytest.raises(InputError, match="outside"):
        stepthrough(instance, searches, [6])
    with pytest.raises(InputError, match="there are none"):
        stepthrough(instance, searches, [])
    with pytest.raises(InputError, match="the picture is of 2"):
        stepthrough(Instance(instance.graph, DevicePair(devices=3)), searches, [0])
