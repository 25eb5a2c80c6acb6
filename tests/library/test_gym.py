"""The three problems as gymnasium sees them: by its own checker, and by the validators."""

import warnings
from dataclasses import replace

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
KINDS = ("MMap-v0", "Chips-v0", "Chips-v1", "Regal-v0")
GIVEN = {
    "MMap-v0": {},
    "Chips-v0": {"chips": 4},
    "Chips-v1": {"chips": 4},
    "Regal-v0": {"evaluations": 200},
}


def renamed(kind: str, name: str):
    """An instance that differs in its name alone."""
    return replace(hard_program(1, 30) if kind == "MMap-v0" else GRAPH, name=name)


def made(kind: str, **more):
    return gymnasium.make(
        f"learned_mapping/{kind}", instance=renamed(kind, "one"), **GIVEN[kind], **more
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_its_own_checker_finds_nothing(kind, seed):
    """Spaces, seeds, types and pictures, as gymnasium's checker asks for them."""
    env = made(kind, render_mode="rgb_array")
    env.action_space.seed(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*infinity.*|.*different render modes.*")
        check_env(env.unwrapped)
    assert env.unwrapped.render().shape[2] == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{"instnace": 1}, {"instance": GRAPH, "seed": 1}, [], "instance", np.zeros(2)]
)
def test_an_option_is_refused_and_not_ignored(kind, options):
    """Catches an agent that is said to train on another graph at each reset, and never leaves the
    first."""
    env = made(kind).unwrapped
    with pytest.raises(InputError, match="options: the only one is 'instance', got"):
        env.reset(options=options)
    env.reset(seed=0, options={})


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_makes_itself_and_plays(kind):
    """Catches an id that cannot be made without arguments, as every learner's first line does, from
    one string."""
    env = gymnasium.make(f"learned_mapping.gym:learned_mapping/{kind}")
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    assert info["instance"] and np.isfinite(info["bound"])
    assert np.isfinite(env.step(env.action_space.sample())[1])


@pytest.mark.parametrize("kind", KINDS)
def test_instances_come_from_a_list_an_iterator_or_a_reset(kind):
    """Each has a name of its own. Catches a list of which only the first is ever played, an
    iterator that is read twice, and an instance given to `reset` that stays for the next."""
    several = [renamed(kind, letter) for letter in "abc"]
    given = GIVEN[kind] | ({} if kind == "MMap-v0" else {"ops": 30})
    given |= {"edges": 90} if kind == "Chips-v1" else {}
    env = gymnasium.make(f"learned_mapping/{kind}", instance=several, **given).unwrapped
    names = [env.reset(seed=0)[1]["instance"]] + [env.reset()[1]["instance"] for _ in range(40)]
    assert {*names} == {*"abc"}
    again = [env.reset(seed=0)[1]["instance"]] + [env.reset()[1]["instance"] for _ in range(40)]
    assert names == again, "the seed decides"
    assert env.reset(options={"instance": renamed(kind, "d")})[1]["instance"] == "d"
    assert env.reset()[1]["instance"] in "abc"
    env = gymnasium.make(f"learned_mapping/{kind}", instance=iter(several), **given).unwrapped
    assert [env.reset()[1]["instance"] for _ in "abc"] == [*"abc"]
    with pytest.raises(InputError, match="the iterator has ended"):
        env.reset()
    with pytest.raises(InputError, match="expected at least one, got none"):
        gymnasium.make(f"learned_mapping/{kind}", instance=[], **given)


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
        ("Chips-v0", lm.mcm.validate, "throughput"),
        ("Regal-v0", lm.regal.validate, "makespan_s"),
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


@pytest.mark.parametrize("seed", range(8))
def test_an_op_at_a_time_earns_the_logarithm_of_the_throughput(seed):
    """A random player of one graph after another. Each reward but the last is the change of the
    8-norm of the loads, undecided ops spread over what they can have, by loops of its own; all sum
    to log(throughput times an even share). Catches credit for another op, and a return that is
    none of the validator's."""
    graphs = learned_mapping.gym.instances("Chips")[seed::8]
    env = gymnasium.make("learned_mapping/Chips-v1", instance=graphs, chips=3).unwrapped
    rng = np.random.default_rng(seed)
    for graph in graphs:
        seen, info = env.reset(seed=seed, options={"instance": graph})
        rewards, values, over = [], [value_of(seen, graph)], False
        while not over:
            assert (seen["mask"] == info["action_mask"]).all() and seen["mask"].sum() > 1
            action = int(rng.choice(np.flatnonzero(seen["mask"])))
            seen, reward, over, cut, info = env.step(action)
            rewards.append(reward)
            values.append(value_of(seen, graph))
            assert not cut
        verdict = lm.mcm.validate(graph, env.solution)
        throughput, even = verdict.costs["throughput"], graph.op_seconds.sum() / 3
        assert verdict.valid and throughput == pytest.approx(info["throughput"], rel=1e-12)
        assert throughput <= env.bound * (1 + 1e-9)
        assert sum(rewards) == pytest.approx(np.log(throughput * even), abs=1e-9)
        np.testing.assert_allclose(rewards[:-1], np.diff(values)[:-1], atol=1e-5)


def value_of(seen, graph):
    """V of what `Chips-v1` shows: minus the logarithm of the 8-norm mean of three chips' loads."""
    loads = np.zeros(3)
    for seconds, node in zip(graph.op_seconds, seen["nodes"]):
        low, high = (round(3 * float(share)) for share in node[3:5])
        loads[low : high + 1] += seconds / (high + 1 - low)
    loads /= graph.op_seconds.sum() / 3
    np.testing.assert_allclose(seen["loads"], loads, atol=1e-5)
    return -np.log((loads**8).mean()) / 8


@pytest.mark.parametrize("kind", ["MMap-v0", "Chips-v1"])
def test_the_nearest_legal_action_is_played_where_asked_for(kind):
    """Two players, one that says any number and is moved to the nearest legal one, the lower of
    two as near, and one that says that. Catches a learner without masks that stands still."""
    moved, plain = made(kind, legal="nearest").unwrapped, made(kind).unwrapped
    rng, met = np.random.default_rng(0), 0
    for env in (moved, plain):
        _, info = env.reset(seed=0)
    over = False
    while not over:
        legal = np.flatnonzero(info["action_mask"])
        action = int(rng.integers(moved.action_space.n))
        nearest = min(legal, key=lambda c: (abs(c - action), c))
        met += nearest != action
        seen, reward, over, _, _ = moved.step(action)
        again, expected, ended, _, info = plain.step(int(nearest))
        assert (reward, over) == (expected, ended)
        np.testing.assert_equal(seen, again)
    assert met > 0
    with pytest.raises(InputError, match="legal"):
        made(kind, legal="sometimes")


def test_padding_changes_no_game():
    """Catches features, edges or loads that reach into the padding."""
    small = gymnasium.make("learned_mapping/Chips-v1", instance=GRAPH).unwrapped
    large = gymnasium.make("learned_mapping/Chips-v1", instance=GRAPH, ops=40, edges=99).unwrapped
    (seen, _), (padded, _) = small.reset(seed=0), large.reset(seed=0)
    over = False
    while not over:
        np.testing.assert_equal(padded["nodes"][:24], seen["nodes"][:24])
        assert (
            not padded["nodes"][24:].any() and (padded["edges"][len(GRAPH.op_edges) :] == 40).all()
        )
        np.testing.assert_equal(padded["edges"][: len(GRAPH.op_edges)], GRAPH.op_edges)
        action = int(np.flatnonzero(seen["mask"])[-1])
        seen, reward, over, _, _ = small.step(action)
        padded, again, *_ = large.step(action)
        assert reward == again
    with pytest.raises(InputError, match="has 24 ops, the environment is made for 20"):
        gymnasium.make("learned_mapping/Chips-v1", instance=GRAPH, ops=20).reset()


def test_what_is_held_out_was_never_trained_on():
    """Catches a graph or a program in both halves, and a bound that some solution exceeds."""
    for kind, counts in (("Chips", (20, 10)), ("Regal", (20, 10)), ("MMap", None)):
        halves = [learned_mapping.gym.instances(kind, split) for split in ("train", "test")]
        digests = [{instance.digest for instance in half} for half in halves]
        assert not digests[0] & digests[1]
        assert counts is None or tuple(map(len, digests)) == counts
    programs = [*halves[0], *halves[1]]
    assert all(program.num_buffers <= 1000 for program in programs)
    everything = [
        learned_mapping.gym.instances("MMap", split, 10**9) for split in ("train", "test")
    ]
    assert [len(half) for half in everything] == [40, 20]


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
    ("MMap-v0", (3, -1, 0.5, [0, 1])),
    ("Chips-v1", (4, -1, 0.5, [0, 1])),
    ("Chips-v0", ([99] * 24, [-1] * 24, [np.nan] * 24, [0] * 23)),
    ("Regal-v0", ([99] * 144, [-1] * 144, [0.5] * 144, [0] * 143)),
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
