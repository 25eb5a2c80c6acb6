"""The sixty compiled programs: sizes, kinds, the compiler's own mapping, and that the set can be
rebuilt."""

import json
from collections import Counter

import numpy as np
import pytest
from learned_mapping_builders.compiled import read_prices
from learned_mapping_builders.workloads import (
    BENCHMARK,
    FLEET,
    FRESH_WORKLOADS,
    WORKLOADS,
    function_and_arguments,
)

from compiler_texts import HAS_COMPILER
from learned_mapping.errors import InputError
from learned_mapping.mmap.validate import (
    ALL_OR_NONE,
    COVER,
    ONE_COPY,
    OVERLAP,
    RESIDENT,
    SAME_OFFSET,
    SOURCE,
    validate,
)
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.datasets.registry import SETS

UNKNOWN_TO_XLA = {COVER, ONE_COPY, OVERLAP, SOURCE, RESIDENT}
"""Rules of the game that the compiler does not have: it shares the copy engine, copies in slices,
and keeps the copy in HBM that a value once had."""


@pytest.fixture(scope="module")
def manifest():
    return SETS["compiled"].manifest()


def test_sixty_programs_of_the_papers_sizes(manifest):
    """Would catch a workload lost, or a compiler's version that gives other sizes than the
    paper's."""
    facts = {item.name: item.facts for item in manifest.items}
    assert list(facts) == list(WORKLOADS)
    kinds = [f["kind"] for f in facts.values()]
    assert (kinds.count(BENCHMARK), kinds.count(FLEET)) == (52, 8)
    buffers = np.array([f["buffers"] for f in facts.values()])
    assert 160 <= buffers.min() <= 180 and 16_000 <= buffers.max() <= 17_000
    for name, workload in WORKLOADS.items():
        if workload.paper_buffers is not None:
            assert abs(facts[name]["buffers"] / workload.paper_buffers - 1) <= 0.15, name
    # Spread on a logarithmic scale: no tenfold range without at least a fifth of the programs.
    for low in (170, 500, 1500):
        assert np.mean((buffers >= low) & (buffers < 10 * low)) >= 0.2


def test_the_fast_memory_binds(manifest):
    """Would catch programs that the compiler maps without loss: there is nothing to win on them."""
    left = [1 - item.facts["compiler_saving_share"] for item in manifest.items]
    assert sum(share > 0.05 for share in left) >= 40
    assert all(item.facts["possible_saving_cycles"] > 0 for item in manifest.items)


@pytest.mark.parametrize("name", ["rnn_0", "alexnet_train_batch_32", "wavenet_coherent_batch32"])
def test_the_compilers_mapping_as_stored(manifest, name):
    """Would catch a mapping stored for another program, or facts that the files do not bear out."""
    program, mapping = compiled.load(name)
    facts = manifest.item(name).facts
    verdict = validate(program, mapping, listed=None)
    broken = Counter(violation.rule for violation in verdict.violations)
    assert broken == facts["broken_rules"]
    assert not set(broken) & {SAME_OFFSET, ALL_OR_NONE} and set(broken) <= UNKNOWN_TO_XLA
    assert (program.num_buffers, int(mapping.placed.sum())) == (
        facts["buffers"],
        facts["compiler_buffers_in_cmem"],
    )
    assert _cycles(program, np.zeros(program.num_buffers, bool)) == pytest.approx(
        facts["slow_cycles"], abs=1
    )
    assert _cycles(program, mapping.placed) == pytest.approx(facts["compiler_cycles"], rel=0.01)


def test_no_rule_is_broken_that_the_compiler_knows(manifest):
    """Would catch a stay misread in any of the sixty."""
    actual = {rule for item in manifest.items for rule in item.facts["broken_rules"]}
    assert actual <= UNKNOWN_TO_XLA, actual - UNKNOWN_TO_XLA


def test_the_fresh_programs_are_of_no_family_of_the_sixty():
    """Would catch a program that a table has had already, under its name or by its model, and a
    mapping stored for another program."""
    names, sixty = compiled.names("compiled-fresh"), WORKLOADS.values()
    assert names == tuple(FRESH_WORKLOADS) and len(names) == 12
    assert not {w.model for w in FRESH_WORKLOADS.values()} & {w.model for w in sixty}
    buffers = [int(compiled.item(name).facts["buffers"]) for name in names]
    assert min(buffers) < 400 and max(buffers) > 2_000
    assert sum(count > 1_000 for count in buffers) >= 4
    for name in names[::4]:
        program, mapping = compiled.load(name)
        broken = {v.rule for v in validate(program, mapping, listed=None).violations}
        assert broken <= UNKNOWN_TO_XLA and program.digest == compiled.item(name).digest


def test_unknown_names_and_damaged_prices_are_refused(tmp_path):
    with pytest.raises(InputError, match="nothing"):
        compiled.load("nothing")
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"schema": "learned-mapping/prices/1", "prices": {"aa": {"": -5}}}))
    with pytest.raises(InputError, match="prices"):
        read_prices(path)


@pytest.mark.skipif(not HAS_COMPILER, reason="needs the extra tpu")
@pytest.mark.parametrize("name", ["rnn_4", "inference_mobilenet", "alexnet_train_batch_32"])
def test_a_rebuilt_program_has_the_same_buffers(name):
    """Would catch a compilation that is not repeatable, or a stored program made by other code."""
    from learned_mapping_builders.tpu.compiler import compile_for_tpu
    from learned_mapping_builders.tpu.hlo_program import hlo_program

    function, arguments, donated = function_and_arguments(name)
    fresh = hlo_program(compile_for_tpu(function, arguments, donate=donated).before)
    stored, _ = compiled.load(name)
    assert stored.tensor_names == fresh.tensor_names
    for field in ("tensor_bytes", "buffer_instruction", "buffer_tensor", "buffer_is_output"):
        assert np.array_equal(getattr(stored, field), getattr(fresh, field)), field


def _cycles(program: Program, fast: np.ndarray) -> float:
    bits = np.where(
        fast & (program.buffer_bit >= 0), 1 << np.maximum(program.buffer_bit, 0).astype(np.int64), 0
    )
    entry = np.bincount(
        program.buffer_instruction, weights=bits, minlength=program.num_instructions
    ).astype(np.int64)
    return float(program.latency_s[program.latency_offsets[:-1] + entry].sum() * 1.05e9)
