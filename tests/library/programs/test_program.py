"""Program: derived arrays against hand-worked values, and every kind of invalid program."""

import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.errors import InputError
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.program import NO_ALIAS, make_program


def three_steps(**changes):
    """w, x -> multiply -> y; y -> update in place -> z; y is dead then; w, z -> add -> r, a
    result."""
    fields = {
        "name": "three",
        "fast_bytes": 1024,
        "copy_bytes_per_s": 1000.0,
        "instruction_names": ["multiply", "update", "add"],
        "instruction_kinds": ["dot_general", "update", "add"],
        "tensor_names": ["w", "x", "y", "z", "r"],
        "tensor_bytes": [100, 200, 300, 300, 400],
        "tensor_is_parameter": [True, True, False, False, False],
        "tensor_is_output": [False, False, False, False, True],
        "buffer_instruction": [0, 0, 0, 1, 1, 2, 2, 2],
        "buffer_tensor": [0, 1, 2, 2, 3, 0, 3, 4],
        "buffer_is_output": [False, False, True, False, True, False, False, True],
        "buffer_alias": [-1, -1, -1, 7, 7, -1, -1, -1],
        "buffer_bit": [0, 1, 2, 0, 1, -1, 0, 1],
        "latency_offsets": [0, 8, 12, 16],
        "latency_s": [8, 7, 6, 5, 4, 3, 2, 1, 4, 3, 2, 1, 9, 6, 5, 3],
    }
    return make_program(**{**fields, **changes})


def test_derived_arrays():
    """Would catch a wrong reading of the latency tables or live ranges: all values are worked out
    by hand."""
    program = three_steps()
    assert (program.num_instructions, program.num_buffers, program.num_tensors) == (3, 8, 5)
    assert program.buffer_offsets.tolist() == [0, 3, 5, 8]
    assert program.buffer_bytes.tolist() == [100, 200, 300, 300, 300, 100, 300, 400]
    assert program.buffer_demand_s.tolist() == [0.1, 0.2, 0.3, 0.3, 0.3, 0.1, 0.3, 0.4]
    assert program.slow_s.tolist() == [8, 4, 9]
    assert program.supply_s.tolist() == [1, 1, 3]
    assert program.possible_saving_s == 16
    assert program.initial_benefit_s.tolist() == [1, 2, 4, 1, 2, 0, 3, 4]
    assert program.tensor_live.tolist() == [[0, 2], [0, 0], [0, 1], [1, 2], [2, 2]]
    assert program.buffer_alias.tolist() == [-1, -1, -1, 0, 0, -1, -1, -1]
    assert program.num_alias_groups == 1


def test_the_possible_saving_is_that_of_the_best_subsets():
    """Would catch the last entry of a table taken for its least: here the instruction `add` is best
    with one buffer."""
    slower = three_steps(latency_s=[8, 7, 6, 5, 4, 3, 2, 1, 4, 3, 2, 1, 9, 2, 5, 11])
    assert slower.supply_s.tolist() == [1, 1, 11]
    assert slower.possible_saving_s == 7 + 3 + 7


def test_nothing_to_save_is_a_return_of_0():
    """Would catch a division by 0, and a negative share, where fast memory only makes instructions
    slower."""
    program = three_steps(latency_s=[1, 2, 2, 2, 2, 2, 2, 3, 1, 2, 2, 2, 1, 2, 2, 2])
    assert program.possible_saving_s == 0.0
    for method in ("greedy", "heuristic"):
        solved = solve(program, method)
        assert solved.metrics["return"] == validate(program, solved.solution).costs["return"] == 0.0
    # placing what makes it slower would be worse
    assert solve(program, "greedy").metrics["saving_s"] == 0.0


def test_another_machine():
    """Would catch a machine sweep that keeps values derived for the old machine."""
    program = three_steps()
    assert program.buffer_demand_s[0] == 0.1
    other = program.with_memory(fast_bytes=10, copy_bytes_per_s=100.0)
    assert other.buffer_demand_s[0] == 1.0
    assert other.digest != program.digest
    for bad in ({"copy_bytes_per_s": 0}, {"fast_bytes": -1}, {"copy_bytes_per_s": float("nan")}):
        with pytest.raises(InputError):
            program.with_memory(**bad)


def test_digest_ignores_names_of_groups():
    """Would catch two files of one game that differ in how they number alias groups being taken for
    two games."""
    assert three_steps(buffer_alias=[-1, -1, -1, 3, 3, -1, -1, -1]).digest == three_steps().digest


def test_benefits_are_monotone_in_random_programs():
    """Would catch a roofline in which fast memory slows an instruction down."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        program = random_program(rng, 200)
        assert np.all(program.slow_s >= program.supply_s)
        assert program.possible_saving_s >= program.initial_benefit_s.max()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"instruction_names": [], "instruction_kinds": []}, "instructions"),
        ({"instruction_names": ["multiply", "update", "update"]}, "instructions[2].name"),
        ({"tensor_names": ["w", "x", "y", "z", "z"]}, "tensors[4].name"),
        ({"instruction_kinds": ["add"]}, "instruction_kinds"),
        ({"fast_bytes": -5}, "memory.fast_bytes"),
        ({"copy_bytes_per_s": 0.0}, "memory.copy_bytes_per_s"),
        ({"copy_bytes_per_s": float("nan")}, "memory.copy_bytes_per_s"),
        ({"tensor_bytes": [100, 200, 300, 300, -400]}, "tensor_bytes[4]"),
        ({"tensor_bytes": [100, 200, 300, 301, 400]}, "instructions[1].buffers"),
        ({"tensor_is_parameter": [True, False, False, False, False]}, "instructions[0].buffers"),
        ({"tensor_is_parameter": [True, True, True, False, False]}, "instructions[0].buffers"),
        ({"buffer_tensor": [0, 1, 2, 2, 2, 0, 3, 4]}, "instructions[1].buffers"),
        ({"buffer_tensor": [0, 0, 2, 2, 3, 0, 3, 4]}, "instructions[0].buffers"),
        ({"buffer_tensor": [0, 1, 2, 2, 3, 0, 3, 5]}, "buffer_tensor[7]"),
        (
            {"buffer_is_output": [False, False, True, False, True, True, False, True]},
            "instructions[2].buffers",
        ),
        ({"buffer_instruction": [0, 0, 0, 1, 1, 2, 2, 3]}, "buffer_instruction[7]"),
        ({"buffer_instruction": [0, 1, 0, 1, 1, 2, 2, 2]}, "instructions[0].buffers"),
        ({"buffer_bit": [0, 1, 1, 0, 1, -1, 0, 1]}, "instructions[0].varied"),
        ({"buffer_bit": [0, 1, 8, 0, 1, -1, 0, 1]}, "buffer_bit[2]"),
        ({"latency_s": [8, 7, 6, 5, 4, 3, 2, 1, 4, 3, 2, 1, 9, 6, 5, -3]}, "latency_s[15]"),
        ({"latency_offsets": [0, 8, 12, 15]}, "latency_offsets"),
        ({"latency_offsets": [0, 7, 12, 16]}, "instructions[0].latency_s"),
        ({"latency_offsets": [0, 8, 12]}, "latency_offsets"),
        (
            {
                "tensor_names": ["w", "x", "y", "z", "r", "s"],
                "tensor_bytes": [1, 1, 3, 3, 4, 1],
                "tensor_is_parameter": [True, True, False, False, False, False],
                "tensor_is_output": [False] * 6,
            },
            "tensors[5]",
        ),
    ],
)
def test_invalid_programs_are_named(changes, field):
    """Would catch an invalid program let through, or an error that names the wrong field."""
    with pytest.raises(InputError) as caught:
        three_steps(**changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_no_alias_is_kept():
    """Would catch the sentinel being renumbered into a group."""
    assert three_steps(buffer_alias=[NO_ALIAS] * 8).num_alias_groups == 0
