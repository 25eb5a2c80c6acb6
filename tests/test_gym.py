"""The three problems as gymnasium sees them: by its own checker, and by the validators."""

import warnings

import numpy as np
import pytest

import learned_mapping as lm
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.rules.instance import Instance
from learned_mapping_companion.mmap.tables import workload
from mmap_games import hard_program

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import learned_mapping.gym  # noqa: E402

GRAPH = random_graph(np.random.default_rng(0), "layered", 24)
INSTANCES = {
    "MMap": {"instance": hard_program(1, 30)},
    "Chips": {"instance": GRAPH, "chips": 4},
    "Regal": {"instance": GRAPH, "evaluations": 200},
}


def made(kind: str, **more):
    return gymnasium.make(f"learned_mapping/{kind}-v0", **INSTANCES[kind], **more)


@pytest.mark.parametrize("kind", INSTANCES)
@pytest.mark.parametrize("seed", range(10))
def test_its_own_checker_finds_nothing(kind, seed):
    """Spaces, seeds, types and pictures, as gymnasium's checker asks for them."""
    env = made(kind, render_mode="rgb_array")
    env.action_space.seed(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*infinity.*|.*different render modes.*")
        check_env(env.unwrapped)
    assert env.unwrapped.render().shape[2] == 3


@pytest.mark.parametrize("kind", INSTANCES)
@pytest.mark.parametrize(
    "options", [{"instance": GRAPH}, {"instnace": 1}, [], "instance", np.zeros(2)]
)
def test_an_option_is_refused_and_not_ignored(kind, options):
    """Catches an agent that is said to train on another graph at each reset, and never leaves the
    first."""
    env = made(kind).unwrapped
    with pytest.raises(InputError, match="options: an environment has none and keeps its instance"):
        env.reset(options=options)
    env.reset(seed=0, options={})


def test_a_random_player_returns_what_the_validator_says():
    """A hundred games of four programs, to the last digit; rewards sum to it."""
    for seed in range(100):
        program = hard_program(seed % 4, 20)
        env = gymnasium.make("learned_mapping/MMap-v0", instance=program)
        rng, total, over = np.random.default_rng(seed), 0.0, False
        _, info = env.reset(seed=seed)
        while not over:
            _, reward, over, cut, info = env.step(
                int(rng.choice(np.flatnonzero(info["action_mask"])))
            )
            total += reward
            assert not cut
        verdict = lm.mmap.validate(program, env.unwrapped.solution)
        assert verdict.valid and verdict.costs["return"] == info["return"]
        assert total == pytest.approx(info["return"], abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_chips_and_schedules_cost_what_the_validators_say(seed):
    for kind, validate, cost in (
        ("Chips", lm.mcm.validate, "throughput"),
        ("Regal", lm.regal.validate, "makespan_s"),
    ):
        env = made(kind)
        env.action_space.seed(seed)
        env.reset(seed=seed)
        _, reward, over, _, info = env.step(env.action_space.sample())
        verdict = validate(GRAPH, env.unwrapped.solution)
        assert over and verdict.valid and np.isfinite(reward)
        assert verdict.costs[cost] == pytest.approx(
            info.get("throughput", info.get("cost")), rel=1e-12
        )


def test_an_illegal_action_changes_nothing_and_an_endless_game_is_cut_off():
    program = hard_program(2, 30)
    env = gymnasium.make("learned_mapping/MMap-v0", instance=program)
    seen, info = env.reset(seed=0)
    while info["action_mask"].all():
        seen, _, _, _, info = env.step(2)
    illegal = int(np.flatnonzero(~info["action_mask"])[0])
    for _ in range(learned_mapping.gym.PATIENCE * program.num_buffers):
        again, reward, over, cut, _ = env.step(illegal)
        np.testing.assert_array_equal(again, seen)
        assert reward == 0.0 and not over
        if cut:
            break
    assert cut


def test_an_objective_and_devices_of_ones_own():
    instance = Instance(GRAPH, Devices(devices=3), "memory")
    env = gymnasium.make("learned_mapping/Regal-v0", instance=instance, evaluations=200)
    env.reset(seed=1)
    _, reward, *_ = env.step(env.action_space.sample())
    assert reward < 0 and lm.regal.validate(GRAPH, env.unwrapped.solution, instance.machine).valid


@pytest.mark.slow
def test_a_stock_learner_learns_alexnet():
    """The page's ten lines where `sb3_contrib` is installed: from .27 untrained to more than .40
    after 25,000 moves."""
    learner = pytest.importorskip("sb3_contrib").MaskablePPO
    env = gymnasium.make("learned_mapping/MMap-v0", instance=workload("alexnet_train_batch_32"))
    agent = learner(
        "MlpPolicy",
        env,
        n_steps=2048,
        batch_size=256,
        gamma=1.0,
        ent_coef=0.01,
        seed=0,
        device="cpu",
    )
    agent.learn(25_000)
    observation, info = env.reset()
    over = False
    while not over:
        masks = env.unwrapped.action_masks()
        action, _ = agent.predict(observation, action_masks=masks, deterministic=True)
        observation, _, over, _, info = env.step(int(action))
    assert info["return"] > 0.40
    assert lm.mmap.validate(env.unwrapped.program, env.unwrapped.solution, exact=True).valid


@pytest.mark.parametrize("kind, wrong", [
    ("MMap", (3, -1, 0.5, [0, 1])),
    ("Chips", ([99] * 24, [-1] * 24, [np.nan] * 24, [0] * 23)),
    ("Regal", ([99] * 144, [-1] * 144, [0.5] * 144, [0] * 143)),
])  # fmt: skip
def test_an_action_that_is_none_is_refused(kind, wrong):
    """Catches an agent off by one that would train on chips, bins or moves it never chose."""
    env = made(kind).unwrapped
    env.reset(seed=0)
    for action in wrong:
        with pytest.raises(InputError, match="action: expected one of"):
            env.step(np.array(action))
    env.step(env.action_space.sample())


def test_a_graph_is_scheduled_and_anything_else_is_refused():
    """Catches an attribute that is missing deep inside where a path or a graph came in place of a
    program."""
    assert lm.mmap.solve(GRAPH, "greedy", seed=0).metrics["return"] >= 0
    assert gymnasium.make("learned_mapping/MMap-v0", instance=GRAPH).reset()[0].shape
    program, partition = hard_program(1, 30), lm.mcm.solve(GRAPH, "greedy-naive", chips=2).solution
    for call, wanted in (
        (lambda: lm.mmap.solve("a.json", "greedy"), "a Program, got a str"),
        (lambda: lm.mmap.validate(GRAPH, None), "a Program, got a ComputationGraph"),
        (lambda: lm.mcm.solve(program, "greedy-naive"), "a ComputationGraph, got a Program"),
        (lambda: lm.mcm.validate(program, partition), "a ComputationGraph, got a Program"),
        (lambda: lm.regal.solve(program, "brkga"), "a ComputationGraph, got a Program"),
        (
            lambda: gymnasium.make("learned_mapping/Regal-v0", instance="a.json"),
            "a ComputationGraph, got a str",
        ),
        (lambda: lm.mcm.solve(GRAPH, "random", seed=-1), "a whole number from 0 on, got -1"),
        (lambda: lm.mcm.solve(GRAPH, "random", seed=1.5), "a whole number from 0 on, got 1.5"),
    ):
        with pytest.raises(InputError, match=wanted):
            call()


def test_what_takes_no_time_is_the_best_there_is():
    """Catches a run of no seconds counted as one that cannot run, and a share of no seconds."""
    ops, edges = range(6), range(5)
    graph = make_graph(
        name="none",
        op_names=[f"op{i}" for i in ops],
        op_kinds=["add"] * 6,
        op_flop=[0] * 6,
        op_seconds=[0.0] * 6,
        tensor_names=[f"t{i}" for i in ops],
        tensor_producer=list(ops),
        tensor_bytes=[1000] * 6,
        edge_tensor=list(edges),
        edge_consumer=[i + 1 for i in edges],
    )
    actual = lm.mcm.solve(graph, "random", chips=4, samples=200)
    assert actual.metrics["runtime_s"] == 0.0 and actual.metrics["throughput"] > 1e20
    assert (
        lm.mcm.validate(graph, actual.solution).costs["throughput"] == actual.metrics["throughput"]
    )
    env = gymnasium.make("learned_mapping/Regal-v0", instance=graph, evaluations=200)
    env.reset(seed=0)
    assert np.isfinite(env.step(env.action_space.sample())[1])
