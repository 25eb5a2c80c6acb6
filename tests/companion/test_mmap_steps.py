"""Table 1 and figures 2 and 3: the state shown is one of the game, and all of it."""

import pytest

from learned_mapping.errors import InputError
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.heuristic import heuristic
from learned_mapping_companion import results
from learned_mapping_companion.mmap import facts as steps
from mmap_games import hard_program, store_compiled


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program with states of both kinds, stored as the instance."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path / "build"))
    actual = next(
        p
        for p in (hard_program(seed, 70) for seed in range(40))
        if all(any(steps.candidate_moves(p, o)) for o in (0, 1))
    )
    store_compiled(tmp_path / "compiled", {steps.INSTANCE: (actual, heuristic(actual))})
    return actual


def test_every_feature_of_table_1(program):
    """Would catch a column of something else: each is compared with the program's own."""
    result = results.make("mmap.table1", "quick", progress=False)
    shown = {row["method"] for row in result["rows"]} - set(steps.STATISTICS)
    assert len(shown) >= 3
    for method in shown:
        b = int(method.removeprefix("buffer "))
        cell = {row["metric"]: row["value"] for row in results.select(result, method=method)}
        low, high = program.tensor_live[program.buffer_tensor[b]]
        assert cell == {
            "size": program.buffer_bytes[b],
            "is_output": int(program.buffer_is_output[b]),
            "target_time": program.buffer_instruction[b],
            "tensor_id": program.buffer_tensor[b],
            "alias_id": program.buffer_alias[b],
            "live_range": f"[{low}, {high}]",
            "demand": program.buffer_demand_s[b],
            "benefit": program.initial_benefit_s[b],
        }
    assert results.value(result, method="max", metric="size") == program.buffer_bytes.max()
    assert results.value(result, method="min", metric="live_range") >= 1


@pytest.mark.parametrize(("artifact", "is_output"), [("mmap.fig2", True), ("mmap.fig3", False)])
def test_the_state_shows_what_the_actions_trade(program, artifact, is_output):
    """Would catch a state without the trade-off, moves that lead elsewhere, and outcomes of another
    state."""
    result = results.make(artifact, "quick", progress=False)
    rows = {row["method"]: row for row in result["rows"]}
    game = steps.state_after(program, rows["copy"]["moves"])
    b = game.cursor
    assert (
        game.legal.all()
        and bool(program.buffer_is_output[b]) == is_output
        and rows["copy"]["buffer"] == b
    )
    for action, name in enumerate(("copy", "nocopy")):
        assert (rows[name]["start"], rows[name]["end"]) == tuple(
            int(game.outcomes[action][k]) for k in ("start", "end")
        )
        assert (
            rows[name]["value"] == pytest.approx(float(game.outcomes[action]["reward_s"]))
            and rows[name]["value"] > 0
        )
        assert rows[name]["steps"] > 1
    assert rows["drop"]["value"] == 0.0 and rows["drop"]["steps"] == 0
    assert rows["copy"]["copy_s"] == program.buffer_demand_s[b] and rows["nocopy"]["copy_s"] == 0.0


def test_a_program_without_such_a_state_is_named():
    with pytest.raises(InputError, match="toy"):
        steps.find_moves(toy_program().with_memory(fast_bytes=1), False)
