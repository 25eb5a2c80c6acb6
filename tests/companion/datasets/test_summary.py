"""What the book says about the sets, counted by hand on a small one."""

from learned_mapping_companion.datasets.manifest import Item, Manifest, by_split, families
from learned_mapping_companion.datasets.registry import stored_bytes, stored_manifests

DIGEST = "0" * 64
MANIFEST = Manifest(
    "toy",
    "Four graphs.",
    None,
    (
        Item("a", DIGEST, "test", facts={"ops": 7, "family": "gru"}),
        Item("b", DIGEST, "train", facts={"ops": 5, "family": "vgg"}),
        Item("c", DIGEST, "train", facts={"ops": 20, "family": "vgg"}),
        Item("d", DIGEST, "train", facts={"ops": 11, "family": "lstm"}),
        Item("e", DIGEST, facts={"edges": 3}),
    ),
)


def test_sizes_by_split():
    """Would catch items counted in another split, and splits out of order."""
    assert {split: list(sizes) for split, sizes in by_split(MANIFEST, "ops").items()} == {
        "train": [5, 20, 11],
        "test": [7],
    }
    assert list(by_split(MANIFEST, "edges")) == ["all"]


def test_families_by_split():
    assert families(MANIFEST) == {"train": {"vgg": 2, "lstm": 1}, "test": {"gru": 1}}
    assert list(families(MANIFEST)["train"]) == ["vgg", "lstm"]


def test_stored_sets_have_sizes():
    """Would catch a set the book's table could not show: no manifest read, or no bytes counted."""
    manifests = stored_manifests()
    assert {"graphs", "programs", "regal-graphs"} <= set(manifests)
    assert len(by_split(manifests["graphs"], "ops")["all"]) == len(manifests["graphs"].items)
    assert stored_bytes("graphs") > 50_000
