"""Stored results: one file per artifact, made from the records of its runs and validated whenever it is read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, LearnedMappingError
from learned_mapping.experiments import provenance
from learned_mapping.experiments.artifact import DEFAULT_SEEDS, PROFILES, Artifact, check_profile, find_artifact
from learned_mapping.experiments.folders import build_folder, data_folder
from learned_mapping.experiments.runs import execute
from learned_mapping.programs.json_io import Node, read_json, write_json

SCHEMA = "learned-mapping/result/1"
MAX_SEEDS = 10_000
MAX_ROWS = 1_000_000
LARGEST = 1e300


class InvalidSolutionsError(LearnedMappingError):
    """An independent validator refused a solution, so the artifact is not stored."""


def results_folder(profile: str) -> Path:
    """Where the results of a profile are; the ``full`` ones are part of the project."""
    return (data_folder() if profile == "full" else build_folder() / check_profile(profile)) / "results"


def result_path(artifact_id: str, profile: str = "full") -> Path:
    """The file of an artifact's stored result."""
    return results_folder(profile) / f"{artifact_id}.json"


def runs_folder(artifact_id: str, profile: str = "full") -> Path:
    """The folder of the records of an artifact's runs."""
    return results_folder(profile) / "runs" / artifact_id


def make(
    artifact: str | Artifact,
    profile: str = "quick",
    *,
    seeds: int | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    reuse_stale: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Performs the runs an artifact lacks, assembles its result, stores and returns it.

    Args:
      artifact: itself, or its id.
      profile: one of `PROFILES`.
      seeds: runs per method and instance; None for the profile's own number.
      jobs, cluster, reuse_stale, progress: as in `runs.execute`.

    Raises:
      InputError: an unknown artifact or profile, or a bad number.
      RunsFailedError: some runs failed; a second call performs only those.
      InvalidSolutionsError: a validator refused a solution; nothing is stored.
    """
    check_profile(profile)
    if isinstance(artifact, str):
        artifact = find_artifact(artifact)
    seeds = DEFAULT_SEEDS[profile] if seeds is None else seeds
    if not 1 <= seeds <= MAX_SEEDS:
        raise InputError("--seeds", "", f"must be between 1 and {MAX_SEEDS}, got {seeds}")
    digest = artifact_digest(artifact)
    plan = artifact.plan(profile, seeds)
    records = execute(
        plan,
        store=runs_folder(artifact.id, profile),
        jobs=jobs,
        cluster=cluster,
        source_digest=digest,
        reuse_stale=reuse_stale,
        progress=progress,
        label=artifact.id,
    )
    assembled = artifact.assemble(profile, records)
    made_by = {record["source_digest"] for record in records} | ({digest} if not records else set())
    distinct = {record["digest"]: record for record in records}.values()
    result = {
        "schema": SCHEMA,
        "id": artifact.id,
        "profile": profile,
        "seeds": seeds,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(sum(record["seconds"] for record in distinct), 3),
        "peak_bytes": max((record["peak_bytes"] for record in distinct), default=0),
        "machine": provenance.machine(),
        "versions": provenance.versions(),
        "source_digest": made_by.pop() if len(made_by) == 1 else "mixed",
        "rows": assembled["rows"],
        "paper": assembled.get("paper", []),
        "validated": int(assembled["validated"]),
        "invalid": int(assembled["invalid"]),
        "runs": sorted(distinct_digests(records)),
    }
    if result["invalid"]:
        raise InvalidSolutionsError(
            f"{artifact.id}: {result['invalid']} of {result['validated']} solutions are invalid; nothing is stored"
        )
    path = result_path(artifact.id, profile)
    check_result(Node(result, path), artifact.id)
    write_json(path, result, indent=1)
    return result


def distinct_digests(records: Sequence[dict[str, Any]]) -> set[str]:
    """The keys of the records, each once."""
    return {record["digest"] for record in records}


def load(artifact_id: str, profile: str = "full") -> dict[str, Any]:
    """The stored result of an artifact; raises `InputError` where it is missing or damaged."""
    node = read_json(result_path(artifact_id, profile), "result")
    check_result(node, artifact_id)
    return node.value


def stored(artifact_id: str, profile: str = "full") -> dict[str, Any] | None:
    """As `load`, but None where nothing is stored."""
    return load(artifact_id, profile) if result_path(artifact_id, profile).exists() else None


def artifact_digest(artifact: Artifact) -> str:
    """Digest of the code an artifact rests on."""
    return provenance.source_digest(artifact.packages or (artifact.assemble.__module__,))


def is_fresh(artifact: Artifact, result: dict[str, Any]) -> bool:
    """Whether the code an artifact rests on is still the code its result was made by."""
    return result["source_digest"] == artifact_digest(artifact)


def check_result(node: Node, artifact_id: str) -> None:
    """Raises `InputError` unless the value is a whole result of this artifact, free of invalid solutions."""
    top = node.object(
        ("schema", "id", "profile", "seeds", "created", "seconds", "peak_bytes", "machine", "versions")
        + ("source_digest", "rows", "paper", "validated", "invalid", "runs")
    )
    if top["id"].string() != artifact_id:
        top["id"].fail(f"expected {artifact_id!r}, got {top['id'].value!r}")
    top["profile"].choice(*PROFILES)
    top["seeds"].integer(1, MAX_SEEDS)
    top["seconds"].number(0, LARGEST)
    top["peak_bytes"].integer(0, 2**60)
    try:
        datetime.datetime.fromisoformat(top["created"].string())
    except ValueError:
        top["created"].fail(f"not a time: {top['created'].value!r}")
    top["machine"].metadata()
    for version in top["versions"].mapping(1000).values():
        version.string()
    top["source_digest"].string()
    top["validated"].integer(0, 2**53)
    if top["invalid"].integer(0, 2**53):
        top["invalid"].fail(f"{top['invalid'].value} invalid solutions")
    for digest in top["runs"].array(MAX_ROWS):
        digest.string(64)
    for rows in (top["rows"], top["paper"]):
        for row in rows.array(MAX_ROWS):
            _check_row(row)


def _check_row(row: Node) -> None:
    """A tidy row: three names, a value (a number, or a word where the metric is one), its interval, its count."""
    cells = row.mapping(100)
    for name in ("instance", "method", "metric"):
        if name not in cells:
            row.fail(f"missing field {name!r}")
        cells[name].string()
    if "value" not in cells:
        row.fail("missing field 'value'")
    if cells["value"].value is not None and not isinstance(cells["value"].value, bool | str):
        cells["value"].number(-LARGEST, LARGEST)
    for name in ("low", "high"):
        if name in cells and cells[name].value is not None:
            cells[name].number(-LARGEST, LARGEST)
    if "n" in cells:
        cells["n"].integer(0, 2**53)
    if "curve" in cells:
        curve = cells["curve"].mapping(20)
        for name in ("x", "y", "x_unit"):
            if name not in curve:
                cells["curve"].fail(f"missing field {name!r}")
        lengths = {len(curve[name].array(MAX_ROWS)) for name in ("x", "y")}
        if len(lengths) > 1:
            cells["curve"].fail("x and y differ in length")


def select(result: dict[str, Any], where: str = "rows", **keys: Any) -> list[dict[str, Any]]:
    """The rows of a result whose cells equal `keys`: ``select(result, instance="bert", metric="throughput")``."""
    return [row for row in result[where] if all(row.get(name) == value for name, value in keys.items())]


def value(result: dict[str, Any], where: str = "rows", **keys: Any) -> Any:
    """The value of the one row whose cells equal `keys`; raises LookupError unless there is exactly one."""
    rows = select(result, where, **keys)
    if len(rows) != 1:
        raise LookupError(f"{len(rows)} rows of {result['id']} match {keys}")
    return rows[0]["value"]
