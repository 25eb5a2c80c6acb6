"""Packing: against all orders on small sets, and on mappings of whole games."""

from itertools import combinations, permutations

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.mmap.mapping import all_dropped, claimed_share
from learned_mapping.mmap.methods import PROBLEM, solve
from learned_mapping.mmap.searches.packing import make_pieces, pack
from learned_mapping.mmap.searches.repack import repack
from learned_mapping.mmap.validate import validate
from mmap_games import hard_program


def least_height(sizes, spans):
    """The least height of a packing: first fit in every order, of which one is that of an optimum
    by its offsets."""
    best = np.inf
    for order in permutations(range(len(sizes))):
        placed, top = [], 0
        for i in order:
            rivals = [
                (j, o)
                for j, o in placed
                if spans[j][0] <= spans[i][1] and spans[i][0] <= spans[j][1]
            ]
            busy = sorted((o, o + sizes[j]) for j, o in rivals)
            offset = 0
            for low, high in busy:
                if low >= offset + sizes[i]:
                    break
                offset = max(offset, high)
            placed.append((i, offset))
            top = max(top, offset + sizes[i])
        best = min(best, top)
    return best


@pytest.mark.parametrize("seed", range(60))
def test_a_packing_is_found_where_there_is_one_and_only_there(seed):
    """Catches a choice given up too early, or an overlap; the truth is by trying all orders of
    seven pieces."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 7)
    spans = [tuple(sorted(rng.integers(0, 10, 2).tolist())) for _ in sizes]
    start, end = np.array(spans).T
    pieces = make_pieces(sizes, np.arange(7), start, end, np.arange(12.0))
    height = least_height(sizes.tolist(), spans)
    assert pack(pieces, height - 1, lambda: True, 100_000) is None
    offsets = pack(pieces, height, lambda: True, 100_000)
    assert (offsets >= 0).all() and (offsets + sizes <= height).all()
    for i in range(7):
        for j in range(i):
            if spans[i][0] <= spans[j][1] and spans[j][0] <= spans[i][1]:
                assert offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_repacked_is_valid_and_holds_no_less(seed):
    """Alias groups, updates in place, copies and stays of many lengths, judged by the validator."""
    program = hard_program(seed)
    for base in (
        all_dropped(program),
        solve(program, "heuristic").solution,
        solve(program, "greedy").solution,
    ):
        actual = repack(program, base, Budget(samples=40))
        verdict = validate(program, actual)
        assert verdict.valid, verdict.violations[0]
        assert claimed_share(program, actual) >= claimed_share(program, base)
        assert (actual.placed | ~base.placed).all()


def test_room_is_found_on_some():
    """Would catch a repacking that always gives back what it was given."""
    more = 0
    for seed in range(30):
        program = hard_program(seed)
        base = solve(program, "greedy").solution
        more += claimed_share(program, repack(program, base, Budget(samples=40))) > claimed_share(
            program, base
        )
    assert more >= 3


@pytest.mark.parametrize("seed", range(12))
def test_of_a_few_values_the_best_set_is_held(tmp_path, seed):
    """Five buffers against all sets in all orders, each worth its bytes. Catches a rule that leaves
    out a large one where a small one makes room."""
    rng = np.random.default_rng(seed)
    first, sizes = rng.integers(0, 6, 5), rng.integers(1, 60, 5).tolist()
    spans = [(int(a), int(a + rng.integers(1, 5))) for a in first]  # the end is excluded
    lines = [f"b{i},{a},{b},{size}" for i, ((a, b), size) in enumerate(zip(spans, sizes))]
    file = tmp_path / f"few.{max(sizes) + 20}.csv"
    file.write_text("\n".join(["id,lower,upper,size", *lines]))
    held = [(a, b - 1) for a, b in spans]
    best = max(
        sum(sizes[i] for i in chosen)
        for count in range(6)
        for chosen in combinations(range(5), count)
        if not chosen
        or least_height([sizes[i] for i in chosen], [held[i] for i in chosen]) <= max(sizes) + 20
    )
    program = PROBLEM.read(str(file))
    found = solve(program, "packing", samples=1000)
    assert validate(program, found.solution).valid
    assert found.metrics["return"] == pytest.approx(best / sum(sizes), abs=1e-6)
