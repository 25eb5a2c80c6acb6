"""Graph and program files: what is written is read back equal, and a stranger's file gets one clear line."""

from __future__ import annotations

import copy
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_mapping.errors import InputError
from learned_mapping.programs.formats import (
    graph_from_json,
    graph_to_json,
    program_from_json,
    program_to_json,
    read_graph,
    read_program,
    write_graph,
    write_program,
)
from learned_mapping.programs.json_io import parse_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from synthetic_programs import random_program

SMALL_GRAPH = graph_to_json(random_graph(np.random.default_rng(0), "layered", 6))
SMALL_PROGRAM = program_to_json(random_program(np.random.default_rng(0), 12, alias_fraction=0.5))


def graph_of(value):
    return graph_from_json(parse_json(json.dumps(value).encode(), "file"))


def program_of(value):
    return program_from_json(parse_json(json.dumps(value).encode(), "file"))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(GRAPH_FAMILIES)), st.integers(0, 2**32), st.integers(1, 60), st.booleans())
def test_graphs_survive_the_round_trip(family, seed, num_ops, timed):
    """Would catch any field lost or changed on the way through the file, including the last bit of a float."""
    graph = random_graph(np.random.default_rng(seed), family, num_ops)
    value = graph_to_json(graph)
    if not timed:
        for op in value["ops"]:
            del op["seconds"]
    again = graph_of(value)
    assert graph_to_json(again) == value
    assert (again.digest == graph.digest) == timed
    assert again.metadata == graph.metadata and again.name == graph.name


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 120), st.integers(1, 12))
def test_programs_survive_the_round_trip(seed, num_buffers, max_inputs):
    """Would catch any field lost or changed on the way through the file, tables of unvaried buffers included."""
    program = random_program(np.random.default_rng(seed), num_buffers, alias_fraction=0.3, max_inputs=max_inputs)
    again = program_of(program_to_json(program))
    assert again.digest == program.digest
    assert program_to_json(again) == program_to_json(program)


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_files_on_disk(tmp_path, name):
    """Would catch a compressed file that differs from run to run, or a half-written folder."""
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    write_graph(tmp_path / name, graph)
    first = (tmp_path / name).read_bytes()
    write_graph(tmp_path / name, graph)
    assert (tmp_path / name).read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert read_graph(tmp_path / name).digest == graph.digest
    program = random_program(np.random.default_rng(1), 30)
    write_program(tmp_path / name, program)
    assert read_program(tmp_path / name).digest == program.digest


def changed(value, path, new):
    """A copy of a JSON value with one place replaced, or removed where `new` is None."""
    value = copy.deepcopy(value)
    target = value
    for key in path[:-1]:
        target = target[key]
    if new is None:
        del target[path[-1]]
    else:
        target[path[-1]] = new
    return value


GRAPH_FAULTS = [
    (("schema",), None, "schema"),
    (("schema",), "learned-mapping/program/1", "schema"),
    (("schema",), "learned-mapping/graph/2", "schema"),
    (("schema",), 3, "schema"),
    (("name",), "", "name"),
    (("name",), "a\nb", "name"),
    (("name",), "\ud800", "name"),
    (("surplus",), 1, "surplus"),
    (("ops",), {}, "ops"),
    (("ops",), [], "tensors[0].producer"),
    (("ops", 0), [], "ops[0]"),
    (("ops", 0, "name"), 7.5, "ops[0].name"),
    (("ops", 0, "name"), "op.1", "ops[1].name"),
    (("ops", 2, "flop"), -1, "ops[2].flop"),
    (("ops", 2, "flop"), "1", "ops[2].flop"),
    (("ops", 2, "flop"), True, "ops[2].flop"),
    (("ops", 2, "flop"), 10**40, "ops[2].flop"),
    (("ops", 2, "seconds"), None, "ops"),
    (("ops", 2, "seconds"), -0.5, "ops[2].seconds"),
    (("ops", 1, "weight_bytes"), 0.5, "ops[1].weight_bytes"),
    (("ops", 1, "weight_bytes"), 2**60, "ops[1].weight_bytes"),
    (("ops", 1, "untouched_bytes"), -1, "ops[1].untouched_bytes"),
    (("ops", 1, "untouched_bytes"), 2**60, "ops[1].untouched_bytes"),
    (("tensors", 0, "producer"), "nobody", "tensors[0].producer"),
    (("tensors", 0, "producer"), 0, "tensors[0].producer"),
    (("tensors", 0, "bytes"), -4, "tensors[0].bytes"),
    (("tensors", 0, "bytes"), 1.5, "tensors[0].bytes"),
    (("tensors", 0, "bytes"), 10**500, "tensors[0].bytes"),
    (("tensors", 0, "consumers"), ["op.5", "op.5"], "tensors[0].consumers[1]"),
    (("tensors", 0, "consumers"), ["op.99"], "tensors[0].consumers[0]"),
    (("tensors", 0, "consumers"), None, "tensors[0]"),
    (("tensors", 0, "consumers"), ["op.0"], "ops[0]"),
    (("tensors", 0, "output"), "yes", "tensors[0].output"),
    (("tensors", 1, "name"), SMALL_GRAPH["tensors"][0]["name"], "tensors[1].name"),
    (("tensors", 5, "consumers"), ["op.0"], "ops[0]"),
    (("metadata",), [], "metadata"),
]


@pytest.mark.parametrize(("path", "new", "field"), GRAPH_FAULTS)
def test_faulty_graph_files_are_named(path, new, field):
    """Would catch a fault let through, a traceback, or a message about another field."""
    with pytest.raises(InputError) as caught:
        graph_of(changed(SMALL_GRAPH, path, new))
    assert field in str(caught.value) and "file" in str(caught.value) and "\n" not in str(caught.value)


PROGRAM_FAULTS = [
    (("schema",), "learned-mapping/graph/1", "schema"),
    (("memory",), None, "memory"),
    (("memory", "fast_bytes"), -1, "memory.fast_bytes"),
    (("memory", "fast_bytes"), 1000000.5, "memory.fast_bytes"),
    (("memory", "copy_bytes_per_s"), 0, "memory.copy_bytes_per_s"),
    (("memory", "fast_bytes"), 0, "memory.fast_bytes"),
    (("memory", "speed"), 1, "speed"),
    (("tensors", 0, "bytes"), -1, "tensors[0].bytes"),
    (("tensors", 0, "name"), SMALL_PROGRAM["tensors"][1]["name"], "tensors[1].name"),
    (("tensors", 0, "parameter"), 1, "tensors[0].parameter"),
    (("instructions",), [], "instructions"),
    (("instructions", 0, "name"), "instruction.1", "instructions[1].name"),
    (("instructions", 0, "buffers", 0, "tensor"), "nobody", "instructions[0].buffers[0].tensor"),
    (("instructions", 0, "buffers", 0, "role"), "both", "instructions[0].buffers[0].role"),
    (("instructions", 0, "buffers", 0, "role"), "output", "instructions[0]"),
    (("instructions", 0, "buffers", 0, "alias"), -2, "instructions[0].buffers[0].alias"),
    (("instructions", 0, "buffers", 0, "alias"), 2**40, "instructions[0].buffers[0].alias"),
    (("instructions", 0, "varied"), [0, 0], "instructions[0].varied[1]"),
    (("instructions", 0, "varied"), [99], "instructions[0].varied[0]"),
    (("instructions", 0, "varied"), [0], "instructions[0].latency_s"),
    (("instructions", 0, "latency_s"), [], "instructions[0].latency_s"),
    (("instructions", 0, "latency_s", 1), -1e-9, "instructions[0].latency_s[1]"),
    (("instructions", 0, "latency_s", 1), "fast", "instructions[0].latency_s[1]"),
    (("instructions", 0, "buffers"), "all", "instructions[0].buffers"),
    (("tensors", 0), "t", "tensors[0]"),
]


@pytest.mark.parametrize(("path", "new", "field"), PROGRAM_FAULTS)
def test_faulty_program_files_are_named(path, new, field):
    """Would catch a fault let through, a traceback, or a message about another field."""
    with pytest.raises(InputError) as caught:
        program_of(changed(SMALL_PROGRAM, path, new))
    assert field in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "schema"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"schema": NaN}', "finite"),
        (b'{"schema": "learned-mapping/graph/1", "schema": "learned-mapping/graph/1"}', "twice"),
        (b"[" * 100_000, "nested"),
        (b'{"schema": "learned-mapping/graph/1", "name": "x", "metadata": {"a": 1e999}}', "float"),
        (b'{"schema": "learned-mapping/graph/1", "name": "x", "ops": [{"name": "a", "kind": "b", "flop": 0}], '
         b'"tensors": [], "metadata": {"a": ' + b"[" * 40 + b"]" * 40 + b"}}", "nested deeper"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_said_so(data, fault):
    """Would catch a traceback from the JSON parser, or a value that cannot be written again."""
    with pytest.raises(InputError, match=fault):
        graph_from_json(parse_json(data, "file"))


def test_files_that_cannot_be_read(tmp_path):
    """Would catch a traceback for a missing, truncated or wrongly compressed file."""
    whole = gzip.compress(json.dumps(SMALL_GRAPH).encode())
    (tmp_path / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "plain.json.gz").write_text("{}")
    (tmp_path / "cut.json").write_text(json.dumps(SMALL_GRAPH)[:200])
    for name in ("cut.json.gz", "plain.json.gz", "cut.json", "missing.json", "", "a\0b"):
        with pytest.raises(InputError) as caught:
            read_graph(tmp_path / name if name else tmp_path)
        assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value, prefix=()):
    """Paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*prefix, key)
        yield from places(inner, (*prefix, key))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_damage_is_an_input_error_or_harmless(data):
    """Would catch any exception but `InputError` that a damaged file can cause, and values no graph may hold."""
    whole, read = data.draw(st.sampled_from([(SMALL_GRAPH, graph_of), (SMALL_PROGRAM, program_of)]))
    path = data.draw(st.sampled_from(list(places(whole))))
    damaged = changed(whole, path, data.draw(json_values))
    try:
        found = read(damaged)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert found.digest
