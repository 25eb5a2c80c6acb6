"""The compiler's own mapping: a donated training step as the compiler left it."""

import json

import numpy as np
import pytest
from learned_mapping_builders.tpu.compiler import Allocation, Compilation
from learned_mapping_builders.tpu.extract import assemble
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program, placements
from learned_mapping_builders.tpu.stays import compiler_mapping, mapping_of_compiler

from compiler_texts import DATA, text
from learned_mapping.mmap.mapping import mapping_from_json, mapping_to_json
from learned_mapping.mmap.validate import COVER, ONE_COPY, OVERLAP, validate
from learned_mapping.programs.json_io import parse_json


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    before, assigned = (text("donated_step", stage) for stage in ("before", "assigned"))
    table = json.loads((DATA / "donated_step.allocations.json").read_text())
    return Compilation(
        before,
        parse_module(before),
        parse_module(assigned),
        generated=None,
        allocations=tuple(Allocation(*row) for row in table),
        seconds=0.0,
    )


def test_donated_parameters_and_their_successors_are_alias_groups(compilation):
    """Would catch donation overlooked: the compiler holds both in one place, and no rule of the
    game would say so."""
    program = hlo_program(compilation.before)
    fast = placements(program, compilation.assigned)
    assert len(compilation.before.donated) == 6
    groups = [
        np.flatnonzero(program.buffer_alias == g)
        for g in range(int(program.buffer_alias.max()) + 1)
    ]
    assert len(groups) == 6
    for read, written in groups:
        assert program.buffer_instruction[read] == program.buffer_instruction[written]
        assert program.tensor_is_parameter[program.buffer_tensor[read]]
        assert program.tensor_is_output[program.buffer_tensor[written]]
        assert fast[read] == fast[written]


def test_every_buffer_in_cmem_is_in_one_stay_within_its_bounds(compilation):
    """Would catch an entry of the compiler's table given to the wrong value, or times off by
    one."""
    program = hlo_program(compilation.before)
    fast = np.flatnonzero(placements(program, compilation.assigned) == 1)
    actual = compiler_mapping(program, compilation)
    assert actual.unplaced == 0
    assert sorted(b for stay in actual.stays for b in stay.buffers) == fast.tolist()
    for stay in actual.stays:
        steps = program.buffer_instruction[list(stay.buffers)]
        assert {int(program.buffer_tensor[b]) for b in stay.buffers} == {stay.tensor}
        assert stay.start <= steps[0] and np.all(np.diff(steps) >= 0)
        assert stay.evicted is None or stay.evicted >= stay.start
        assert any(
            a.offset == stay.offset and a.bytes == program.tensor_bytes[stay.tensor]
            for a in compilation.allocations
        )


def test_the_mapping_breaks_no_rule_but_those_the_compiler_does_not_know(compilation):
    """Would catch intervals or offsets misread: they would break non-overlap, residence or the
    alias rules."""
    hlo = hlo_program(compilation.before)
    program = assemble(compilation, hlo, {}, name="step").program.with_memory(copy_bytes_per_s=1e15)
    mapping = mapping_of_compiler(program, compiler_mapping(hlo, compilation))
    verdict = validate(program, mapping)
    sliced = sum(i.opcode == "async-start" for i in compilation.assigned.entry.instructions)
    broken = {violation.rule for violation in verdict.violations}
    assert sliced == 12 and broken <= {OVERLAP, COVER, ONE_COPY}, broken
    assert (
        mapping_from_json(
            parse_json(json.dumps(mapping_to_json(mapping, program)).encode(), "m"), program
        )
        == mapping
    )
    assert (
        mapping.placed.sum()
        == (placements(hlo_program(compilation.before), compilation.assigned) == 1).sum()
    )
