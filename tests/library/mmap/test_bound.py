"""The linear relaxation holds every game, and so its bound is one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from learned_mapping.mmap.bounds import upper
from learned_mapping.mmap.bounds.relaxation import LinearProgram, Relaxation, minimal_copies
from learned_mapping.mmap.bounds.upper import integer_bound, upper_bound
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.methods import METHODS, solve
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.programs.program import Program
from mmap_games import as_mapping, games, hard_program


def held_since(program: Program, mapping: Mapping) -> dict[int, bool]:
    """k_j of the relaxation's docstring, for every buffer j that is not its tensor's first."""
    result: dict[int, bool] = {}
    for tensor in range(program.num_tensors):
        buffers = np.flatnonzero(program.buffer_tensor == tensor).tolist()
        allocations: list[list[int]] = []  # first buffer, start, end; extensions joined
        for b in buffers:
            if mapping.action[b] == NO_COPY and not program.buffer_is_output[b]:
                latest = max(allocations, key=lambda allocation: allocation[2])
                latest[2] = max(latest[2], int(mapping.end[b]))
            elif mapping.action[b] != DROP:
                allocations.append([b, int(mapping.start[b]), int(mapping.end[b])])
        for i, j in itertools.pairwise(buffers):
            low, high = program.buffer_instruction[i], program.buffer_instruction[j]
            result[j] = any(
                first <= i and start <= low and high <= end for first, start, end in allocations
            )
    return result


def best_completion(relaxation: Relaxation, mapping: Mapping) -> float:
    """The relaxation's optimum with p, c and k fixed at a game's values; fails where no point has
    them."""
    linear, program = relaxation.linear, relaxation.program
    low, high = np.zeros(linear.num_variables), np.ones(linear.num_variables)
    kept = held_since(program, mapping)
    for b in relaxation.buffers:
        assert b in relaxation.placed or mapping.action[b] == DROP
        assert b in relaxation.copied or mapping.action[b] != COPY
    for b, variable in relaxation.placed.items():
        low[variable] = high[variable] = mapping.action[b] != DROP
    for b, variable in relaxation.copied.items():
        low[variable] = high[variable] = mapping.action[b] == COPY
    for b, variable in relaxation.kept.items():
        low[variable] = high[variable] = kept[b]
    shape = (len(linear.limits), linear.num_variables)
    matrix = coo_array((linear.values, (linear.rows, linear.columns)), shape=shape).tocsr()
    bounds = np.stack([low, high], axis=1)
    solved = linprog(-np.array(linear.objective), A_ub=matrix, b_ub=linear.limits, bounds=bounds)
    assert solved.status == 0, solved.message
    return linear.constant - solved.fun


def test_every_game_is_a_point_of_the_relaxation():
    """Catches a constraint that some game breaks, which no comparison of values would notice before
    it does harm."""
    for seed in range(40):
        program = hard_program(seed)
        relaxation = Relaxation(program, 0, program.num_instructions)
        for game in games(program, seed):
            assert best_completion(relaxation, as_mapping(program, game)) == pytest.approx(
                game.value, abs=1e-6
            )


def test_every_game_is_a_point_of_every_window():
    """The same for windows: their optima at a game's decisions add up to its return."""
    for seed in range(12):
        program = hard_program(seed, 60)
        cut = program.num_instructions // 2
        for game in games(program, seed):
            mapping = as_mapping(program, game)
            parts = [
                best_completion(Relaxation(program, first, last), mapping)
                for first, last in ((0, cut), (cut, program.num_instructions))
            ]
            assert sum(parts) == pytest.approx(game.value, abs=1e-6)


def test_no_method_beats_the_bound(monkeypatch):
    """Every method but those that learn, which `tests/library/test_conformance.py` holds to the same."""
    for seed in range(2):
        program = hard_program(seed, 50)
        bound = upper_bound(program)
        with monkeypatch.context() as patched:
            patched.setattr(upper, "MAX_EXACT_BUFFERS", 20)
            patched.setattr(upper, "LINEAR_WINDOW", 20)
            windows = upper_bound(program)
        assert bound.exact and not windows.exact
        assert windows.value >= bound.value - 1e-9
        whole = integer_bound(program)
        assert whole.value <= bound.value
        for method in (
            name for name, item in METHODS.items() if not item.resumable and name != "ppo"
        ):
            assert (
                solve(program, method, seed=seed, samples=60).metrics["return"]
                <= whole.value + 1e-9
            )


def test_whole_decisions_tighten_the_bound():
    """Catches an integer program that is solved as a linear one."""
    gains = [
        upper_bound(p).value - integer_bound(p).value
        for p in (hard_program(seed, 60) for seed in range(6))
    ]
    assert min(gains) >= 0.0 and max(gains) > 0.005


def test_the_toy_game():
    """The bound lies between the known optimum, 2/3, and everything in fast memory."""
    assert 2 / 3 - 1e-9 <= upper_bound(toy_program()).value < 1.0


def test_where_nothing_fits_the_bound_is_0():
    """Catches a solver called without a variable."""
    program = toy_program().with_memory(fast_bytes=1)
    for bound in (upper_bound(program), integer_bound(program)):
        assert (bound.value, bound.saving_s) == (0.0, 0.0)


def test_no_bound_passes_1_where_fast_memory_can_do_harm():
    """Catches a return relative to everything in fast memory, where the best subsets save more."""
    toy = toy_program().with_memory(fast_bytes=64, copy_bytes_per_s=1e9)
    tables = toy.latency_s.copy()
    tables[toy.latency_offsets[1:] - 1] += 1.5  # every full table entry: worse than all but one
    program = replace(toy, latency_s=tables)
    value = solve(program, "random", samples=400).metrics["return"]
    assert 0.0 < value <= integer_bound(program).value <= upper_bound(program).value <= 1.0


def test_scarce_memory_and_copies_lower_the_bound():
    """Catches constraints that are written down but do not bind."""
    program = hard_program(5, 200)
    roomy = program.with_memory(fast_bytes=2**45, copy_bytes_per_s=1e15)
    assert 0.95 < upper_bound(roomy).value < 1.0  # operands of the first instruction come too late
    assert upper_bound(roomy.with_memory(fast_bytes=program.fast_bytes // 8)).value < 0.9
    no_copies = roomy.with_memory(copy_bytes_per_s=1.0)
    kept = upper_bound(no_copies).value
    assert kept < 0.9
    assert solve(no_copies, "greedy").metrics["return"] == pytest.approx(kept)


def test_any_multipliers_give_a_bound():
    """max x + y, x + y <= 1 over the unit box: the Lagrangian is at least 1 whatever the solver
    says."""
    linear = LinearProgram()
    x, y = linear.variable(1.0), linear.variable(1.0)
    linear.at_most([(x, 1.0), (y, 1.0)], 1.0)
    assert linear.bound() == pytest.approx(1.0)
    for multiplier in (0.0, 0.3, 1.0, 5.0):
        assert linear.lagrangian(np.array([multiplier])) >= 1.0


def test_minimal_copies_by_hand():
    """Each step of the toy supplies 1 s, which copies 4 bytes."""
    program = toy_program()
    assert minimal_copies(program)[program.buffer_tensor == 0][0].tolist() == [0, 1]
