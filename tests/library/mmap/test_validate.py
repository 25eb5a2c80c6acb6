"""The validator against the game, and against mappings broken on purpose, one rule at a time."""

import time
from importlib import import_module

import numpy as np
import pytest

from by_hand import hand_program
from cli_files import run
from learned_mapping.budget import Budget
from learned_mapping.mmap.mapping import (
    Mapping,
    all_dropped,
    make_mapping,
    read_mapping,
    write_mapping,
)
from learned_mapping.mmap.methods import PROBLEM
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import write_program
from learned_mapping.programs.program import Program, Step, program_of_steps
from learned_mapping.verdict import LISTED
from mmap_games import as_mapping, games, hard_program

COPY, KEEP, DROP = 0, 1, 2
IN_HBM = (DROP, -1, -1, -1)

module = import_module("learned_mapping.mmap.validate")


def mapping(of: Program, *decisions: tuple[int, int, int, int]) -> Mapping:
    return make_mapping(of, *(np.array(column) for column in zip(*decisions)))


TWO_READS = hand_program([(0, "x", True), (1, "x", False), (2, "x", False), (3, "x", False)])
"""x is written at step 0 and read at 1, 2 and 3."""
PARAMETERS = hand_program([(2, "a", False), (2, "b", False), (3, "a", False)], parameters="ab")
"""a and b are read at step 2, a again at 3."""
UPDATE = hand_program(
    [(0, "x", True), (1, "x", False), (1, "y", True), (2, "y", False)], aliases={1: 0, 2: 0}
)
"""y is x updated in place at step 1."""


def broken_rules(
    of: Program, *decisions: tuple[int, int, int, int], exact: bool = False
) -> list[str]:
    verdict = validate(of, mapping(of, *decisions), exact=exact)
    assert all(violation.culprits for violation in verdict.violations)
    return [violation.rule for violation in verdict.violations]


def test_valid_by_hand():
    """The unbroken mappings that the cases below break."""
    verdict = validate(
        TWO_READS,
        mapping(TWO_READS, (KEEP, 0, 0, 3), (KEEP, 0, 2, 1), (KEEP, 0, 3, 2), (KEEP, 0, 4, 3)),
    )
    assert verdict.valid
    assert verdict.costs == {"return": 1.0, "saving_s": 4.0, "latency_s": 4.0}
    assert not broken_rules(TWO_READS, IN_HBM, IN_HBM, (COPY, 0, 1, 2), (KEEP, 0, 3, 3), exact=True)
    assert not broken_rules(PARAMETERS, (COPY, 0, 1, 2), (COPY, 4, 0, 2), (KEEP, 0, 3, 3))
    assert not broken_rules(
        UPDATE, (KEEP, 0, 0, 1), (KEEP, 0, 2, 1), (KEEP, 0, 1, 2), (KEEP, 0, 3, 2), exact=True
    )


@pytest.mark.parametrize(
    ("rule", "of", "decisions"),
    [
        (module.CAPACITY, TWO_READS, [(KEEP, 5, 0, 3), IN_HBM, IN_HBM, IN_HBM]),
        (module.OVERLAP, PARAMETERS, [(COPY, 0, 1, 2), (COPY, 3, 0, 2), IN_HBM]),
        (module.INTERVAL, TWO_READS, [IN_HBM, IN_HBM, (COPY, 0, 1, 3), IN_HBM]),
        (module.INTERVAL, TWO_READS, [(COPY, 0, 0, 1), IN_HBM, (KEEP, 0, 1, 2), IN_HBM]),
        (module.INTERVAL, TWO_READS, [(COPY, 0, 0, 4), IN_HBM, IN_HBM, IN_HBM]),
        (module.COVER, TWO_READS, [IN_HBM, IN_HBM, (COPY, 0, 2, 2), IN_HBM]),
        (module.COVER, PARAMETERS, [(COPY, 0, 1, 2), (COPY, 4, 1, 2), IN_HBM]),
        (module.SAME_OFFSET, UPDATE, [(KEEP, 0, 0, 1), (KEEP, 0, 2, 1), (KEEP, 4, 1, 2), IN_HBM]),
        (module.ALL_OR_NONE, UPDATE, [(KEEP, 0, 0, 1), (KEEP, 0, 2, 1), IN_HBM, IN_HBM]),
        (module.SOURCE, TWO_READS, [(KEEP, 0, 0, 3), IN_HBM, IN_HBM, (COPY, 0, 2, 3)]),
        (module.SOURCE, TWO_READS, [IN_HBM, IN_HBM, (COPY, 0, 0, 2), IN_HBM]),
        (module.RESIDENT, PARAMETERS, [(COPY, 0, 1, 2), IN_HBM, (COPY, 4, 2, 3)]),
        (module.PRECEDENT, TWO_READS, [IN_HBM, (KEEP, 0, 1, 1), IN_HBM, IN_HBM]),
        (module.PRECEDENT, TWO_READS, [(COPY, 0, 0, 1), IN_HBM, (KEEP, 4, 2, 2), IN_HBM]),
        (module.LIVE_RANGE, TWO_READS, [(KEEP, 0, 0, 2), IN_HBM, IN_HBM, IN_HBM]),
        (module.DROPPED, TWO_READS, [(DROP, 0, 0, 0), IN_HBM, IN_HBM, IN_HBM]),
    ],
)
def test_each_rule_is_named_when_broken(rule, of, decisions):
    """Catches a check that never fires."""
    assert rule in broken_rules(of, *decisions)


def test_two_long_copies_may_not_run_together():
    """Both copies take steps 1 and 2, each half-supplied: Eq. 5 holds, Eq. 6 does not."""
    of = hand_program(
        [(3, "a", False), (3, "b", False)], parameters="ab", sizes={"a": 6, "b": 6}, fast_bytes=12
    )
    assert broken_rules(of, (COPY, 0, 1, 3), (COPY, 6, 0, 3)) == [module.ONE_COPY]


def test_an_in_place_update_may_share_its_step_only():
    """x held one step longer than the update collides with y; so does an unrelated tensor at the
    same step."""
    longer = hand_program(
        [(0, "x", True), (1, "x", False), (1, "y", True), (2, "x", False), (2, "y", False)],
        aliases={1: 0, 2: 0},
    )
    kept = (KEEP, 0, 0, 2), (KEEP, 0, 2, 1), (KEEP, 0, 1, 2), (KEEP, 0, 3, 2), (KEEP, 0, 3, 2)
    assert broken_rules(longer, *kept) == [module.OVERLAP]
    unrelated = hand_program([(0, "x", True), (1, "x", False), (1, "y", True), (2, "y", False)])
    assert module.OVERLAP in broken_rules(
        unrelated, (KEEP, 0, 0, 1), (KEEP, 0, 2, 1), (KEEP, 0, 1, 2), (KEEP, 0, 3, 2)
    )


def test_exact_judges_offsets_and_copy_lengths():
    """Physically fine, but not what the game does: a gap below, and a copy that starts a step
    early."""
    assert broken_rules(TWO_READS, (KEEP, 4, 0, 3), IN_HBM, IN_HBM, IN_HBM) == []
    assert broken_rules(TWO_READS, (KEEP, 4, 0, 3), IN_HBM, IN_HBM, IN_HBM, exact=True) == [
        module.LOWEST
    ]
    early = IN_HBM, IN_HBM, IN_HBM, (COPY, 0, 1, 3)
    assert broken_rules(TWO_READS, *early) == []
    assert broken_rules(TWO_READS, *early, exact=True) == [module.LATEST]


def test_an_action_that_is_none_of_the_three_is_a_violation():
    """Only `make_mapping` refuses one; a `Mapping` can be made without."""
    mapping = all_dropped(TWO_READS)
    wrong = Mapping(np.full_like(mapping.action, 7), mapping.offset, mapping.start, mapping.end)
    assert {violation.rule for violation in validate(TWO_READS, wrong).violations} == {
        module.ACTION
    }


def test_every_rule_has_a_case():
    """Catches a rule added without a test."""
    source = open(__file__, encoding="utf-8").read()
    for name, value in vars(module).items():
        if name.isupper() and isinstance(value, str):
            assert f"module.{name}" in source, name


def test_accepts_what_the_game_plays():
    """Catches disagreement between two readings of the rules: intervals, offsets, supplies,
    returns."""
    for seed in range(40):
        of = hard_program(seed)
        for game in games(of, seed):
            verdict = validate(of, as_mapping(of, game), exact=True)
            assert verdict.valid, str(verdict)
            assert verdict.costs["return"] == pytest.approx(game.value, abs=1e-12)
            assert verdict.costs["latency_s"] >= of.slow_s.sum() - verdict.costs["saving_s"] - 1e-12


def test_moved_allocations_are_caught():
    """Shifting one placed buffer of a full game by a byte breaks at least one rule in nearly every
    case."""
    of = hard_program(3, 60)
    game = games(of, 3)[1]
    caught = tried = 0
    for b in np.flatnonzero((game.action != DROP) & (of.buffer_bytes > 0)):
        offset = game.offset.copy()
        offset[b] += 1
        tried += 1
        caught += not validate(
            of, make_mapping(of, game.action, offset, game.start, game.end), exact=True
        ).valid
    assert tried > 10 and caught == tried


def test_all_dropped_is_valid_everywhere():
    for seed in range(5):
        verdict = validate(hard_program(seed), all_dropped(hard_program(seed)), exact=True)
        assert verdict.valid and verdict.costs["saving_s"] == 0.0


def test_files_round_trip(tmp_path):
    of = hard_program(1)
    original = as_mapping(of, games(of, 1)[1])
    write_mapping(tmp_path / "m.json.gz", original, of)
    assert read_mapping(tmp_path / "m.json.gz", of) == original


def piled(n):
    """A program of n outputs that live to the end, and the mapping that puts all of them to offset
    0."""
    program = program_of_steps(
        [Step(f"i{t}", "f", [(t, True, -1)], [0], [2e-6, 1e-6]) for t in range(n)],
        name="piled",
        fast_bytes=2**30,
        copy_bytes_per_s=1e9,
        tensor_names=[f"t{i}" for i in range(n)],
        tensor_bytes=[1024] * n,
        tensor_is_parameter=[False] * n,
        tensor_is_output=[True] * n,
    )
    return program, make_mapping(
        program, np.ones(n, int), np.zeros(n, int), np.arange(n), np.full(n, n - 1)
    )


def test_overlaps_are_found_by_a_sweep_and_listed_up_to_a_limit():
    """Two thousand buffers on one place made two million lines; all pairs are still there for who
    asks."""
    begin = time.process_time()
    verdict = validate(*piled(2000))
    assert time.process_time() - begin < 2
    assert (
        not verdict.valid and len(verdict.violations) == LISTED + 1 and len(str(verdict)) < 10_000
    )
    every = validate(*piled(40), listed=None)
    assert [v.rule for v in every.violations] == [module.OVERLAP] * (40 * 39 // 2)


def test_check_lists_all_on_request(folder, capsys):
    program, mapping = piled(60)

    write_program("p.json", program)
    write_mapping("m.json", mapping, program)
    code, out, _ = run(capsys, "check", "mmap", "p.json", "m.json")
    assert code == 1 and out.count("\n") == LISTED + 2
    assert (
        run(capsys, "check", "mmap", "p.json", "m.json", "--all")[1].count("\n") == 60 * 59 // 2 + 1
    )


def test_no_return_is_above_1():
    """Catches a share of more than all there is: sums of seconds whose savings are a billionth of
    them, rounded one way in what was saved and another in what can be. Everything fits here, so
    that the best return is 1 by definition."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        uses = [use for t in range(9) for use in ((t, f"x{t}", True), (t + 1, f"x{t}", False))]
        uses = sorted(uses, key=lambda use: use[0])
        seconds, saving = rng.uniform(1, 100, 10).tolist(), float(rng.uniform(1e-9, 1e-6))
        program = hand_program(
            uses, best_s=seconds, saving_s=saving, fast_bytes=1000, copy_bytes_per_s=1e9
        )
        solution, _ = PROBLEM.method("greedy").run(program, rng, Budget(samples=1))
        game = Game(program)
        game.play_actions(solution.action)
        measured = PROBLEM.metrics(program, solution), validate(program, solution).costs
        returns = [*(costs["return"] for costs in measured), game.value]
        assert max(returns) <= 1.0 and min(returns) > 0.999, (seed, returns)
