"""What callers hand to functions that index arrays by it: refused in one line, never cut off or wrapped round."""

import json

import numpy as np
import pytest

import learned_mapping as lm
from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.cp_sat import CpSatSolver, cp_sat_batch
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.problem import problem
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import check_columns
from learned_mapping.programs.json_io import read_json, write_json
from learned_mapping.regal.schedule import Schedule

TOY = toy_program()
GRAPH = problem("mcm").toy().graph


@pytest.mark.parametrize(
    "wrong", [{"weights": np.ones((GRAPH.num_ops - 1, 9))}, {"order": np.arange(2)}, {"order": np.zeros(GRAPH.num_ops)}]
)
@pytest.mark.parametrize("by", ["engine", "cp-sat"])
def test_a_batch_of_repairs_refuses_other_shapes(wrong, by):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError):
        if by == "engine":
            repair_batch(repair_arrays(GRAPH), 3, mode="sample", rng=rng, count=1, **wrong)
        else:
            cp_sat_batch(GRAPH, 3, mode="sample", rng=rng, count=1, **wrong)


def test_cp_sat_leaves_an_interrupt_to_python_and_takes_no_lack_of_an_answer_for_one(monkeypatch):
    solver = CpSatSolver(GRAPH, 3)
    assert not solver._solver.parameters.catch_sigint_signal
    monkeypatch.setattr(solver._solver, "solve", lambda model: 0)  # UNKNOWN
    solver._witnesses.clear()
    with pytest.raises(InputError, match="without an answer"):
        solver.get_domain(0)


@pytest.mark.parametrize("prefix", [-1, 0.5, True])
def test_a_game_is_not_rewound_before_its_start(prefix):
    with pytest.raises(InputError):
        Game(TOY).rewind(prefix)


@pytest.mark.parametrize(
    "placement, order", [([2**40, 0], [[0, -1]]), (np.array([2**40, 0]), [[0, -1]]), ([0, 0], [0, -1, 5]), ([[0]], [])]
)
def test_a_schedule_takes_no_other_shapes_and_no_number_beyond_its_type(placement, order):
    with pytest.raises(InputError):
        Schedule.of(placement, order, 2)


def test_whole_numbers_are_not_cut_off():
    with pytest.raises(InputError, match="whole number"):
        TOY.with_memory(fast_bytes=1.5)
    with pytest.raises(InputError, match="whole number"):
        check_columns("graph", tensor_bytes=([4.0, 4.5], np.int64, 2, 0, 9))


def test_half_a_surrogate_pair_is_written_and_read_again(tmp_path):
    text = json.dumps({**graph_to_json(GRAPH), "metadata": {"note": "\ud800"}})
    (tmp_path / "a.json").write_text(text)
    graph = graph_from_json(read_json(tmp_path / "a.json"))
    write_json(tmp_path / "b.json", graph_to_json(graph))
    assert graph_from_json(read_json(tmp_path / "b.json")).digest == graph.digest


@pytest.mark.parametrize("seed", [2**63, -1, True, 0.5])
def test_a_seed_is_a_whole_number_of_63_bits(seed):
    with pytest.raises(InputError, match="seed"):
        lm.mmap.solve(TOY, "greedy", seed=seed)


def test_a_game_without_choice_has_a_solution_after_its_first_step():
    gymnasium = pytest.importorskip("gymnasium")
    import learned_mapping.gym  # noqa: F401

    env = gymnasium.make("learned_mapping/MMap-v0", instance=TOY.with_memory(fast_bytes=1))
    env.reset(seed=0)
    assert env.step(2)[2]
    assert env.unwrapped.solution is not None
