"""What is said of the trainings of paper 3: by hand."""

import json
import re

import numpy as np
import pytest
from learned_mapping_builders.training import command

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.learning.checkpoint import write_checkpoint
from learned_mapping.programs.json_io import file_sha256, write_json
from learned_mapping_companion.figures.regal import learning_curves
from learned_mapping_companion.regal.methods import training_records, validation_rows


def record(dataset, seed, regal, average):
    curve = [
        {"cpu_s": 1.0, "gap": 9.0 + seed, "gap_average_law": 9.5, "gap_uniform": 10.0},
        {"cpu_s": 2.0},
    ]
    curve.append({"cpu_s": 30.0, "gap": 3.0 + seed, "gap_average_law": 8.0, "gap_uniform": 10.0})
    ratios = {
        "brkga": [0.0, 0.0],
        "regal": regal,
        "regal-average": average,
        "regal-untrained": [0.0, 0.1],
    }
    actual = {
        "schema": "learned-mapping/regal-training/1",
        "curve": curve,
        "dataset": dataset,
        "seed": seed,
    }
    return actual | {"validation": {"log_ratio_to_brkga": ratios}}


def test_improvements_are_over_trainings_then_graphs(tmp_path, monkeypatch):
    """Catches the sign turned round, datasets mixed, graphs of two trainings counted as four, and
    ends exchanged."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    assert training_records() == [] and list(validation_rows([])) == []
    half = float(np.log(0.5))
    for actual in (record("synthetic-runtime", 1, [half, 0.0], [0.0, 0.0]),
                  record("traced-memory", 0, [0.1, 0.1], [0.1, 0.1]),
                  record("synthetic-runtime", 0, [half, 0.0], [half, 0.0])):  # fmt: skip
        name = f"reinforce-{actual['dataset']}-{actual['seed']}.json"
        del actual["dataset"], actual["seed"]  # the file's name says them
        write_json(data_folder() / "training" / "regal" / name, actual)
    records = training_records()
    assert [(r["dataset"], r["seed"]) for r in records] == [
        ("traced-memory", 0), ("synthetic-runtime", 0), ("synthetic-runtime", 1),
    ]  # fmt: skip
    rows = {(row["instance"], row["against"]): row for row in validation_rows(records)}
    best = rows["synthetic-runtime", "brkga"]
    assert (
        best["value"] == pytest.approx(100 * (1 - 0.5**0.5))
        and best["n"] == 2
        and best["training_seeds"] == 2
    )
    assert best["low"] == pytest.approx(0, abs=1e-9) and best["high"] == pytest.approx(50)
    assert rows["synthetic-runtime", "regal-average"]["value"] == pytest.approx(
        100 * (1 - 0.5**0.25)
    )
    assert rows["traced-memory", "brkga"]["value"] == pytest.approx(100 * (1 - np.exp(0.1)))
    assert rows["traced-memory", "regal-average"]["value"] == pytest.approx(0)


def test_a_line_for_each_seed_at_its_cpu_seconds():
    """Catches rows without a gap drawn, seeds of one dataset in another's panel, and the laws
    exchanged."""
    zero = [0.0, 0.0]
    records = [record("traced-runtime", 0, zero, zero), record("synthetic-runtime", 0, zero, zero),
               record("synthetic-runtime", 1, zero, zero)]  # fmt: skip
    one, two = learning_curves(records).axes
    drawn = [
        [line.get_xydata().tolist() for line in panel.lines if len(line.get_xdata())]
        for panel in (one, two)
    ]
    assert drawn[0] == [[[1, 9], [30, 3]], [[1, 9.5], [30, 8]], [[1, 10], [30, 10]]]
    assert len(drawn[1]) == 6 and drawn[1][3] == [[1, 10], [30, 4]]


def test_a_record_is_of_the_network_that_lies_beside_it(tmp_path, monkeypatch):
    """Catches a training that dies between its network and its record, whose old record then
    speaks of a network that is gone; the next run ends whole."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    folder, records = tmp_path / "checkpoints" / "regal", tmp_path / "training" / "regal"
    network = folder / "reinforce-traced-runtime-0.npz"
    records.parent.mkdir(parents=True)
    records.symlink_to(folder)

    def train(seed: int) -> None:
        write_checkpoint(network, {"w": np.full(3, seed)}, {})
        command.write_record(network, updates=seed)

    train(1)
    assert [record["updates"] for record in training_records()] == [1]
    with monkeypatch.context() as dying:
        dying.setattr(command, "write_json", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(2)
    with pytest.raises(InputError, match="is of another network than") as refused:
        training_records()
    assert "\n" not in str(refused.value)
    train(2)
    assert [record["updates"] for record in training_records()] == [2]


def test_the_card_has_the_checksums_of_its_records_and_these_their_networks():
    """Catches a record that was made anew and left its former checksum in the card, or the former
    network."""
    folder = data_folder() / "training"
    listed = dict(re.findall(r"`(\S+\.json)` `([0-9a-f]{64})`", (folder / "README.md").read_text()))
    assert listed == {str(p.relative_to(folder)): file_sha256(p) for p in folder.glob("*/*.json")}
    for path in folder.glob("regal/*.json"):
        network = data_folder() / "checkpoints" / "regal" / f"{path.stem}.npz"
        if network.exists():
            assert json.loads(path.read_text())["network"] == file_sha256(network)[:16], path
