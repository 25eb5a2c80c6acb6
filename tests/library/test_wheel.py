"""What a stranger installs: the wheel alone, in a folder that is somebody else's."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2]
MOST_PACKAGES = 45
LMAP = "import sys; from learned_mapping.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the wheel's content, inside a project that is not this one and has a folder
    ``data``."""
    home = tmp_path_factory.mktemp("stranger")
    (home / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    (home / "data").mkdir()
    (home / "data" / "manifest.json").write_text("theirs")
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        home,
        PROJECT,
    ]
    subprocess.run(wheel, check=True, capture_output=True)
    for left in (PROJECT / "build" / "lib", *(PROJECT / "build").glob("bdist.*")):
        shutil.rmtree(left)
    with zipfile.ZipFile(next(home.glob("*.whl"))) as packed:
        packed.extractall(home / "site")
    return home / "site"


EXAMPLES = {
    "ppo": ("--updates", "1", "--graphs", "1"),
    "dqn": ("--moves", "400"),
    "mcts": ("--simulations", "2", "--games", "2"),
    "programs": ("--updates", "1", "--programs", "1"),
}
"""How little of each example a test runs."""


def lmap(site: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The wheel's own `lmap`."""
    return python(site, "-c", LMAP, *arguments)


def python(site: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    """Python with the wheel; without the site packages' .pth files, by which this checkout would
    come first."""
    installed = Path(metadata.distribution("numpy").locate_file(""))
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("LEARNED_MAPPING", "NUMBA"))
    }
    environment |= {
        "PYTHONPATH": f"{site}{os.pathsep}{installed}",
        "XDG_CACHE_HOME": str(site.parent / "cache"),
    }
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True)


def test_it_brings_every_network(site):
    """Catches a learner of papers 2 or 3 that only a checkout can run."""
    stored = {
        p.relative_to(PROJECT / "data" / "checkpoints").as_posix(): p
        for p in PROJECT.glob("data/checkpoints/*/*")
    }
    brought = {
        p.relative_to(site / "learned_mapping" / "networks").as_posix()
        for p in site.glob("learned_mapping/networks/*/*")
    }
    assert brought == {name for name in stored if name.endswith((".npz", ".json"))}
    assert (site / "learned_mapping" / "py.typed").exists()
    assert not list(site.glob("learned_mapping_companion*"))


def test_it_brings_the_benchmark(site):
    """In a folder that has nothing: listed, a rule run, a method of one's own beside it, its
    mapping judged. Catches sixty programs that only a checkout has."""
    (site.parent / "mine.py").write_text(
        "from learned_mapping.mmap import all_dropped\n\n"
        "def nothing(program, rng, budget):\n    return all_dropped(program), {}\n"
    )
    done = lmap(site, "bench")
    assert done.returncode == 0 and "60 programs, mean return" in done.stdout, done.stderr
    options = ("--instances", "rnn_0", "--json")
    done = lmap(site, "bench", "run", "greedy-tuned", *options, "--out", "kept")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["programs"]
    assert row["valid"] and 0.5 < row["value"] <= row["bound"]
    done = lmap(site, "bench", "run", "greedy-tuned", "mine.py:nothing", *options)
    assert done.returncode == 0, done.stderr
    assert [mean["mean"] for mean in json.loads(done.stdout)["means"]] == [row["value"], 0.0]
    done = lmap(site, "bench", "submit", "kept/rnn_0.mapping.json.gz", "--json")
    (handed,) = json.loads(done.stdout)["submitted"]
    assert done.returncode == 1 and handed["valid"] and not handed["entered"]
    assert handed["value"] == row["value"] < handed["best_before"] == row["best"]
    assert not list(site.glob("learned_mapping/bench/*.mapping.json.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(PROJECT.glob("examples/*.py")), ids=lambda file: file.stem)
def test_an_example_runs_beside_it(site, file):
    """A copy in an empty folder, for its first moves; at most two hundred lines to read. Catches
    an example that needs what only a checkout has."""
    pytest.importorskip("gymnasium")
    assert len(file.read_text().splitlines()) <= 200
    done = python(site, shutil.copy(file, site.parent), *EXAMPLES[file.stem])
    assert done.returncode == 0, done.stderr
    assert re.search("bound|no mapping is above|greedy-tuned", done.stdout)


@pytest.mark.slow
def test_it_maps(site):
    """A model's text on a machine by name: its rules, searches and networks are the wheel's own."""
    model = PROJECT / "data" / "graphs" / "lstm_4_steps.json.gz"
    options = ("--machine", "4xa100-nvlink", "--seconds", "2", "--json")
    done = lmap(site, "map", str(model), *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    "command",
    [("artifacts",), ("data", "verify"), ("make", "mcm.fig5"), ("fingerprint", "--check")],
)
def test_what_needs_a_checkout_says_so(site, command):
    """Catches the files of whoever's folder it is, taken for ours."""
    before = sorted(site.parent.rglob("data/**"))
    done = lmap(site, *command)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(
        rf"lmap: lmap {command[0]}: needs a checkout of the project; .*\n", done.stderr
    )
    assert sorted(site.parent.rglob("data/**")) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("regal", "GRAPH", "--method", "regal", "--samples", "300"),
        ("mcm", "GRAPH", "--method", "zeroshot", "--chips", "4", "--samples", "20"),
        ("mmap", "PROGRAM", "--method", "muzero", "--seconds", "20"),
    ],
)
def test_it_solves(site, arguments):
    """Catches a method that asks for what an install has not."""
    files = {"GRAPH": "data/graphs/lstm_4_steps.json.gz", "PROGRAM": "data/programs/lstm.json.gz"}
    arguments = [str(PROJECT / files[a]) if a in files else a for a in arguments]
    done = lmap(site, "solve", *arguments, "--out", "out.json")
    assert done.returncode == 0, done.stderr
    assert "lmap: compiling what the method needs" in done.stderr or arguments[0] != "regal"


def test_a_plain_install_is_small():
    """Catches a package of the book's, or of the tests', that everybody would have to install."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    waiting, known = list(project["dependencies"]), set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name in known or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        known.add(name)
        waiting += metadata.requires(name) or []
    assert len(known) + 1 <= MOST_PACKAGES, sorted(known)
