"""The judgement of latency tables, with a compiler whose answers are known."""

import numpy as np
import pytest
from learned_mapping_builders import compiled_checks
from learned_mapping_builders.tpu.compiler import V4, Compilation
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program
from learned_mapping_builders.tpu.latency_tables import plan, subset_key

from compiler_texts import text
from learned_mapping_companion.datasets import compiled


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    before = text("donated_step", "before")
    module = parse_module(before)
    return Compilation(before, module, module, generated=None, allocations=(), seconds=0.0)


def cycles(item, subset, overlap: float = 0.0) -> int:
    """A machine that saves a cycle per KiB in fast memory, less by `overlap` for every array after
    the first."""
    saved = sum(item.unit_bytes[u] for u in subset) / 1024
    return round(item.moved_bytes / 256 - saved * (1 - overlap * max(len(subset) - 1, 0)))


@pytest.mark.parametrize(("overlap", "exact"), [(0.0, True), (0.1, False)])
def test_error_and_correlation_of_held_out_placements(compilation, monkeypatch, overlap, exact):
    """Would catch placements among those judged that the table was made from, and errors of the
    wrong sign or scale."""
    planned = plan(compilation.before, hlo_program(compilation.before), fast_bytes=V4.fast_bytes)
    prices = {
        p.signature: {subset_key(s): cycles(p, s, overlap) for s in (*p.ends, *p.alone)}
        for p in planned
        if p.units
    }
    asked = []

    def answer(_text, _program, wanted, *, known):
        actual = {k: dict(v) for k, v in known.items()}
        for item, subsets in wanted:
            for subset in subsets:
                asked.append((item.signature, subset_key(subset)))
                actual.setdefault(item.signature, {})[subset_key(subset)] = cycles(
                    item, subset, overlap
                )
        return actual

    monkeypatch.setattr(compiled_checks, "price", answer)
    report = compiled_checks.held_out(compilation, prices, 40, np.random.default_rng(0))
    new = [(signature, key) for signature, key in asked if key]
    assert report["placements"] == len(report["rows"]) == len(set(new)) > 5
    assert all(key not in prices[signature] for signature, key in new)
    if exact:
        assert report["weighted_error"] == pytest.approx(0, abs=1e-4)
        assert report["savings_correlation"] == pytest.approx(1, abs=1e-6)
    else:
        predicted, estimated, _, _ = np.array(report["rows"]).T
        assert report["weighted_error"] == pytest.approx(
            np.abs(predicted - estimated).sum() / estimated.sum()
        )
        assert report["weighted_error"] > 0.001
        assert 0 < report["savings_correlation"] < 1


def test_records_survive_a_round_trip(tmp_path):
    """Would catch a file that the book cannot read."""
    path = tmp_path / "checks.json"
    assert compiled.read_checks(path) == {}
    path.write_text(
        '{"schema": "learned-mapping/checks/1", "programs": {"rnn_0": {"weighted_error": 0.01}}}'
    )
    assert compiled.read_checks(path)["rnn_0"] == {"weighted_error": 0.01}
