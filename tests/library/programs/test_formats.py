"""Graph and program files: what is written is read back equal."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learned_mapping_builders.synthetic_programs import random_program

from cli_files import GRAPH, PROGRAM
from learned_mapping.errors import InputError
from learned_mapping.programs import formats
from learned_mapping.programs.json_io import Node, parse_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def graph_of(value):
    return formats.graph_from_json(parse_json(json.dumps(value).encode(), "file"))


def program_of(value):
    return formats.program_from_json(parse_json(json.dumps(value).encode(), "file"))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(GRAPH_FAMILIES)),
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.booleans(),
)
def test_graphs_survive_the_round_trip(family, seed, num_ops, timed):
    """Would catch any field lost or changed on the way through the file, including the last bit of
    a float."""
    graph = random_graph(np.random.default_rng(seed), family, num_ops)
    value = formats.graph_to_json(graph)
    if not timed:
        for op in value["ops"]:
            del op["seconds"]
    again = graph_of(value)
    assert formats.graph_to_json(again) == value
    assert (again.digest == graph.digest) == timed
    assert again.metadata == graph.metadata and again.name == graph.name


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 120), st.integers(1, 12))
def test_programs_survive_the_round_trip(seed, num_buffers, max_inputs):
    """Would catch any field lost or changed on the way through the file, tables of unvaried buffers
    included."""
    program = random_program(
        np.random.default_rng(seed), num_buffers, alias_fraction=0.3, max_inputs=max_inputs
    )
    again = program_of(formats.program_to_json(program))
    assert again.digest == program.digest
    assert formats.program_to_json(again) == formats.program_to_json(program)


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_files_on_disk(tmp_path, name):
    """Would catch a compressed file that differs from run to run, or a half-written folder."""
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    formats.write_graph(tmp_path / name, graph)
    first = (tmp_path / name).read_bytes()
    formats.write_graph(tmp_path / name, graph)
    assert (tmp_path / name).read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert formats.read_graph(tmp_path / name).digest == graph.digest
    program = random_program(np.random.default_rng(1), 30)
    formats.write_program(tmp_path / name, program)
    assert formats.read_program(tmp_path / name).digest == program.digest


def test_a_name_no_folder_can_hold_is_refused(tmp_path):
    with pytest.raises(InputError):
        formats.read_graph(tmp_path / "a\0b")


def test_graphs_as_other_tools_write_them():
    """Numbers for ids, floats for bytes, no kinds and no arithmetic where times are given."""
    value = copy.deepcopy(GRAPH)
    value["ops"] = [{"name": i, "seconds": 1e-3} for i in range(4)]
    for tensor in value["tensors"]:
        tensor |= {"producer": "abcd".index(tensor["producer"]), "bytes": float(tensor["bytes"])}
        tensor["consumers"] = ["abcd".index(name) for name in tensor["consumers"]]
    graph = formats.graph_from_json(Node(value, "graph"))
    assert graph.op_names == ("0", "1", "2", "3") and graph.tensor_bytes.tolist() == [
        1024,
        2048,
        1024,
        512,
    ]
    del value["ops"][0]["seconds"]
    with pytest.raises(InputError):
        formats.graph_from_json(Node(value, "graph"))


def test_an_instruction_that_reads_a_tensor_twice_reads_it_once():
    """x * x: both uses are in fast memory or neither, so two entries of the table remain."""
    value = copy.deepcopy(PROGRAM)
    value["instructions"][1]["buffers"].insert(0, {"tensor": "h", "role": "input"})
    value["instructions"][1]["latency_s"] = [8e-6, 1, 1, 6e-6, 7e-6, 1, 1, 5e-6]
    program = formats.program_from_json(Node(value, "program"))
    assert program.num_buffers == 4 and program.latency_s[4:].tolist() == [8e-6, 6e-6, 7e-6, 5e-6]
