"""Probes: would catch a clone that does other work than its original, or puts the wrong array in
fast memory."""

import pytest
from learned_mapping_builders.tpu.compiler import V4
from learned_mapping_builders.tpu.hlo import leaves, parse_module
from learned_mapping_builders.tpu.hlo_probe import Probe, ProbeModule, Unprobeable, signature

from compiler_texts import text

NONE: frozenset = frozenset()


@pytest.fixture(scope="module")
def module():
    return parse_module(text("mlp_train", "before"))


def test_equal_work_has_an_equal_signature(module):
    by_name = module.entry.by_name
    assert signature(module, by_name["fusion.11"]) == signature(module, by_name["fusion.8"])
    assert signature(module, by_name["fusion.11"]) != signature(module, by_name["fusion.28"])
    assert (
        len({signature(module, by_name[n]) for n in ("fusion", "fusion.1", "fusion.2", "fusion.3")})
        >= 2
    )


def test_a_clone_keeps_the_work_and_moves_only_what_was_asked(module):
    probes = ProbeModule(module, V4.space)
    slow = probes.add(Probe("multiply_reduce_fusion", NONE, NONE))
    fast = probes.add(Probe("multiply_reduce_fusion", frozenset({1}), frozenset({(1,)})))
    printed = parse_module(probes.text())
    entry = printed.entry.by_name
    original = module.entry.by_name["multiply_reduce_fusion"]
    assert [s for _, s in leaves(entry[slow].shape)] == [s for _, s in leaves(original.shape)]
    assert [s.memory_space for _, s in leaves(entry[fast].shape)] == [0, 3]
    assert [entry[o].shape.memory_space for o in entry[fast].operands] == [0, 3, 0]
    clone = printed.computations[entry[fast].attribute("calls").lstrip("%")]
    assert [p.shape.memory_space for p in clone.parameters] == [0, 3, 0]
    assert dict(leaves(clone.root.shape))[(1,)].memory_space == 3
    for name in (slow, fast):
        assert signature(printed, entry[name]) == signature(module, original) or name == fast


def test_no_computation_is_shared_between_fusions(module):
    probes = ProbeModule(module, V4.space)
    for i in module.entry.instructions:
        if i.opcode == "fusion":
            probes.add(Probe(i.name, NONE, NONE))
            probes.add(Probe(i.name, frozenset({0}), NONE))
    printed = parse_module(probes.text())
    called = [
        i.attribute("calls")
        for c in printed.computations.values()
        for i in c.instructions
        if i.opcode == "fusion"
    ]
    assert len(called) == len(set(called)) > 20


def test_an_instruction_that_reads_a_tuple_is_refused_and_leaves_no_trace(module):
    probes = ProbeModule(module, V4.space)
    before = probes.text()
    with pytest.raises(Unprobeable):
        probes.add(Probe("get-tuple-element", NONE, NONE))
    assert probes.text() == before and not probes.names


def test_an_instruction_may_bear_the_name_of_its_computation():
    """Would catch endless recursion: names of instructions and of computations are two
    namespaces."""
    text = """HloModule twice, is_scheduled=true

%same (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %same = f32[8,128]{1,0:T(8,128)} negate(%p)
  ROOT %out = f32[8,128]{1,0:T(8,128)} add(%same, %p)
}

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %a = f32[8,128]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%same
  ROOT %same.1 = f32[8,128]{1,0:T(8,128)} fusion(%a), kind=kLoop, calls=%same
}
"""
    module = parse_module(text)
    first, second = (module.entry.by_name[name] for name in ("a", "same.1"))
    assert signature(module, first) == signature(module, second)
