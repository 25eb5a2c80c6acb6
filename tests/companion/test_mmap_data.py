"""Figure 9: which file its numbers come from, and that every workload is in it once."""

from __future__ import annotations

import json

import pytest

from learned_mapping.companion import results
from learned_mapping.companion.datasets.manifest import Item, Manifest, write_manifest
from learned_mapping.companion.datasets.registry import builder
from learned_mapping.companion.mmap import data as mmap_data
from learned_mapping.errors import InputError

WORKLOADS = builder("workloads").WORKLOADS


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with a record of two compilations."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    rows = [{"name": "AlphaTensor", "buffers": 9000}, {"name": "rnn_0", "buffers": 200}]
    (tmp_path / "workloads").mkdir()
    record = {"schema": "learned-mapping/compiled-workloads/1", "compiler": "c", "jax": "j", "workloads": rows}
    (tmp_path / "workloads" / "compiled.json").write_text(json.dumps(record))
    return tmp_path


def test_every_workload_has_a_family():
    """Would catch a family's name that no workload bears (a typing error makes it convolutional), or two families."""
    listed = [name for names in mmap_data.FAMILIES.values() for name in names]
    assert len(set(listed)) == len(listed) and set(listed) <= set(WORKLOADS)
    models = {mmap_data.family(name): set() for name in WORKLOADS}
    for name, workload in WORKLOADS.items():
        models[mmap_data.family(name)].add(workload.model)
    kinds = list(models.values())
    assert len(kinds) == 4 and not any(a & b for a in kinds for b in kinds if a is not b)


def test_the_stored_result_is_that_of_the_stored_data():
    """Would catch a figure of data that have since been rebuilt."""
    stored = results.load("mmap.fig9")
    fresh = mmap_data.assemble_fig9("full", [])
    assert stored["rows"] == fresh["rows"] and stored["paper"] == fresh["paper"]
    assert {row["instance"] for row in stored["rows"]} == set(WORKLOADS)


def test_the_papers_numbers_are_those_of_the_workloads():
    """Would catch two numbers of the paper's for one program."""
    known = {name: each.paper_buffers for name, each in WORKLOADS.items() if each.paper_buffers is not None}
    assert known == mmap_data.PAPER_BUFFERS


def test_rows_are_sorted_and_of_their_family(data):
    assembled = mmap_data.assemble_fig9("quick", [])
    assert [(row["instance"], row["value"]) for row in assembled["rows"]] == [("rnn_0", 200), ("AlphaTensor", 9000)]
    assert [row["family"] for row in assembled["rows"]] == ["recurrent", "attention"]


def test_the_stored_programs_come_before_the_record(data):
    """Would catch a figure that goes on showing the record once the programs themselves are there."""
    path = data / "compiled" / "manifest.json"
    item = Item("rnn_0", "0" * 64, facts={"buffers": 210})
    write_manifest(path, Manifest("compiled", "One.", None, (item,)))
    assert mmap_data.buffer_counts() == {"rnn_0": 210}
    write_manifest(path, Manifest("compiled", "One.", None, (Item("rnn_0", "0" * 64),)))
    with pytest.raises(InputError, match="rnn_0"):
        mmap_data.buffer_counts()


def test_a_damaged_record_is_named(data):
    path = data / "workloads" / "compiled.json"
    path.write_text(path.read_text().replace("200", "-1"))
    with pytest.raises(InputError, match="buffers"):
        mmap_data.buffer_counts()
