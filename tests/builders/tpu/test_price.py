"""A mapping written into the compiler's program, and its price: the writer is tested everywhere,
cycles with libtpu."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from learned_mapping_builders.tpu import price, pricing
from learned_mapping_builders.tpu.compiler import (
    GENERATIONS,
    V4,
    Allocation,
    Compilation,
    CompilerError,
)
from learned_mapping_builders.tpu.extract import assemble, total_cycles
from learned_mapping_builders.tpu.hlo import leaves, parse_module
from learned_mapping_builders.tpu.hlo_mapping import write_mapping
from learned_mapping_builders.tpu.hlo_program import TRANSPARENT, hlo_program, placements
from learned_mapping_builders.tpu.stays import compiler_mapping, mapping_of_compiler

from cli_files import refusal
from compiler_texts import DATA, HAS_COMPILER, text
from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping, all_dropped, make_mapping
from learned_mapping.mmap.mapping import write_mapping as write_mapping_file
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import write_program

needs_compiler = pytest.mark.skipif(
    not HAS_COMPILER, reason="the extra tpu (libtpu) is not installed: no cycles"
)


def step():
    """The donated training step: its source and the compiler's own mapping."""
    before, assigned = (text("donated_step", stage) for stage in ("before", "assigned"))
    allocations = tuple(
        Allocation(*row) for row in json.loads((DATA / "donated_step.allocations.json").read_text())
    )
    compilation = Compilation(
        before, parse_module(before), parse_module(assigned), None, allocations, 0.0
    )
    hlo = hlo_program(compilation.before)
    program = assemble(compilation, hlo, {}, name="step").program.with_memory(copy_bytes_per_s=1e13)
    own = mapping_of_compiler(program, compiler_mapping(hlo, compilation))
    return price.source(before, program), own, compilation


@pytest.fixture(scope="module")
def origin():
    return step()[0]


def written(origin, mapping):
    actual = write_mapping(origin.module, origin.hlo, origin.program, mapping)
    return actual, parse_module(actual.text)


def random_mapping(origin, seed: int) -> Mapping:
    game = Game(origin.program)
    rng = np.random.default_rng(seed)
    game.play_preferences(rng.random((origin.program.num_buffers, 3)) * [1.0, 1.0, 0.4])
    played = game.played()
    return make_mapping(origin.program, played.action, played.offset, played.start, played.end)


def origin_of(module, name: str, index: tuple[int, ...] = ()):
    """The array a name means, through copies too, as (definition, index)."""
    while True:
        instruction = module.entry.by_name[name]
        if instruction.opcode == "get-tuple-element":
            name, index = instruction.operands[0], (int(instruction.attribute("index")), *index)
        elif instruction.opcode == "tuple":
            name, index = instruction.operands[index[0]], index[1:]
        elif instruction.opcode in ("bitcast", "optimization-barrier"):
            name = instruction.operands[0]
        elif instruction.opcode == "copy-done":
            name = module.entry.by_name[instruction.operands[0]].operands[0]
        else:
            return name, index


def check_same_program(module, other) -> None:
    """Every instruction of `module` reads in `other` what it reads there, in the same order; so
    does the result."""
    kept = [
        i
        for i in other.entry.instructions
        if i.opcode not in TRANSPARENT | {"copy-start", "copy-done"}
    ]
    assert [i.name for i in kept] == [
        i.name for i in module.entry.instructions if i.opcode not in TRANSPARENT
    ]
    for now in [*kept, other.entry.root]:
        was = module.entry.root if now is other.entry.root else module.entry.by_name[now.name]
        if now is other.entry.root:
            for index, _ in leaves(was.shape):
                assert origin_of(other, now.name, index) == origin_of(module, was.name, index)
            continue
        for a, b in zip(now.operands, was.operands, strict=True):
            for index, _ in leaves(module.entry.by_name[b].shape):
                assert origin_of(other, a, index) == origin_of(module, b, index)
    seen: set[str] = set()
    for i in other.entry.instructions:
        assert set(i.operands) <= seen, f"{i.name} reads what comes later"
        assert i.name not in seen
        seen.add(i.name)
    assert all(s.memory_space == 0 for _, s in leaves(other.entry.root.shape))


def test_everything_in_hbm_is_the_program_itself(origin):
    """Would catch a writer that adds or loses work of its own."""
    actual, module = written(origin, all_dropped(origin.program))
    assert (actual.copies, actual.left) == (0, ())
    check_same_program(origin.module, module)
    assert "S(3)" not in actual.text


def test_the_compilers_own_mapping_is_written_as_the_compiler_wrote_it():
    """Would catch one array on the wrong side, of all those the compiler placed."""
    origin, own, compilation = step()
    actual, module = written(origin, own)
    assert actual.left == ()
    check_same_program(origin.module, module)
    assert np.array_equal(
        placements(origin.hlo, module) == 1, placements(origin.hlo, compilation.assigned) == 1
    )
    assert own.placed.sum() > 20


@pytest.mark.parametrize("name", ["v5e", "v6e"])
def test_another_generations_fast_memory_is_written_by_its_own_number(origin, name):
    """Would catch a mapping for VMEM that is written, or read back, as one for CMEM."""
    other = replace(origin, program=replace(origin.program, metadata={"generation": name}))
    mapping = random_mapping(origin, 3)
    actual = write_mapping(origin.module, origin.hlo, origin.program, mapping, other.generation)
    module = parse_module(actual.text)
    assert "S(3)" not in actual.text and "S(1)" in actual.text
    check_same_program(origin.module, module)
    assert np.array_equal(placements(origin.hlo, module) == 1, mapping.placed)
    assert written(origin, mapping)[0].text.replace("S(3)", "S(1)") == actual.text


def test_a_price_is_of_one_generation(origin):
    """Would catch a price of one TPU taken for another's."""
    keys = {price.price_key(generation, "work", [0], [[]]) for generation in GENERATIONS.values()}
    assert len(keys) == len(GENERATIONS)
    assert origin.generation == V4
    with pytest.raises(InputError, match="v9"):
        price.generation_of(replace(origin.program, metadata={"generation": "v9"}))


@pytest.mark.parametrize("seed", range(12))
def test_a_valid_mapping_is_written_as_it_says(origin, seed):
    """Would catch a lost placement, a copy at the wrong step, a write-back forgotten, the wrong
    version read."""
    mapping = random_mapping(origin, seed)
    assert validate(origin.program, mapping).valid and 0 < mapping.placed.sum()
    actual, module = written(origin, mapping)
    assert actual.left == ()
    check_same_program(origin.module, module)
    assert np.array_equal(placements(origin.hlo, module) == 1, mapping.placed)
    entry = [i.name for i in module.entry.instructions]
    step_of = {name: t for t, name in enumerate(origin.program.instruction_names)}
    done = {i.operands[0]: i for i in module.entry.instructions if i.opcode == "copy-done"}
    last, starts, ends = -1, {}, {}
    for name in entry:
        last = max(last, step_of.get(name, -1))
        i = module.entry.by_name[name]
        if i.opcode == "copy-start":
            starts[name] = last + 1
        elif i.opcode == "copy-done":
            ends[i.operands[0]] = last + 1
    assert starts.keys() == ends.keys() == done.keys()
    into = sorted((starts[s], ends[s]) for s in starts if done[s].shape.memory_space == 3)
    copied = np.flatnonzero((mapping.action == COPY) & ~origin.program.buffer_is_output)
    assert into == sorted(
        (int(mapping.start[b]), int(origin.program.buffer_instruction[b])) for b in copied
    )
    out = np.flatnonzero((mapping.action == COPY) & origin.program.buffer_is_output)
    begun = [starts[s] for s in starts if done[s].shape.memory_space == 0]
    for b in out:
        assert int(origin.program.buffer_instruction[b]) + 1 in begun


def test_fused_computations_follow_their_fusion(origin):
    """Would catch what the compiler's verifier refuses: a parameter or a root whose layout is not
    its fusion's."""
    _, module = written(origin, random_mapping(origin, 3))
    fusions = [
        i for c in module.computations.values() for i in c.instructions if i.opcode == "fusion"
    ]
    called = [i.attribute("calls").lstrip("%") for i in fusions]
    assert len(called) == len(set(called)) > 5
    moved = 0
    for i in module.entry.instructions:
        if i.opcode == "fusion":
            inner = module.computations[i.attribute("calls").lstrip("%")]
            spaces = [module.entry.by_name[o].shape.memory_space for o in i.operands]
            assert [p.shape.memory_space for p in inner.parameters] == spaces
            assert dict(leaves(inner.root.shape)) == dict(leaves(i.shape))
            moved += sum(spaces) > 0
    assert moved > 3


TUPLES = """HloModule loop, is_scheduled=true

%body (p: (f32[256,128])) -> (f32[256,128]) {
  %p = (f32[256,128]{1,0:T(8,128)}) parameter(0)
  %v = f32[256,128]{1,0:T(8,128)} get-tuple-element(%p), index=0
  %n = f32[256,128]{1,0:T(8,128)} negate(%v)
  ROOT %t = (f32[256,128]{1,0:T(8,128)}) tuple(%n)
}

%condition (q: (f32[256,128])) -> pred[] {
  %q = (f32[256,128]{1,0:T(8,128)}) parameter(0)
  ROOT %no = pred[]{:T(512)} constant(false)
}

ENTRY %main (x: f32[256,128]) -> f32[256,128] {
  %x = f32[256,128]{1,0:T(8,128)} parameter(0)
  %first = f32[256,128]{1,0:T(8,128)} negate(%x)
  %state = (f32[256,128]{1,0:T(8,128)}) tuple(%first)
  %loop = (f32[256,128]{1,0:T(8,128)}) while(%state), condition=%condition, body=%body
  %out = f32[256,128]{1,0:T(8,128)} get-tuple-element(%loop), index=0
  ROOT %last = f32[256,128]{1,0:T(8,128)} negate(%out)
}
"""


def loop():
    module = parse_module(TUPLES)
    compilation = Compilation(TUPLES, module, module, None, (), 0.0)
    return price.source(TUPLES, assemble(compilation, hlo_program(module), {}, name="loop").program)


def test_control_flow_reads_and_writes_hbm_and_says_so():
    """Would catch a loop fed from fast memory, which its body does not expect, or a silent drop."""
    origin = loop()
    p = origin.program
    assert p.num_buffers == 6
    action = [DROP, NO_COPY, NO_COPY, NO_COPY, NO_COPY, NO_COPY]
    offsets = [-1, 0, 0, 0, 0, 0]
    actual, module = written(
        origin, make_mapping(p, action, offsets, [-1, 0, 2, 1, 2, 2], [-1, 2, 1, 2, 2, 2])
    )
    assert len(actual.left) == 3 and all("buffer" in line for line in actual.left)
    assert "while" in actual.left[0] and "never brought" in actual.left[2]
    entry = module.entry.by_name
    assert entry["first"].shape.memory_space == 3
    (fed,) = entry[entry["loop"].operands[0]].operands
    assert entry[fed].opcode == "copy-done" and entry[fed].shape.memory_space == 0
    assert entry["last"].shape.memory_space == 3 and module.entry.root.opcode == "copy-done"
    check_same_program(origin.module, module)


def test_a_game_of_another_program_is_refused(origin):
    """Would catch a price put on the wrong program."""
    with pytest.raises(InputError, match="is not the program"):
        price.source(text("mlp_train", "before"), origin.program)


def test_prices_outlive_the_process_that_was_killed_while_it_wrote_them(tmp_path):
    cache = price.PriceCache(tmp_path / "prices.jsonl")
    cache.put("a", 5)
    cache.put("b", None)
    with open(tmp_path / "prices.jsonl", "a") as stream:
        stream.write('{"c": 1')
    assert price.PriceCache(tmp_path / "prices.jsonl").prices == {"a": 5, "b": None}


def test_waits_are_those_of_the_latency_model_with_the_compilers_times(origin):
    """Would catch a stall counted in the wrong unit, or missing."""
    from learned_mapping_builders.tpu.price import Price

    names = origin.program.instruction_names
    slow = all_dropped(origin.program)
    actual = Price({name: 1000 for name in names} | {"extra": 7}, None, (), 0, 0, 0.0)
    assert price.with_stalls(origin.program, slow, actual)["stalled_cycles"] == pytest.approx(
        1000 * len(names) + 7
    )
    mapping = random_mapping(origin, 1)
    tight = replace(origin.program, copy_bytes_per_s=1e9)
    assert price.with_stalls(tight, mapping, actual)["stalled_cycles"] > actual.total * 2


SERVER = """
import json, sys, time
from pathlib import Path
for batch in json.loads(Path(sys.argv[-1], "batches.json").read_text()):
    names = [probe["instruction"] for probe in batch]
    if "crash" in names:
        sys.exit(139)
    if "hang" in names:
        time.sleep(60)
    print("cycles", json.dumps([len(name) for name in names]), flush=True)
"""
"""Stands for the compiler's process: it dies of one probe and hangs at another."""


def test_a_crash_and_a_hang_cost_their_own_probe_alone(monkeypatch, tmp_path):
    """Would catch a crash of the compiler that takes other prices along, or a process waited for
    without an end."""
    (tmp_path / "server.py").write_text(SERVER)
    command = [sys.executable, str(tmp_path / "server.py")]
    start = subprocess.Popen
    monkeypatch.setattr(
        pricing.subprocess, "Popen", lambda old, **options: start([*command, old[-2]], **options)
    )
    monkeypatch.setattr(pricing, "BATCH_SECONDS", 2.0)
    monkeypatch.setattr(pricing, "BATCH", 4)
    names = ["a", "bb", "crash", "ccc", "dddd", "hang", "eeeee", "f", "gg"]
    actual = {
        probe["instruction"]: cycles
        for probe, cycles in pricing.priced("", [{"instruction": n} for n in names])
    }
    assert actual == {n: None if n in ("crash", "hang") else len(n) for n in names}


def test_the_back_end_is_not_waited_for_for_ever(monkeypatch, origin, tmp_path):
    """Would catch a hang of the compiler that stops everything after it."""
    (tmp_path / "server.py").write_text("import time; time.sleep(60)")
    start = subprocess.Popen
    command = [sys.executable, str(tmp_path / "server.py")]
    monkeypatch.setattr(
        pricing.subprocess, "Popen", lambda old, **options: start(command, **options)
    )
    actual, module = written(origin, all_dropped(origin.program))
    with pytest.raises(CompilerError, match="ran past 1 seconds"):
        price.check(actual, module, V4, whole=False, seconds=1.0)
    (tmp_path / "server.py").write_text("raise SystemExit('layouts differ')")
    with pytest.raises(CompilerError, match="the TPU compiler failed: layouts differ"):
        price.check(actual, module, V4, whole=False, seconds=60.0)


def test_the_command_says_in_one_line_what_is_missing(capsys, tmp_path):
    """Would catch a traceback, or minutes of work before a mapping is found to be of no use."""
    origin, own, _ = step()
    game = replace(origin.program, name="step")
    write_program(tmp_path / "p.json", game)
    write_mapping_file(tmp_path / "bad.json", own, game)
    write_mapping_file(tmp_path / "good.json", all_dropped(game), game)
    assert "breaks a rule" in refusal(capsys, "price", tmp_path / "p.json", tmp_path / "bad.json")
    error = refusal(capsys, "price", tmp_path / "p.json", tmp_path / "good.json")
    assert ("is none of the sixty" if HAS_COMPILER else "pip install") in error


@needs_compiler
@pytest.mark.parametrize("name", list(GENERATIONS))
def test_the_compilers_own_mapping_costs_what_the_compiler_says(tmp_path, name):
    """Identity on a small step: written by us and compiled whole, priced alone, and by the normal
    compiler."""
    import jax
    import jax.numpy as jnp
    from learned_mapping_builders.tpu.compiler import compile_for_tpu

    def function(x, w1, w2):
        return jnp.tanh(jnp.tanh(x @ w1) @ w2).sum(axis=0)

    shapes = [
        jax.ShapeDtypeStruct(s, jnp.float32) for s in ((1024, 1024), (1024, 2048), (2048, 1024))
    ]
    generation = GENERATIONS[name]
    normal = compile_for_tpu(function, shapes, cycles=True, generation=generation)
    slow = compile_for_tpu(function, shapes, cycles=True, assign=False, generation=generation)
    hlo = hlo_program(normal.before)
    program = assemble(normal, hlo, {}, name="step", generation=generation).program
    origin = price.source(normal.before_text, program)
    cache = price.PriceCache(tmp_path / "prices.jsonl")
    for mapping, wanted in (
        (
            mapping_of_compiler(program, compiler_mapping(hlo, normal)),
            total_cycles(normal.generated),
        ),
        (all_dropped(program), total_cycles(slow.generated)),
    ):
        alone, whole = (
            price.price(origin, mapping, cache),
            price.price(origin, mapping, cache, whole=True),
        )
        assert alone.total == whole.total == wanted
        assert alone.left == () and 0 <= alone.fast_bytes <= program.fast_bytes
        assert (
            price.price(origin, mapping, price.PriceCache(tmp_path / "prices.jsonl")).compiled == 0
        )
    assert wanted > total_cycles(normal.generated)
    assert price.placed(normal.assigned, normal.assigned.entry.root) is not None
