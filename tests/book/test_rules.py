"""The rules in JavaScript against those in Python, in a real browser, to the last digit that JSON
carries.

It would catch a rule that the explorables play differently from the tables: an illegal move
offered, another offset or reward, a repair that draws otherwise, a schedule of another length.
"""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from explorable_data import graph_json, program_json
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.mcm.agent.credit import SHARP, flow_gains
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.repair.solver import ConstraintSolver, fix_repair, sample_repair
from learned_mapping.mcm.searches.moves import move_arrays, single_moves
from learned_mapping.mcm.validate import validate
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.searches.greedy import ThresholdRule
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.rules.decode import evaluate, make_workspace
from learned_mapping.regal.rules.instance import Instance

SCRIPTS = Path(__file__).resolve().parents[2] / "book" / "extra" / "explorables"
COUNT = 300
FAMILIES = ("layered", "series-parallel", "towers", "attention", "random-dag")


@pytest.fixture(scope="module")
def page(browser):
    browser.open("about:blank")
    for name in ("game_rules.js", "chip_rules.js", "schedule_rules.js"):
        browser.run((SCRIPTS / name).read_text())
    return browser


def ask(page, function: str, data) -> list:
    """What a function of JavaScript makes of the data, as JSON."""
    return json.loads(page.run(f"JSON.stringify(({function})({json.dumps(data)}))"))


def test_random_games(page):
    """Every outcome of every action at every move, the return, and the dead ends of hundreds of
    games."""
    rng = np.random.default_rng(0)
    chains = {"alias_fraction": 0.6, "alias_chain": 0.9, "fast_fraction": 0.2}
    programs = [random_program(rng, n, **(chains if n > 25 else {})) for n in (12, 30, 30, 45)]
    cases, expected = [], []
    for i in range(COUNT):
        which = i % len(programs)
        program = programs[which]
        program = replace(
            program,
            fast_bytes=int(program.fast_bytes * rng.uniform(0.3, 1.5)),
            copy_bytes_per_s=program.copy_bytes_per_s * float(rng.uniform(0.2, 5)),
        )
        game, actions, seen = Game(program), [], []
        while not game.over:
            seen.append(
                [
                    [
                        int(o["legal"]),
                        *(o[k].item() for k in ("start", "end", "offset", "reward_s")),
                    ]
                    for o in game.outcomes
                ]
            )
            actions.append(int(rng.choice(np.flatnonzero(game.legal))))
            game.step(actions[-1])
        cases.append([which, program.fast_bytes, program.copy_bytes_per_s, actions])
        expected.append([seen, game.value, game.resets])
    data = {"programs": [program_json(p) for p in programs], "cases": cases}
    actual = ask(
        page,
        """({programs, cases}) => cases.map(([which, fastBytes, copyRate, actions]) => {
          const game = new lm.Game(programs[which], {fastBytes, copyRate}), seen = [];
          for (const action of actions) {
            seen.push(game.outcomes.map((o) => [o.legal ? 1 : 0, o.start, o.end, o.offset, o.reward]));
            game.step(action);
          }
          return [seen, game.value, game.resets];
        })""",
        data,
    )
    assert sum(case[2] for case in expected) > 10, "games without dead ends test no Drop-backup"
    assert actual == json.loads(json.dumps(expected))


def test_going_back_and_greedy_rules(page):
    """A game taken back to a prefix goes on as before, and threshold rules choose the same
    moves."""
    rng = np.random.default_rng(1)
    programs = [random_program(rng, n, alias_fraction=0.4) for n in (25, 60)]
    cases, expected = [], []
    for i in range(100):
        which = i % 2
        rule = ThresholdRule(*(float(x) for x in rng.uniform((-3, 0, 0, 0), (3, 3, 1, 1))))
        game = Game(programs[which])
        game.play_random(rng)
        actions = [int(a) for a in game.state.moves["action"]]
        prefix = int(rng.integers(0, len(actions)))
        game = Game(programs[which])  # a game without the groups that dead ends have forced
        for action in actions:
            game.step(action)
        cases.append(
            [
                which,
                actions,
                prefix,
                [rule.price, rule.copy_price, rule.foresight, rule.supply_price],
            ]
        )
        game.rewind(prefix)
        game.play_linear_policy(rule.weights())
        expected.append([game.played().action.tolist(), game.played().offset.tolist(), game.value])
    data = {"programs": [program_json(p) for p in programs], "cases": cases}
    actual = ask(
        page,
        """({programs, cases}) => cases.map(([which, actions, prefix, [price, copyPrice, foresight, supplyPrice]]) => {
          const game = new lm.Game(programs[which]);
          while (!game.over) game.step(actions[game.state.cursor]);
          game.back(prefix);
          game.playOn((g) => g.scores({price, copyPrice, foresight, supplyPrice}));
          return [game.moves.map((m) => m.action), game.moves.map((m) => m.offset), game.value];
        })""",
        data,
    )
    assert actual == json.loads(json.dumps(expected))


def test_all_games_of_the_toy(page):
    """The bound of the toy is its optimum: all games, tried in Python as on the page of the
    problem."""
    toy, cases, expected = toy_program(), [(8, 4.0), (5, 4.0), (12, 1.0), (8, 16.0)], []
    for fast_bytes, rate in cases:
        game, values = Game(toy.with_memory(fast_bytes=fast_bytes, copy_bytes_per_s=rate)), []
        for attempt in itertools.product(range(3), repeat=toy.num_buffers):
            game.restart()
            if all(game.legal[action] and (game.step(action) or True) for action in attempt):
                values.append(game.value)
        expected.append(max(values))
    data = {"toy": program_json(toy), "cases": cases}
    actual = ask(
        page,
        "({toy, cases}) => cases.map(([fastBytes, copyRate]) => lm.exhaust(toy, {fastBytes,"
        " copyRate}))",
        data,
    )
    assert actual == expected and actual[0] == pytest.approx(2 / 3)


def chip_cases(rng):
    for i in range(COUNT):
        graph = random_graph(rng, FAMILIES[i % len(FAMILIES)], int(rng.integers(5, 9)))
        package = ChipPackage(
            chips=int(rng.integers(2, 5)), link_bytes_per_s=float(rng.uniform(1e9, 1e11))
        )
        rough = np.sort(rng.integers(0, package.chips, graph.num_ops))[
            np.argsort(graph.topological_order)
        ]
        noise = rng.random(graph.num_ops) < rng.choice([0.0, 0.1, 0.5])
        candidate = np.where(noise, rng.integers(0, package.chips, graph.num_ops), rough)
        yield (
            graph,
            package,
            candidate,
            rng.permutation(graph.num_ops).tolist(),
            bool(rng.random() < 0.7),
        )


RULES = {"Eq. 2": "acyclic", "Eq. 3": "skipping", "Eq. 4": "triangle"}


class Counted:
    """Hands out given numbers, as a generator does."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self) -> float:
        return next(self.numbers)


def test_partitions(page):
    """Rules broken, seconds, memory and throughput of hundreds of partitions, and what FIX and
    SAMPLE make of them."""
    rng, cases, expected, valid = np.random.default_rng(2), [], [], 0
    for graph, package, candidate, order, chain in chip_cases(rng):
        verdict = validate(graph, make_partition(candidate, package.chips), package)
        rules = sorted({RULES[v.rule[:5]] for v in verdict.violations if "cycle" not in v.detail})
        if "acyclic" in rules:  # Eq. 4 is not defined against the dataflow
            rules = [rule for rule in rules if rule != "triangle"]
        model, numbers = ChipModel(graph, package), rng.random(200).tolist()
        solver = [
            ConstraintSolver(
                graph.num_ops, graph.op_edges, package.chips, "chain" if chain else "general"
            )
            for _ in "ab"
        ]
        ones = np.ones((graph.num_ops, package.chips))
        fixed = fix_repair(solver[0], order, candidate, Counted(numbers))
        drawn = sample_repair(solver[1], order, 0 * ones, Counted(numbers))
        valid += not rules
        judged = None if "acyclic" in rules else model.latencies(candidate).tolist()
        if judged is not None:
            assert verdict.costs["runtime_s"] == pytest.approx(max(judged))
        memory = (
            chip_memory(graph, candidate, package.chips).tolist() if judged is not None else None
        )
        cases.append(
            [
                graph_json(graph, model.op_seconds),
                package.chips,
                package.link_bytes_per_s,
                candidate.tolist(),
                order,
                chain,
                numbers,
            ]
        )
        expected.append([rules, judged, memory, [int(c) for c in fixed], [int(c) for c in drawn]])
    actual = ask(
        page,
        """(cases) => cases.map(([graph, chips, link, f, order, chain, numbers]) => {
          const rules = [...new Set(lm.chips.violations(graph, f, chips).map((x) => x.rule))].sort();
          const ordered = !rules.includes("acyclic");
          const given = () => { let i = 0; return () => numbers[i++]; };
          const solver = () => new lm.chips.Solver(graph, chips, chain);
          return [
            rules, ordered ? lm.chips.latencies(graph, f, chips, link) : null,
            ordered ? lm.chips.memory(graph, f, chips) : null,
            lm.chips.fixRepair(solver(), order, f, given()), lm.chips.sampleRepair(solver(), order, given()),
          ];
        })""",
        cases,
    )
    assert 30 < valid < COUNT - 30, "both kinds of partitions are needed"
    assert actual == json.loads(json.dumps(expected))


def test_the_optimum_of_small_graphs(page):
    """The search by trying all finds what trying all in Python finds."""
    rng, cases, expected = np.random.default_rng(3), [], []
    for i in range(20):
        graph = random_graph(rng, FAMILIES[i % len(FAMILIES)], 6)
        package = ChipPackage(chips=3)
        model, best = ChipModel(graph, package), np.inf
        for f in itertools.product(range(3), repeat=graph.num_ops):
            candidate = np.array(f)
            if validate(graph, make_partition(candidate, 3), package).valid:
                best = min(best, model.runtime(candidate))
        cases.append([graph_json(graph, model.op_seconds), package.link_bytes_per_s])
        expected.append(best)
    actual = ask(
        page,
        "(cases) => cases.map(([g, link]) => lm.chips.runtime(g, lm.chips.optimum(g, 3, link), 3,"
        " link))",
        cases,
    )
    assert actual == expected


def test_schedules(page):
    """Time, peak, placement and order of hundreds of random chromosomes."""
    rng, cases, expected = np.random.default_rng(4), [], []
    for i in range(COUNT):
        instance = Instance(
            random_graph(rng, FAMILIES[i % len(FAMILIES)], int(rng.integers(5, 40)))
        )
        chromosome, work = rng.random(instance.chromosome_length), make_workspace(instance)
        if i % 3 == 0:
            chromosome = np.round(chromosome, 1)  # ties
        makespan, peak, steps = evaluate(instance.arrays, chromosome, work)
        cases.append([graph_json(instance.graph, instance.arrays.seconds), chromosome.tolist()])
        expected.append([makespan, int(peak), work.placement.tolist(), work.order[:steps].tolist()])
    actual = ask(
        page,
        """(cases) => cases.map(([graph, chromosome]) => {
          const p = lm.schedule.prepare(graph, 2), done = lm.schedule.decode(p, chromosome);
          const item = (s) => (s.op === undefined ? p.n + s.tensor * 2 + s.device : s.op);
          return [done.makespan, done.peak, done.placement, done.steps.map(item)];
        })""",
        cases,
    )
    assert actual == json.loads(json.dumps(expected))


def test_beta_laws(page):
    """The mean and the variance of ten thousand draws, within five standard errors."""
    for a, b in ((1.0, 1.0), (0.5, 2.0), (2.0, 8.0), (5.0, 1.5)):
        many = """([a, b]) => {
          const u = lm.schedule.uniform(7);
          return Array.from({length: 10000}, () => lm.schedule.beta(a, b, u));
        }"""
        draws = np.array(ask(page, many, [a, b]))
        mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
        assert abs(draws.mean() - mean) < 5 * (variance / 10_000) ** 0.5
        assert abs(draws.var() / variance - 1) < 0.15


def test_credits_of_moves(page):
    """The gains of all single moves by flow, and by the smooth bottleneck where the rules allow
    them: on the page also the rule that no chip before the last is left empty, which Python leaves
    to the repair."""
    rng, cases, expected = np.random.default_rng(5), [], []
    for graph, package, *_ in chip_cases(rng):
        y = repair_batch(repair_arrays(graph), package.chips, mode="sample", rng=rng, count=1)[0]
        model = ChipModel(graph, package)
        latencies = model.latencies(y)
        gains, allowed = single_moves(move_arrays(model), y, latencies)
        after = y + np.eye(len(y), dtype=int)[:, None] * np.array([-1, 0, 1])[:, None]  # [N, 3, N]
        allowed &= np.array(
            [[len({*moved.tolist()}) == moved.max() + 1 for moved in of_op] for of_op in after]
        )
        exact = np.where(allowed, np.tanh(gains / SHARP), 0.0)
        told, _ = flow_gains(model.op_seconds, y[None], latencies[None])
        cases.append(
            [
                graph_json(graph, model.op_seconds),
                package.chips,
                package.link_bytes_per_s,
                y.tolist(),
            ]
        )
        expected.append([told[0][:, ::2].tolist(), exact[:, ::2].tolist()])
    actual = ask(
        page,
        """(cases) => cases.map(([graph, chips, link, at]) => [
          lm.chips.credits.flow(graph, at, chips, link), lm.chips.credits.exact(graph, at, chips, link)])""",
        cases,
    )
    for ours, theirs in zip(expected, actual):
        for a, b in zip(ours, theirs):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-8)
