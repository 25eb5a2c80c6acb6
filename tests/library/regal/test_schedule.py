import numpy as np
import pytest

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


def test_rule_breaking_is_not_the_readers_business(tmp_path, diamond, value):
    """`lmap check` must be able to say what is wrong with a well-formed schedule."""
    write_json(tmp_path / "s.json", value | {"order": []})
    assert read_schedule(tmp_path / "s.json", diamond).order.shape == (0, 2)
