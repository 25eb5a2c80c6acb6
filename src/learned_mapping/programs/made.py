"""How a solution was made: what its file says beside it, so that a judge needs no more words than it must.

The optional field ``made`` of a solution's file: method, seed, samples, the options of the problem that were given, and
the network that was asked, with the SHA-256 of its file.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_mapping.programs.json_io import Node, read_json

JUDGED = {
    "hardware": ("analytical", "silicon"),
    "objective": ("runtime", "memory"),
    "transfers": ("rendezvous", "free"),
}
"""Options in words that decide what a solution costs or whether it is valid."""
MOST_GIB = 1e6


def made_of(
    method: str, by: str, seed: int, samples: int, options: Mapping[str, Any], network: Path | None
) -> dict[str, Any]:
    """The field's JSON object; `by` is the method whose solution it is, a rule where a learner found nothing better."""
    found: dict[str, Any] = {"method": method, "by": by, "seed": seed, "samples": samples, "options": dict(options)}
    if network is not None:
        digest = hashlib.sha256(network.read_bytes()).hexdigest()
        found["network"] = {"name": network.name.removesuffix(".npz"), "sha256": digest}
    return found


def judged_options(path: str) -> dict[str, Any]:
    """The options of a solution's file that its judge needs; raises `InputError` naming file and field."""
    node = read_json(path)
    if not isinstance(node.value, dict) or "made" not in node.value:
        return {}
    made = Node(node.value["made"], path, "made").object(("method", "by", "seed", "samples", "options"), ("network",))
    for name in ("method", "by"):
        made[name].name()
    for name in ("seed", "samples"):
        made[name].integer(0, 10**15)
    given = made["options"].mapping(20)
    found: dict[str, Any] = {name: given[name].choice(*JUDGED[name]) for name in JUDGED if name in given}
    if "memory_gib" in given:
        found["memory_gib"] = given["memory_gib"].number(1e-9, MOST_GIB)
    return found
