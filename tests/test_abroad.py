"""Hostile and foreign input, one test per defect that was found once: each failed before it was mended."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from cli_files import GRAPH, MAPPING, PROGRAM, SCHEDULE
from learned_mapping.cli import main
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.fold import fold_weights, weight_sources
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.validate import validate as validate_partition
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.validate import OVERLAP
from learned_mapping.mmap.validate import validate as validate_mapping
from learned_mapping.programs.costgraph import parse_costgraph
from learned_mapping.programs.formats import graph_from_json, program_from_json
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.json_io import Node, parse_json, write_json
from learned_mapping.programs.program import Step, program_of_steps
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate as validate_schedule
from learned_mapping.verdict import LISTED


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("graph", GRAPH), ("program", PROGRAM), ("mapping", MAPPING), ("schedule", SCHEDULE)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    return tmp_path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def one_line(code, err):
    assert code == 2 and err.startswith("lmap: ") and err.endswith("\n") and err[:-1].isprintable(), (code, err)
    return err


def chain(n, **changes):
    """n ops in a row, every tensor of 1,000 bytes."""
    fields = {
        "name": "chain", "op_names": [f"o{i}" for i in range(n)], "op_kinds": ["add"] * n, "op_flop": np.full(n, 1e6),
        "tensor_names": [f"t{i}" for i in range(n)], "tensor_producer": range(n), "tensor_bytes": np.full(n, 1000),
        "edge_tensor": range(n - 1), "edge_consumer": range(1, n),
    }  # fmt: skip
    return make_graph(**fields | changes)


def piled(n):
    """A program of n outputs that live to the end, and the mapping that puts all of them to offset 0."""
    program = program_of_steps(
        [Step(f"i{t}", "f", [(t, True, -1)], [0], [2e-6, 1e-6]) for t in range(n)],
        name="piled", fast_bytes=2**30, copy_bytes_per_s=1e9, tensor_names=[f"t{i}" for i in range(n)],
        tensor_bytes=[1024] * n, tensor_is_parameter=[False] * n, tensor_is_output=[True] * n,
    )  # fmt: skip
    return program, make_mapping(program, np.ones(n, int), np.zeros(n, int), np.arange(n), np.full(n, n - 1))


def quick(seconds, judge, *arguments, **options):
    begin = time.process_time()
    verdict = judge(*arguments, **options)
    assert time.process_time() - begin < seconds
    return verdict


def test_overlaps_are_found_by_a_sweep_and_listed_up_to_a_limit():
    """D1. Two thousand buffers on one place made two million lines; all pairs are still there for who asks."""
    verdict = quick(2, validate_mapping, *piled(2000))
    assert not verdict.valid and len(verdict.violations) == LISTED + 1 and len(str(verdict)) < 10_000
    every = validate_mapping(*piled(40), listed=None)
    assert [v.rule for v in every.violations] == [OVERLAP] * (40 * 39 // 2)


def test_validators_take_seconds_for_thousands():
    """D8. Three thousand chips, and six thousand equal transfers of a tensor with six thousand uses."""
    rng, n = np.random.default_rng(0), 6000
    edges = sorted({(i, int(j)) for i in range(n - 1) for j in [i + 1, *rng.integers(i + 1, min(n, i + 40), 3)]})
    graph = chain(n, edge_tensor=[i for i, _ in edges], edge_consumer=[j for _, j in edges])
    assert not quick(2, validate_partition, graph, make_partition(np.arange(n) // 2, n // 2)).valid
    star = chain(n + 1, tensor_names=["t"], tensor_producer=[0], tensor_bytes=[8], edge_tensor=[0] * n,
                 edge_consumer=range(1, n + 1))  # fmt: skip
    order = [(0, -1), *[(0, 1)] * n, *((i, -1) for i in range(1, n + 1))]
    verdict = quick(2, validate_schedule, star, Schedule.of([0] + [1] * n, order, 2))
    assert len(verdict.violations) == LISTED + 1


def test_check_lists_all_on_request(folder, capsys):
    program, mapping = piled(60)
    from learned_mapping.mmap.mapping import write_mapping
    from learned_mapping.programs.formats import write_program

    write_program("p.json", program)
    write_mapping("m.json", mapping, program)
    code, out, _ = run(capsys, "check", "mmap", "p.json", "m.json")
    assert code == 1 and out.count("\n") == LISTED + 2
    assert run(capsys, "check", "mmap", "p.json", "m.json", "--all")[1].count("\n") == 60 * 59 // 2 + 1


def test_sums_of_bytes_do_not_wrap_around():
    """D3. Nine thousand tensors of a pebibyte had a peak below that of one op."""
    with pytest.raises(InputError, match=r"bytes: .*e\+19 in all"):
        chain(9000, tensor_bytes=np.full(9000, 2**50))


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf", ".html"])
@pytest.mark.parametrize("name", ["$\\frac{$", "名前 <b>&amp;", "x" * 1000])
def test_names_are_text_in_pictures(folder, capsys, name, ending):
    """D4, D15. A dollar was a formula, and a font without the letters four lines of warnings."""
    for kind, value in (("graph", GRAPH), ("program", PROGRAM)):
        renamed = json.loads(json.dumps(value).replace('"a"', json.dumps(name)).replace('"p"', json.dumps(name)))
        write_json(f"{kind}2.json", renamed | {"name": name})
        code, _, err = run(capsys, "show", f"{kind}2.json", "--out", f"picture{ending}")
        assert code == 0 and err == "" and (folder / f"picture{ending}").stat().st_size > 1000


MODULE = """
import sys, jax, jax.numpy as jnp
class Odd(BaseException): pass
def example(): sys.exit("no weights found")
def odd(x): raise Odd("why")
def leaves(x): sys.exit(0)
async def later(x): return x
def fine(x): return jnp.tanh(x) @ x
def step(p, x): return {k: v - 0.1 * jnp.sum(x @ v) for k, v in p.items()}, x
donated = jax.jit(step, donate_argnums=0)
def array(*shape): return jax.ShapeDtypeStruct(shape, "float32")
def donor(): return donated, ({"w": array(64, 64)}, array(8, 64))
def plain(): return step, donor()[1]
"""


def test_a_users_function_cannot_end_the_command(folder, capsys, recwarn):
    """D7, D18. `sys.exit` ended it with code 0 and no file; another BaseException with a traceback."""
    (folder / "theirs.py").write_text(MODULE)
    for name, arguments in (("example", []), ("odd", ["--arg", "f32[4]"]), ("leaves", ["--arg", "f32[4]"]),
                            ("later", ["--arg", "f32[4]"])):  # fmt: skip
        code, _, err = run(capsys, "trace", f"theirs.py:{name}", *arguments, "--out", "t.json")
        assert f"theirs.py:{name}" in one_line(code, err) or name in err
        assert not (folder / "t.json").exists()
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


def test_a_users_module_may_answer_for_itself(folder, capsys):
    """A module that took its folder off the path, and one that refuses every name, were faults of ours."""
    (folder / "taking.py").write_text("import sys\ndef ok(x): return x + 1\nsys.path.pop(0)\n")
    (folder / "refusing.py").write_text("def __getattr__(name): raise RuntimeError('no')\n")
    assert run(capsys, "trace", "taking.py:ok", "--arg", "f32[2]", "--out", "t.json")[0] == 0
    code, _, err = run(capsys, "trace", "refusing.py:a.b", "--arg", "f32[2]", "--out", "u.json")
    assert "RuntimeError: no" in one_line(code, err) and not (folder / "u.json").exists()


def test_no_output_takes_the_place_of_an_input(folder, capsys):
    """The package was written over by the partition."""
    (folder / "package.json").write_text(text := '{"schema": "learned-mapping/package/1", "chips": 2}')
    options = ["--package", "package.json", "--out", "package.json"]
    code, _, err = run(capsys, "solve", "mcm", "graph.json", "--method", "greedy-careful", *options)
    assert "would overwrite" in one_line(code, err) and (folder / "package.json").read_text() == text


@pytest.mark.parametrize("method", ["random", "evolution-logits", "evolution-policy"])
def test_no_time_for_a_single_game(folder, capsys, method):
    """There was no best game then: a fault of ours."""
    options = ["--method", method, "--alone", "--seconds", "1e-9", "--out", "m.json"]
    assert run(capsys, "solve", "mmap", "program.json", *options)[0] == 0
    assert run(capsys, "check", "mmap", "program.json", "m.json")[0] == 0


def test_networks_that_are_not_there(folder, capsys):
    """A name where a seed belongs and one longer than a file's were faults of ours; that REINFORCE has trained none for
    memory was told as a wrong name."""
    options = ["--evaluations", "5", "--out", "s.json"]
    for method, said in (
        ("regal-untrained:foo", "seed"), ("regal-untrained:-1", "seed"), ("regal:nobody", "no network"),
        ("regal-imitation:" + "x" * 5000, "no network"), ("regal", "none was trained so for memory"),
    ):  # fmt: skip
        objective = "memory" if method == "regal" else "runtime"
        code, _, err = run(
            capsys, "solve", "regal", "graph.json", "--method", method, "--objective", objective, *options
        )
        assert said in one_line(code, err)


def test_names_given_to_trace_are_names(folder, capsys):
    """D13. It wrote graphs that nothing would read."""
    (folder / "theirs.py").write_text(MODULE)
    for name in ("a\nb", "\x1b[31m", "x" * 1001, "\udcff", ""):
        code, _, err = run(capsys, "trace", "theirs.py:fine", "--arg", "f32[4,4]", "--name", name, "--out", "t.json")
        assert "--name" in one_line(code, err) and not (folder / "t.json").exists()


def test_what_jit_donates_becomes_alias_groups(folder, capsys):
    """Foreign D3. The book promised it, and there were none."""
    (folder / "theirs.py").write_text(MODULE)
    aliases = {}
    for name in ("donor", "plain"):
        assert run(capsys, "trace", f"theirs.py:{name}", "--program", "--out", f"{name}.json")[0] == 0
        read = program_from_json(parse_json((folder / f"{name}.json").read_bytes(), name))
        aliases[name] = read.num_alias_groups
    assert aliases == {"donor": 1, "plain": 0}
    for parameters in ("foo,99", "99"):  # foreign D4
        options = ["--program", "--parameters", parameters, "--out", "t.json"]
        one_line(*run(capsys, "trace", "theirs.py:donor", *options)[::2])


@pytest.mark.parametrize("option", ["--seconds", "--samples", "--evaluations", "--seed", "--method", "--memory-gib"])
def test_two_dashes_are_no_value(folder, capsys, option):
    """D10. Some ended in a TypeError, the seed in success."""
    arguments = ["solve", "regal", "graph.json", "--method", "gp-dfs", "--out", "o.json", f"{option}=--"]
    assert option in one_line(*run(capsys, *arguments)[::2])


def test_stale_temporary_files_go_at_the_next_write(folder):
    """D11. What a killed writer left stayed for good; what a living one is at stays."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (folder / f".out.json.{gone.pid}-abc.tmp").touch()
    (folder / ".out.json.1-abc.tmp").touch()
    write_json(folder / "out.json", {})
    assert sorted(path.name for path in folder.glob(".*.tmp")) == [".out.json.1-abc.tmp"]


def lmap(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "learned_mapping", *arguments], text=True, check=False, **options)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_and_closed_streams_have_their_codes(folder):
    """D16. A full stdout was a fault of ours, a full stderr another code, a closed stderr wrote to stdout."""
    good = ["check", "graph.json"]
    wrong = copy.deepcopy(MAPPING)
    wrong["decisions"][1]["offset"] = 2**40  # beyond fast memory
    (folder / "wrong.json").write_text(json.dumps(wrong))
    with open("/dev/full", "w") as full:
        done = lmap(*good, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 2 and one_line(2, done.stderr)
        assert lmap("check", "none.json", stderr=full, stdout=subprocess.PIPE).returncode == 2
    closed = lmap("check", "none.json", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert closed.returncode == 2 and closed.stdout == ""
    for unbuffered in ("", "1"):  # whose reader has gone: the answer stands, and so does what was asked for
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        read, write = os.pipe()
        os.close(read)
        late = lmap("check", "mmap", "program.json", "wrong.json", env=environment, stdout=write)
        silent = lmap("solve", "regal", "graph.json", "--method", "gp-dfs", "--out", "s.json", env=environment,
                      stdout=subprocess.PIPE, stderr=write)  # fmt: skip
        os.close(write)
        assert late.returncode == 1 and silent.returncode == 0 and (folder / "s.json").exists()
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    arguments = ["solve", "regal", "graph.json", "--method", "gp-dfs", "--out", "名.json"]
    assert lmap(*arguments, env=environment, stdout=subprocess.DEVNULL).returncode == 0


def test_limits_on_values_not_only_on_bytes():
    """D2. Half a megabyte of packed empty objects reached thirteen gigabytes."""
    with pytest.raises(InputError, match="values, at most"):
        parse_json(b"[" + b"{}," * 5_000_000 + b"{}]", "bomb")
    with pytest.raises(InputError, match="fields, at most"):
        parse_costgraph("node{" + "input_info{}" * 600_000 + "}")


def test_numbers_that_are_none_name_their_field():
    """Foreign D9."""
    with pytest.raises(InputError, match=r"ops\[1\]\.flop: NaN is not a finite number"):
        parse_json(b'{"ops": [{"flop": 1}, {"flop": NaN}]}', "graph")
    with pytest.raises(InputError, match="got null"):
        Node(None, "file", "name").string()


def test_graphs_as_other_tools_write_them():
    """Numbers for ids, floats for bytes, no kinds and no arithmetic where times are given."""
    value = copy.deepcopy(GRAPH)
    value["ops"] = [{"name": i, "seconds": 1e-3} for i in range(4)]
    for tensor in value["tensors"]:
        tensor |= {"producer": "abcd".index(tensor["producer"]), "bytes": float(tensor["bytes"])}
        tensor["consumers"] = ["abcd".index(name) for name in tensor["consumers"]]
    graph = graph_from_json(Node(value, "graph"))
    assert graph.op_names == ("0", "1", "2", "3") and graph.tensor_bytes.tolist() == [1024, 2048, 1024, 512]
    del value["ops"][0]["seconds"]
    with pytest.raises(InputError):
        graph_from_json(Node(value, "graph"))


def test_an_instruction_that_reads_a_tensor_twice_reads_it_once():
    """x * x: both uses are in fast memory or neither, so two entries of the table remain."""
    value = copy.deepcopy(PROGRAM)
    value["instructions"][1]["buffers"].insert(0, {"tensor": "h", "role": "input"})
    value["instructions"][1]["latency_s"] = [8e-6, 1, 1, 6e-6, 7e-6, 1, 1, 5e-6]
    program = program_from_json(Node(value, "program"))
    assert program.num_buffers == 4 and program.latency_s[4:].tolist() == [8e-6, 6e-6, 7e-6, 5e-6]


def weighted(n=12):
    """A chain whose weights are ops without time, as graphs of ops have them."""
    names, kinds = [f"o{i}" for i in range(n)], ["op"] * n
    ops = names + [f"w{i}" for i in range(n)]
    return make_graph(
        name="weighted", op_names=ops, op_kinds=kinds + ["op"] * n, op_flop=np.zeros(2 * n),
        op_seconds=[1e-3] * n + [0.0] * n, tensor_names=[f"{name}:0" for name in ops], tensor_producer=range(2 * n),
        tensor_bytes=[1000] * n + [10**6] * n, edge_tensor=[*range(n - 1), *range(n, 2 * n)],
        edge_consumer=[*range(1, n), *range(n)],
    )  # fmt: skip


def test_weights_that_are_ops_are_folded_and_told_of(folder, capsys):
    """Foreign D1. They glued the graph together, without a word."""
    graph = weighted()
    assert weight_sources(graph).sum() == 12
    folded = fold_weights(graph)
    assert folded.num_ops == 12 and folded.op_weight_bytes.tolist() == [10**6] * 12
    from learned_mapping.programs.formats import write_graph

    write_graph("w.json", graph)
    options = ["--method", "random", "--samples", "5", "--chips", "4", "--out", "s.json"]
    assert "--fold" in run(capsys, "solve", "mcm", "w.json", *options)[2]
    code, _, err = run(capsys, "solve", "mcm", "w.json", *options, "--fold")
    assert code == 0 and err == ""
    assert run(capsys, "check", "mcm", "w.json", "s.json")[0] == 0


def test_parts_of_a_graph_get_chips_of_their_own():
    """Foreign D7. Two training steps side by side went over the same two chips: 1.9 times the optimum."""
    rng, n = np.random.default_rng(0), 12
    edges, steps = [], 2 * n
    for first in (0, steps):
        ops = range(first, first + steps)
        edges += [(a, a + 1) for a in ops[:-1]] + [(a, first + steps - 1 - (a - first)) for a in ops[: n - 1]]
    edges.sort()
    graph = chain(2 * steps, op_flop=rng.lognormal(20, 0.8, 2 * steps), edge_tensor=[a for a, _ in edges],
                  edge_consumer=[b for _, b in edges])  # fmt: skip
    model = ChipModel(graph, ChipPackage(chips=8))
    found = careful_greedy(model)
    assert validate_partition(graph, make_partition(found, 8)).valid
    assert model.runtime(found) <= 1.05 * model.runtime(optimum(model))


def test_an_instance_alone_is_checked(folder, capsys):
    code, out, _ = run(capsys, "check", "graph.json")
    assert code == 0 and "4 ops" in out
    assert run(capsys, "check", "mmap", "program.json", "--json")[0] == 0
    (folder / "graph.json").write_text("{}")
    one_line(*run(capsys, "check", "graph.json")[::2])


def test_no_search_ends_behind_a_rule(folder, capsys):
    """Foreign D6. One random game, partition or schedule is worse; what a user gets is not, unless alone."""
    from learned_mapping.programs.formats import write_graph, write_program
    from mmap_games import hard_program

    write_program("p.json", hard_program(3, 200))
    write_graph("g.json", chain(60))
    cases = [("mmap", "p.json", "greedy-tuned", "saving_s", 1), ("mcm", "g.json", "greedy-careful", "throughput", 1),
             ("regal", "g.json", "list-scheduler", "makespan_s", -1)]  # fmt: skip
    for paper, instance, rule, metric, sign in cases:
        found = {}
        for method in (rule, "random"):
            for alone in (False, True):
                options = ["--method", method, "--samples", "1" if method == "random" else "300", "--json"]
                options += ["--alone"] * alone + ["--out", "s.json"]
                code, out, err = run(capsys, "solve", paper, instance, *options)
                assert code == 0, err
                report = json.loads(out)
                found[method, alone] = sign * report["costs"][metric]
                assert paper != "mmap" or abs(report["metrics"]["return"] - report["costs"]["return"]) < 1e-9
                assert run(capsys, "check", paper, instance, "s.json")[0] == 0
        assert found["random", False] >= found[rule, True] >= found["random", True]


def test_the_exact_method_out_of_reach_gives_a_bound(folder, capsys, monkeypatch):
    from learned_mapping.mcm import methods
    from learned_mapping.programs.formats import write_graph

    def too_many(model, *limits, **options):
        raise methods_error("too many ideals")

    from learned_mapping.mcm.bounds.optimum import TooManyIdealsError as methods_error

    monkeypatch.setattr(methods, "ideals_of", too_many)
    write_graph("g.json", chain(12))
    options = ["--method", "optimum", "--chips", "3", "--seconds", "2", "--json", "--out", "s.json"]
    code, out, err = run(capsys, "solve", "mcm", "g.json", *options)
    assert code == 0 and "cp-sat" in err and 0 <= json.loads(out)["gap"] < 1
    assert run(capsys, "solve", "mcm", "g.json", *options, "--alone")[0] == 1


def test_large_inputs_are_drawn_small(folder, capsys):
    """1,689 ops on 16 chips and hundreds of transfers were a black page of megabytes."""
    from learned_mapping.mcm.partition import partition_to_json
    from learned_mapping.programs.formats import write_graph
    from learned_mapping.regal.schedule import schedule_to_json

    graph = chain(1700)
    write_graph("g.json", graph)
    write_json("p.json", partition_to_json(make_partition(np.arange(1700) * 16 // 1700, 16), graph))
    place = np.arange(1700) % 2
    order = [(0, -1)]
    for i in range(1, 1700):
        order += [(i - 1, int(place[i])), (i, -1)]
    write_json("s.json", schedule_to_json(Schedule.of(place, order, 2), graph))
    for solution, said in (("p.json", "in all"), ("s.json", "bundled")):
        assert run(capsys, "show", "g.json", solution, "--out", "x.svg")[0] == 0
        text = (folder / "x.svg").read_text()
        assert said in text and len(text) < 1_000_000


def test_a_learner_goes_on_from_its_checkpoint(folder, capsys):
    """A run cut in two ends as the whole one: what is learned, the best partition and the randomness are kept."""
    from learned_mapping.programs.formats import write_graph

    write_graph("g.json", chain(20))

    def solve(out, samples, *more):
        options = ["--method", "finetune", "--chips", "4", "--alone", "--samples", str(samples), "--out", out]
        code, _, err = run(capsys, "solve", "mcm", "g.json", *options, *more)
        assert code == 0, err
        return (folder / out).read_bytes()

    whole = solve("whole.json", 60)
    solve("half.json", 40, "--checkpoint", "c.npz")
    assert solve("rest.json", 60, "--checkpoint", "c.npz") == whole
    arrays, header = read_checkpoint(folder / "c.npz")
    assert header["counted"]["samples"] == 60
    options = ["--method", "finetune", "--chips", "4", "--samples", "60", "--out", "x.json", "--checkpoint", "c.npz"]
    assert "another run" in one_line(*run(capsys, "solve", "mcm", "g.json", *options, "--seed", "1")[::2])
    write_checkpoint(folder / "c.npz", arrays, header | {"run": "another"})
    assert "another run" in one_line(*run(capsys, "solve", "mcm", "g.json", *options)[::2])
    options[1] = "random"
    assert "--checkpoint" in one_line(*run(capsys, "solve", "mcm", "g.json", *options)[::2])


def test_help_says_whom_to_trust():
    """D9, D12. And no hint names a package on an index that is not ours."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["--help"]) == 0
    assert "password" in out.getvalue() and "never executed" in out.getvalue()


def stored(tmp_path, monkeypatch):
    """A data folder with two stored results, and the path of the first."""
    from learned_mapping.folders import project_folder

    (tmp_path / "results").mkdir()
    for name in ("mcm.fig1", "mcm.fig3"):
        text = (project_folder() / "data" / "results" / f"{name}.json").read_text()
        (tmp_path / "results" / f"{name}.json").write_text(text)
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    return tmp_path / "results" / "mcm.fig1.json"


@pytest.mark.parametrize("damage", ["zone", "torn"])
def test_a_damaged_result_is_named_and_hides_no_other(tmp_path, monkeypatch, capsys, damage):
    """D14. A date without a zone was a fault of ours, and one torn file left the list empty."""
    path = stored(tmp_path, monkeypatch)
    value = json.loads(path.read_text())
    value["created"] = "2026-01-31T12:00:00"
    path.write_text(json.dumps(value) if damage == "zone" else path.read_text()[:200])
    code = main(["artifacts"])
    out = capsys.readouterr().out
    assert code == 0 and next(line for line in out.splitlines() if line.startswith("mcm.fig3 ")).split()[1] == "full"
    assert "damaged" in next(line for line in out.splitlines() if line.startswith("mcm.fig1 "))


def test_damaged_files_of_our_own_are_one_line(tmp_path):
    """D17. Claims and learning logs let other exceptions through."""
    from learned_mapping.companion.claims import read_claims
    from learned_mapping.learning.loop import read_log

    for read, texts in (
        (read_claims, (b"\xff\xfe", b"- [", b"claims: 3", b"claims: [{id: 1}]", b"&a [*a]")),
        (read_log, (b"\xff\n", b"[1]\n", b'{"iteration": 1e999}\n', b"[" * 100_000 + b"\n")),
    ):
        for text in texts:
            (tmp_path / "file").write_bytes(text)
            with pytest.raises(InputError) as caught:
                read(tmp_path / "file")
            assert "\n" not in str(caught.value)


def test_what_lies_beside_a_users_file_is_found_inside_its_function(folder, capsys):
    """The folder was on the path only while the module was imported."""
    (folder / "sub").mkdir()
    (folder / "sub" / "lying_beside.py").write_text("def g(x): return x * 2\n")
    (folder / "sub" / "late.py").write_text("def f(x):\n    from lying_beside import g\n    return g(x)\n")
    before = list(sys.path)
    code, _, err = run(capsys, "trace", "sub/late.py:f", "--arg", "f32[3]", "--out", "t.json")
    assert code == 0 and sys.path == before, err


@pytest.mark.parametrize(("argument", "size"), [("f64[3]", 24), ("i64[3]", 24), ("u64[5]", 40), ("f32[3]", 12)])
def test_wide_elements_keep_their_width(folder, capsys, argument, size):
    """JAX made f32 of f64, and half of all bytes were missing."""
    (folder / "wide.py").write_text("def f(x): return x * 2\n")
    assert run(capsys, "trace", "wide.py:f", "--arg", argument, "--out", "t.json")[0] == 0
    assert {t["bytes"] for t in json.loads((folder / "t.json").read_text())["tensors"]} == {size}


def test_a_picture_shows_the_hardware_that_its_solution_was_made_for(folder, capsys, monkeypatch):
    """A partition for slow chips, and a schedule with free transfers, were drawn on the default hardware."""
    from learned_mapping.mcm import draw as chips
    from learned_mapping.regal import draw as devices

    shown = []
    for module in (chips, devices):
        monkeypatch.setattr(module, "picture", lambda *given, draw=module.picture: shown.append(given) or draw(*given))
    (folder / "slow.json").write_text('{"schema": "learned-mapping/package/1", "chips": 2, "flop_per_s": 1e6}')
    for paper, options in (("mcm", ["--package", "slow.json"]), ("regal", ["--transfers", "free"])):
        method = {"mcm": "greedy-careful", "regal": "list-scheduler"}[paper]
        assert run(capsys, "solve", paper, "graph.json", "--method", method, *options, "--out", "s.json")[0] == 0
        assert run(capsys, "show", "graph.json", "s.json", "--out", "s.svg")[0] == 0
    assert shown[0][2].flop_per_s == 1e6 and shown[0][2].chips == 2
    assert shown[1][2].transfers == "free"


def test_no_bound_of_the_chain_rule_is_called_the_optimum(folder, capsys):
    """Two ops of which each feeds two others: four chips under Eq. 4, two under the chain rule."""
    ops = [{"name": name, "kind": "add", "flop": 1e10} for name in "abcd"]
    tensors = [{"name": f"t{n}", "producer": n, "bytes": 10, "consumers": ["c", "d"]} for n in "ab"]
    graph = {"schema": "learned-mapping/graph/1", "name": "k22", "ops": ops, "tensors": tensors}
    (folder / "k22.json").write_text(json.dumps(graph))
    options = ["--method", "cp-sat", "--samples", "10", "--chips", "4", "--out", "k.json", "--json"]
    code, out, err = run(capsys, "solve", "mcm", "k22.json", *options)
    assert code == 0, err
    told = json.loads(out)
    best = told["costs"]["runtime_s"] / 2  # four chips
    assert told["metrics"]["bound_s"] <= best < told["metrics"]["chain_bound_s"]
    assert told["gap"] == pytest.approx(1.0) and told["chain_gap"] < 1e-6
    assert "optimum under the chain rule" in told["beside"]


def test_times_next_to_nothing(folder, capsys):
    """The solver's unit of time was 0."""
    ops = [{"name": f"o{i}", "seconds": 5e-324} for i in range(6)]
    tensors = [{"name": f"t{i}", "producer": f"o{i}", "bytes": 1, "consumers": [f"o{i + 1}"]} for i in range(5)]
    graph = {"schema": "learned-mapping/graph/1", "name": "tiny", "ops": ops, "tensors": tensors}
    (folder / "tiny.json").write_text(json.dumps(graph))
    code, _, err = run(capsys, "solve", "regal", "tiny.json", "--method", "cp-sat", "--seconds", "1", "--out", "t.json")
    assert (code, err) == (0, "")


def test_a_policy_judges_a_batch_however_short_its_time(folder, capsys):
    options = ["--method", "rl", "--chips", "2", "--seconds", "1e-6", "--alone", "--out", "p.json", "--json"]
    code, out, err = run(capsys, "solve", "mcm", "graph.json", *options)
    assert code == 0 and json.loads(out)["samples"] > 0, err


def test_an_interrupt_while_memory_is_tidied_up_is_not_lost():
    """Python drops an exception raised there; the run went on for as long as it had been given."""
    code = (
        "import sys, time; sys.argv[1:] = ['data']\n"
        "from learned_mapping import cli\n"
        "class Tidied:\n    def __del__(self): raise KeyboardInterrupt\n"
        "def run(options):\n    Tidied(); time.sleep(20); return 0\n"
        "cli._options = lambda arguments: type('O', (), {'run': staticmethod(run)})()\n"
        "sys.exit(cli.main())\n"
    )
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "lmap: interrupted\n") and time.monotonic() - begun < 15


EMPTY = {"tensors": [], "instructions": [{"name": "i", "kind": "f", "buffers": [], "latency_s": [1]}]}
"""Of a program without buffers."""


@pytest.mark.parametrize("method", ["muzero", "muzero-frozen", "search-only", "learning-only"])
def test_nothing_to_decide_is_soon_decided(folder, capsys, method):
    """No buffers, or buffers that can only be dropped: nothing is compiled for that, and nothing fails."""
    only_drop = copy.deepcopy(PROGRAM) | {"memory": {"fast_bytes": 1, "copy_bytes_per_s": 1.0}}
    for name, program in (("none", copy.deepcopy(PROGRAM) | EMPTY), ("drop", only_drop)):
        (folder / f"{name}.json").write_text(json.dumps(program))
        since = time.process_time()
        arguments = (f"{name}.json", "--method", method, "--seconds", "1", "--out", f"{name}.m.json")
        code, out, err = run(capsys, "solve", "mmap", *arguments)
        assert (code, err) == (0, "") and out.startswith("valid") and time.process_time() - since < 10.0


def test_options_of_another_paper_are_passed_over_alike(folder, capsys):
    """By the judge, as they always were, and by the picture."""
    for field, kind in (("program", "mapping"), ("graph", "schedule")):
        solution = json.loads((folder / f"{kind}.json").read_text())
        options = {"package": {}, "objective": "memory", "chips": 3}
        solution["made"] = {"method": "m", "by": "m", "seed": 0, "samples": 1, "options": options}
        (folder / "other.json").write_text(json.dumps(solution))
        assert run(capsys, "check", f"{field}.json", "other.json")[0] == 0
        code, _, err = run(capsys, "show", f"{field}.json", "other.json", "--out", "o.svg")
        assert (code, err) == (0, "")


def of_two(first, last, tables, **memory):
    """A program of two instructions: a parameter of `first` bytes, an array between them, an output of `last`."""
    tensors = [{"name": "a", "bytes": first, "parameter": True}, {"name": "b", "bytes": 2 * last}]
    tensors.append({"name": "c", "bytes": first, "output": True})
    ends = [("a", "b"), ("b", "c")]
    buffers = [[{"tensor": x, "role": "input"}, {"tensor": y, "role": "output"}] for x, y in ends]
    fields = [{"name": f"i{i}", "kind": "f", "buffers": buffers[i], "latency_s": tables[i]} for i in (0, 1)]
    return PROGRAM | {"memory": memory | {"copy_bytes_per_s": 10.0}, "tensors": tensors, "instructions": fields}


def test_a_program_of_one_size_has_a_picture(folder, capsys, recwarn):
    """Its axis of bytes has a length: nothing is said on the way, and there are numbers on it."""
    large = of_two(4, 2**49, [[4, 3, 2, 1]] * 2, fast_bytes=2**50)
    (folder / "large.json").write_text(json.dumps(large))
    assert run(capsys, "show", "large.json", "--out", "o.svg")[0] == 0 and not recwarn.list
    assert "ytick_1" in (folder / "o.svg").read_text()


def test_the_file_at_fault_is_named(folder, capsys):
    """An input's name that is too long, an output that is no file, and a solution without its instance."""
    (folder / "o.json").write_text("{}")
    name = "a" * 300
    code, _, err = run(capsys, "solve", "mmap", name, "--method", "greedy", "--out", "o.json")
    assert one_line(code, err).startswith(f"lmap: {name[:100]}") and "o.json" not in err
    os.mkfifo("pipe.json")
    code, _, err = run(capsys, "solve", "mmap", "program.json", "--method", "greedy", "--out", "pipe.json")
    assert one_line(code, err) == "lmap: pipe.json: is not a regular file\n"
    code, _, err = run(capsys, "check", "mapping.json")
    assert "is a mapping: name the instance" in one_line(code, err)


def test_odd_files_and_numbers_say_what_they_are(folder, capsys):
    """A byte order mark, an array named like a checkpoint, a position in nothing, a capacity of nothing."""
    (folder / "bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(PROGRAM).encode())
    assert "byte order mark" in one_line(*run(capsys, "check", "mmap", "bom.json")[::2])
    with open("array.npz", "wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InputError, match="no zip file of arrays"):
        read_checkpoint("array.npz")
    nothing = copy.deepcopy(PROGRAM) | copy.deepcopy(EMPTY)
    nothing["instructions"][0]["varied"] = [0]
    (folder / "n.json").write_text(json.dumps(nothing))
    assert "has no buffers" in one_line(*run(capsys, "check", "mmap", "n.json")[::2])
    (folder / "z.json").write_text(json.dumps(PROGRAM | {"memory": {"fast_bytes": 0, "copy_bytes_per_s": 1.0}}))
    assert "must be above 0, got 0" in one_line(*run(capsys, "check", "mmap", "z.json")[::2])
    arguments = ("program.json", "--method", "greedy", "--out", "o.json", "--seconds", "5e-324")
    assert "--seconds: 5e-324 is outside" in one_line(*run(capsys, "solve", "mmap", *arguments)[::2])
