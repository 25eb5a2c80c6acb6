"""Several copies at once: against the one-engine model, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from by_hand import hand_program
from learned_mapping.errors import InputError
from learned_mapping.hardware import copy_engines
from learned_mapping.hardware.copy_engines import shared_copy_latency
from learned_mapping.hardware.memory_hierarchy import machine_of, program_latency
from learned_mapping.mmap.mapping import all_dropped, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from mmap_games import as_mapping, games, hard_program

PARTS = (
    "total_s",
    "compute_s",
    "arrival_stall_s",
    "overwrite_stall_s",
    "write_back_s",
    "contention_s",
    "drain_s",
)


def two_reads(lengths=(2.0, 1.0), **changed):
    """Instruction 0 writes x; instruction 1 reads parameters p and q, 4 bytes each; a copy of one
    takes 1 s."""
    uses = [(0, "x", True), (1, "p", False), (1, "q", False)]
    return hand_program(uses, parameters="pq", best_s=lengths, saving_s=0.0, fast_bytes=16)


def both_copied(program, x=NO_COPY):
    placed = x != DROP
    return make_mapping(
        program,
        [x, COPY, COPY],
        [0 if placed else -1, 4, 8],
        [0 if placed else -1, 0, 0],
        [0 if placed else -1, 1, 1],
    )


def with_hbm(monkeypatch, hbm_bytes_per_s=1e30):
    """By default rule 4 never bites: nobody wants a noticeable share of HBM."""
    machine = lambda program: replace(machine_of(program), hbm_bytes_per_s=hbm_bytes_per_s)  # noqa: E731
    monkeypatch.setattr(copy_engines, "machine_of", machine)


@pytest.mark.parametrize("seed", range(12))
def test_one_engine_with_hbm_to_spare_is_the_model_of_one_copy(seed, monkeypatch):
    """Differential: any wrong wait, order or sum of either model shows."""
    with_hbm(monkeypatch)
    program = hard_program(seed)
    for game in games(program, seed):
        mapping = as_mapping(program, game)
        mine, other = (
            shared_copy_latency(program, mapping, engines=1),
            program_latency(program, mapping),
        )
        assert [getattr(mine, name) for name in PARTS] == pytest.approx(
            [getattr(other, name) for name in PARTS]
        )
        assert np.allclose(mine.instruction_end_s, other.instruction_end_s)
        assert sorted(c[0] for c in mine.copies) == sorted(c[0] for c in other.copies)


@pytest.mark.parametrize("seed", range(12))
def test_the_parts_add_up_and_order_matters(seed):
    """Would catch time counted twice or not at all, with sharing."""
    program = hard_program(seed)
    for game in games(program, seed):
        mapping = as_mapping(program, game)
        for engines in (None, 2):
            actual = shared_copy_latency(program, mapping, engines=engines)
            assert actual.total_s == pytest.approx(sum(getattr(actual, name) for name in PARTS[1:]))
            assert np.all(np.diff(actual.instruction_start_s) >= 0)
            if engines is not None:
                begins = np.array([c[1] for c in actual.copies])
                ends = np.array([c[2] for c in actual.copies])
                assert all(
                    np.sum((begins <= at + 1e-9) & (ends > at + 1e-9)) <= engines for at in begins
                )
            assert actual.contention_s == pytest.approx(0.0, abs=1e-12)


def test_copies_share_bandwidth(monkeypatch):
    """By hand: two copies of 1 s each beside an instruction of 2 s are just in time, both at its
    end; on one engine the first is there after 1 s. Beside 1.5 s instead they are 0.5 s late."""
    with_hbm(monkeypatch)
    program = two_reads()
    actual = shared_copy_latency(program, both_copied(program))
    assert actual.total_s == pytest.approx(3.0) and actual.arrival_stall_s == pytest.approx(
        0.0, abs=1e-9
    )
    assert [c[1:] for c in actual.copies] == [pytest.approx((0.0, 2.0))] * 2
    one = shared_copy_latency(program, both_copied(program), engines=1)
    assert [c[1:] for c in one.copies] == [pytest.approx((0.0, 1.0)), pytest.approx((1.0, 2.0))]
    program = two_reads((1.5, 1.0))
    late = shared_copy_latency(program, both_copied(program))
    assert late.arrival_stall_s == pytest.approx(0.5) and late.total_s == pytest.approx(3.0)


def test_copies_give_way_to_instructions(monkeypatch):
    """By hand: HBM moves 4 bytes a second, and two copies of 1 s each want all of it. Instruction 0
    takes 2 s and writes x to HBM, for which it wants half; instruction 1 takes 1 s. In 2 s half of
    the copying is done; 1 s is left to wait for: 2 + 1 + 1 s."""
    with_hbm(monkeypatch, 4.0)
    program = two_reads()
    actual = shared_copy_latency(program, both_copied(program, DROP))
    assert actual.total_s == pytest.approx(4.0)
    assert (actual.contention_s, actual.arrival_stall_s) == pytest.approx((0.0, 1.0), abs=1e-9)


def test_nothing_placed_waits_for_nothing():
    program = hard_program(3)
    assert shared_copy_latency(program, all_dropped(program)).total_s == pytest.approx(
        program.slow_s.sum()
    )


def test_a_mapping_the_game_forbids_is_replayed_too():
    """The compiler's may read from HBM what lives in CMEM alone, or use what its table of places
    does not name."""
    program = two_reads()
    mapping = make_mapping(program, [NO_COPY, NO_COPY, DROP], [0, 4, -1], [0, 0, -1], [0, 1, -1])
    assert shared_copy_latency(program, mapping).total_s == pytest.approx(3.0)


def test_no_engine_is_refused():
    program = two_reads()
    with pytest.raises(InputError, match="engines"):
        shared_copy_latency(program, both_copied(program), engines=0)
