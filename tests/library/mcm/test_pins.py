"""Ops fixed to chips and groups on one chip: every partition of small graphs is tried, every method
asked."""

import copy
import itertools
import json
from functools import cache

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from cli_files import GRAPH, refused, run
from learned_mapping import problem
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm import methods
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.methods import PROBLEM, solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.cp_sat import cp_sat_batch
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.repair.solver import ConstraintSolver, fix_repair, sample_repair
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.rules.fold import fold_cheap_sources, fold_weights
from learned_mapping.mcm.rules.pins import parts_of
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.json_io import Node
from second_checkers import partition_is_valid

DIAMOND_DIGEST = "cf0ab87eaf13aed169d3b3f5ad134c521dbd2ed3a4f16e97e3396c6f254ed76c"
"""Of `GRAPH`, from before ops could be fixed."""


def random_tied(rng, fixed=0.4, grouped=0.4):
    """(a graph of 2 to 6 ops with random edges, fixed ops and groups, C), or None where a group is
    on two chips."""
    n, chips, density = (
        int(rng.integers(2, 7)),
        int(rng.integers(2, 5)),
        rng.choice([0.15, 0.4, 0.7]),
    )
    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < density]
    graph_of = {
        "op_seconds": rng.integers(1, 9, n).astype(float),
        "tensor_bytes": rng.integers(0, 5, n) * 32_000_000_000,
        "op_chip": np.where(
            rng.random(n) < fixed * rng.integers(0, 2), rng.integers(0, chips, n), -1
        ),
        "op_group": [
            str(rng.choice(["a", "b"])) if rng.random() < grouped else "" for _ in range(n)
        ],
    }
    try:
        return hand_graph(n, edges, **graph_of), chips
    except InputError as error:
        assert "of the same group" in str(error)
        return None


def tied_by_definition(graph, f):
    """Whether fixed ops have their chips and groups one each."""
    chips = [-1] * graph.num_ops if graph.op_chip is None else graph.op_chip.tolist()
    groups = graph.op_group or [""] * graph.num_ops
    fixed = all(chip in (-1, f[op]) for op, chip in enumerate(chips))
    return fixed and all(
        len({f[op] for op, g in enumerate(groups) if g == group}) == 1
        for group in set(groups) - {""}
    )


@cache
def cases(count, seed):
    """(graph, C, every partition under the chain rule that has fixed ops and groups in their
    places)."""
    rng, actual = np.random.default_rng(seed), []
    while len(actual) < count:
        if (drawn := random_tied(rng)) is not None:
            graph, chips = drawn
            every = map(np.array, itertools.product(range(chips), repeat=graph.num_ops))
            valid = [
                f
                for f in every
                if obeys_chain_rule(f, graph.op_edges) and is_valid(f, graph.op_edges)
            ]
            actual.append(
                (graph, chips, {tuple(f.tolist()) for f in valid if tied_by_definition(graph, f)})
            )
    return actual


def feasible(count, seed):
    """(task, C, the partitions) of the cases that have one."""
    return [
        (PROBLEM.task(graph, chips=chips), chips, every)
        for graph, chips, every in cases(count, seed)
        if every
    ]


def test_what_is_refused_has_no_partition_and_what_is_not_has_one():
    """Catches a bound too tight or too loose, a class of ops too small or too large, parts that
    cannot be joined."""
    refusals = 0
    for graph, chips, every in cases(150, 0):
        try:
            PROBLEM.task(graph, chips=chips).check()
        except InputError as error:
            assert not every and str(error).isprintable(), error
            refusals += 1
        else:
            assert every
    assert 15 < refusals < 135


def test_repairs_are_valid_and_reach_every_partition_of_one_part():
    """Catches a repair that moves a fixed op or tears a group, and a domain that is cut too far."""
    rng, whole = np.random.default_rng(1), 0
    for task, chips, every in feasible(150, 0):
        collected = set()
        for mode in ("sample", "fix", "nearest"):
            y = rng.integers(0, chips, (32, task.model.graph.num_ops))
            options = {} if mode == "sample" else {"candidates": y}
            for row in repair_batch(task.arrays, chips, mode=mode, rng=rng, count=32, **options):
                collected.add(tuple(task.partition(row).assignment.tolist()))
        assert collected <= every
        if not parts_of(task.model.graph).any():
            rows = repair_batch(task.arrays, chips, mode="sample", rng=rng, count=3000)
            assert (
                collected | {tuple(task.partition(row).assignment.tolist()) for row in rows}
                == every
            )
            whole += 1
    assert whole > 30


def test_optima_are_those_of_enumeration():
    """Catches a rule of CP-SAT that differs, with groups as they are or contracted, and times that
    change."""
    for i, (task, chips, every) in enumerate(feasible(150, 0)):
        model = ChipModel(task.graph, ChipPackage(chips=chips))
        least = min(model.runtime(np.array(f)) for f in every)
        for rule in (careful_greedy, naive_greedy):
            actual = task.partition(rule(task.model)).assignment
            assert tuple(actual.tolist()) in every and model.runtime(actual) >= least * (1 - 1e-9)
        if i % 4 == 0:
            for item in (model, task.model):
                assert fastest_partition(item).value == pytest.approx(least, rel=1e-6)
        if task.model.graph.op_chip is None:
            assert model.runtime(task.partition(optimum(task.model)).assignment) == pytest.approx(
                least, rel=1e-8
            )


def test_validator_and_second_checker_agree_on_damage():
    """Catches a validator that overlooks a fixed op on another chip, or a group on two."""
    rng, verdicts = np.random.default_rng(2), {True: 0, False: 0}
    for task, chips, every in feasible(150, 0):
        f = np.array(list(every)[0])
        f[rng.integers(task.graph.num_ops)] = rng.integers(chips)
        partition = make_partition(f, chips)
        verdict = validate(task.graph, partition)
        assert verdict.valid == partition_is_valid(task.graph, partition), verdict
        assert verdict.valid or not PROBLEM.value(task, partition)
        verdicts[verdict.valid] += 1
    assert min(verdicts.values()) > 20


def test_verdicts_name_what_is_out_of_place():
    """Catches a violation without its culprits."""
    graph = hand_graph(
        4, chain_edges(4), op_chip=[-1, 0, -1, -1], op_group=["", "", "pair", "pair"]
    )
    broken = validate(graph, make_partition([0, 1, 1, 2], 3)).violations
    assert [(item.rule, item.culprits) for item in broken] == [
        ("fixed chip", ("o1",)),
        ("group on one chip", ("o2", "o3")),
    ]
    assert validate(graph, make_partition([0, 0, 1, 1], 3)).valid


@pytest.mark.parametrize("mode", ["sample", "fix"])
def test_compiled_engine_equals_the_plain_one_with_fixed_ops(mode):
    """Catches any difference in a domain: all take the same random numbers, so all chips must
    agree; CP-SAT's too."""
    compared = 0
    for trial, (task, chips, _) in enumerate(feasible(150, 0)):
        graph = task.model.graph
        if graph.op_chip is None or parts_of(graph).any():
            continue
        rng, n = np.random.default_rng(trial), graph.num_ops
        order, y, weights = (
            rng.permutation(n),
            rng.integers(0, chips, n),
            rng.dirichlet(np.full(chips, 0.3), n),
        )
        options = {"weights": weights} if mode == "sample" else {"candidates": y}
        rngs = [np.random.default_rng(trial) for _ in range(3)]
        compiled = repair_batch(task.arrays, chips, mode=mode, rng=rngs[0], order=order, **options)[
            0
        ].tolist()
        solver = ConstraintSolver(n, graph.op_edges, chips, fixed=graph.op_chip)
        repair = sample_repair(solver, order, weights, rngs[1]) if mode == "sample" else None
        assert compiled == (fix_repair(solver, order, y, rngs[1]) if repair is None else repair)
        assert (
            compiled
            == cp_sat_batch(graph, chips, mode=mode, rng=rngs[2], order=order, **options)[
                0
            ].tolist()
        )
        compared += 1
    assert compared > 10


def found_by(paper, task, method, **limits):
    return problem.solve(paper, task, method, profile="quick", **limits).solution


def tied_graph():
    """Sixteen ops in a row with a second way around, and an op apart; fixed at both ends, in the
    middle, and apart."""
    edges = [*chain_edges(16), *((op, op + 3) for op in range(0, 12, 3))]
    chips, groups = [-1] * 17, [""] * 17
    chips[0], chips[7], chips[15], chips[16] = 0, 1, 3, 2
    groups[3] = groups[5] = "mine"
    groups[12] = groups[15] = "last"
    seconds = [1.0 + op % 3 for op in range(17)]
    return hand_graph(17, edges, op_chip=chips, op_group=groups, op_seconds=seconds)


METHODS = [(name, "engine") for name in (*methods.METHODS, "rl", "rl-balanced")]


@pytest.mark.parametrize(
    ("method", "repair"), [*METHODS, ("random", "cp-sat-nearest"), ("random", "cp-sat")]
)
def test_every_method_keeps_them_or_says_that_it_cannot(method, repair):
    """Catches a method with a way of its own to a partition."""
    task = PROBLEM.task(tied_graph(), chips=5, repair=repair)
    if method == "optimum":
        with pytest.raises(InputError, match="cp-sat does"):
            found_by(PROBLEM, task, method)
        return
    solution = found_by(PROBLEM, task, method, samples=12)
    broken = validate(task.graph, solution).violations
    assert method == "unconstrained" or not broken
    assert (PROBLEM.value(task, solution) > 0) == (not broken)


def test_a_search_without_time_for_a_sample_keeps_them():
    """Catches all ops on chip 0, what searches begin with."""
    task = PROBLEM.task(tied_graph(), chips=5)
    for method in ("random", "sa", "climb", "sa-balanced"):
        assert PROBLEM.validate(task, found_by(PROBLEM, task, method, seconds=1e-9)).valid, method


def test_silicon_and_environments_have_them():
    """Catches a door on which fixed ops or groups are not looked at."""
    fixed = hand_graph(6, chain_edges(6), op_chip=[0, -1, -1, 1, -1, 2], op_flop=[1e9] * 6)
    silicon = problem.problem("silicon")
    task = silicon.task(fixed, chips=4)
    for method in ("random-balanced", "even-cut", "climb"):
        assert silicon.validate(task, found_by(silicon, task, method, samples=5)).valid, method
    with pytest.raises(InputError, match=r"ops\[3\]\.group: groups are for the analytical model"):
        silicon.task(tied_graph(), chips=4)
    with pytest.raises(InputError, match="contracts it first"):
        PartitionEnv(ChipModel(tied_graph(), ChipPackage(chips=4)))
    gymnasium = pytest.importorskip("gymnasium")
    import learned_mapping.gym  # noqa: F401

    env = gymnasium.make(
        "learned_mapping/Chips-v0", instance=tied_graph(), chips=4, render_mode="rgb_array"
    )
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert validate(tied_graph(), env.unwrapped.solution).valid and env.render().ndim == 3
    with pytest.raises(InputError, match="mcm` alone"):
        problem.problem("regal").task(tied_graph())


def test_climbing_never_ends_with_chip_0_empty():
    """Catches a move of the last op of chip 0 that pays: two ops of 1 s with a tensor of 2 s
    between them."""
    graph = hand_graph(2, [(0, 1)], op_seconds=[1.0, 1.0], tensor_bytes=[64_000_000_000] * 2)
    assert validate(graph, solve(graph, "climb", chips=2, samples=5).solution).valid


def test_files_round_trip_and_those_without_are_as_they_were():
    """Catches a field lost in the file or in a fold, and a digest that changes for graphs without
    fixed ops."""
    graph = tied_graph()
    value = graph_to_json(graph)
    again = graph_from_json(Node(copy.deepcopy(value), "made"))
    assert graph_to_json(again) == value and again.digest == graph.digest
    assert again.op_chip.tolist() == graph.op_chip.tolist() and again.op_group == graph.op_group
    plain = graph_from_json(Node(copy.deepcopy(GRAPH), "made"))
    assert plain.digest == DIAMOND_DIGEST and plain.op_chip is None and plain.op_group is None
    assert not {"chip", "group"} & {key for op in graph_to_json(plain)["ops"] for key in op}
    digests = {graph.digest}
    for op, field in itertools.product(value["ops"], ("chip", "group")):
        if field in op:
            kept = op.pop(field)
            digests.add(graph_from_json(Node(copy.deepcopy(value), "made")).digest)
            op[field] = kept
    assert len(digests) == 9


def test_what_is_fixed_is_not_folded():
    """Catches a weight that loses its chip to the ops that use it, and a fold that forgets the
    others'."""
    free = hand_graph(
        5,
        [(0, 1), (0, 2), (0, 3), (4, 3)],
        op_kinds=["const", *["add"] * 3, "const"],
        op_flop=[0, 1, 1, 1, 0],
    )
    tied = hand_graph(
        5,
        [(0, 1), (0, 2), (0, 3), (4, 3)],
        op_kinds=["const", *["add"] * 3, "const"],
        op_flop=[0, 1, 1, 1, 0],
        op_chip=[0, -1, 1, -1, -1],
    )
    assert fold_cheap_sources(fold_weights(free)).num_ops == 3
    folded = fold_cheap_sources(fold_weights(tied))
    assert folded.op_names == ("o0", "o1", "o2", "o3") and folded.op_chip.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"a": {"chip": -1}}, "ops[0].chip: -1 is outside [0, 4095]"),
        ({"a": {"chip": "0"}}, "ops[0].chip: expected an integer, got '0'"),
        ({"a": {"group": ""}}, "ops[0].group: empty string"),
        ({"b": {"chip": 3}}, "ops[1].chip: 3 is outside [0, 2], the chips of the package"),
        (
            {"b": {"chip": 1, "group": "g"}, "c": {"chip": 0, "group": "g"}},
            "ops[2].chip: 0, but op 'b' of the same group 'g' has 1",
        ),
        (
            {"a": {"group": "g"}, "b": {"chip": 1}, "c": {"chip": 0}, "d": {"group": "g"}},
            "ops['b'].chip: 1 cannot be with 'c' on chip 0: groups and what lies between",
        ),
        (
            {"a": {"chip": 1}, "d": {"chip": 0}},
            "ops['a'].chip: 1 cannot be with 'd' on chip 0: along an edge",
        ),
        (
            {"b": {"chip": 2}, "c": {"chip": 0}},
            "ops['b'].chip: 2 cannot be with 'c' on chip 0: along an edge",
        ),
        (
            {"c": {"chip": 2}},
            "ops['c'].chip: 2, which leaves no op for chip 0, and no chip may be left out (Eq. 3)",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(capsys, tmp_path, monkeypatch, fields, told):
    """Catches a fault without its file, field and value, and one that is found out only after a
    search."""
    monkeypatch.chdir(tmp_path)
    value = copy.deepcopy(GRAPH)
    for op in value["ops"]:
        op |= fields.get(op["name"], {})
    (tmp_path / "g.json").write_text(json.dumps(value))
    arguments = ("--chips", "3", "--method", "random", "--samples", "3", "--out", "p.json")
    code, _, err = run(capsys, "solve", "mcm", "g.json", *arguments)
    assert refused(code, err).startswith(f"lmap: g.json: {told}"), err
    if "package" not in told:
        assert run(capsys, "check", "g.json")[::2] == (2, err)


def test_parts_that_cannot_fill_the_chips_are_refused():
    """Catches parts that leave a chip out: an op alone on chip 2, and a row of two for chips 0 and
    1, or fixed to 0."""
    solve(hand_graph(3, [(0, 1)], op_chip=[-1, -1, 2]), "greedy-careful", chips=3)
    with pytest.raises(InputError, match="constraint programming finds no partition"):
        solve(hand_graph(3, [(0, 1)], op_chip=[-1, 0, 2]), "greedy-careful", chips=3)


def test_repair_arrays_are_those_of_before_where_nothing_is_fixed():
    """Catches domains that begin elsewhere than at all chips."""
    arrays = repair_arrays(hand_graph(3, [(0, 1)]))
    assert (
        not arrays.lows.any()
        and arrays.drops.max() < -4000
        and arrays.in_main.tolist() == [True, True, False]
    )
