"""The sets: registered, stored with a card each, and exchanged whole when they are built."""

import json
import os
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from learned_mapping_builders import building, regal_graphs, verify
from learned_mapping_builders.building import build_in

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import file_sha256
from learned_mapping_companion.datasets import registry
from learned_mapping_companion.datasets.manifest import FILE_NAME, SPLITS, Item, Manifest
from learned_mapping_companion.datasets.registry import SETS, DataSet, builder, find_set, find_sets
from learned_mapping_companion.regal.graphs import graph_names

STORED = [item for item in SETS.values() if (item.path / FILE_NAME).exists()]


def test_no_set_lies_inside_another():
    """Would catch a set whose files are strays of another, and one rebuilt away with another."""
    folders = [PurePosixPath(item.folder) for item in SETS.values()]
    assert len(set(folders)) == len(folders)
    assert not any(a in b.parents for a in folders for b in folders)


@pytest.mark.parametrize("chosen", STORED, ids=lambda item: item.name)
def test_a_card_says_what_must_be_said_and_counts_right(chosen):
    """Would catch a set without a card, a card that lacks a part, and a count that the set has
    outgrown."""
    card = (chosen.path / "README.md").read_text()
    for word in ("ource", "enerator", "nits", "icence", "hecksum"):
        assert word in card, word
    manifest = chosen.manifest()
    counts = [len(manifest.split(split)) for split in (*SPLITS, None)]
    for count in filter(None, counts):
        assert f"{count:,}" in card or str(count) in card, count


@pytest.mark.parametrize("chosen", STORED, ids=lambda item: item.name)
def test_the_registry_and_the_manifest_agree(chosen):
    """Would catch a manifest of another set, and two sentences about one set."""
    manifest = chosen.manifest()
    assert (manifest.set, manifest.about) == (chosen.name, chosen.about)


def test_paper_3s_graphs_are_those_of_its_tables():
    """Would catch a graph added to one list only; the stored tables rest on the other."""
    assert {split: tuple(members) for split, members in regal_graphs.MEMBERS.items()} == {
        split: graph_names("traced", split) for split in ("test", "train")
    }


def test_paper_3s_graphs_are_what_the_code_makes():
    """Would catch a stored graph that no longer follows from the code; a few, since all would take
    seconds."""
    manifest = SETS["regal-graphs"].manifest()
    for split, name in (("test", "squeezenet"), ("train", "lenet"), ("train", "gru-2x5")):
        assert regal_graphs.make(split, name).digest == manifest.item(name).digest


def test_unknown_sets_are_refused_and_no_name_means_all():
    assert find_sets([]) == tuple(SETS.values())
    assert find_sets(["graphs", "graphs"]) == (SETS["graphs"],)
    with pytest.raises(InputError, match="regal-graphs"):
        find_set("no-such-set")


def test_without_the_checkout_nothing_is_built(monkeypatch, tmp_path):
    """Would catch an import error's traceback in an installed package."""
    monkeypatch.setattr(registry, "project_folder", lambda: tmp_path)
    monkeypatch.setattr(registry, "BUILDERS", "no_builders_yet")
    with pytest.raises(InputError, match="in a checkout of the project"):
        builder("zoo_sets")


class Toy:
    """Stands for a set's module: writes one file, or fails after it."""

    def __init__(self, text: str, fails: bool = False):
        self.text, self.fails = text, fails

    def build(self, folder: Path, *, progress=None) -> Manifest:
        assert folder.parent.name.startswith(registry.SCRATCH)
        (folder / "x.json").write_text(self.text)
        if self.fails:
            raise KeyboardInterrupt
        return Manifest(
            "toy",
            "A toy.",
            None,
            (Item("x", "0" * 64, None, "x.json", file_sha256(folder / "x.json")),),
        )


TOY = DataSet("toy", "toy", "A toy.", "toy.build")


def build(monkeypatch, toy: Toy, target: Path) -> Manifest:
    monkeypatch.setattr(registry, "builder", lambda name: toy)
    return build_in(TOY, target)


def test_a_set_is_replaced_whole_and_its_card_stays(monkeypatch, tmp_path):
    """Would catch old files left among new ones, a lost card, and scratch folders left behind."""
    target = tmp_path / "toy"
    build(monkeypatch, Toy("one"), target)
    (target / "README.md").write_text("card")
    (target / "left_over.json").write_text("{}")
    manifest = build(monkeypatch, Toy("two"), target)
    assert sorted(path.name for path in target.iterdir()) == [
        "README.md",
        "manifest.json",
        "x.json",
    ]
    assert (target / "x.json").read_text() == "two" and (target / "README.md").read_text() == "card"
    assert (
        json.loads((target / "manifest.json").read_text())["items"][0]["sha256"]
        == manifest.items[0].sha256
    )
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_an_interrupted_build_leaves_what_was_there(monkeypatch, tmp_path):
    """Would catch a half-written set."""
    target = tmp_path / "toy"
    build(monkeypatch, Toy("one"), target)
    with pytest.raises(KeyboardInterrupt):
        build(monkeypatch, Toy("two", fails=True), target)
    assert (target / "x.json").read_text() == "one" and [
        path.name for path in tmp_path.iterdir()
    ] == ["toy"]


def test_a_failed_exchange_puts_the_old_set_back(monkeypatch, tmp_path):
    """Would catch a set that is gone because its successor could not be moved into place."""
    target = tmp_path / "toy"
    build(monkeypatch, Toy("one"), target)
    calls = []

    def fails_once(source, destination):
        calls.append(Path(source).name)
        if calls == ["toy", "new"]:
            raise OSError(28, "No space left on device")
        os.replace(source, destination)

    monkeypatch.setattr(building, "os", SimpleNamespace(**vars(os) | {"replace": fails_once}))
    with pytest.raises(InputError, match="No space left"):
        build(monkeypatch, Toy("two"), target)
    assert (target / "x.json").read_text() == "one" and calls == ["toy", "new", "old"]


def test_sizes_are_bounded(monkeypatch, tmp_path):
    """Would catch data that outgrows the repository, file by file or together."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    (tmp_path / "big.json").write_bytes(bytes(60))
    (tmp_path / "small.json").write_bytes(bytes(10))
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", 50)
    monkeypatch.setattr(verify, "MAX_TOTAL_BYTES", 70)
    assert [fault.split(":")[0] for fault in verify.verify_sizes().faults] == ["big.json"]
    monkeypatch.setattr(verify, "MAX_TOTAL_BYTES", 69)
    assert [fault.split(":")[0] for fault in verify.verify_sizes().faults] == [
        "big.json",
        "all files",
    ]
