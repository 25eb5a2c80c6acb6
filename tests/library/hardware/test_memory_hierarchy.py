"""The latency of mapped programs on instances small enough to work out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from by_hand import hand_program
from learned_mapping.errors import InputError
from learned_mapping.hardware.in_jax import MemoryHierarchy
from learned_mapping.hardware.memory_hierarchy import (
    COPY,
    DROP,
    NO_COPY,
    machine_of,
    placed_latency_s,
    program_latency,
)
from learned_mapping.mmap.rules import actions as rules
from learned_mapping.programs.program import Program, instruction_latency_table


def chain(*, uses: int = 3, copy_bytes_per_s: float = 4.0, result: bool = False) -> Program:
    """`uses` instructions: the first writes x (4 bytes), each of the others reads x and writes 0
    bytes.

    Each takes 2 s, 1 s with its buffer of x in fast memory. A copy of x takes 1 s.
    """
    return hand_program(
        [(t, "x", t == 0) for t in range(uses)],
        results="x" if result else (),
        copy_bytes_per_s=copy_bytes_per_s,
    )


def mapping(*decisions: tuple[int, int, int, int]) -> SimpleNamespace:
    """Columns of (action, offset, start, end)."""
    action, offset, start, end = (np.array(column) for column in zip(*decisions))
    return SimpleNamespace(action=action, offset=offset, start=start, end=end)


IN_HBM = (DROP, -1, -1, -1)


def test_all_in_hbm_takes_the_sum_of_slow_latencies():
    """Catches a clock that starts late or skips an instruction."""
    result = program_latency(chain(), mapping(IN_HBM, IN_HBM, IN_HBM))
    assert result.total_s == result.compute_s == 6.0
    assert result.copies == ()


def test_a_kept_tensor_takes_the_sum_of_fast_latencies():
    result = program_latency(
        chain(), mapping((NO_COPY, 0, 0, 2), (NO_COPY, 0, 1, 1), (NO_COPY, 0, 2, 2))
    )
    assert result.total_s == result.compute_s == 3.0


def test_dropping_what_lives_in_cmem_alone_costs_one_write_back():
    """Catches write-backs that are free, or charged for each of the two readers."""
    result = program_latency(chain(), mapping((NO_COPY, 0, 0, 2), IN_HBM, IN_HBM))
    assert result.write_back_s == 1.0
    assert result.total_s == 1.0 + 1.0 + 2.0 + 2.0
    assert result.copies == ((-1, 1.0, 2.0),)


def test_a_result_that_lives_in_cmem_alone_is_written_back_at_the_end():
    kept = mapping((NO_COPY, 0, 0, 2), IN_HBM, (NO_COPY, 0, 2, 2))
    # by the dropped read, not again at the end
    assert program_latency(chain(result=True), kept).write_back_s == 1.0
    kept = mapping((NO_COPY, 0, 0, 2), (NO_COPY, 0, 1, 1), (NO_COPY, 0, 2, 2))
    result = program_latency(chain(result=True), kept)
    assert (result.compute_s, result.write_back_s, result.total_s) == (3.0, 1.0, 4.0)
    copied = mapping((COPY, 0, 0, 1), (NO_COPY, 0, 2, 1), (NO_COPY, 0, 2, 2))
    assert program_latency(chain(result=True), copied).write_back_s == 0.0


def test_a_dropped_reader_waits_for_the_copy_out():
    """x is copied out over step 1, whose instruction reads it from HBM: it stalls for the whole
    second."""
    result = program_latency(chain(), mapping((COPY, 0, 0, 1), IN_HBM, IN_HBM))
    assert result.arrival_stall_s == 1.0
    assert result.total_s == 1.0 + 1.0 + 2.0 + 2.0


def test_a_slow_engine_makes_the_instruction_wait():
    """A copy of 3 s into fast memory over one step of 2 s stalls its reader for 1 s."""
    program = chain(copy_bytes_per_s=4.0 / 3.0)
    result = program_latency(program, mapping(IN_HBM, IN_HBM, (COPY, 0, 1, 2)))
    assert result.copies == ((2, 2.0, 5.0),)
    assert result.arrival_stall_s == pytest.approx(1.0)
    assert result.total_s == pytest.approx(2.0 + 2.0 + 1.0 + 1.0)


def test_copies_slow_instructions_down_where_they_contend():
    """One second of copying at half of HBM's bandwidth, wholly contending, costs a 2 s instruction
    half a second."""
    decisions = mapping(IN_HBM, IN_HBM, (COPY, 0, 1, 2))
    machine = replace(machine_of(chain()), hbm_bytes_per_s=8.0, contention=1.0)
    result = program_latency(chain(), decisions, machine)
    assert result.contention_s == pytest.approx(0.5)
    assert result.total_s == pytest.approx(5.5)


def test_writing_over_an_unfinished_copy_out_waits():
    """Instruction 1 updates x in place while x is still copied out over step 1, which takes until
    second 2."""
    uses = [(0, "x", True), (1, "x", False), (1, "y", True)]
    program = hand_program(uses, aliases={1: 0, 2: 0}, fast_bytes=4, saving_s=0.0)
    result = program_latency(
        program, mapping((COPY, 0, 0, 1), (NO_COPY, 0, 2, 1), (NO_COPY, 0, 1, 1))
    )
    assert result.overwrite_stall_s == 1.0
    assert result.total_s == 3.0


def test_the_parts_add_up():
    """Catches time that is lost between the parts of the breakdown."""
    for decisions in (
        mapping((NO_COPY, 0, 0, 2), IN_HBM, (NO_COPY, 0, 2, 2)),
        mapping((COPY, 0, 0, 1), IN_HBM, (COPY, 0, 2, 2)),
        mapping(IN_HBM, IN_HBM, (COPY, 0, 1, 2)),
    ):
        result = program_latency(chain(copy_bytes_per_s=1.3), decisions)
        stalls = (
            result.arrival_stall_s
            + result.overwrite_stall_s
            + result.write_back_s
            + result.contention_s
        )
        assert result.compute_s + stalls + result.drain_s == pytest.approx(result.total_s)


def test_instruction_tables_follow_the_roofline():
    """Catches swapped bandwidths and a table whose bits stand in the wrong order."""
    machine = MemoryHierarchy(
        hbm_bytes_per_s=1.0, cmem_bytes_per_s=10.0, peak_flop_per_s=1.0, overhead_s=0.5
    )
    assert instruction_latency_table(0.0, [10, 20], machine) == pytest.approx(
        [30.5, 21.5, 12.5, 3.5]
    )
    assert instruction_latency_table(25.0, [10, 20], machine) == pytest.approx(
        [30.5, 25.5, 25.5, 25.5]
    )


def test_placed_latency_reads_the_right_entry():
    program = chain()
    assert placed_latency_s(program, np.array([True, False, True])).tolist() == [1.0, 2.0, 1.0]


def test_unusable_machines_are_refused():
    for change in (
        {"copy_bytes_per_s": 0.0},
        {"hbm_bytes_per_s": float("nan")},
        {"contention": 2.0},
        {"overhead_s": -1},
    ):
        with pytest.raises(InputError, match=next(iter(change))):
            program_latency(chain(), mapping(IN_HBM, IN_HBM, IN_HBM), MemoryHierarchy(**change))


def test_the_hierarchy_is_a_pytree():
    """A sweep over bandwidths is a tree map."""
    leaves, structure = jax.tree.flatten(MemoryHierarchy())
    assert len(leaves) == 7
    assert jax.tree.unflatten(structure, leaves) == MemoryHierarchy()


def test_action_codes_are_the_games():
    assert (COPY, NO_COPY, DROP) == (rules.COPY, rules.NO_COPY, rules.DROP)
