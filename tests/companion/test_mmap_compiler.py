"""Mappings priced by the compiler: what is made of the records, by a few made up for it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from learned_mapping_builders.tpu.compiler import V4, Compilation, CompilerError
from learned_mapping_builders.tpu.extract import assemble
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program
from learned_mapping_builders.tpu.latency_tables import plan, subset_key
from learned_mapping_builders.tpu.price import Price, PriceCache, known_prices, source
from learned_mapping_builders.tpu.runs import play_on_prices, refined

from learned_mapping.companion.datasets import compiled
from learned_mapping.companion.figures.mmap_results import latency_table, two_prices
from learned_mapping.companion.mmap.compiler import (
    MEASURES,
    PROGRAMS,
    assemble_compiler,
    plan_compiler,
)
from learned_mapping.companion.results import select

DATA = Path(__file__).parents[1] / "tpu" / "data"

CYCLES = {  # by method: by the compiler, with waits, by the model, with waits
    "hbm": (2000, 2000, 2100, 2100),
    "xla": (1000, 1100, 1050, 1050),
    "greedy-tuned": (1250, 1250, 1050, 1050),
    "edit-search": (800, 880, 700, 750),
}
NAMES = ("rnn_0", "inference_lstm", "mlperf_ssd")


def record(name, method, cycles, config=None, **more):
    result = dict(zip(MEASURES.values(), map(float, cycles)))
    result |= {"judged": method != "xla", "valid": True, "failed": "", "fast_bytes": 2**26, "placed": 3, "copies": 2}
    result |= {"left": [], "worst": [["fusion.1", "fusion", 10, 20]]} | more
    return {"instance": name, "method": method, "config": config or {}, "result": result}


@pytest.fixture(scope="module")
def made():
    records = []
    for i, name in enumerate(NAMES):
        for method, cycles in CYCLES.items():
            scale = 1 + 0.1 * i * (method == "edit-search")
            more = {"fast_bytes": 2**26 + 1} if (name, method) == (NAMES[2], "edit-search") else {}
            records.append(record(name, method, [c * scale for c in cycles], **more))
    slower = {"fast_bytes": 2**26 + 512}
    records.append(record("rnn_4", "edit-search", CYCLES["xla"]))  # the compiler's own is not there yet
    candidate = {"candidate": True}
    records.append(record("rnn_0", "edit-search", (900, 900, 690, 700), candidate, **slower))
    records.append(record("rnn_0", "edit-search", (950, 850, 720, 760), candidate))
    records.append(record("rnn_0", "edit-search", (1, 1, 1, 1), candidate, failed="the TPU compiler failed: x"))
    return assemble_compiler("full", records)


def value(made, **keys):
    rows = select(made, **keys)
    assert len(rows) == 1, keys
    return rows[0]["value"]


def test_speedups_are_over_the_compilers_mapping_by_the_same_measure(made):
    """Would catch a speedup of the model over a time of the compiler, or the two columns confused."""
    of = {"instance": "rnn_0", "method": "edit-search"}
    assert value(made, **of, metric="speedup") == pytest.approx(1000 / 800)
    assert value(made, **of, metric="speedup_stalled") == pytest.approx(1100 / 880)
    assert value(made, **of, metric="speedup_model") == pytest.approx(1050 / 700)
    assert value(made, **of, metric="speedup_model_stalled") == pytest.approx(1050 / 750)
    assert value(made, instance="all", method="edit-search", metric="speedup") == pytest.approx(
        np.mean([1000 / (800 * s) for s in (1, 1.1, 1.2)])
    )


def test_prod_is_never_slower_than_the_compiler(made):
    """Would catch the better chosen by another measure than the one shown, or packed where it does not fit."""
    rows = [row for row in made["rows"] if row["method"] == "edit-search-prod" and row["instance"] != "all"]
    assert rows and all(row["value"] >= 1 for row in rows)
    assert value(made, instance=NAMES[1], method="edit-search-prod", metric="speedup") > 1
    assert value(made, instance=NAMES[1], method="edit-search-prod", metric="speedup_packed") > 1
    assert value(made, instance=NAMES[2], method="edit-search-prod", metric="speedup") > 1
    assert value(made, instance=NAMES[2], method="edit-search-prod", metric="speedup_packed") == 1
    assert not select(made, method="prod"), "no agent was run"


def test_agreement_is_over_whole_mappings(made):
    """Would catch an error in other units than hundredths of a speedup, or a correlation over the wrong pairs."""
    errors = [abs(1000 / 1250 - 1)] * 3 + [abs(1000 / (800 * s) - 1050 / (700 * s)) for s in (1, 1.1, 1.2)]
    assert value(made, instance="all", method="searches", metric="error_points") == pytest.approx(
        100 * np.median(errors)
    )
    assert value(made, instance="all", method="edit-search", metric="rank_correlation") == pytest.approx(1.0)


def test_failures_and_overflows_are_counted(made):
    """Would catch a crash of the compiler that leaves no trace in the table."""
    counts = {row["metric"]: row["value"] for row in select(made, instance="all", method="all") if "n" not in row}
    assert value(made, instance="all", method="edit-search", metric="overflowed") == 1
    assert counts == {"mappings": 15, "failed": 1, "left": 0, "overflowed": 2, "programs": 3}
    assert made["invalid"] == 0 and made["validated"] == 12


def test_the_candidates_are_chosen_by_either_judge(made):
    """Would catch the compiler's choice made by the model's numbers."""
    of = {"instance": "rnn_0", "metric": "speedup_stalled"}
    assert value(made, **of, method="edit-search-by_model") == pytest.approx(1100 / 900)
    assert value(made, **of, method="edit-search-by_compiler") == pytest.approx(1100 / 850)


def test_without_any_price_there_is_a_table_all_the_same():
    """Would catch a checkout without the compiler in which not everything can be made."""
    assert all(run.long for run in plan_compiler("quick", 1))
    made = assemble_compiler("quick", [])
    assert value(made, instance="all", method="all", metric="programs") == 0


def test_the_identity_is_against_the_compilers_normal_run(made):
    full = compiled.read_checks(compiled.SETS["compiled"].path / compiled.CHECKS)["rnn_0"]["compiled_cycles"]
    assert value(made, instance="rnn_0", method="xla", metric="identity") == pytest.approx(1000 / full)


def test_the_plan_has_every_family_and_twenty_programs():
    """Would catch a table of easy programs alone."""
    runs = plan_compiler("full", 1)
    assert {run.instance for run in runs} == set(PROGRAMS) and len(PROGRAMS) >= 20
    assert len({run.digest for run in runs}) == len(runs)
    for family in ("rnn_", "inference_", "_train_", "mlperf_", "fleet_"):
        assert any(family in name for name in PROGRAMS)


def test_refined_tables_have_the_prices_that_are_known():
    """Would catch a price at another subset than its own, or tables that change where nothing new is known."""
    text = gzip.decompress((DATA / "mlp_train.before.txt.gz").read_bytes()).decode()
    module = parse_module(text)
    hlo = hlo_program(module)
    planned = plan(module, hlo, fast_bytes=2**26)
    prices = {
        p.signature: {subset_key(s): 90_000 - 1000 * sum(s) - 7000 * len(s) for s in (*p.ends, *p.alone)}
        for p in planned
    }
    compilation = Compilation(text, module, module, None, (), 0.0)
    game = assemble(compilation, hlo, prices, name="mlp").program
    found, cache = source(text, game), PriceCache()
    assert np.array_equal(refined(found, cache).latency_s, game.latency_s)
    cache.prices = known_prices(found, prices)
    assert refined(found, cache).latency_s == pytest.approx(game.latency_s)
    item = next(p for p in planned if len(p.units) == 4 and p.fits(frozenset({0, 2})))
    more = {**prices, item.signature: {**prices[item.signature], "0,2": 12_345}}
    cache.prices = known_prices(found, more)
    changed = refined(found, cache)
    again = assemble(compilation, hlo, more, name="mlp").program
    assert changed.latency_s == pytest.approx(again.latency_s)
    assert np.isclose(changed.latency_s * V4.clock_hz, 12_345).sum() == item.count


def test_the_figures_can_be_drawn(made):
    figure = two_prices(made["rows"])
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"hbm", "greedy-tuned", "edit-search"}
    program, _ = compiled.load("alexnet_train_batch_32")
    bars = latency_table(program, "fusion.205").axes[0].patches
    assert [round(bar.get_width(), 1) for bar in bars] == sorted((round(b.get_width(), 1) for b in bars), reverse=True)
    assert len(bars) == 8


def test_a_search_on_prices_ends_with_its_best_round_that_fits(monkeypatch):
    """Would catch the last round kept, one that does not fit, or a refusal of the compiler that ends the search."""
    text = gzip.decompress((DATA / "mlp_train.before.txt.gz").read_bytes()).decode()
    module = parse_module(text)
    compilation = Compilation(text, module, module, None, (), 0.0)
    found = source(text, assemble(compilation, hlo_program(module), {}, name="mlp").program)
    size = found.program.fast_bytes
    answers = iter([(50, size), (10, size + 1), None, (30, size), (40, size)])

    def price(origin, mapping, cache, *, checked):
        answer = next(answers)
        if answer is None:
            raise CompilerError("the TPU compiler failed: x")
        return Price({"all": answer[0]}, answer[1], (), 0, 1, 0.0)

    monkeypatch.setattr("learned_mapping_builders.tpu.runs.price", price)
    monkeypatch.setattr(
        "learned_mapping_builders.tpu.runs.with_stalls",
        lambda program, mapping, price: {"stalled_cycles": price.total},
    )
    config = {"rounds": 5, "seconds": 0.05, "headroom": 0.125}
    best = play_on_prices(found, PriceCache(), config, seed=0)
    assert (best["cycles"], best["failed"], best["valid"]) == (30, "", True)
    assert best["rounds"] == [[50, size], [10, size + 1], [30, size], [40, size]]
