from __future__ import annotations

import copy

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule, read_schedule, schedule_to_json

ORDER = [(0, -1), (0, 1), (1, -1), (2, -1), (2, 0), (3, -1)]


@pytest.fixture
def value(diamond):
    return schedule_to_json(Schedule.of([0, 0, 1, 0], ORDER, 2), diamond)


def test_a_file_reads_back_equal(tmp_path, odd_graph):
    rng = np.random.default_rng(0)
    for suffix in (".json", ".json.gz"):
        instance = Instance(odd_graph(rng, 20))
        schedule = decode(instance, rng.random(instance.chromosome_length))
        write_json(tmp_path / f"s{suffix}", schedule_to_json(schedule, instance.graph))
        again = read_schedule(tmp_path / f"s{suffix}", instance.graph)
        assert again.placement.tolist() == schedule.placement.tolist()
        assert again.order.tolist() == schedule.order.tolist() and again.devices == schedule.devices


def edit(field, new):
    def apply(value):
        *path, last = field
        for key in path:
            value = value[key]
        if new is None:
            del value[last]
        else:
            value[last] = new

    return apply


FAULTS = {
    "schema": (edit(["schema"], "learned-mapping/partition/1"), "schema"),
    "other graph": (edit(["digest"], "0" * 64), "instance"),
    "digest type": (edit(["digest"], 5), "digest"),
    "no digest": (edit(["digest"], None), "digest"),
    "devices": (edit(["devices"], 0), "devices"),
    "devices type": (edit(["devices"], True), "devices"),
    "no such device": (edit(["placement", "b"], 2), "placement"),
    "fractional device": (edit(["placement", "b"], 0.5), "placement"),
    "missing op": (edit(["placement", "b"], None), "placement"),
    "unknown op": (edit(["placement", "q"], 0), "placement"),
    "placement list": (edit(["placement"], [0, 0, 1, 0]), "placement"),
    "order object": (edit(["order"], {}), "order"),
    "step number": (edit(["order", 0], 3), "order[0]"),
    "step unknown op": (edit(["order", 0], {"op": "q"}), "order[0].op"),
    "step both": (edit(["order", 0], {"op": "a", "to": 1}), "order[0]"),
    "transfer nowhere": (edit(["order", 1], {"transfer": "x"}), "order[1]"),
    "transfer far": (edit(["order", 1, "to"], 2), "order[1].to"),
    "transfer unknown": (edit(["order", 1, "transfer"], "q"), "order[1].transfer"),
    "extra": (edit(["comment"], "hi"), "comment"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_their_field(tmp_path, diamond, value, name):
    damage, field = FAULTS[name]
    broken = copy.deepcopy(value)
    damage(broken)
    write_json(tmp_path / "s.json", broken)
    with pytest.raises(InputError) as caught:
        read_schedule(tmp_path / "s.json", diamond)
    text = str(caught.value)
    assert "s.json" in text and field in text and "\n" not in text


def test_rule_breaking_is_not_the_readers_business(tmp_path, diamond, value):
    """`lmap check` must be able to say what is wrong with a well-formed schedule."""
    write_json(tmp_path / "s.json", value | {"order": []})
    assert read_schedule(tmp_path / "s.json", diamond).order.shape == (0, 2)
