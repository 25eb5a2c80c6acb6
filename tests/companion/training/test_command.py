"""What the training commands share: a training that is stopped goes on and ends as one that was
not."""

import numpy as np
from learned_mapping_builders.training.command import go_on, write_tuning

from learned_mapping.learning.loop import read_log
from learned_mapping.programs.json_io import read_json


class Walk:
    """An agent that adds a random number in each of six iterations; it may be interrupted after
    some."""

    def __init__(self, stops_after: int = 6):
        self.iterations, self.place, self.stops_after = 0, 0.0, stops_after

    @property
    def done(self):
        return self.iterations == 6

    def iterate(self, stop):
        if self.iterations == self.stops_after:
            raise KeyboardInterrupt
        self.place += np.random.default_rng(self.iterations).standard_normal()
        self.iterations += 1
        return {"iteration": self.iterations, "place": self.place}

    def state(self):
        return {"place": np.array(self.place)}, {"iterations": self.iterations}

    def restore(self, arrays, header, source):
        self.place, self.iterations = float(arrays["place"]), header["iterations"]


def test_a_stopped_training_ends_as_an_unstopped_one(tmp_path, capsys):
    """Catches a state that is not found again, rows lost or written twice, and a limit that is not
    kept."""
    assert go_on(Walk(), tmp_path / "whole", every=2)
    try:
        go_on(Walk(stops_after=3), tmp_path / "parts", every=2)
    except KeyboardInterrupt:
        pass
    assert not go_on(Walk(), tmp_path / "parts", every=2, minutes=0.0)
    last = Walk()
    assert go_on(last, tmp_path / "parts", every=2) and last.iterations == 6
    whole, parts = (read_log(tmp_path / name / "log.jsonl") for name in ("whole", "parts"))
    assert whole == parts and [row["iteration"] for row in parts] == [1, 2, 3, 4, 5, 6]
    assert capsys.readouterr().err.count("iteration 6") == 2


def test_records_of_tuning_are_of_their_schema(tmp_path, monkeypatch):
    """Catches a record that `lmap data verify` refuses."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    write_tuning("mcm/annealing.json", {"best": 1})
    assert read_json(tmp_path / "mcm" / "annealing.json", "tuning").value["best"] == 1
