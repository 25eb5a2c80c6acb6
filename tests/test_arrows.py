"""The arrows of the house: what may import what."""

import ast
import functools
from pathlib import Path

import networkx
import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "learned_mapping"
COMPANION = SOURCE.with_name("learned_mapping_companion")
FLOORS = (
    (
        "budget",
        "clock",
        "verdict",
        "errors",
        "folders",
        "style",
        "drawn",
        "cp_sat",
        "interrupts",
        "compiling",
        "lazy",
    ),
    ("programs",),
    ("doors",),
    ("problem",),
    ("hardware",),
    ("learning",),
    ("mmap", "mcm", "regal"),
    ("auto",),
    ("gym",),
    ("cli",),
)
"""From the ground up: a room imports rooms of its own floor or of those below it."""
PAPERS = {"mmap", "mcm", "regal"}
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
DISPATCH = {("problem", room) for room in PAPERS}
"""`problem.problem` finds a paper's methods by name."""


@functools.cache
def modules() -> dict[str, Path]:
    collected = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        collected[".".join(part for part in parts if part != "__init__")] = path
    return collected


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, at any depth of its code."""
    collected = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            collected |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            collected |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    prefix = "learned_mapping."
    names = {name.removeprefix(prefix) for name in collected if name.startswith(prefix)}
    known = modules()
    return {name for name in names if name in known}


@functools.cache
def arrows() -> set[tuple[str, str]]:
    known = modules()
    return {
        (name, other)
        for name, path in known.items()
        for other in imports(path)
        if name and other and name != other
    }


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_room_has_its_floor():
    rooms = {room(name) for name in modules() if name} - {"__main__"}
    assert rooms == set(FLOOR), "a new room has to be given a floor"


def test_nothing_points_upwards():
    upward = {
        (a, b) for a, b in arrows() if room(a) != "__main__" and FLOOR[room(b)] > FLOOR[room(a)]
    }
    assert {pair for pair in upward if (room(pair[0]), room(pair[1])) not in DISPATCH} == set()


def test_the_papers_do_not_know_each_other():
    crossing = {(a, b) for a, b in arrows() if {room(a), room(b)} <= PAPERS and room(a) != room(b)}
    assert crossing == set()


def test_the_library_knows_nothing_of_the_companion():
    """Nor does anything but the command line know the command line; the name stands in no file of
    the library."""
    assert [path for path in SOURCE.rglob("*.py") if COMPANION.name in path.read_text()] == []
    assert {
        pair
        for pair in arrows()
        if room(pair[1]) == "cli" and room(pair[0]) not in ("cli", "__main__")
    } == set()


def test_the_companion_asks_for_public_names():
    """Catches a table that reaches below the surface of the library."""
    asked = [(path.name, name) for path in COMPANION.rglob("*.py") for name in hidden(path)]
    assert asked == []


def hidden(path: Path) -> list[str]:
    """Names with an underscore that a file takes from the library."""
    taken = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    names = [(node.module or "", alias.name) for node in taken for alias in node.names]
    library = [(module, name) for module, name in names if module.startswith("learned_mapping.")]
    return [f"{module}.{name}" for module, name in library if name.startswith("_")]


def test_there_is_no_circle():
    """Not of imports inside functions either, which would hide that two files are one."""
    graph = networkx.DiGraph()
    known = modules()
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "learned_mapping."
            ):
                base = node.module.removeprefix("learned_mapping.")
                targets = {f"{base}.{alias.name}" for alias in node.names} & set(known) or {
                    base
                } & set(known)
                graph.add_edges_from(
                    (name, target)
                    for target in targets
                    if (room(name), room(target)) not in DISPATCH
                )
    assert list(networkx.simple_cycles(graph, length_bound=6)) == []


@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_the_papers_have_the_same_rooms(paper):
    """Somebody who knows one paper's folder knows all three."""
    inside = {path.stem for path in (SOURCE / paper).iterdir() if not path.name.startswith("__")}
    assert {"rules", "searches", "bounds", "agent", "methods", "validate", "env", "draw"} <= inside
