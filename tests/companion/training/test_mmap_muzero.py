"""The training of the agent on one program: its files, and that it goes on from its checkpoint."""

import json

import pytest
from learned_mapping_builders.training import mmap_muzero

from learned_mapping_companion.mmap import runs

PROGRAM = "rnn_0"


def train(folder, *more):
    return mmap_muzero.main(
        [PROGRAM, "--out", str(folder / "training" / "mmap"), "--every", "1", *more]
    )


@pytest.mark.parametrize(
    "method",
    ["muzero", *(pytest.param(m, marks=pytest.mark.slow) for m in ("learning-only", "imitation"))],
)
def test_a_training_goes_on_and_its_record_is_read(method, tmp_path, monkeypatch):
    """Catches a record that the book cannot read, and a second start that begins again."""
    assert train(tmp_path, "--method", method, "--iterations", "1") == 0
    assert train(tmp_path, "--method", method, "--iterations", "2") == 0
    assert train(tmp_path, "--method", method, "--iterations", "2", "--name", "at-once") == 0
    monkeypatch.setattr(runs, "data_folder", lambda: tmp_path)
    at_once, in_two = runs.trainings()
    assert at_once["method"] == in_two["method"] == method
    assert [at_once[name] for name in ("updates", "best_whole")] == [
        in_two[name] for name in ("updates", "best_whole")
    ]
    mapping = json.loads((tmp_path / "training" / "mmap" / "at-once.mapping.json").read_text())
    assert mapping["schema"] == "learned-mapping/mapping/1"


def test_what_is_wrong_is_one_line(tmp_path, capsys):
    """Catches a traceback for a missing limit or an unknown setting."""
    assert train(tmp_path) == 2
    assert train(tmp_path, "--iterations", "1", "--config", '{"nothing": 1}') == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
