"""Stored runs computed again: which can be, and what is said of one that ends differently."""

import json

import pytest

from companion.toy import TOY, install
from learned_mapping.cli import main
from learned_mapping.problem import EXACT, OURS, PAPER, RULE, problem
from learned_mapping_companion import fingerprints, ledger, results
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.worker import SINGLE_THREAD

ROOMS = {
    "mmap": "mmap.map",
    "mcm": "mcm.solve",
    "silicon": "silicon.solve",
    "regal": "regal.schedule",
}


@pytest.mark.parametrize(("room", "task"), ROOMS.items())
def test_every_learner_turns_on_last_bits_and_no_rule_does(room, task):
    """Would catch a learner that is compared bit by bit on a processor that rounds otherwise, or a
    rule that is not."""
    for name, method in problem(room).methods("quick").items():
        turns = fingerprints.turns_on_last_bits(Run(task, name, "any"))
        if method.kind in (PAPER, OURS):
            assert turns, f"{name} learns"
        if method.kind in (RULE, EXACT):
            assert not turns, name


def test_a_networks_run_is_compared_on_its_own_processor_alone(monkeypatch):
    """Would catch a record of no or another processor that is held to this one's last bits, and one
    of this that is left out."""
    made_here = {"task": "mcm.solve", "method": "rl", "instance": "any", "config": {}, "seed": 0}
    monkeypatch.setattr(ledger, "cpu_model", lambda: "here")
    assert not ledger.of_another_processor(made_here | {"cpu": "here"})
    assert ledger.of_another_processor(
        made_here | {"cpu": "there"}
    ) and ledger.of_another_processor(made_here)
    assert not ledger.of_another_processor(made_here | {"method": "sa", "cpu": "there"})


def test_every_stored_run_is_drawn_or_counted():
    records, elsewhere = ledger.choose(10**6, 0)
    assert len(records) > 2000 and elsewhere > 500
    assert not any(map(ledger.of_another_processor, records))


@pytest.fixture
def toy(own_folders, tmp_path, monkeypatch):
    """A stored result of fifteen squares; returns the file of its records."""
    monkeypatch.setattr(fingerprints, "current", lambda: {"companion.run_functions:square": "one"})
    for name, value in SINGLE_THREAD.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "data").mkdir()
    install(monkeypatch, TOY)
    results.make(TOY, "full", progress=False)
    return results.runs_path("toy.table")


def test_verify_computes_again_and_names_what_differs(toy, capsys):
    """Would catch a comparison that cannot fail."""
    assert main(["verify", "--sample", "3"]) == 0
    assert "3 of 3 equal" in capsys.readouterr().out
    lines = [json.loads(line) for line in toy.read_text().splitlines()]
    for line in lines:
        line["result"]["square"] += 1
    toy.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["verify", "--sample", "3"]) == 1
    said = capsys.readouterr().out
    assert "0 of 3 equal" in said and "result.square is" in said
