"""One set of pins: environment.yml, requirements.lock and pyproject.toml agree, and nothing in them
is an address."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[1]
CONDA_PYTHON = "3.11.9"


def direct_requirements() -> dict[str, Requirement]:
    """What pyproject.toml asks for, without the extras that are a user's choice."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    texts = [
        *project["dependencies"],
        *(t for extra in ("book", "dev") for t in project["optional-dependencies"][extra]),
    ]
    return {canonicalize_name(Requirement(text).name): Requirement(text) for text in texts}


def locked() -> dict[str, str]:
    """Package -> version of the lock file, as Python `CONDA_PYTHON` on Linux installs it."""
    text = (PROJECT / "requirements.lock").read_text().replace("\\\n", " ")
    pins = {}
    environment = {
        "python_full_version": CONDA_PYTHON,
        "python_version": "3.11",
        "sys_platform": "linux",
    }
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line.split("--hash")[0].strip())
            if requirement.marker is None or requirement.marker.evaluate(environment):
                (specifier,) = requirement.specifier
                assert specifier.operator == "==", line
                pins[canonicalize_name(requirement.name)] = specifier.version
    return pins


def conda() -> tuple[str, dict[str, str]]:
    """The Python of environment.yml, and its pip pins."""
    value = yaml.safe_load((PROJECT / "environment.yml").read_text())
    (python,) = (entry for entry in value["dependencies"] if str(entry).startswith("python="))
    (pip,) = (entry["pip"] for entry in value["dependencies"] if isinstance(entry, dict))
    pins = (entry.split("==") for entry in pip if not entry.startswith("-e"))
    return python.removeprefix("python="), {canonicalize_name(name): pin for name, pin in pins}


def test_conda_users_get_the_same_versions():
    """A pin that differs would make numbers that differ."""
    python, pins = conda()
    assert CONDA_PYTHON.startswith(python)
    lock = locked()
    assert pins == {name: lock[name] for name in direct_requirements()}


def test_the_lock_satisfies_pyproject():
    lock = locked()
    for name, requirement in direct_requirements().items():
        assert requirement.specifier.contains(lock[name], prereleases=True), f"{name} {lock[name]}"


def test_every_locked_package_has_a_hash():
    entries = re.split(r"\n(?=[a-zA-Z0-9])", (PROJECT / "requirements.lock").read_text())
    assert len(entries) > 100 and all(
        "--hash=sha256:" in entry for entry in entries if not entry.startswith("#")
    )


@pytest.mark.parametrize("name", ["requirements.lock", "environment.yml", "pyproject.toml"])
def test_no_address_of_an_index(name):
    """The lock has to work with whatever index a user has."""
    text = (PROJECT / name).read_text()
    assert not re.search(r"https?://|--index-url|--extra-index|--find-links|@ git", text)


def test_a_plain_install_pulls_no_extra():
    """An extra may ask a plain package for other extras or, as tpu does, for fewer versions."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    plain = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    for extra in ("book", "cuda", "tpu", "cluster"):
        for text in project["optional-dependencies"][extra]:
            requirement = Requirement(text)
            narrower = requirement.extras or "<" in str(requirement.specifier)
            assert canonicalize_name(requirement.name) not in plain or narrower, f"{extra}: {text}"


@pytest.mark.parametrize("path", sorted((PROJECT / ".github/workflows").glob("*.yml")))
def test_a_workflow_runs_what_it_names(path):
    """A tag can be moved to other code, an install without hashes takes what is there today, and a
    job without `permissions` may write to the repository."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    for action in (step["uses"] for step in steps if "uses" in step):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
    commands = "\n".join(step["run"] for step in steps if "run" in step)
    for install in re.findall(r".*pip install.*", commands):
        assert "--require-hashes" in install or "--no-deps" in install, install
