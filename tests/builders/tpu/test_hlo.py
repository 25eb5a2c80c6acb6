"""Reading compiler dumps: would catch a misread shape, a lost operand, a wrong tensor identity or
alias."""

import csv

import numpy as np
import pytest
from learned_mapping_builders.tpu.compiler import parse_allocations
from learned_mapping_builders.tpu.hlo import leaves, parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program, placements

from compiler_texts import DATA, text
from learned_mapping.errors import InputError


def dump(stage: str):
    return parse_module(text("mlp_train", stage))


@pytest.fixture(scope="module")
def before():
    return dump("before")


def test_sizes_are_those_the_compiler_states(before):
    with open(DATA / "mlp_train.bufferinfo.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 12
    for row in rows:
        name, _, index = row["buffer_name"].strip("<>").split(" ", 1)[1].partition("{")
        shape = dict(leaves(before.entry.by_name[name].shape))[
            tuple(int(i) for i in index.strip("}").split(",") if i)
        ]
        assert shape.bytes == int(row["size"]), name


def test_donation_is_read_from_the_header(before):
    assert before.donated == {(i,): (i, ()) for i in range(4)}


def test_buffers_follow_the_stated_rules(before):
    program = hlo_program(before)
    names = [i.name for i in program.instructions]
    assert "fusion.28" in names and not {"tuple.2", "get-tuple-element.1", "p_0_.1"} & set(names)
    step = names.index("convolution_select_fusion.2")
    used = [
        (program.tensor_names[t], bool(o))
        for t, o, i in zip(
            program.buffer_tensor, program.buffer_is_output, program.buffer_instruction
        )
        if i == step
    ]
    # get-tuple-element.1 is looked through to the fusion that defines the array.
    assert used == [
        ("p_3_.1", False),
        ("fusion.8", False),
        ("multiply_reduce_fusion{1}", False),
        ("y.1", False),
        ("convolution_select_fusion.2", True),
    ]
    results = {program.tensor_names[i] for i in np.flatnonzero(program.tensor_is_output)}
    assert results == {"fusion", "fusion.1", "fusion.2", "fusion.3"}


def test_the_compilers_own_mapping_and_cycles_are_found(before):
    program = hlo_program(before)
    fast = placements(program, dump("assigned"))
    assert set(fast.tolist()) == {0, 1}
    named = {
        (program.instructions[t].name, program.tensor_names[v]): f
        for t, v, f in zip(program.buffer_instruction, program.buffer_tensor, fast)
    }
    # The weights of the first layer are read from HBM, those of the last through a sliced prefetch
    # into CMEM.
    assert named["fusion.28", "p_0_.1"] == 0 and named["multiply_reduce_fusion", "p_3_.1"] == 1
    cycles = {i.name: i.estimated_cycles for i in dump("generated").entry.instructions}
    assert cycles["fusion.28"] == 65118
    assert [i.opcode for i in program.instructions if cycles.get(i.name) is None] == ["multiply"]


def test_the_compilers_layout_fits_and_does_not_overlap():
    allocations = parse_allocations(
        (DATA / "mlp_train.bufferinfo.csv").read_text(),
        (DATA / "mlp_train.allocinfo.csv").read_text(),
    )
    assert len(allocations) == 12 and max(a.offset + a.bytes for a in allocations) <= 64 * 2**20
    for i, a in enumerate(allocations):
        for b in allocations[:i]:
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or a.end <= b.start or b.end <= a.start, (a, b)


IN_PLACE = """HloModule tiny, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0:T(8,128)})->f32[8,128]{1,0}}

%fused (param_0: f32[8,128], param_1: f32[1,128]) -> f32[8,128] {
  %param_0 = f32[8,128]{1,0:T(8,128)} parameter(0)
  %param_1 = f32[1,128]{1,0:T(1,128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  %b = f32[8,128]{1,0:T(8,128)} bitcast(%param_0)
  ROOT %update = f32[8,128]{1,0:T(8,128)} dynamic-update-slice(%b, %param_1, %zero, %zero)
}

ENTRY %main (x: f32[8,128], y: f32[1,128]) -> (f32[8,128], f32[8,128]) {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %y = f32[1,128]{1,0:T(1,128)} parameter(1)
  %add = f32[8,128]{1,0:T(8,128)} add(%x, %x)
  %fused_update = f32[8,128]{1,0:T(8,128)} fusion(%add, %y), kind=kLoop, calls=%fused
  %loop = (f32[8,128]{1,0:T(8,128)}, /*index=1*/bf16[5,100]{1,0:T(8,128)(2,1)S(3)}) while(%fused_update)
  %part = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop), index=0
  ROOT %out = (f32[8,128]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}) tuple(%part, %add)
}
"""


def test_in_place_updates_alias_and_control_flow_is_opaque():
    module = parse_module(IN_PLACE)
    program = hlo_program(module)
    assert [i.name for i in program.instructions] == ["add", "fused_update", "loop"]
    assert program.opaque.tolist() == [False, False, True]
    shared = [
        program.tensor_names[t]
        for t, a in zip(program.buffer_tensor, program.buffer_alias)
        if a == 0
    ]
    assert shared == ["add", "fused_update"] and program.buffer_alias.max() == 0
    # One buffer although both operands of the addition name x.
    assert program.buffer_instruction.tolist().count(0) == 2
    second = dict(leaves(module.entry.by_name["loop"].shape))[(1,)]
    assert second.memory_space == 3 and second.bytes == 8 * 128 * 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not HLO at all",
        "HloModule m, is_scheduled=true\n",
        IN_PLACE.replace("add(%x, %x)", "add(%x, %x"),
        IN_PLACE.replace("f32[8,128]{1,0:T(8,128)} add", "f32[8 add"),
        IN_PLACE.replace("ROOT %out", "%out"),
        IN_PLACE[: len(IN_PLACE) // 2],
    ],
)
def test_broken_text_is_refused_in_one_line(text):
    with pytest.raises(InputError) as caught:
        hlo_program(parse_module(text, "dump.txt"))
    assert "\n" not in str(caught.value)


def test_an_unscheduled_module_is_refused():
    with pytest.raises(InputError, match="schedule"):
        hlo_program(parse_module(IN_PLACE.replace("is_scheduled=true", "is_scheduled=false")))


def test_the_largest_number_is_no_estimate():
    """Would catch the compiler's "unknown" summed as cycles."""
    text = """HloModule one, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %a = f32[8,128]{1,0:T(8,128)} negate(%x), backend_config={"estimated_cycles":"9223372036854775807"}
  ROOT %b = f32[8,128]{1,0:T(8,128)} negate(%a), backend_config={"estimated_cycles":"12"}
}
"""
    entry = parse_module(text).entry
    assert (entry.by_name["a"].estimated_cycles, entry.by_name["b"].estimated_cycles) == (None, 12)
