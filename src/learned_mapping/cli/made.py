"""How a solution was made, as its file says it, so that a judge needs no more words than it must.

The optional field ``made`` has method, seed, samples, the options of the problem that were given,
and the network that was asked, with the SHA-256 of its file.
"""

from collections.abc import Mapping
from typing import Any

from learned_mapping.cli.instances import PAPERS, SAID
from learned_mapping.doors import minimalloc
from learned_mapping.problem import Problem, Result, problem
from learned_mapping.programs.json_io import Node, file_sha256, read_json

KEPT = ("unknown_ops", "guessed_parameters", "rounds_at_most")
"""What an instance's metadata tell that its solution's file keeps."""


def origin(
    paper: Problem,
    instance: Any,
    task: Any,
    method: str,
    result: Result,
    chosen: dict[str, Any],
    options: Any,
) -> dict[str, Any]:
    """How a solution was made, as its file says it."""
    settings = chosen | ({"fold": True} if options.fold else {})
    settings |= {"fused": True} if "fused_ops" in instance.metadata else {}
    if "machine" in chosen:
        from learned_mapping.hardware.machine import machine_to_json

        settings["machine"] = machine_to_json(chosen["machine"])
    settings |= {} if options.hardware is None else {"hardware": options.hardware}
    made = {
        "method": method,
        "by": result.by or method,
        "seed": options.seed,
        "samples": result.samples,
        "options": settings,
    }
    made |= {fact: instance.metadata[fact] for fact in KEPT if instance.metadata.get(fact)}
    if (network := paper.network_of(task, method)) is not None:
        name = network.name.removesuffix(".npz")
        made["network"] = {"name": name, "sha256": file_sha256(network)}
    return made


READERS: dict[str, tuple[Any, ...]] = {
    "hardware": ("choice", "analytical", "silicon"),
    "objective": ("choice", "runtime", "memory"),
    "transfers": ("choice", "rendezvous", "free", "queued"),
    "memory_gib": ("number", 1e-300, 1e6),
    "link_bytes_per_s": ("number", 1e-300, 1e300),
    "link_latency_s": ("number", 0.0, 1e6),
    "fold": ("boolean",),
    "fused": ("boolean",),
    **dict.fromkeys(("chips", "devices", "iterations"), ("integer", 1, 10**9)),
}
"""Readers of the options in a solution's file, for those that are no strings."""
JUDGED = ("hardware", *SAID, "machine", "objective")
"""Options that decide what a solution costs or whether it is valid."""


def judged_options(path: str) -> dict[str, Any]:
    """The options in a solution's file that its judge needs; raises `InputError`."""
    if path.endswith(minimalloc.ENDINGS):
        return {}
    node = read_json(path)
    if not isinstance(node.value, dict) or "made" not in node.value:
        return {}
    origin = Node(node.value["made"], path, "made").object(
        ("method", "by", "seed", "samples", "options"), ("network", *KEPT)
    )
    for name in ("method", "by"):
        origin[name].name()
    for name in ("seed", "samples"):
        origin[name].integer(0, 10**15)
    for fact in {*KEPT} & {*origin}:
        origin[fact].metadata()
    if "network" in origin:
        for name, part in origin["network"].object(("name", "sha256")).items():
            part.string(64 if name == "sha256" else 200)
    papers = [problem(name) for name in PAPERS]
    known = {name for paper in papers for name in (*paper.options, *paper.retired)}
    settings: dict[str, Any] = {}
    for name, value in origin["options"].mapping(20).items():
        if name not in known:
            value.fail("is no option of `lmap solve`")
        if name == "package":
            from learned_mapping.hardware.chip_package import package_of

            settings[name] = package_of(value)
        elif name == "machine":
            from learned_mapping.hardware.machine import machine_of

            settings[name] = machine_of(value)
        else:
            kind, *bounds = READERS.get(name, ("string",))
            settings[name] = getattr(value, kind)(*bounds)
    return {name: value for name, value in settings.items() if name in JUDGED}


def said_options(judged: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a solution's file says of its task, and in its place what the command says."""
    dropped = SAID if "machine" in given else ()
    return {name: value for name, value in judged.items() if name not in dropped} | dict(given)
