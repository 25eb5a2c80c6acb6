"""Mappings priced by the compiler: what is planned, a search on its prices, and the figures."""

import numpy as np
import pytest
from learned_mapping_builders.tpu.compiler import V4, Compilation, CompilerError
from learned_mapping_builders.tpu.extract import assemble
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program
from learned_mapping_builders.tpu.latency_tables import plan, subset_key
from learned_mapping_builders.tpu.price import Price, PriceCache, known_prices, source
from learned_mapping_builders.tpu.runs import play_on_prices, refined

from compiler_texts import text
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.figures.mmap_results import latency_table, two_prices
from learned_mapping_companion.mmap.compiler import COMPILER, PROGRAMS
from learned_mapping_companion.results import load, value


def test_without_any_price_there_is_a_table_all_the_same():
    """Would catch a checkout without the compiler in which not everything can be made."""
    assert all(run.long for run in COMPILER.runs("quick", 1))
    result = COMPILER.result([])
    assert value(result, instance="all", method="all", metric="programs") == 0


def test_the_plan_has_every_family_and_twenty_programs():
    """Would catch a table of easy programs alone."""
    runs = COMPILER.runs("full", 1)
    assert {run.instance for run in runs} == set(PROGRAMS) and len(PROGRAMS) >= 20
    assert len({run.digest for run in runs}) == len(runs)
    for family in ("rnn_", "inference_", "_train_", "mlperf_", "fleet_"):
        assert any(family in name for name in PROGRAMS)


def test_refined_tables_have_the_prices_that_are_known():
    """Would catch a price at another subset than its own, or tables that change where nothing new
    is known."""
    before = text("mlp_train", "before")
    module = parse_module(before)
    hlo = hlo_program(module)
    planned = plan(module, hlo, fast_bytes=2**26)
    prices = {
        p.signature: {
            subset_key(s): 90_000 - 1000 * sum(s) - 7000 * len(s) for s in (*p.ends, *p.alone)
        }
        for p in planned
    }
    compilation = Compilation(before, module, module, None, (), 0.0)
    game = assemble(compilation, hlo, prices, name="mlp").program
    actual, cache = source(before, game), PriceCache()
    assert np.array_equal(refined(actual, cache).latency_s, game.latency_s)
    cache.prices = known_prices(actual, prices)
    assert refined(actual, cache).latency_s == pytest.approx(game.latency_s)
    item = next(p for p in planned if len(p.units) == 4 and p.fits(frozenset({0, 2})))
    more = {**prices, item.signature: {**prices[item.signature], "0,2": 12_345}}
    cache.prices = known_prices(actual, more)
    changed = refined(actual, cache)
    again = assemble(compilation, hlo, more, name="mlp").program
    assert changed.latency_s == pytest.approx(again.latency_s)
    assert np.isclose(changed.latency_s * V4.clock_hz, 12_345).sum() == item.count


def test_the_figures_can_be_drawn():
    figure = two_prices(load("mmap.compiler")["rows"])
    assert {item.get_text() for item in figure.legends[0].get_texts()} == {
        "hbm",
        "greedy-tuned",
        "priced",
        "edit-search",
        "muzero",
    }
    program, _ = compiled.load("alexnet_train_batch_32")
    bars = latency_table(program, "fusion.205").axes[0].patches
    assert [round(bar.get_width(), 1) for bar in bars] == sorted(
        (round(b.get_width(), 1) for b in bars), reverse=True
    )
    assert len(bars) == 8


def test_a_search_on_prices_ends_with_its_best_round_that_fits(monkeypatch):
    """Would catch the last round kept, one that does not fit, or a refusal of the compiler that
    ends the search."""
    before = text("mlp_train", "before")
    module = parse_module(before)
    compilation = Compilation(before, module, module, None, (), 0.0)
    actual = source(before, assemble(compilation, hlo_program(module), {}, name="mlp").program)
    size = actual.program.fast_bytes
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
    best = play_on_prices(actual, PriceCache(), "edit-search-on-cycles", config, seed=0)
    assert (best["cycles"], best["failed"], best["valid"]) == (30, "", True)
    assert best["rounds"] == [[50, size], [10, size + 1], [30, size], [40, size]]
