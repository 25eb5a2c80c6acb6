"""The compiler's heuristic under the game's rules, and the two books it keeps."""

from dataclasses import replace

import numpy as np
import pytest

from by_hand import hand_program
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.mmap.searches.heuristic import (
    Settings,
    heuristic,
    values_by_benefit,
    values_of,
)
from learned_mapping.mmap.searches.resources import CopySchedule, FreeSpace
from learned_mapping.mmap.validate import validate
from mmap_games import hard_program


@pytest.mark.parametrize("seed", range(40))
def test_every_mapping_is_valid(seed):
    """Would catch any slip in space, supply, alias groups or intervals: the validator shares no
    code."""
    program = hard_program(seed)
    for settings in (Settings(), Settings(overlap=0.0, longest=0.5)):
        verdict = validate(program, heuristic(program, settings))
        assert verdict.valid, verdict.violations[0]
    assert heuristic(program) == heuristic(program)


def test_something_is_placed():
    """Would catch a heuristic that is valid because it drops everything."""
    shares = [
        validate(program, heuristic(program)).costs["return"]
        for program in map(hard_program, range(20))
    ]
    assert np.mean(shares) > 0.3 and min(shares) >= 0


def test_the_toy_game():
    """By hand: w and x come before y, a copy and a stay of 4 bytes against 8; that is the optimum
    of 2/3."""
    mapping = heuristic(toy_program())
    assert validate(toy_program(), mapping).costs["return"] == pytest.approx(2 / 3)
    assert mapping.action.tolist() == [NO_COPY, NO_COPY, DROP, DROP, COPY, NO_COPY]


def test_a_result_is_copied_out_and_a_stay_is_kept():
    """Would catch a result left in fast memory alone, and a second copy of what is still there."""
    program = hand_program(
        [(0, "x", True), (1, "x", False), (2, "p", False), (2, "r", True), (3, "p", False)],
        parameters=("p",),
        results=("r",),
        fast_bytes=16,
    )
    mapping = heuristic(program)
    assert mapping.action.tolist() == [NO_COPY, NO_COPY, COPY, COPY, NO_COPY]
    assert (mapping.start[3], mapping.end[3]) == (2, 3)  # out over step 3
    assert validate(program, mapping).costs["return"] == pytest.approx(1.0)


def test_the_prefetch_begins_at_the_preferred_overlap():
    """A copy of 1 s beside instructions of 2 s each in HBM (1 s at best): 1.5 copies are nearest to
    one of them, four copies to two. With no preference met by Eq. 5 the next is taken."""
    program = hand_program([(3, "p", False)], parameters=("p",), fast_bytes=16)
    near = heuristic(program)
    assert (near.start[0], near.end[0]) == (2, 3)
    far = heuristic(program, Settings(overlap=3.0))
    assert (far.start[0], far.end[0]) == (0, 3)
    short = replace(program, latency_s=program.latency_s * 0.6, metadata={})
    # one step of 0.6 s does not cover 1 s
    assert heuristic(short, Settings(overlap=0.1)).start[0] == 1


def test_uses_far_apart_are_copied_twice():
    """Would catch a `longest` that nothing obeys: between two uses lie four copies of the whole
    fast memory."""
    program = hand_program(
        [(1, "p", False), (5, "p", False)], parameters=("p",), best_s=[4.0] * 6, fast_bytes=16
    )
    assert heuristic(program).action.tolist() == [COPY, NO_COPY]
    assert heuristic(program, Settings(longest=1.0)).action.tolist() == [COPY, COPY]


def test_a_dense_value_comes_before_a_large_one():
    """Benefit for the root of the size: the large parameter gets the memory both want, 16 bytes for
    a root of 4 against 4 for a root of 2; where both would save 1 s, the small one comes first."""
    program = hand_program(
        [(1, "large", False), (1, "small", False)],
        sizes={"large": 16, "small": 4},
        parameters=("large", "small"),
        best_s=[8.0] * 2,
        fast_bytes=16,
    )
    assert values_by_benefit(program, program.initial_benefit_s)[0] == [
        program.tensor_names.index("small")
    ]
    assert heuristic(program).action.tolist() == [COPY, DROP]


def in_program_order(program, spans):
    """What the game draws for copies over `spans`, from scratch; None where one is left short."""
    supply = program.supply_s.tolist()
    for b in sorted(spans):
        first, last = spans[b]
        left = float(program.buffer_demand_s[b])
        for step in (
            range(first, last + 1) if program.buffer_is_output[b] else range(last, first - 1, -1)
        ):
            drawn = min(supply[step], left)
            supply[step] -= drawn
            left -= drawn
        if left > 1e-9 * program.buffer_demand_s[b]:
            return None
    return supply


@pytest.mark.parametrize("seed", range(8))
def test_copies_planned_in_any_order_hold_in_program_order(seed):
    """Against a recount from scratch: would catch a copy that starves another, one refused for
    nothing, and an `undo` that leaves something behind."""
    rng = np.random.default_rng(seed)
    program = hard_program(seed, 60)
    schedule, spans, refused, taken_back = CopySchedule(program), {}, 0, 0
    for b in rng.permutation(program.num_buffers).tolist():
        t = int(program.buffer_instruction[b])
        length = int(rng.integers(1, 6))
        out = bool(program.buffer_is_output[b])
        first, last = (t + 1, t + length) if out else (t - length, t - 1)
        if first < 0 or last >= program.num_instructions or program.buffer_bytes[b] == 0:
            continue
        clash = any(
            len(set(range(first, last + 1)) & set(range(s, e + 1))) > 1 for s, e in spans.values()
        )
        possible = not clash and in_program_order(program, {**spans, b: (first, last)}) is not None
        mark = schedule.mark()
        assert schedule.add(b, first, last) == possible
        refused += not possible
        if possible and rng.random() < 0.3:
            schedule.undo(mark)
            taken_back += 1
        elif possible:
            spans[b] = (first, last)
        assert schedule.span == spans
        left = in_program_order(program, spans)
        for step in range(program.num_instructions):
            assert schedule._available(step, program.num_buffers) == pytest.approx(
                left[step], abs=1e-12
            )
    assert refused and taken_back and spans


def test_the_smallest_free_chunk_is_taken():
    """Would catch a first fit, an overlap in time or space, and a stay that an in-place update may
    not take over."""
    space = FreeSpace(20)
    space._rows = space._rows[:, :1]  # so that it has to grow
    space.add(0, 0, 5, 4, 2)
    space.add(1, 0, 5, 10, 2)
    space.add(2, 2, 3, 15, 5)
    assert [space.best_fit(2, 2, size) for size in (1, 3, 4, 5)] == [12, 12, 0, None]
    assert (
        space.best_fit(4, 4, 5) == 12
        and space.best_fit(6, 9, 20) == 0
        and space.best_fit(0, 0, 21) is None
    )
    assert not space.is_free(5, 8, 4, 2) and space.is_free(5, 8, 4, 2, updated=(0,))
    assert not space.is_free(4, 8, 4, 2, updated=(0,)) and not space.is_free(
        5, 8, 3, 3, updated=(0,)
    )
    mark = space.mark()
    space.add(3, 6, 9, 0, 20)
    space.undo(mark)
    assert space.is_free(6, 9, 0, 20) and not space.is_free(6, 9, 1, 20)


def test_values_are_what_alias_groups_connect():
    """Would catch a chain of updates split in two, and a tensor lost or in two values."""
    program = hard_program(5)
    values = values_of(program)
    assert sorted(n for value in values for n in value) == list(range(program.num_tensors))
    assert sorted(map(sorted, values_by_benefit(program, program.initial_benefit_s))) == sorted(
        map(sorted, values)
    )
    where = {n: i for i, value in enumerate(values) for n in value}
    for group in range(program.num_alias_groups):
        assert (
            len({where[int(n)] for n in program.buffer_tensor[program.buffer_alias == group]}) == 1
        )
    assert max(map(len, values)) > 1 and len(values) > program.num_alias_groups
