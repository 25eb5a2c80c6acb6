"""Generators: everyone's property tests rest on them, so they must be valid, exact in size and
reproducible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learned_mapping_builders.synthetic_programs import peak_live_bytes, random_program

from learned_mapping.errors import InputError
from learned_mapping.programs.program import NO_ALIAS
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 300))
def test_random_programs_are_valid_and_exact(seed, num_buffers):
    """Would catch a generator that breaks data flow (make_program validates) or misses the size
    asked for."""
    program = random_program(np.random.default_rng(seed), num_buffers)
    assert program.num_buffers == num_buffers
    assert np.all(program.slow_s >= program.supply_s) and program.supply_s.min() > 0
    assert np.all(program.initial_benefit_s >= 0)


def test_same_seed_same_program():
    """Would catch hidden global randomness."""
    one, two, other = (random_program(np.random.default_rng(seed), 200) for seed in (3, 3, 4))
    assert one.digest == two.digest != other.digest


def test_difficulty_knobs_hold():
    """Would catch a capacity or a copy bandwidth that does not follow its knob."""
    program = random_program(np.random.default_rng(0), 500, fast_fraction=0.25, copy_ratio=2.0)
    assert program.fast_bytes == pytest.approx(0.25 * peak_live_bytes(program), rel=0.01)
    demand = program.buffer_demand_s[~program.buffer_is_output].sum()
    assert demand / program.supply_s.sum() == pytest.approx(2.0)


def test_updated_tensors_die_and_groups_chain():
    """Would catch a read of a tensor after its in-place update, and a generator that never makes
    long groups."""
    program = random_program(np.random.default_rng(1), 2000, alias_fraction=0.4, alias_chain=0.9)
    members: dict[int, list[int]] = {}
    for buffer, group in enumerate(program.buffer_alias.tolist()):
        if group != NO_ALIAS:
            members.setdefault(group, []).append(buffer)
    assert max(len(buffers) for buffers in members.values()) > 2
    assert all(len(buffers) % 2 == 0 for buffers in members.values())
    for buffers in members.values():
        for b in buffers:
            if not program.buffer_is_output[b]:
                tensor, step = program.buffer_tensor[b], program.buffer_instruction[b]
                assert program.tensor_live[tensor, 1] == step


def test_wide_instructions_leave_small_buffers_unvaried():
    """Would catch a table over more than 8 buffers, or one that varies the small ones."""
    program = random_program(np.random.default_rng(2), 300, max_inputs=12)
    assert (program.buffer_bit < 0).any()
    for t in range(program.num_instructions):
        span = slice(program.buffer_offsets[t], program.buffer_offsets[t + 1])
        varied = program.buffer_bit[span] >= 0
        sizes = program.buffer_bytes[span]
        assert varied.sum() == min(8, len(varied))
        if not varied.all():
            assert sizes[varied].min() >= sizes[~varied].max()


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(GRAPH_FAMILIES)), st.integers(0, 2**32), st.integers(1, 150))
def test_random_graphs_are_valid_and_exact(family, seed, num_ops):
    """Would catch a family that makes cycles (make_graph validates), misses the size, or drops an
    op."""
    graph = random_graph(np.random.default_rng(seed), family, num_ops)
    assert graph.num_ops == num_ops
    assert graph.op_seconds.min() > 0 and graph.tensor_bytes.min() > 0
    assert set(graph.tensor_producer.tolist()) == set(range(num_ops))
    assert graph.digest == random_graph(np.random.default_rng(seed), family, num_ops).digest


def test_families_have_their_shape():
    """Would catch two names for one family: towers fan out once, series-parallel graphs have one
    source and sink."""
    rng = np.random.default_rng(5)
    towers = random_graph(rng, "towers", 100)
    fan_out = np.bincount(towers.op_edges[:, 0], minlength=100)
    assert fan_out[0] == fan_out.max() >= 2
    series = random_graph(rng, "series-parallel", 100)
    assert len(set(range(100)) - set(series.op_edges[:, 1].tolist())) == 1
    assert len(set(range(100)) - set(series.op_edges[:, 0].tolist())) == 1


def test_bad_arguments_are_input_errors():
    """Would catch a traceback where a user mistypes a family."""
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="layered"):
        random_graph(rng, "layerd", 10)
    with pytest.raises(InputError):
        random_graph(rng, "layered", 0)
    with pytest.raises(InputError):
        random_program(rng, 1)
