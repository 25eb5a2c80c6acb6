"""The digest of sources: what it follows, what changes it, what does not."""

from __future__ import annotations

import pytest

from learned_mapping.companion import provenance
from learned_mapping.companion.artifact import registry


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of four modules: a imports b lazily, b imports c relatively, d stands alone."""
    folder = tmp_path / "learned_mapping"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "sub" / "__init__.py").write_text("")
    (folder / "a.py").write_text("def f():\n    from learned_mapping.sub import b\n    return b.x\n")
    (folder / "sub" / "b.py").write_text('"""Doc."""\nfrom ..c import y\nx = y + 1\n')
    (folder / "c.py").write_text("import numpy as np\ny = 1\n")
    (folder / "d.py").write_text("z = 1\n")
    monkeypatch.setattr(provenance, "PACKAGE_FOLDER", folder)

    caches = (provenance._tree, provenance._imports, provenance._code_digest, provenance._source_digest)

    def fresh_digest(*modules):
        for cached in caches:
            cached.cache_clear()
        return provenance.source_digest(modules)

    yield folder, fresh_digest
    for cached in caches:
        cached.cache_clear()


def test_closure_follows_lazy_relative_and_package_imports(package):
    closure = provenance.module_closure(["learned_mapping.a"])
    assert closure == {f"learned_mapping.{name}" for name in ("a", "sub", "sub.b", "c")}
    assert "learned_mapping.sub.b" in provenance.module_closure(["learned_mapping.sub"])


def test_a_change_anywhere_beneath_changes_the_digest(package):
    folder, digest = package
    before = digest("learned_mapping.a")
    (folder / "c.py").write_text("import numpy as np\ny = 2\n")
    assert digest("learned_mapping.a") != before


def test_an_unrelated_change_does_not(package):
    folder, digest = package
    before = digest("learned_mapping.a")
    (folder / "d.py").write_text("z = 2\n")
    assert digest("learned_mapping.a") == before


def test_words_and_layout_do_not(package):
    """Editing a docstring must not make two hours of work stale."""
    folder, digest = package
    before = digest("learned_mapping.a")
    (folder / "sub" / "b.py").write_text(
        '"""Better words."""\n# why\nfrom ..c import (\n    y,\n)\nx = (y +\n  1)\n"""x."""\n'
    )
    assert digest("learned_mapping.a") == before


def test_a_changed_string_that_is_code_does(package):
    folder, digest = package
    (folder / "d.py").write_text("z = 'a'\n")
    before = digest("learned_mapping.d")
    (folder / "d.py").write_text("z = 'b'\n")
    assert digest("learned_mapping.d") != before


def test_an_unknown_module_is_an_error():
    with pytest.raises(ValueError, match="no_such"):
        provenance.source_digest(["learned_mapping.no_such"])


def test_machine_and_versions_say_what_a_reader_needs():
    machine, versions = provenance.machine(), provenance.versions()
    assert machine["cores"] >= 1 and machine["memory_bytes"] > 2**28 and machine["cpu"]
    assert {"python", "numpy", "jax", "learned-mapping"} <= set(versions)


MAKE_GRAPHS = {"regal.distance"}
"""They build their graphs in the run, and so rest on what builds them: minutes of work, not hours."""
ON_GRAPHS = [a for a in registry().values() if a.paper > 1 and a.id not in MAKE_GRAPHS]


@pytest.mark.parametrize("artifact", ON_GRAPHS, ids=lambda artifact: artifact.id)
def test_results_about_graphs_do_not_rest_on_programs(artifact):
    """A change to paper 1's `Program` must not make hours of work on graphs stale."""
    named = {module for run in artifact.plan("quick", 1) for module in artifact.packages_of(run)}
    if not named:  # assembled from the records of others
        return
    closure = provenance.module_closure(named)
    assert "learned_mapping.programs.graph" in closure
    assert not {name for name in closure if name.rpartition(".")[2] in ("program", "program_format", "formats")}
