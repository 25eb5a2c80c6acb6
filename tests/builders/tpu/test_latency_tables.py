"""Latency tables: would catch a placement that cannot exist being priced, and a fill-in that
promises too much."""

import numpy as np
import pytest
from learned_mapping_builders.tpu import latency_tables as tables
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program

from compiler_texts import IN_PLACE, text

MIB = 2**20


def test_every_measured_entry_is_kept_and_the_rest_lies_between_bounds():
    prices = {"": 100, "0": 60, "1": 80, "0,1": 55, "2": 100, "0,1,2": 50}
    table = tables.complete_table([8, 8, 8], prices)
    for key, value in prices.items():
        assert table[sum(1 << int(u) for u in key.split(",") if u)] == value
    # {0, 2} is not priced: additive 60, and the only priced superset costs 50.
    assert table[0b101] == 60
    # {1, 2}: additive 80.
    assert table[0b110] == 80


def test_savings_that_overlap_are_not_added_up():
    # Each array alone saves 40 of 100, but together they cannot beat the compute limit of 55.
    table = tables.complete_table([8, 8, 8], {"": 100, "0": 60, "1": 60, "2": 60, "0,1,2": 55})
    assert table[0b011] == 55 and table[0b111] == 55


def test_without_the_slow_latency_there_is_no_table():
    assert tables.complete_table([8, 8], {"": None, "0": 5}) is None


def test_arrays_updated_in_place_are_priced_together():
    program = hlo_program(parse_module(IN_PLACE))
    units = tables.varied_units(program, 1, 64 * MIB)
    names = [[program.tensor_names[program.buffer_tensor[b]] for b in unit] for unit in units]
    assert names == [["copy", "update"], ["y"]]


@pytest.mark.parametrize("fast_bytes", [64 * MIB, 20 * MIB, 3 * MIB])
def test_plans_price_each_kind_of_work_once_and_only_what_fits(fast_bytes):
    module = parse_module(text("mlp_train", "before"))
    program = hlo_program(module)
    planned = tables.plan(module, program, fast_bytes=fast_bytes)
    assert len({p.signature for p in planned}) == len(planned) < len(program.instructions)
    sizes = program.tensor_bytes[program.buffer_tensor]
    for item in planned:
        subsets = (*item.ends, *item.alone, *item.others)
        assert frozenset() == item.ends[0] and len(set(item.others)) == len(item.others)
        assert not set(item.others) & set(item.alone)
        for subset in subsets:
            assert sum(int(sizes[item.units[u][0]]) for u in subset) <= fast_bytes
    assert np.all([len(p.units) <= 8 for p in planned])
    assert sum(p.count for p in planned) == len(program.instructions)


def test_a_unit_without_a_price_saves_its_share_by_bytes():
    """Would catch savings given to a unit of no size, or lost."""
    table = tables.complete_table([30, 10], {"": 100, "0,1": 60})
    assert table.tolist() == [100, 70, 90, 60]


def test_detail_goes_where_the_saving_is():
    """Would catch a ranking that forgets how often an instruction occurs."""
    module = parse_module(text("mlp_train", "before"))
    planned = tables.plan(module, hlo_program(module), fast_bytes=64 * MIB)[:3]
    prices = {
        p.signature: {"": 100, tables.subset_key(p.fullest): 100 - s}
        for p, s in zip(planned, (1, 50, 0))
    }
    assert tables.worth_detail(planned, prices, 0.9) == [planned[1]]
    assert tables.worth_detail(planned, prices, 1.0) == [planned[1], planned[0]]


def test_what_was_never_priced_is_inferred_from_its_kind():
    """Would catch cycles per byte taken from another kind of work, or a saving without cycles."""
    module = parse_module(text("mlp_train", "before"))
    planned = tables.plan(module, hlo_program(module), fast_bytes=64 * MIB)
    known, unknown = [p for p in planned if p.kind == "fusion kOutput" and p.count == 2][:2]
    other = planned[3]
    prices = {
        known.signature: {
            "": 3 * known.moved_bytes,
            tables.subset_key(known.fullest): 2 * known.moved_bytes,
        },
        other.signature: {"": 50},
    }
    actual = tables.infer_prices(planned, prices)
    assert known.signature not in actual
    assert actual[unknown.signature] == {
        "": 3 * unknown.moved_bytes,
        tables.subset_key(unknown.fullest): 2 * unknown.moved_bytes,
    }
