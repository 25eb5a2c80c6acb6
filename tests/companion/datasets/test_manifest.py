"""Manifests: what is written is read back, and whatever is wrong with one is named."""

import copy
import json
from dataclasses import replace

import pytest
from learned_mapping_builders.building import write_manifest

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import Node
from learned_mapping_companion.datasets.manifest import (
    Item,
    Manifest,
    manifest_from_json,
    read_manifest,
)

A, B, C = "a" * 64, "b" * 64, "c" * 64
MANIFEST = Manifest(
    "some-set",
    "Two graphs.",
    3,
    (
        Item(
            "one",
            A,
            "train",
            "train/one.json.gz",
            B,
            {"ops": 3, "layout_file": "one.layout.json", "layout_sha256": C},
        ),
        Item("two", B, "test", facts={"options": {"blocks": [1, 2]}}),
    ),
    {"chips": 36},
)
VALID = {
    "schema": "learned-mapping/dataset/1",
    "set": "some-set",
    "about": "Two graphs.",
    "seed": None,
    "facts": {},
    "items": [
        {
            "name": "one",
            "split": "train",
            "digest": A,
            "file": "one.json.gz",
            "sha256": B,
            "ops": 3,
        },
        {"name": "two", "split": None, "digest": B, "file": None, "sha256": None},
    ],
}


def test_a_manifest_reads_back_and_its_text_is_stable(tmp_path):
    """Would catch a field lost or changed on the way, and a text that differs from one writing to
    the next."""
    write_manifest(tmp_path / "a.json", MANIFEST)
    again = read_manifest(tmp_path / "a.json")
    assert again == MANIFEST
    write_manifest(tmp_path / "b.json", again)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    empty = Manifest("none", "Nothing.", None, ())
    write_manifest(tmp_path / "c.json", empty)
    assert read_manifest(tmp_path / "c.json") == empty


def test_further_files_are_files_of_the_item():
    """Would catch a companion file that verification never looks at."""
    assert MANIFEST.files == {"train/one.json.gz": B, "one.layout.json": C}


def test_the_digest_follows_content_alone():
    """Would catch a digest that stays when an item changes, or that changes with a file's
    compression or a fact."""
    first, second = MANIFEST.items
    for changed in (
        replace(first, name="uno"),
        replace(first, split="test"),
        replace(first, digest=C),
    ):
        assert replace(MANIFEST, items=(changed, second)).digest != MANIFEST.digest
    assert replace(MANIFEST, items=(second, first)).digest != MANIFEST.digest
    unchanged = replace(first, sha256=A, file="x.json", facts={})
    assert replace(MANIFEST, items=(unchanged, second)).digest == MANIFEST.digest


def test_items_are_found_by_name_and_split():
    assert MANIFEST.item("two").digest == B and MANIFEST.split("train") == MANIFEST.items[:1]
    with pytest.raises(InputError, match="no such item"):
        MANIFEST.item("three")


FAULTS = [
    (("set",), None, "set"),
    (("about",), "", "about"),
    (("seed",), -1, "seed"),
    (("seed",), [1, 2], "seed"),
    (("facts",), [], "facts"),
    (("items",), {}, "items"),
    (("items", 0, "name"), 3, "items[0].name"),
    (("items", 1, "name"), "one", "items[1].name"),
    (("items", 0, "split"), "holdout", "items[0].split"),
    (("items", 0, "digest"), "abc", "items[0].digest"),
    (("items", 0, "digest"), "A" * 64, "items[0].digest"),
    (("items", 0, "sha256"), None, "items[0]"),
    (("items", 1, "sha256"), A, "items[1]"),
    (("items", 0, "file"), "/etc/one.json", "items[0].file"),
    (("items", 0, "file"), "../one.json", "items[0].file"),
    (("items", 0, "file"), "a/../../one.json", "items[0].file"),
    (("items", 0, "file"), "a\\one.json", "items[0].file"),
    (("items", 0, "file"), "./one.json", "items[0].file"),
    (("items", 0, "file"), "one.pickle", "items[0].file"),
    (("items", 0, "file"), "manifest.json", "items[0].file"),
    (("items", 0, "extra_file"), "one.json.gz", "items[0]"),
]


@pytest.mark.parametrize(("place", "value", "field"), FAULTS)
def test_a_fault_is_named(place, value, field):
    """Would catch a hostile or careless manifest that is believed: above all a path that leaves the
    folder."""
    node = copy.deepcopy(VALID)
    target = node
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    with pytest.raises(InputError) as caught:
        manifest_from_json(Node(node, "m.json"))
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["name", "split", "digest", "file", "sha256"])
def test_a_missing_field_is_named(missing):
    node = copy.deepcopy(VALID)
    del node["items"][1][missing]
    with pytest.raises(InputError, match=missing):
        manifest_from_json(Node(node, "m.json"))


def test_one_file_cannot_stand_for_two_items():
    """Would catch two items that share a file, by its own field or as a further file."""
    node = copy.deepcopy(VALID)
    node["items"][1] |= {"file": "one.json.gz", "sha256": B}
    with pytest.raises(InputError, match="listed twice"):
        manifest_from_json(Node(node, "m.json"))
    node = copy.deepcopy(VALID)
    node["facts"] = {"index_file": "one.json.gz", "index_sha256": B}
    with pytest.raises(InputError, match="listed twice"):
        manifest_from_json(Node(node, "m.json"))


def test_nothing_is_written_that_would_not_read_back(tmp_path):
    """Would catch a manifest on disk that only fails when somebody reads it."""
    bad = replace(MANIFEST, items=(replace(MANIFEST.items[0], facts={"share": float("nan")}),))
    with pytest.raises(InputError, match="NaN"):
        write_manifest(tmp_path / "m.json", bad)
    with pytest.raises(InputError, match="listed twice"):
        write_manifest(tmp_path / "m.json", replace(MANIFEST, items=MANIFEST.items[:1] * 2))
    assert list(tmp_path.iterdir()) == []


def test_a_torn_file_is_an_error_of_one_line(tmp_path):
    """Would catch a truncated manifest read as a shorter one."""
    write_manifest(tmp_path / "m.json", MANIFEST)
    whole = (tmp_path / "m.json").read_text()
    for length in range(0, len(whole.rstrip()), 37):
        (tmp_path / "m.json").write_text(whole[:length])
        with pytest.raises(InputError) as caught:
            read_manifest(tmp_path / "m.json")
        assert "\n" not in str(caught.value) and "m.json" in str(caught.value)
    assert json.loads(whole)["set"] == "some-set"
