"""Where a number comes from: the machine, the versions, and a digest of the code it rests on."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PACKAGE = "learned_mapping"
PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
LIBRARIES = ("numpy", "scipy", "numba", "jax", "dm-haiku", "optax", "mctx", "jraph", "ortools", "networkx")


def machine() -> dict[str, Any]:
    """The machine without its name: cores this process may use, memory in bytes, the processor's model."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"system": platform.system(), "cpu": _cpu_model(), "cores": cores, "memory_bytes": memory}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of the libraries that decide numbers."""
    found = {"python": platform.python_version()}
    for name in ("learned-mapping", *LIBRARIES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def source_digest(modules: Iterable[str]) -> str:
    """16 hexadecimal digits over the code of `modules` and of all they import inside the package.

    Comments, docstrings and layout do not count: editing a sentence does not make a result stale. A package's name
    stands for every module in it. The files are read once per process.
    """
    return _source_digest(frozenset(modules))


@functools.cache
def _source_digest(modules: frozenset[str]) -> str:
    hasher = hashlib.sha256()
    for name in sorted(module_closure(modules)):
        hasher.update(f"{name} {_code_digest(name)}\n".encode())
    return hasher.hexdigest()[:16]


def combined_digest(digests: Iterable[str]) -> str:
    """16 hexadecimal digits over a set of digests, in whatever order and however often they come; one is itself."""
    distinct = sorted(set(digests))
    if len(distinct) == 1:
        return distinct[0]
    return hashlib.sha256("\n".join(distinct).encode()).hexdigest()[:16]


def module_closure(modules: Iterable[str]) -> set[str]:
    """All modules of the package that `modules` are or import, directly or through others.

    Raises:
      ValueError: one of `modules` is not in the package.
    """
    waiting: list[str] = []
    for name in modules:
        path = _path(name)
        if path is None:
            raise ValueError(f"no module {name!r}")
        waiting.append(name)
        if path.name == "__init__.py":
            for file in sorted(path.parent.rglob("*.py")):
                parts = file.relative_to(PACKAGE_FOLDER).with_suffix("").parts
                waiting.append(".".join((PACKAGE, *(part for part in parts if part != "__init__"))))
    closure: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure.add(name)
            waiting.extend(_imports(name) - closure)
    return closure


def _path(name: str) -> Path | None:
    """The file of a module of the package; None where there is none."""
    parts = name.split(".")
    if parts[0] != PACKAGE:
        return None
    base = PACKAGE_FOLDER.joinpath(*parts[1:])
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _tree(name: str) -> ast.Module:
    path = _path(name)
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def _imports(name: str) -> set[str]:
    """Modules of the package that one module imports, anywhere in its code."""
    found = set()
    is_package = _path(name).name == "__init__.py"
    for node in _statements(_tree(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return {module for module in found if _path(module) is not None}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements beneath a node, at any depth; expressions, which hold none, are not looked into."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


@functools.cache
def _code_digest(name: str) -> str:
    return hashlib.sha256(_skeleton(_tree(name)).encode()).hexdigest()


def _skeleton(node: Any) -> str:
    """A syntax tree as text that does not depend on the version of Python's `ast` module."""
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list):
                # A string that stands alone is a docstring or an attribute's description.
                value = [item for item in value if not _is_text(item)]
            if name in ("ctx", "kind", "type_comment") or value is None or value == []:
                continue
            fields.append(f"{name}={_skeleton(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return "[" + ",".join(map(_skeleton, node)) + "]"
    return repr(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
