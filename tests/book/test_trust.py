"""The page that says whom to trust: each of its sentences has a test, some of them here."""

import os
import re
from pathlib import Path

import pytest

from cli_files import run
from companion.run_functions import runs_of
from learned_mapping.errors import InputError
from learned_mapping_companion.runs import execute

PROJECT = Path(__file__).resolve().parents[2]
TESTS = {
    "Graphs, programs, models, machines, solutions, results and checkpoints are": [
        "tests/library/test_fuzz.py::test_whatever_comes_in_is_accepted_or_named",
        "tests/library/doors/test_damaged_models.py::test_a_damaged_model_is_a_graph_or_one_line",
    ],
    "They are checked whole before anything is done with them, nothing in them": [
        "tests/library/doors/test_doors.py::test_code_in_an_archive_never_reaches_torch",
        "tests/companion/datasets/test_verify_networks.py::test_",
        "tests/book/test_trust.py::test_nothing_is_unpickled",
    ],
    "A file that is refused takes at most ten seconds and a gigabyte of memory": [
        "tests/library/test_fuzz.py::test_no_bomb_takes_a_gigabyte_or_ten_seconds",
        "tests/library/learning/test_checkpoint.py::test_a_checkpoint_costs_no_more_than_it_is_large",
        "tests/book/test_trust.py::test_the_parser_of_models_has_the_limits_of_the_page",
    ],
    "Names from files, and the name under which": [
        "tests/companion/test_markup.py::test_no_text_of_a_file_is_markup_in_a_picture",
        "tests/companion/test_markup.py::test_no_text_of_a_result_is_markup_in_a_table",
        "tests/library/test_fuzz.py::test_whatever_a_command_is_given_is_accepted_or_named",
    ],
    "Every solution passes the independent validator before it is written": [
        "tests/library/test_cli_solve.py::test_an_invalid_answer_of_a_solver_is_never_written",
    ],
    "`lmap trace` and `lmap extract` import the module that you name": [
        "tests/library/test_cli_trace.py::test_trace_makes_files_that_solve_reads",
    ],
    "So does every command that is given `MODULE:FUNCTION`": [
        "tests/library/doors/test_doors.py::test_solve_takes_a_function",
        "tests/library/test_own_method.py::test_a_users_function_is_a_method_in_python_and_on_the_comm",
    ],
    "The module is looked for in the current folder first": [
        "tests/book/test_trust.py::test_the_current_folder_comes_first",
    ],
    "`make book`, `make test` and `make lab` install what `requirements.lock` lists": [
        "tests/test_environment.py::test_every_locked_package_has_a_hash",
        "tests/book/test_trust.py::test_make_installs_by_hash_alone",
    ],
    "What the extras `tpu`, `cuda` and `cluster` need besides": [
        "tests/book/test_trust.py::test_make_installs_by_hash_alone",
    ],
    "A page that is downloaded as a notebook installs the same way": [
        "tests/book/test_notebooks.py::test_a_stranger_installs_from_the_archive",
    ],
    "Its first cell knows the SHA-256 of the archive": [
        "tests/book/test_notebooks.py::test_only_the_notebooks_own_archive_is_taken",
        "tests/book/test_notebooks.py::test_the_digest_in_the_cell_is_that_of_the_archive",
    ],
    "A package called `learned-mapping` there is not ours": [
        "tests/book/test_trust.py::test_no_message_names_a_package_that_is_not_ours",
    ],
    "`lmap make --cluster HOST:PORT` hands runs to a Ray cluster": [
        "tests/companion/test_cluster.py::test_two_workers_perform_the_runs",
    ],
    "on a single machine use `--jobs N`": [
        "tests/book/test_trust.py::test_no_cluster_is_started_and_none_reports",
    ],
    "`--cluster local` is refused for that reason": [
        "tests/book/test_trust.py::test_no_cluster_is_started_and_none_reports",
    ],
    "`lmap` sets `RAY_USAGE_STATS_ENABLED=0`": [
        "tests/book/test_trust.py::test_no_cluster_is_started_and_none_reports",
    ],
    "Nothing is reported to Ray's makers": [
        "tests/book/test_trust.py::test_no_cluster_is_started_and_none_reports",
    ],
    "| outputs of commands |": [
        "tests/library/test_kills.py::test_a_process_that_dies_at_any_change_is_followed_by_a_whole_one",
        "tests/library/test_kills.py::test_a_full_disk_is_said_in_one_line",
    ],
    "| stored results and records |": ["tests/companion/test_runs.py::test_done_runs"],
    "| compiled kernels |": ["tests/library/test_folders.py::test_the_folder_names_the_code"],
    "| what `bench submit`, `fingerprint` and `data build` enter |": [
        "tests/companion/test_bench.py::test_",
        "tests/companion/test_fingerprints.py::test_two_processes_that_store_fingerprints",
    ],
}
"""Beginning of a sentence -> the tests that hold it."""
OTHERS = (
    "{doc}",
    "So does a chapter of this book",
    "Name no module that you would not run",
    "So the digest guards against an archive",
    "This project is on no package index",
    "Ray executes whatever reaches its ports",
    "So",
    "let only machines of yours reach the ports",
    "for a head on the loopback address",
    "newer versions of Ray can ask for a token",
    "`RAY_AUTH_MODE=token` on every node",
    "Without the variable Ray replaces",
    "| quick and paper results |",
    "| the book, its cache, its kernels' files |",
    "| | |",
    "|---|---|",
)
"""Sentences that advise, or that no test of ours can hold."""


def sentences() -> list[str]:
    """The sentences, points and rows of the page, headings and commands left out."""
    text = (PROJECT / "book" / "trust.md").read_text()
    text = re.sub(r"^(```.*?^```|#.*?)$", "", text, flags=re.S | re.M)
    parts = re.split(r"\n\n+(?:- )?|\n(?=\|)|\n- ", text)
    found = [
        s for part in parts for s in re.split(r"(?<=[.:]) +(?=[A-Z`{])", " ".join(part.split()))
    ]
    return [sentence for sentence in found if sentence]


def test_each_sentence_has_its_test():
    """Catches a promise that nobody holds, and a test that is gone."""
    known = [*TESTS, *OTHERS]
    for sentence in sentences():
        assert any(sentence.startswith(start) for start in known), sentence
    for start in known:
        assert any(sentence.startswith(start) for sentence in sentences()), start
    for name in {name for names in TESTS.values() for name in names}:
        file, _, function = name.partition("::")
        assert f"def {function}" in (PROJECT / file).read_text(), name


def test_nothing_is_unpickled():
    """Catches a reader that would run what a file says."""
    safe = ("allow_pickle=False", "weights_only=True", "SafeLoader")
    for path in [*(PROJECT / "src").rglob("*.py"), *(PROJECT / "data/builders").rglob("*.py")]:
        for line in path.read_text().splitlines():
            words = line.split()
            assert words[:1] not in (["import"], ["from"]) or words[1] not in PICKLES, (path, line)
            if any(f"{module}.load(" in line for module in ("np", "numpy", "torch")):
                assert any(word in line for word in safe), (path, line)


PICKLES = ("pickle", "cloudpickle", "dill", "shelve", "marshal")


def test_the_parser_of_models_has_the_limits_of_the_page():
    from learned_mapping.doors.models import MEMORY_BYTES, SECONDS

    text = (PROJECT / "book" / "trust.md").read_text()
    assert f"up to {SECONDS} seconds and {MEMORY_BYTES // 2**30} GiB" in " ".join(text.split())


def test_the_current_folder_comes_first(folder, capsys):
    """Catches a page that calls safe what is not: a file named like a module of Python's own is
    taken in its place."""
    (folder / "tabnanny.py").write_text("def f(x):\n    return x + x\n")
    asked = ["trace", "tabnanny:f", "--arg", "f32[4]", "--out", "g.json"]
    assert run(capsys, *asked)[0] == 0 and (folder / "g.json").exists()


def test_make_installs_by_hash_alone():
    """Catches an installation of whatever an index has today."""
    makefile = (PROJECT / "Makefile").read_text()
    installs = re.findall(r".*pip.* install .*", makefile)
    assert installs
    for line in installs:
        assert "--require-hashes" in line or "--no-deps" in line, line
    for lock in PROJECT.glob("requirements*.lock"):
        entries = re.split(r"\n(?=[a-zA-Z0-9])", lock.read_text())
        assert all("--hash=sha256:" in entry for entry in entries if entry[:1].isalnum()), lock


def test_no_message_names_a_package_that_is_not_ours():
    """Catches the advice to install a package of our name from an index, where whoever likes may
    have put one."""
    for path in (PROJECT / "src").rglob("*.py"):
        for line in re.findall(r".*pip install.*", path.read_text()):
            assert "learned-mapping" not in line and "learned_mapping" not in line, (path, line)


def test_no_cluster_is_started_and_none_reports(tmp_path, monkeypatch):
    """Catches a Ray of its own on all interfaces of a machine, and reports to its makers."""
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    given = {"store": tmp_path / "store", "cluster": "local", "progress": False}
    with pytest.raises(InputError, match="--jobs N does the same"):
        execute(runs_of("square", range(1)), **given)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
