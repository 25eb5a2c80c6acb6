"""What callers hand to functions that index arrays by it: refused in one line, never cut off or
wrapped round."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import learned_mapping as lm
from by_hand import hand_graph
from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.repair.cp_sat import CpSatSolver, cp_sat_batch
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import example_graph
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import check_columns
from learned_mapping.programs.json_io import read_json, write_json
from learned_mapping.programs.program import NO_ALIAS, Step, program_of_steps
from learned_mapping.regal.agent.rollouts import uniform_cost
from learned_mapping.regal.schedule import Schedule

TOY = toy_program()
GRAPH = example_graph()


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": np.ones((GRAPH.num_ops - 1, 9))},
        {"order": np.arange(2)},
        {"order": np.zeros(GRAPH.num_ops)},
    ],
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
    "placement, order",
    [([2**40, 0], [[0, -1]]), (np.array([2**40, 0]), [[0, -1]]), ([0, 0], [0, -1, 5]), ([[0]], [])],
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


@pytest.mark.parametrize("wrong", ["1", None, True, [1.0, 2.0, 3.0]])
def test_a_machine_and_a_budget_are_made_of_numbers(wrong):
    for handed in (
        lambda: TOY.with_memory(copy_bytes_per_s=wrong if wrong is not None else "none"),
        lambda: lm.mmap.MemoryHierarchy(overhead_s=wrong),
        lambda: lm.mmap.MemoryHierarchy(contention=wrong),
        lambda: lm.mcm.ChipPackage(link_bytes_per_s=wrong),
        lambda: lm.regal.Devices(memory_bytes=wrong),
        lambda: Budget(seconds=wrong if wrong is not None else "none"),
    ):
        with pytest.raises(InputError, match="expected a number"):
            handed()


@pytest.mark.parametrize("text", ["abc", "0", "nan"])
def test_the_length_of_a_calibration_is_checked(text):
    """Catches an unchecked variable of the environment: a rate of 0, by which no budget ends."""
    environment = {**os.environ, "LEARNED_MAPPING_CALIBRATION_S": text}
    command = [
        sys.executable,
        "-c",
        "import learned_mapping.cli as c; raise SystemExit(c.main(['artifacts']))",
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.startswith(
        "lmap: LEARNED_MAPPING_CALIBRATION_S: expected"
    )


def test_one_long_step_makes_no_copy_free():
    """Catches a slack of Eq. 5 by the largest supply of all steps: 4 bytes copied while there is no
    supply."""
    steps = [
        Step("long", "fusion", [(0, True, NO_ALIAS)], [], [1e-2]),
        Step("none", "fusion", [(1, True, NO_ALIAS)], [], [0.0]),
        Step("use", "fusion", [(2, False, NO_ALIAS)], [0], [2e-6, 1e-6]),
    ]
    program = program_of_steps(
        steps,
        name="long step",
        fast_bytes=64,
        copy_bytes_per_s=1e12,
        tensor_names=["a", "b", "p"],
        tensor_bytes=[4, 4, 4],
        tensor_is_parameter=[False, False, True],
        tensor_is_output=[True, True, False],
    )
    late, early = (
        make_mapping(program, [2, 2, 0], [-1, -1, 0], [-1, -1, start], [-1, -1, 2])
        for start in (1, 0)
    )
    assert not validate(program, late).valid and validate(program, early).valid


def test_a_graph_that_takes_no_time_has_rewards():
    """Catches a reward of 0 / 0, and a rate that is another's by 270 powers of ten."""
    graph = hand_graph(3, [(0, 1), (1, 2)], op_seconds=[0.0] * 3)
    assert uniform_cost(lm.regal.Instance(graph).arrays, (0,), 200, 2) == 1.0
    timeless = hand_graph(3, [(0, 1), (1, 2)], tensor_bytes=[0] * 3)
    env = PartitionEnv(ChipModel(timeless, lm.mcm.ChipPackage(chips=2, op_overhead_s=0.0)))
    assert env.rollout(np.zeros((1, 3), int), np.random.default_rng(0))[1][
        0
    ] / env.unit == pytest.approx(1.0)


def test_a_game_plays_by_a_generator_to_a_whole_number():
    for arguments in ((5,), (np.random.default_rng(0), "all")):
        with pytest.raises(InputError):
            Game(TOY).play_random(*arguments)
