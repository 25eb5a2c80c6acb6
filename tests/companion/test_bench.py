"""MMapBench: its table, a method on it, and a mapping entered."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from learned_mapping_builders import bench as builder
from learned_mapping_builders import verify

import cli_files
from learned_mapping.cli.bench import _word
from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import all_dropped, mapping_to_json, read_mapping
from learned_mapping.mmap.methods import METHODS, PLANS, solve
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import file_sha256, read_json, write_json
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap import bench, runs

SMALL = "rnn_0"
STORED = data_folder() / "bench"


def file_of(name, folder=STORED):
    """The file of the best mapping known of a program."""
    return bench.mapping_path(folder, bench.standings(folder)[name])


def game_of(name, folder=STORED):
    """The file of the best game known of a program."""
    return bench.mapping_path(folder, bench.standings(folder)[name], game=True)


@pytest.fixture
def folder(tmp_path):
    """A copy of the benchmark's folder in which nothing but the empty mapping is known of
    `SMALL`."""
    target = tmp_path / "bench"
    shutil.copytree(data_folder() / "bench", target)
    table = bench.standings(target)
    program = bench.load(SMALL)
    empty, none = all_dropped(program), {"best": -1.0, "game": -1.0}
    table[SMALL] = replace(table[SMALL], **none)
    bench.enter(target, table, program, empty, bench.score(program, empty), "nobody")
    return target


def run(capsys, *arguments):
    return cli_files.run(capsys, "bench", *arguments)


def test_the_table_has_the_sixty_programs_and_no_best_above_its_bound():
    """Would catch a program left out, one that has changed since, and a bound that is none."""
    table = bench.standings()
    assert tuple(table) == compiled.names()
    for item in compiled.manifest().items:
        row = table[item.name]
        assert row.digest == item.digest and row.buffers == item.facts["buffers"]
        assert 0.0 < row.best <= row.bound + 1e-9 <= 1.0 + 1e-9, item.name


@pytest.mark.parametrize("name", compiled.names())
def test_every_best_mapping_is_valid_and_worth_what_the_table_says(name):
    """Would catch a mapping that breaks a rule, and a return or a time that was typed."""
    row, program = bench.standings()[name], bench.load(name)
    scored = bench.score(program, bench.best_mapping(program))
    assert scored.valid, scored.violation
    assert abs(scored.value - row.best) < bench.SAME and scored.latency_s == pytest.approx(
        row.latency_s, rel=1e-9
    )
    assert file_sha256(file_of(name)) == row.sha256
    verdict = validate(program, bench.best_mapping(program, game=True), exact=True)
    assert verdict.valid and verdict.costs["return"] == pytest.approx(row.game, abs=bench.SAME)
    assert row.game <= row.best and file_sha256(game_of(name)) == row.game_sha256


def test_what_is_not_as_the_table_says_is_told(tmp_path, monkeypatch):
    """Catches a mapping exchanged for another, a return that was typed, a best above its bound, a
    stray file."""
    data = tmp_path / "data"
    shutil.copytree(data_folder() / "bench", data / "bench")
    (data / "compiled").symlink_to(data_folder() / "compiled")
    rows = read_json(data / "bench" / "table.json").value["programs"]
    kept = sorted(
        (r for r in rows if r["program"] in (SMALL, "rnn_1", "rnn_2")), key=lambda r: r["program"]
    )
    for row in rows:
        if row not in kept:
            file_of(row["program"], data / "bench").unlink()
            game_of(row["program"], data / "bench").unlink(missing_ok=True)
    monkeypatch.setattr(verify, "data_folder", lambda: data)
    monkeypatch.setattr(bench, "data_folder", lambda: data)
    table = data / "bench" / "table.json"
    write_json(table, {"schema": bench.SCHEMA, "programs": kept})
    assert verify.verify_bench().faults == ()
    program = bench.load(SMALL)
    write_json(file_of(SMALL, data / "bench"), mapping_to_json(all_dropped(program), program))
    kept[1]["best"] -= 0.01
    kept[1]["game"] = 0.0
    kept[2]["game"] -= 0.01
    write_json(table, {"schema": bench.SCHEMA, "programs": kept})
    (data / "bench" / "other.json").write_text("{}")
    starts = [f"bench/{SMALL}: its SHA-256", f"bench/{kept[1]['program']}: its mapping returns"]
    starts += [f"bench/{kept[2]['program']}: its best game", "bench/other.json"]
    faults = verify.verify_bench().faults
    assert [fault[: len(start)] for fault, start in zip(faults, starts)] == starts and len(
        faults
    ) == 4
    kept[2]["best"] = kept[2]["bound"] + 0.001
    write_json(table, {"schema": bench.SCHEMA, "programs": kept})
    assert "is above the bound" in verify.verify_bench().faults[0]


def test_a_better_mapping_enters_once(folder):
    """Would catch an equal mapping that takes a name's place, and a table that does not follow its
    files."""
    source, former = file_of(SMALL), file_of(SMALL, folder)
    scored, before = bench.submit(source, "a reader", folder)
    assert scored.value > before.best == 0.0 and bench.standings(folder)[SMALL].by == "a reader"
    assert (
        bench.score(bench.load(SMALL), bench.best_mapping(bench.load(SMALL), folder)).value
        == scored.value
    )
    bench.submit(source, "another reader", folder)
    assert bench.standings(folder)[SMALL].by == "a reader"
    assert not former.exists() and [*folder.glob(f"{SMALL}.*")] == [file_of(SMALL, folder)]


KILLED = """
import os, shutil, sys
from pathlib import Path
from learned_mapping_companion.mmap import bench

source, place, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
program, changes = bench.load(name), ("os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate")
bench.submit(source, "a reader", shutil.copytree(place / "bench", place / "warm"))
for count in range(1, 1000):
    folder = shutil.copytree(place / "bench", place / str(count))
    child = os.fork()
    if not child:
        left = [count]

        def hook(event, arguments):
            writes = event in changes or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))
            if writes and str(arguments[0]).startswith(str(folder)):
                left[0] -= 1
                if not left[0]:
                    os._exit(9)

        sys.addaudithook(hook)
        bench.submit(source, "a reader", folder)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    row = bench.standings(folder)[name]
    value = bench.score(program, bench.best_mapping(program, folder)).value
    bench.submit(source, "a reader", folder)
    print(code, row.by, value == row.best, bench.standings(folder)[name].by, len([*folder.glob(f"{name}.*")]))
    if code == 0:
        break
"""


def test_an_entry_killed_at_any_write_leaves_the_former_best_or_the_new_one(folder, tmp_path):
    """Would catch a mapping written over before the table is, and what such an entry leaves for
    ever: the process is killed before each thing that it changes in the folder, of which there are
    files opened, renamed and removed."""
    arguments = [sys.executable, "-c", KILLED, str(file_of(SMALL)), str(tmp_path), SMALL]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_NUM_THREADS": "1"},
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["9"] * (len(rows) - 1) + ["0"] and len(rows) > 5
    former, entered = ["nobody", "True"], ["a", "reader", "True"]
    known = [row[1:3] if row[1] == "nobody" else row[1:4] for row in rows]
    assert (
        all(row in (former, entered) for row in known)
        and known[0] == former
        and known[-1] == entered
    )
    assert all(row[-3:] == ["a", "reader", "1"] for row in rows), "the next submission tidies up"


def test_a_game_is_told_from_chosen_offsets(tmp_path):
    """Would catch a search for offsets that passes for a game, and a game that does not."""
    program = bench.load(SMALL)
    game = solve(program, "greedy-tuned").solution
    assert bench.is_game(program, game)
    value = mapping_to_json(game, program)
    placed = next(decision for decision in value["decisions"] if "offset" in decision)
    placed["offset"] = program.fast_bytes - 1
    write_json(tmp_path / "moved.json", value)
    assert not bench.is_game(program, read_mapping(tmp_path / "moved.json", program))


def test_searches_keep_their_actions_and_the_benchmark_is_filled_from_them(
    folder, monkeypatch, capsys
):
    """Would catch a search whose record does not say what it found, actions of a plan that is no
    game, and a builder that passes over a stored game that returns more than the best one known."""
    program = bench.load(SMALL)
    config = {"samples": 30, "program": program.digest[:16]}
    records = []
    for method in ("random", "edit-search", "heuristic"):
        result = runs.run_method(method, SMALL, config, 0)
        assert ("actions" in result) == (method not in PLANS)
        records.append({"method": method, "instance": SMALL, "config": config, "result": result})
        if "actions" in result:
            assert (
                runs.judged(program, runs.replayed(program, result["actions"]))["costs"]
                == result["costs"]
            )
    best = max((record for record in records if "actions" in record["result"]), key=return_of)
    monkeypatch.setattr(
        builder, "games", lambda: {SMALL: [r for r in records if "actions" in r["result"]]}
    )
    nothing = replace(
        METHODS[builder.RULE], run=lambda program, rng, budget: (all_dropped(program), {})
    )
    monkeypatch.setitem(METHODS, builder.RULE, nothing)
    monkeypatch.setattr(
        sys, "argv", ["bench", "--seconds", "0", "--programs", SMALL, "--out", str(folder)]
    )
    builder.main()
    entered = bench.standings(folder)[SMALL]
    assert (
        entered.best == pytest.approx(return_of(best), abs=1e-12)
        and entered.by == best["method"]
        and entered.game == entered.best
    )


def return_of(record):
    return record["result"]["costs"]["return"]


def test_an_invalid_mapping_does_not_enter(folder, tmp_path):
    """Would catch a benchmark that believes what a file claims."""
    value = read_json(file_of(SMALL)).value
    for decision in value["decisions"]:
        if "offset" in decision:
            decision["offset"] = 0
    write_json(tmp_path / "broken.json", value)
    scored, _ = bench.submit(tmp_path / "broken.json", "a reader", folder)
    assert not scored.valid and scored.violation and bench.standings(folder)[SMALL].by == "nobody"


def test_a_run_is_judged_kept_and_gone_on_with(capsys, tmp_path):
    """Would catch a score that is the method's own, and a second run of what is there already."""
    arguments = (
        "run",
        "greedy-tuned",
        "--instances",
        f"{SMALL},rnn_1",
        "--out",
        tmp_path,
        "--json",
    )
    code, out, _ = run(capsys, *arguments)
    rows = json.loads(out)["programs"]
    assert code == 0 and [row["program"] for row in rows] == [SMALL, "rnn_1"]
    assert all(row["valid"] and 0.0 < row["value"] <= row["best"] + 1e-9 for row in rows)
    kept = (tmp_path / f"{SMALL}{bench.MAPPING}").read_bytes()
    assert json.loads(run(capsys, *arguments)[1])["programs"][0]["value"] == rows[0]["value"]
    assert (tmp_path / f"{SMALL}{bench.MAPPING}").read_bytes() == kept
    code, out, err = run(capsys, "run", "random", "--instances", SMALL, "--out", tmp_path)
    assert code == 2 and not out and "another run" in err


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (None, "expected"),
        ({"made": [1]}, "made"),
        ({"made": {"seconds": "x"}}, "made"),
        ({}, "made"),
    ],
)
def test_a_kept_mapping_that_is_damaged_is_one_line(capsys, tmp_path, changes, field):
    """Would catch a fault of ours where a folder holds something else under a mapping's name."""
    program = bench.load(SMALL)
    value = [1] if changes is None else mapping_to_json(all_dropped(program), program) | changes
    write_json(tmp_path / f"{SMALL}{bench.MAPPING}", value)
    code, out, err = run(capsys, "run", "greedy-tuned", "--instances", SMALL, "--out", tmp_path)
    assert (
        code == 2
        and not out
        and len(err.splitlines()) == 1
        and bench.MAPPING in err
        and field in err
    )


def test_the_list_and_a_text_of_a_run(capsys):
    """Would catch a command that says nothing, or prints a table without its last line."""
    code, out, _ = run(capsys)
    assert (
        code == 0
        and len(out.splitlines()) == 62
        and "60 programs, mean return" in out
        and "BEST GAME" in out
    )
    code, out, _ = run(capsys, "run", "greedy", "--instances", SMALL)
    assert code == 0 and "mean return" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "one METHOD"),
        (("run", "no-such-method"), "no method is named"),
        (("run", "greedy", "--instances", "nothing"), "none of the sixty"),
        (("run", "greedy", "--out", __file__), "File exists"),
        (("run", "greedy", "--out", "/dev/null/x"), "Not a directory"),
        (("submit", __file__), "--by"),
        (("submit", "--by", "me"), "expected MAPPING.json"),
        (("submit", __file__, "--by", "me"), __file__),
        (("list", "greedy"), "takes no"),
    ],
)
def test_bad_usage_is_one_line(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and not out and len(err.splitlines()) == 1 and words in err


def test_a_mapping_of_another_program_is_refused(capsys, tmp_path):
    """Would catch a submission for a program that is not of the benchmark."""
    program = bench.load(SMALL)
    value = mapping_to_json(all_dropped(program), program)
    value["instance"]["name"] = "mine"
    write_json(tmp_path / "mine.json", value)
    code, _, err = run(capsys, "submit", tmp_path / "mine.json", "--by", "me")
    assert code == 2 and "none of the sixty" in err


def test_a_better_game_enters_beside_a_better_mapping(folder, tmp_path, capsys):
    """Would catch a table that forgets the best game once other offsets return more, and a file
    that is removed although the table names it."""
    program, table = bench.load("unet_train_batch_4"), bench.standings()
    row = table[program.name]
    assert row.game < row.best
    none = {"best": -1.0, "game": -1.0}
    for source, words in (
        (game_of(program.name), "the best mapping and best game"),
        (file_of(program.name), "the best mapping"),
        (file_of(program.name), "above neither"),
    ):
        if none:
            known = bench.standings(folder)
            known[program.name] = replace(row, **none)
            empty = all_dropped(program)
            bench.enter(folder, known, program, empty, bench.score(program, empty), "nobody")
            none = None
        scored, before = bench.submit(source, "a reader", folder)
        assert _word(scored, before, True).endswith(words)
    entered = bench.standings(folder)[program.name]
    assert (entered.best, entered.game) == pytest.approx((row.best, row.game), abs=bench.SAME)
    assert {*folder.glob(f"{program.name}.*")} == {
        file_of(program.name, folder),
        game_of(program.name, folder),
    }
    for game, best in ((False, entered.best), (True, entered.game)):
        mapping = bench.best_mapping(program, folder, game)
        assert bench.score(program, mapping).value == pytest.approx(best, abs=bench.SAME)


def test_a_run_beyond_its_clock_is_said(capsys, monkeypatch):
    """Would catch a track of ten milliseconds on which a method took a second and nobody is
    told."""
    monkeypatch.setitem(bench.CLOCKS, "10ms", 1e-6)
    code, out, _ = run(capsys, "run", "random", "--track", "10ms", "--instances", f"{SMALL},rnn_1")
    assert code == 0 and out.splitlines()[-1].endswith("over its time on 2 of 2")
    assert (
        json.loads(run(capsys, "run", "greedy", "--instances", SMALL, "--json")[1])["means"][0][
            "late"
        ]
        == 0
    )
