"""Fresh means behaves the same: what a refactoring changes, and what a constant does."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from learned_mapping.errors import InputError, MissingNetworkError
from learned_mapping_companion import fingerprints
from learned_mapping_companion.artifact import Run

PROJECT = Path(__file__).resolve().parents[2]
WATCHED = ("mcm/greedy-naive", "mcm/greedy-careful", "mcm/optimum", "regal/gp-dfs")
LINK = "link_bytes_per_s: Each = "
"""How fast a tensor moves between chips: a part of what paper 2 rewards, and nothing to paper 3."""


@pytest.fixture
def copy(tmp_path):
    """The package and its frozen instances, to be changed."""
    shutil.copytree(PROJECT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "data" / "fingerprints", tmp_path / "data" / "fingerprints")
    return tmp_path


def changed(copy: Path) -> set[str]:
    """Which of the watched methods behave differently in the copy."""
    command = [sys.executable, "-m", "learned_mapping", "fingerprint", "--check", *WATCHED]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "LEARNED_MAPPING_DATA": str(copy / "data"),
    }
    environment["NUMBA_DISABLE_JIT"] = "1"  # the instances are small; compiling takes longer
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return {line for line in run.stdout.split() if line in WATCHED}


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path} has no {old!r} to change"
    path.write_text(text.replace(old, new))


def test_a_refactoring_changes_nothing_and_a_constant_its_methods_only(copy):
    """A function renamed, a file moved and definitions reordered must not cost hours of runs; a
    cost must."""
    package = copy / "src" / "learned_mapping"
    searches = package / "mcm" / "searches"
    for path in package.rglob("*.py"):
        text = path.read_text()
        new = text.replace("careful_greedy", "balanced_greedy").replace(
            "mcm.searches.greedy", "mcm.searches.rules"
        )
        path.write_text(new)
    (searches / "greedy.py").rename(searches / "rules.py")
    head, *functions = (searches / "rules.py").read_text().split("\n\n\ndef ")
    (searches / "rules.py").write_text("\n\n\ndef ".join([head, *reversed(functions)]))
    replaced(
        package / "mcm" / "methods.py", "fills chip after chip", "fills one chip after the other"
    )
    assert changed(copy) == set(), "neither names, places, an order nor a description are behaviour"
    replaced(package / "hardware" / "chip_package.py", LINK, f"{LINK}1e-3 * ")
    assert changed(copy) == {key for key in WATCHED if key.startswith("mcm/")}


def test_keys_name_the_problem_and_the_method():
    assert (
        fingerprints.key_of(Run("regal.schedule", "regal-imitation:traced-runtime-1", "x"))
        == "regal/regal-imitation"
    )
    assert fingerprints.key_of(Run("silicon.solve", "sa", "x")) == "silicon/sa"
    assert fingerprints.key_of(Run("mmap.bound", "bound", "x")) == "mmap.bound"


def test_a_checkpoint_is_part_of_the_fingerprint(tmp_path, monkeypatch):
    """Another network under the same name must not pass for the one that was measured."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    (tmp_path / "checkpoints" / "mcm").mkdir(parents=True)
    (tmp_path / "checkpoints" / "mcm" / "chips.npz").write_bytes(b"one")
    fingerprints.store(
        {"mcm/finetune": {"costs": [1.0], "version": 1}, "mcm/rl": {"costs": [1.0], "version": 1}}
    )
    before = fingerprints.current()
    (tmp_path / "checkpoints" / "mcm" / "chips.npz").write_bytes(b"other")
    after = fingerprints.current()
    assert after["mcm/finetune"] != before["mcm/finetune"] and after["mcm/rl"] == before["mcm/rl"]


def test_the_network_of_another_policy_is_no_part_of_it(tmp_path, monkeypatch):
    """Catches results of one policy that go stale, or stay fresh, by the training of another."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    folder = tmp_path / "checkpoints" / "mcm"
    folder.mkdir(parents=True)
    for name in ("chips-0", "moves-0"):
        (folder / f"{name}.npz").write_bytes(b"one")
    keys = [f"mcm/{kind}{end}" for kind in ("zeroshot", "finetune") for end in ("", "-balanced")]
    fingerprints.store({key: {"costs": [1.0], "version": 1} for key in keys})
    before = fingerprints.current()
    (folder / "moves-0.npz").write_bytes(b"other")
    after = fingerprints.current()
    changed = [key for key in keys if after[key] != before[key]]
    assert changed == ["mcm/zeroshot-balanced", "mcm/finetune-balanced"]


def test_a_version_by_hand_makes_a_new_fingerprint(tmp_path, monkeypatch):
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    collected = []
    for version in (1, 2):
        fingerprints.store({"mcm/rl": {"costs": [1.0], "version": version}})
        collected.append(fingerprints.current()["mcm/rl"])
    assert collected[0] != collected[1]


def test_a_method_without_its_network_is_left_out(tmp_path, monkeypatch):
    """Training takes hours and comes later: all others are measured; asked for by name, it says
    what is missing."""
    monkeypatch.setattr(fingerprints, "_known", lambda: ["regal/gp-list", "regal/regal"])
    shutil.copytree(PROJECT / "data" / "fingerprints", tmp_path / "fingerprints")
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    assert list(fingerprints.measure()) == ["regal/gp-list"]
    with pytest.raises(
        MissingNetworkError, match=r"no network is named 'reinforce-[a-z]+-runtime-0'"
    ):
        fingerprints.measure(["regal/regal"])


def test_two_processes_that_store_fingerprints_keep_both(tmp_path, monkeypatch):
    """Catches a table that is read before another process has written to it, and written after."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    fingerprints.store({"a/a": {"costs": 1, "version": 1}})
    other = threading.Thread(
        target=fingerprints.store,
        args=[{"b/b": {"costs": 2, "version": 1}}],
        kwargs={"only_these": False},
    )
    held = os.open(fingerprints.path().parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # of a process that writes
    other.start()
    other.join(0.2)
    assert other.is_alive() and set(fingerprints.entries()) == {"a/a"}
    text = fingerprints.path().read_text().replace("a/a", "c/c")
    fingerprints.path().write_text(text)
    os.close(held)
    other.join(10)
    assert set(fingerprints.entries()) == {"b/b", "c/c"}


def test_clocks_are_no_behaviour():
    value = {
        "cost": 1,
        "seconds": 2.0,
        "curve": {"x": [0.1], "y": [1]},
        "each": [{"seconds": 3, "train_seconds": 4}],
    }
    assert fingerprints.without_clocks(value) == {"cost": 1, "curve": {"y": [1]}, "each": [{}]}


def test_an_unknown_key_is_named():
    with pytest.raises(InputError, match="mcm/nothing"):
        fingerprints.measure(["mcm/nothing"])
