"""``lmap data``: what is listed, what building says, and that verification finds every kind of
damage."""

import gzip
import json
from types import SimpleNamespace

import pytest
from learned_mapping_builders.building import Items, build_in, write_manifest

import cli_files
from cli_files import GRAPH, one_line
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.json_io import file_sha256, write_json
from learned_mapping_companion.datasets import registry
from learned_mapping_companion.datasets.manifest import Manifest, read_manifest
from learned_mapping_companion.datasets.registry import DataSet

ABOUT = "One graph."
TOY = DataSet("toy", "toys/graphs", ABOUT, "toy.build", records=("checks.json",))
TPU = DataSet("compiled-toy", "toys/compiled", ABOUT, "toy.build", needs_extra="tpu")


class ToyModule:
    """Stands for the module of both sets."""

    @staticmethod
    def build(folder, *, progress=None) -> Manifest:
        items = Items(folder, 1, progress)
        write_json(folder / "given.json", GRAPH)
        graph = read_graph(folder / "given.json")
        (folder / "given.json").unlink()
        write_json(folder / "layout.json", {"schema": "learned-mapping/layout/1"})
        layout = {
            "layout_file": "layout.json",
            "layout_sha256": file_sha256(folder / "layout.json"),
        }
        items.add("test/g.json.gz", graph, split="test", ops=graph.num_ops, **layout)
        return Manifest("toy", ABOUT, None, tuple(items))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with one set, built."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(registry, "SETS", {item.name: item for item in (TOY, TPU)})
    real = registry.builder
    monkeypatch.setattr(
        registry, "builder", lambda name: ToyModule if name == "toy" else real(name)
    )
    build_in(TOY, TOY.path)
    return tmp_path / "data"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    return cli_files.run(capsys, "data", *arguments)


def test_list_has_a_row_per_set(capsys, data):
    """Would catch a set left out because it is not there, and counts or bytes that are not the
    files'."""
    code, out, _err = run(capsys)
    assert code == 0 and "test 1" in out and "not built" in out
    report = json.loads(run(capsys, "list", "toy", "--json")[1])
    (row,) = report["sets"]
    size = sum(path.stat().st_size for path in data.rglob("*.json*"))
    assert (row["items"], row["splits"], row["files"], row["bytes"]) == (1, {"test": 1}, 3, size)
    assert (
        row["digest"] == read_manifest(TOY.path / "manifest.json").digest
        and report["all_bytes"] == size
    )


def test_files_are_listed_one_by_one(capsys, data):
    """Would catch a file outside the sets that no listing shows."""
    write_json(data / "other" / "tuning.json", {"schema": "learned-mapping/tuning/1"})
    files = {
        row["file"]: row
        for row in json.loads(run(capsys, "verify", "--files", "--json")[1])["files"]
    }
    assert files["other/tuning.json"]["kind"] == "tuning"
    assert files["toys/graphs/test/g.json.gz"]["digest"] == TOY.manifest().items[0].digest[:16]
    assert "other" not in run(capsys, "list", "toy", "--files")[1]


def test_building_says_whether_anything_changed(capsys, data, tmp_path):
    """Would catch a rebuild that reports a changed set as the same, or builds elsewhere than
    asked."""
    assert json.loads(run(capsys, "build", "toy", "--json")[1])["sets"][0]["state"] == "same"
    before = (TOY.path / "manifest.json").read_text()
    code, out, _err = run(capsys, "build", "toy", "--out", str(tmp_path / "elsewhere"))
    assert code == 0 and out.startswith("toy: same")
    assert (tmp_path / "elsewhere" / "toys" / "graphs" / "manifest.json").read_text() == before
    (TOY.path / "manifest.json").write_text(before.replace(GRAPH["name"], "another"))
    assert run(capsys, "build", "toy")[1].startswith("toy: changed")
    (TOY.path / "manifest.json").write_text(before[:50])
    assert run(capsys, "build", "toy")[1].startswith("toy: new")
    assert run(capsys, "verify", "toy")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build"], "name the sets"),
        (["build", "no-such-set"], "toy, compiled-toy"),
        (["list", "no-such-set"], "toy, compiled-toy"),
        (["verify", "toy", "no-such-set"], "toy, compiled-toy"),
        (["verify", "toy", "--out", "x"], "--out"),
        (["build", "toy", "--files"], "--files"),
    ],
)
def test_bad_usage_is_one_line(capsys, data, arguments, said):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and not out and said in one_line(err)


def test_a_missing_extra_is_one_line_and_nothing_is_built(capsys, data, monkeypatch):
    """Would catch the first of two sets rebuilt before the second turns out to be impossible."""
    from learned_mapping_builders.tpu import compiler as tpu_compiler

    nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(tpu_compiler, "importlib", nothing)
    (TOY.path / "test" / "g.json.gz").unlink()
    code, out, err = run(capsys, "build", "toy", "compiled-toy")
    assert code == 2 and not out and "'.[tpu]' in the checkout" in one_line(err)
    assert not (TOY.path / "test" / "g.json.gz").exists()


def test_another_ones_folder_is_not_replaced(capsys, data, tmp_path):
    """Would catch ``--out`` deleting what somebody keeps there."""
    target = tmp_path / "elsewhere" / "toys" / "graphs"
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("years of work")
    code, _out, err = run(capsys, "build", "toy", "--out", str(tmp_path / "elsewhere"))
    assert code == 2 and "not an empty folder" in one_line(err) and (target / "thesis.txt").exists()


def faults(capsys, *sets: str) -> list[str]:
    code, out, err = run(capsys, "verify", *sets, "--json")
    report = json.loads(out)
    assert not err and report["valid"] == (code == 0)
    return [fault for item in report["checked"] for fault in item["faults"]]


def test_an_untouched_set_is_as_stated(capsys, data):
    assert faults(capsys, "toy") == []
    code, out, _err = run(capsys, "verify", "toy")
    assert code == 0 and "as stated" in out


def test_a_tampered_file_is_found(capsys, data):
    """Would catch a file believed because it still reads: bytes, digest and name are compared one
    after the other."""
    file, listing = TOY.path / "test" / "g.json.gz", TOY.path / "manifest.json"
    manifest = TOY.manifest()
    graph = json.loads(gzip.decompress(file.read_bytes()))
    graph["ops"][0]["flop"] += 1
    write_json(file, graph)
    (fault,) = faults(capsys, "toy")
    assert fault.startswith("toys/graphs/test/g.json.gz: its SHA-256")
    (item,) = manifest.items
    moved = type(item)(item.name, item.digest, item.split, item.file, file_sha256(file), item.facts)
    write_manifest(listing, Manifest("toy", ABOUT, None, (moved,)))
    (fault,) = faults(capsys, "toy")
    assert "its digest is" in fault
    write_json(file, graph | {"ops": graph["ops"][:1]})
    moved = type(item)(item.name, item.digest, item.split, item.file, file_sha256(file), item.facts)
    write_manifest(listing, Manifest("toy", ABOUT, None, (moved,)))
    (fault,) = faults(capsys, "toy")
    assert "no op is named" in fault


def test_further_files_are_verified(capsys, data):
    """Would catch a companion file that may be changed or deleted unseen."""
    (TOY.path / "layout.json").write_text("{}")
    assert "layout.json: its SHA-256" in faults(capsys, "toy")[0]
    (TOY.path / "layout.json").unlink()
    assert "layout.json: no such file" in faults(capsys, "toy")[0]


def test_stray_and_missing_files_are_found(capsys, data):
    """Would catch a file that somebody dropped into a set, and one that is gone."""
    (TOY.path / "test" / "stray.json").write_text("{}")
    (TOY.path / "test" / "g.json.gz").unlink()
    assert faults(capsys, "toy") == [
        "toys/graphs/test/g.json.gz: no such file",
        "toys/graphs/test/stray.json: is not in the manifest",
    ]
    (TOY.path / "linked").symlink_to(data)
    (TOY.path / "broken").symlink_to(data / "nowhere")
    assert [fault.split(":")[0] for fault in faults(capsys, "toy")[1:3]] == [
        "toys/graphs/broken",
        "toys/graphs/linked",
    ]
    (TOY.path / "linked").unlink()
    (TOY.path / "broken").unlink()
    code, out, _err = run(capsys, "verify", "toy")
    assert code == 1 and "2 faults" in out and "toy: toys/graphs/test/stray.json" in out


def test_a_truncated_or_missing_manifest_is_found(capsys, data):
    """Would catch half a manifest read as a whole one, a set of another name, and a set that is not
    there."""
    path = TOY.path / "manifest.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    assert "not JSON" in faults(capsys, "toy")[0]
    code, _out, err = run(capsys, "list")
    assert code == 2 and "not JSON" in one_line(err)
    path.write_text(text.replace('"set": "toy"', '"set": "toyer"'))
    assert "is of the set 'toyer'" in faults(capsys, "toy")[0]
    path.unlink()
    assert faults(capsys, "toy") == ["toys/graphs/manifest.json: no such file"]
    assert faults(capsys, "compiled-toy") == ["toys/compiled/manifest.json: no such file"]


def test_a_record_about_a_set_is_no_stray_and_outlives_a_build(capsys, data):
    """Would catch hours of checks lost to a rebuild, and a torn record that is taken for whole."""
    write_json(TOY.path / "checks.json", {"schema": "learned-mapping/checks/1"})
    assert faults(capsys, "toy") == []
    assert run(capsys, "build", "toy")[0] == 0 and (TOY.path / "checks.json").exists()
    (TOY.path / "checks.json").write_text("{")
    assert "checks.json" in faults(capsys, "toy")[0]


def test_a_build_that_runs_at_the_same_time_is_not_looked_at(capsys, data):
    """Would catch half-written files reported as strays, or counted in the total."""
    before = json.loads(run(capsys, "list", "--json")[1])["all_bytes"]
    (data / "toys" / ".building-graphs.x" / "new").mkdir(parents=True)
    (data / "toys" / ".building-graphs.x" / "new" / "half.json").write_text("{")
    assert json.loads(run(capsys, "list", "--json")[1])["all_bytes"] == before
    assert not [fault for fault in faults(capsys) if "half" in fault]


def test_everything_else_is_verified_too(capsys, data):
    """Would catch a torn result, a record under another's name, a file of no kind, and a benchmark
    that is gone."""
    (data / "results" / "runs").mkdir(parents=True)
    (data / "results" / "x.y.json").write_text("{")
    write_json(
        data / "results" / "runs" / "x.y.jsonl", {"schema": "learned-mapping/run/1", "digest": "cd"}
    )
    (data / "other").mkdir()
    (data / "other" / "weights.pickle").write_bytes(b"")
    (data / "other" / "tuning.json").write_text("{}")
    (data / "other" / "README.md").write_text("card")
    actual = [fault for fault in faults(capsys) if not fault.startswith("toys/")]
    places = [fault.split(":")[0] for fault in actual]
    assert sorted(places) == [
        "bench/table.json",
        "other/tuning.json",
        "other/weights.pickle",
        "results/runs/x.y.jsonl",
        "results/x.y.json",
    ]
