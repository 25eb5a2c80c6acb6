"""Figure 9: its numbers are those of the stored programs, and every workload is in it once."""

import pytest
from learned_mapping_builders.building import write_manifest
from learned_mapping_builders.workloads import WORKLOADS

from learned_mapping.errors import InputError
from learned_mapping_companion.artifact import reported
from learned_mapping_companion.datasets.manifest import Item, Manifest
from learned_mapping_companion.mmap import facts as mmap_data


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Stores a manifest of compiled programs: name -> its facts."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    (tmp_path / "compiled").mkdir()

    def store(**facts: dict) -> None:
        items = tuple(Item(name, "0" * 64, facts=item) for name, item in facts.items())
        write_manifest(
            tmp_path / "compiled" / "manifest.json", Manifest("compiled", "Some.", None, items)
        )

    return store


def test_every_workload_has_a_family():
    """Would catch a family's name that no workload bears (a typing error makes it convolutional),
    or two families."""
    listed = [name for names in mmap_data.FAMILIES.values() for name in names]
    assert len(set(listed)) == len(listed) and set(listed) <= set(WORKLOADS)
    models = {mmap_data.family(name): set() for name in WORKLOADS}
    for name, workload in WORKLOADS.items():
        models[mmap_data.family(name)].add(workload.model)
    kinds = list(models.values())
    assert len(kinds) == 4 and not any(a & b for a in kinds for b in kinds if a is not b)
    assert mmap_data.family("gmlp_inference") == ""  # one of the twelve, each of its own family


def test_the_papers_numbers_are_those_of_the_workloads():
    """Would catch two numbers of the paper's for one program."""
    known = {
        name: item.paper_buffers
        for name, item in WORKLOADS.items()
        if item.paper_buffers is not None
    }
    printed = {row["instance"]: row["value"] for row in reported("mmap.fig9")}
    assert known == {
        name: value for name, value in printed.items() if name not in ("smallest", "largest")
    }


def test_a_program_without_a_number_is_named(stored):
    stored(rnn_0={})
    with pytest.raises(InputError, match="rnn_0"):
        mmap_data.FIG9.result([])
