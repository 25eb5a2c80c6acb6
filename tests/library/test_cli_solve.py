"""``lmap solve``: what it writes, what it says beside it, and what it refuses."""

import copy
import json
import time

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from cli_files import PARTITION, PROGRAM, SLOW, answer, one_line, refusal, run
from learned_mapping.cli import solve as command
from learned_mapping.cli.solve import proved
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.mcm import methods
from learned_mapping.mcm.bounds.optimum import TooManyIdealsError
from learned_mapping.mcm.rules.fold import fold_weights, weight_sources
from learned_mapping.problem import problem
from learned_mapping.programs.formats import write_graph, write_program
from learned_mapping.regal.schedule import Schedule
from mmap_games import hard_program


@pytest.mark.parametrize(
    ("paper", "instance", "method"),
    [
        ("mmap", "program.json", "greedy"),
        ("mcm", "graph.json", "greedy-careful"),
        ("regal", "graph.json", "gp-dfs"),
    ],
)
def test_what_solve_writes_check_accepts(capsys, folder, paper, instance, method):
    arguments = ["--seconds", "0.2", "--out", "new/solution.json.gz", "--json"]
    arguments += ["--chips", "2"] if paper == "mcm" else []
    solved = answer(capsys, "solve", paper, instance, "--method", method, *arguments)
    verdict = answer(capsys, "check", paper, instance, "new/solution.json.gz")
    assert verdict == {"valid": True, "costs": solved["costs"], "violations": []}
    for named in ((), (paper,)):
        code, *_ = run(
            capsys, "show", *named, instance, "new/solution.json.gz", "--out", "picture.svg"
        )
        assert code == 0 and (folder / "picture.svg").read_text().lstrip().startswith(
            ("<svg", "<?xml")
        )


def test_a_mapping_is_seen_beside_a_rule_and_a_bound(capsys, folder):
    """Would catch a return above what no mapping exceeds, and a user who is told neither."""
    arguments = ["--method", "greedy", "--samples", "5", "--alone", "--out", "s.json", "--json"]
    actual = json.loads(run(capsys, "solve", "mmap", "program.json", *arguments)[1])
    assert set(actual["beside"]) == {"priced", "no mapping is above"}
    assert actual["costs"]["return"] <= actual["beside"]["no mapping is above"] + 1e-9


def test_a_solution_says_how_it_was_made_and_check_believes_it(capsys, folder):
    made_with = [
        "--method",
        "brkga",
        "--samples",
        "200",
        "--transfers",
        "free",
        "--out",
        "s.json",
        "--json",
    ]
    solved = answer(capsys, "solve", "regal", "graph.json", *made_with)
    origin = json.loads((folder / "s.json").read_text())["made"]
    assert (origin["options"], origin["samples"], origin["by"]) == (
        {"transfers": "free"},
        solved["samples"],
        "brkga",
    )
    assert set(solved["beside"]) == {"brkga, 4,980 evaluations", "no schedule is below"}
    words = (), ("regal",), ("--transfers", "rendezvous")
    judged = [answer(capsys, "check", *item, "graph.json", "s.json")["costs"] for item in words]
    assert judged[0] == judged[1] == solved["costs"]
    plain = json.loads((folder / "s.json").read_text())
    del plain["made"]
    (folder / "plain.json").write_text(json.dumps(plain))
    assert answer(capsys, "check", "graph.json", "plain.json")["costs"] == judged[2]
    plain["made"] = origin | {"options": {"transfers": "sometimes"}}
    (folder / "bad.json").write_text(json.dumps(plain))
    assert "bad.json: made.options" in refusal(capsys, "check", "graph.json", "bad.json")


@pytest.mark.parametrize("paper", ["mmap", "mcm", "regal"])
def test_help_has_a_line_for_each_method(capsys, paper):
    code, out, _ = run(capsys, "solve", paper, "--help")
    assert code == 0
    lines = out.splitlines()
    for name, method in problem(paper).methods().items():
        assert any(line.split()[:1] == [name] and method.description in line for line in lines)


def test_folding_frees_chips_and_check_knows_which_graph_was_meant(capsys, folder):
    """A cheap op that every layer uses ties all of them to two chips, unless it is replicated."""
    layers = [{"name": f"layer{i}", "kind": "dot_general", "flop": 1e9} for i in range(8)]
    tensors = [
        {
            "name": f"x{i}",
            "producer": f"layer{i}",
            "bytes": 1024,
            "consumers": [f"layer{i + 1}"] if i < 7 else [],
        }
        for i in range(8)
    ]
    mask = {
        "name": "m",
        "producer": "mask",
        "bytes": 64,
        "consumers": [layer["name"] for layer in layers],
    }
    ops = [{"name": "mask", "kind": "mul", "flop": 16}, *layers]
    graph = {
        "schema": "learned-mapping/graph/1",
        "name": "masked",
        "ops": ops,
        "tensors": [mask, *tensors],
    }
    (folder / "masked.json").write_text(json.dumps(graph))
    used = {}
    for fold in ((), ("--fold",)):
        arguments = [
            "masked.json",
            "--method",
            "greedy-careful",
            "--chips",
            "4",
            "--out",
            "p.json",
            "--json",
            *fold,
        ]
        used[fold] = answer(capsys, "solve", "mcm", *arguments)["costs"]["chips_used"]
        assert (
            answer(capsys, "check", "mcm", "masked.json", "p.json")["costs"]["chips_used"]
            == used[fold]
        )
    assert used[()] == 2 and used[("--fold",)] == 4
    options = ("--method", "brkga", "--fold", "--out", "s.json")
    assert (
        "--fold" in refusal(capsys, "solve", "regal", "graph.json", *options)
        and not (folder / "s.json").exists()
    )


def test_same_seed_same_file(capsys, folder):
    for name in ("one.json", "two.json"):
        arguments = ["--method", "random", "--samples", "50", "--seed", "4", "--out", name]
        assert run(capsys, "solve", "regal", "graph.json", *arguments)[0] == 0
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()


def test_an_invalid_answer_of_a_solver_is_never_written(capsys, folder, monkeypatch):
    """The independent validator stands between every solver and the file."""

    class Wrong:
        solution = Schedule.of([0, 0, 0, 0], [[3, -1], [0, -1], [1, -1], [2, -1]], 2)
        metrics, samples, seconds = {}, 1, 0.0

    monkeypatch.setattr(command, "solve_task", lambda *arguments, **options: Wrong)
    code, _out, err = run(
        capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json"
    )
    assert code == 1 and "no valid solution" in one_line(err) and not (folder / "o.json").exists()


MADE = {"method": "rl", "by": "rl", "seed": 0, "samples": 1, "options": {}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"network": 5}, "made.network"),
        ({"network": {"name": "n", "sha256": 1}}, "made.network.sha256"),
        ({"options": {"zzz": 1}}, "made.options['zzz']"),
        ({"options": {"chips": "x"}}, "made.options['chips']"),
        ({"options": {"fold": 5}}, "made.options['fold']"),
    ],
)
def test_what_made_a_solution_is_checked(capsys, folder, change, field):
    """Would catch a wrong type that nobody reads."""
    (folder / "one.json").write_text(json.dumps(PARTITION | {"made": MADE | change}))
    assert field in refusal(capsys, "check", "mcm", "graph.json", "one.json")


@pytest.mark.parametrize(
    ("gap", "chain_gap", "sentence"),
    [
        (None, None, ""),
        (0.0, None, "the optimum"),
        (0.25, None, "at most 25% above the optimum's cost"),
        (0.523, 0.0, "the optimum under the chain rule; at most 52.3% above any partition"),
        (
            0.523,
            0.01,
            "at most 1% above the optimum under the chain rule; at most 52.3% above any partition",
        ),
        (None, 0.0, "the optimum under the chain rule"),
        (0.0, 0.0, "the optimum of all partitions"),
    ],
)
def test_a_sentence_says_which_optimum(gap, chain_gap, sentence):
    """Would catch the bound of one set of partitions printed as that of another."""

    assert proved(gap, chain_gap) == sentence


def test_an_unstated_output_is_told(capsys, folder):
    """Would catch a reader that guesses what an edge carries and does not say so."""
    (folder / "port.pbtxt").write_text(
        'node { name: "a" }\nnode { name: "b" id: 1 input_info { preceding_port: 1 } }'
    )
    answer = (0, "1 output is used but not stated: an order of ops, of 0 bytes\n")
    assert run(capsys, "check", "port.pbtxt")[::2] == answer
    assert (
        run(capsys, "solve", "regal", "port.pbtxt", "--method", "gp-dfs", "--out", "s.json")[::2]
        == answer
    )


def chain(n):
    """n ops in a row, every tensor of 1,000 bytes."""
    return hand_graph(n, chain_edges(n), op_flop=np.full(n, 1e6), tensor_bytes=np.full(n, 1000))


def test_no_output_takes_the_place_of_an_input(folder, capsys):
    """The machine was written over by the partition."""
    (folder / "machine.json").write_text(SLOW)
    options = ["--machine", "machine.json", "--out", "machine.json"]
    options += ["--method", "greedy-careful"]
    assert "would overwrite" in refusal(capsys, "solve", "mcm", "graph.json", *options)
    assert (folder / "machine.json").read_text() == SLOW


@pytest.mark.parametrize("method", ["random", "evolution-logits", "evolution-policy"])
def test_no_time_for_a_single_game(folder, capsys, method):
    """There was no best game then: a fault of ours."""
    options = ["--method", method, "--alone", "--seconds", "1e-9", "--out", "m.json"]
    assert run(capsys, "solve", "mmap", "program.json", *options)[0] == 0
    assert run(capsys, "check", "mmap", "program.json", "m.json")[0] == 0


def test_networks_that_are_not_there(folder, capsys):
    """A name where a seed belongs and one longer than a file's were faults of ours; that REINFORCE
    has trained none for memory was told as a wrong name."""
    options = ["--evaluations", "5", "--out", "s.json"]
    for method, said in (
        ("regal-untrained:foo", "seed"),
        ("regal-untrained:-1", "seed"),
        ("regal:nobody", "no network"),
        ("regal-imitation:" + "x" * 5000, "no network"),
        ("regal", "none was trained so for memory"),
    ):
        objective = "memory" if method == "regal" else "runtime"
        asked = ("--method", method, "--objective", objective)
        assert said in refusal(capsys, "solve", "regal", "graph.json", *asked, *options)


def weighted(n=12):
    """A chain whose weights are ops without time, as graphs of ops have them."""
    edges = [*chain_edges(n), *((n + op, op) for op in range(n))]
    return hand_graph(
        2 * n, edges, op_seconds=[1e-3] * n + [0.0] * n, tensor_bytes=[1000] * n + [10**6] * n
    )


def test_weights_that_are_ops_are_folded_and_told_of(folder, capsys):
    """They glued the graph together, without a word."""
    graph = weighted()
    assert weight_sources(graph).sum() == 12
    folded = fold_weights(graph)
    assert folded.num_ops == 12 and folded.op_weight_bytes.tolist() == [10**6] * 12

    write_graph("w.json", graph)
    options = ["--method", "random", "--samples", "5", "--chips", "4", "--out", "s.json"]
    assert "--fold" in run(capsys, "solve", "mcm", "w.json", *options)[2]
    code, _, err = run(capsys, "solve", "mcm", "w.json", *options, "--fold")
    assert code == 0 and err == ""
    assert run(capsys, "check", "mcm", "w.json", "s.json")[0] == 0


def test_no_search_ends_behind_a_rule(folder, capsys):
    """One random game, partition or schedule is worse; what a user gets is not, unless alone."""

    write_program("p.json", hard_program(3, 200))
    write_graph("g.json", chain(60))
    cases = [
        ("mmap", "p.json", "greedy-tuned", "saving_s", 1),
        ("mcm", "g.json", "greedy-careful", "throughput", 1),
        ("regal", "g.json", "list-scheduler", "makespan_s", -1),
    ]
    for paper, instance, rule, metric, sign in cases:
        collected = {}
        for method in (rule, "random"):
            for alone in (False, True):
                options = [
                    "--method",
                    method,
                    "--samples",
                    "1" if method == "random" else "300",
                    "--json",
                ]
                options += ["--alone"] * alone + ["--out", "s.json"]
                report = answer(capsys, "solve", paper, instance, *options)
                collected[method, alone] = sign * report["costs"][metric]
                assert (
                    paper != "mmap"
                    or abs(report["metrics"]["return"] - report["costs"]["return"]) < 1e-9
                )
                assert run(capsys, "check", paper, instance, "s.json")[0] == 0
        assert collected["random", False] >= collected[rule, True] >= collected["random", True]


def test_the_exact_method_out_of_reach_gives_a_bound(folder, capsys, monkeypatch):

    def too_many(model, *limits, **options):
        raise TooManyIdealsError("too many ideals")

    monkeypatch.setattr(methods, "ideals_of", too_many)
    write_graph("g.json", chain(12))
    options = ["--method", "optimum", "--chips", "3", "--seconds", "2", "--json", "--out", "s.json"]
    code, out, err = run(capsys, "solve", "mcm", "g.json", *options)
    assert code == 0 and "cp-sat" in err and 0 <= json.loads(out)["gap"] < 1
    assert run(capsys, "solve", "mcm", "g.json", *options, "--alone")[0] == 1


def test_a_learner_goes_on_from_its_checkpoint(folder, capsys):
    """A run cut in two ends as the whole one: what is learned, the best partition and the
    randomness are kept."""

    write_graph("g.json", chain(20))

    def solve(out, samples, *more):
        options = [
            "--method",
            "finetune",
            "--chips",
            "4",
            "--alone",
            "--samples",
            str(samples),
            "--out",
            out,
        ]
        code, _, err = run(capsys, "solve", "mcm", "g.json", *options, *more)
        assert code == 0, err
        return (folder / out).read_bytes()

    whole = solve("whole.json", 60)
    solve("half.json", 40, "--checkpoint", "c.npz")
    assert solve("rest.json", 60, "--checkpoint", "c.npz") == whole
    arrays, header = read_checkpoint(folder / "c.npz")
    assert header["counted"]["samples"] == 60
    options = [
        "--method",
        "finetune",
        "--chips",
        "4",
        "--samples",
        "60",
        "--out",
        "x.json",
        "--checkpoint",
        "c.npz",
    ]
    assert "another run" in refusal(capsys, "solve", "mcm", "g.json", *options, "--seed", "1")
    write_checkpoint(folder / "c.npz", arrays, header | {"run": "another"})
    assert "another run" in refusal(capsys, "solve", "mcm", "g.json", *options)
    options[1] = "random"
    assert "--checkpoint" in refusal(capsys, "solve", "mcm", "g.json", *options)


def test_a_method_without_a_state_is_refused_before_anything_is_said(folder, capsys):
    """Catches a refusal beneath a note on the graph, which is one line no longer."""
    (folder / "slow.json").write_text(SLOW)
    asked = ("solve", "mcm", "graph.json", "--machine", "slow.json", "--out", "o.json")
    line = refusal(capsys, *asked, "--method", "greedy-careful", "--checkpoint", "c.npz")
    assert "greedy-careful keeps none; rl, " in line


def test_no_bound_of_the_chain_rule_is_called_the_optimum(folder, capsys):
    """Two ops of which each feeds two others: four chips under Eq. 4, two under the chain rule."""
    ops = [{"name": name, "kind": "add", "flop": 1e10} for name in "abcd"]
    tensors = [{"name": f"t{n}", "producer": n, "bytes": 10, "consumers": ["c", "d"]} for n in "ab"]
    graph = {"schema": "learned-mapping/graph/1", "name": "k22", "ops": ops, "tensors": tensors}
    (folder / "k22.json").write_text(json.dumps(graph))
    options = ["--method", "cp-sat", "--samples", "10", "--chips", "4", "--out", "k.json", "--json"]
    told = answer(capsys, "solve", "mcm", "k22.json", *options)
    best = told["costs"]["runtime_s"] / 2  # four chips
    assert told["metrics"]["bound_s"] <= best < told["metrics"]["chain_bound_s"]
    assert told["gap"] == pytest.approx(1.0) and told["chain_gap"] < 1e-6
    assert "optimum under the chain rule" in told["beside"]


def test_times_next_to_nothing(folder, capsys):
    """The solver's unit of time was 0."""
    ops = [{"name": f"o{i}", "seconds": 5e-324} for i in range(6)]
    tensors = [
        {"name": f"t{i}", "producer": f"o{i}", "bytes": 1, "consumers": [f"o{i + 1}"]}
        for i in range(5)
    ]
    graph = {"schema": "learned-mapping/graph/1", "name": "tiny", "ops": ops, "tensors": tensors}
    (folder / "tiny.json").write_text(json.dumps(graph))
    code, _, err = run(
        capsys,
        "solve",
        "regal",
        "tiny.json",
        "--method",
        "cp-sat",
        "--seconds",
        "1",
        "--out",
        "t.json",
    )
    assert (code, err) == (0, "")


def test_a_policy_judges_a_batch_however_short_its_time(folder, capsys):
    options = [
        "--method",
        "rl",
        "--chips",
        "2",
        "--seconds",
        "1e-6",
        "--alone",
        "--out",
        "p.json",
        "--json",
    ]
    code, out, err = run(capsys, "solve", "mcm", "graph.json", *options)
    assert code == 0 and json.loads(out)["samples"] > 0, err


EMPTY = {
    "tensors": [],
    "instructions": [{"name": "i", "kind": "f", "buffers": [], "latency_s": [1]}],
}
"""Of a program without buffers."""


@pytest.mark.parametrize(
    "method", ["muzero", "muzero-frozen", "search-only", "learning-only", "imitation"]
)
def test_nothing_to_decide_is_soon_decided(folder, capsys, method):
    """No buffers, or buffers that can only be dropped: nothing is compiled for that, and nothing
    fails."""
    games = ("program.json", "--method", "random", "--samples", "1", "--out", "r.json")
    assert run(capsys, "solve", "mmap", *games)[0] == 0  # what games are played with is compiled
    only_drop = copy.deepcopy(PROGRAM) | {"memory": {"fast_bytes": 1, "copy_bytes_per_s": 1.0}}
    for name, program in (("none", copy.deepcopy(PROGRAM) | EMPTY), ("drop", only_drop)):
        (folder / f"{name}.json").write_text(json.dumps(program))
        since = time.process_time()
        arguments = (
            f"{name}.json",
            "--method",
            method,
            "--seconds",
            "1",
            "--out",
            f"{name}.m.json",
        )
        code, out, err = run(capsys, "solve", "mmap", *arguments)
        assert (
            (code, err) == (0, "")
            and out.startswith("valid")
            and time.process_time() - since < 10.0
        )


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("greedy-careful", "--repair", "cp-sat"),
        ("climb", "--repair", "cp-sat"),
        ("optimum", "--start", "greedy-careful"),
        ("sa", "--iterations", "2"),
        ("rl-balanced", "--iterations", "2"),
    ],
)
def test_an_option_of_other_methods_is_refused(folder, capsys, method, option, value):
    """Catches one that changes nothing and does not say so."""
    line = refusal(
        capsys, "solve", "mcm", "graph.json", "--method", method, option, value, "--out", "o.json"
    )
    assert f"{option}: is for " in line and not (folder / "o.json").exists()


def test_what_cannot_be_folded_is_not_advised(folder, capsys):
    """Catches advice that fails after the solution is written, and a fault that does not name the
    file."""
    graph = json.loads((folder / "graph.json").read_text())
    for number, op in enumerate(graph["ops"]):
        op["seconds"] = 1e-3 if number else 1e9
    (folder / "huge.json").write_text(json.dumps(graph))
    arguments = (
        "solve",
        "mcm",
        "huge.json",
        "--method",
        "greedy-careful",
        "--chips",
        "36",
        "--out",
        "o.json",
    )
    assert "chips are used" in run(capsys, *arguments)[1]
    (folder / "huge.json").write_text(
        json.dumps(graph | {"ops": [op | {"seconds": 1e9} for op in graph["ops"]]})
    )
    code, _, err = run(capsys, *arguments, "--fold")
    assert code == 0 or "huge.json" in err
