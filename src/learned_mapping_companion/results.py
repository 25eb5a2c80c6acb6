"""Stored results: one file per artifact, made from the records of its runs and validated whenever
it is read."""

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from learned_mapping import clock
from learned_mapping.errors import InputError, LearnedMappingError
from learned_mapping.folders import build_folder, data_folder, kept_while_unchanged
from learned_mapping.programs.json_io import Node, expect_schema, parse_json, read_bytes, write_json
from learned_mapping_companion import fingerprints
from learned_mapping_companion.artifact import (
    DEFAULT_SEEDS,
    PROFILES,
    RUN,
    TABLE,
    Artifact,
    Record,
    Run,
    find_artifact,
    reported,
)
from learned_mapping_companion.datasets.registry import SETS
from learned_mapping_companion.runs import TimeLimit, execute

SCHEMA = "learned-mapping/result/1"
MAX_SEEDS = 10_000
MAX_ROWS = 1_000_000
LARGEST = 1e300
LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "jax",
    "dm-haiku",
    "optax",
    "mctx",
    "jraph",
    "ortools",
    "networkx",
)
"""Whose versions decide numbers."""


class InvalidSolutionsError(LearnedMappingError):
    """An independent validator refused a solution, so the artifact is not stored."""


def results_folder(profile: str) -> Path:
    """The folder of a profile's results; the ``full`` ones are part of the project. Raises
    `InputError` for none."""
    if profile not in PROFILES:
        raise InputError("profile", "", f"{profile!r} is none of {', '.join(PROFILES)}")
    return (data_folder() if profile == "full" else build_folder() / profile) / "results"


def result_path(artifact_id: str, profile: str = "full") -> Path:
    """The file of an artifact's stored result."""
    return results_folder(profile) / f"{artifact_id}.json"


def runs_path(artifact_id: str, profile: str = "full") -> Path:
    """The file of the records of an artifact's runs."""
    return results_folder(profile) / "runs" / f"{artifact_id}.jsonl"


def make(
    artifact: str | Artifact,
    profile: str = "quick",
    *,
    seeds: int | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    reuse_stale: bool = False,
    long: bool = False,
    only: Collection[str] = (),
    instances: Collection[str] = (),
    limit: TimeLimit | None = None,
    progress: bool = True,
) -> Record:
    """Performs the runs an artifact lacks, makes its parts, assembles its result, stores and
    returns it.

    Args:
      artifact: itself, or its id.
      profile: one of `PROFILES`.
      seeds: runs per method and instance, its parts' too; None for the stored parts' numbers, else
        the profile's.
      long: perform the runs that take hours too; without, an artifact is assembled from those of
        them that are there.
      only, instances: perform the runs of these methods, on these instances; of all where empty.
      jobs, cluster, reuse_stale, limit, progress: as in `runs.execute`.

    Raises:
      InputError: an unknown artifact, profile, method or instance, or a bad number.
      RunsFailedError: some runs failed; a second call performs only those.
      RunsMissingError: by `only`, `instances` or `limit` not all runs are there yet; nothing is
        assembled.
      InvalidSolutionsError: a validator refused a solution; nothing is stored.
    """
    results_folder(profile)  # which has to be one
    if isinstance(artifact, str):
        artifact = find_artifact(artifact)
    asked, seeds = seeds, DEFAULT_SEEDS[profile] if seeds is None else seeds
    if not 1 <= seeds <= MAX_SEEDS:
        raise InputError("--seeds", "", f"must be between 1 and {MAX_SEEDS}, got {seeds}")
    plan = artifact.runs(profile, seeds)
    chosen, known_fingerprints = _choice(plan, only, instances), fingerprints.current()
    options = dict(
        jobs=jobs, cluster=cluster, reuse_stale=reuse_stale, limit=limit, progress=progress
    )
    records = execute(
        plan,
        store=runs_path(artifact.id, profile),
        fingerprint_of=lambda run: known_fingerprints.get(fingerprints.key_of(run), ""),
        chosen=lambda run: chosen(run) and (long or not run.long),
        label=artifact.id,
        **options,
    )
    parts = []
    for part in artifact.parts:
        kept = None
        with contextlib.suppress(InputError):  # a damaged part is made again
            kept = (stored(part, profile) or {}).get("seeds")
        parts.append(make(part, profile, seeds=asked or kept, long=long, **options))
    try:
        assembled = artifact.result(records, *parts)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        fault = (
            f"a record does not fit its artifact ({type(error).__name__}: {error}); make it again"
            " without it"
        )
        raise InputError(runs_path(artifact.id, profile), "result", fault) from error
    distinct = {record["digest"]: record for record in records}.values()
    sets = DATA.get(artifact.id, DATA.get(artifact.id.partition(".")[0], ()))
    result = {
        "schema": SCHEMA,
        "id": artifact.id,
        "profile": profile,
        "seeds": seeds,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(sum(record["seconds"] for record in distinct), 3),
        "peak_bytes": max((record["peak_bytes"] for record in distinct), default=0),
        "machine": machine() | _performed(records),
        "versions": versions(),
        "fingerprints": _fingerprints_of(records, parts),
        "data": (
            {name: data_digest(name) for name in sets}
            | {part: part_digest(part, profile) for part in artifact.parts}
        ),
        "rows": assembled["rows"],
        "paper": reported(artifact.id),
        "validated": int(assembled["validated"]),
        "invalid": int(assembled["invalid"]),
        "runs": sorted({record["digest"] for record in records}),
    }
    if result["invalid"]:
        raise InvalidSolutionsError(
            f"{artifact.id}: {result['invalid']} of {result['validated']} solutions are invalid;"
            " nothing is stored"
        )
    path = result_path(artifact.id, profile)
    check_result(Node(result, path), artifact.id)
    write_json(path, result, indent=1)
    return result


def _choice(
    plan: Sequence[Run], only: Collection[str], instances: Collection[str]
) -> Callable[[Run], bool]:
    """Whether a run is of one of these methods and instances; all are where none is named."""
    for option, names, key in (("--only", only, "method"), ("--instances", instances, "instance")):
        known = list(dict.fromkeys(getattr(run, key) for run in plan))
        for name in names:
            if name not in known:
                raise InputError(
                    option,
                    "",
                    f"no run has the {key} {name!r}; there are: {', '.join(known) or 'none'}",
                )
    return lambda run: (
        (not only or run.method in only) and (not instances or run.instance in instances)
    )


DATA = {"mmap": ("compiled",), "mcm": ("mcm-graphs", "mcm-bert"), "regal": ("regal-graphs",)}
DATA |= {f"mcm.{name}": (f"mcm-{name}",) for name in ("headroom", "fresh", "wide")}
DATA |= {"mcm.cnn_rnn": ("mcm-cnn-rnn",), "mmap.fresh": ("compiled-fresh",)}
DATA["mmap.unseen"] = ("compiled", "compiled-fresh")
"""Paper, or artifact where it has its own -> the data sets that artifacts are made from."""


def _fingerprints_of(records: Sequence[Record], parts: Sequence[Record]) -> dict[str, str]:
    """Key -> digest of what each method of a result did when its runs were made, ``none`` where
    nobody had stored it; an older one is not passed over."""
    digests: dict[str, str] = {}
    now = fingerprints.current()
    pairs = [
        (fingerprints.key_of(Run(*(record[name] for name in RUN))), record["fingerprint"])
        for record in records
    ]
    pairs += [pair for part in parts for pair in part["fingerprints"].items()]
    for key, digest in pairs:
        if key not in fingerprints.NO_METHOD and digests.get(key) in (None, now.get(key)):
            digests[key] = digest or "none"
    return dict(sorted(digests.items()))


def data_digest(name: str) -> str:
    """The digest of a data set's content, from its manifest; empty where the set is not there."""
    manifest = SETS[name].manifest()
    return manifest.digest[:16] if manifest else ""


def part_digest(artifact_id: str, profile: str) -> str:
    """The digest of what a stored result says: its rows and counts; empty where nothing whole is
    stored."""
    path = result_path(artifact_id, profile)
    with contextlib.suppress(InputError):
        return _said(path) if path.exists() else ""
    return ""


@kept_while_unchanged
def _said(path: Path) -> str:
    value = parse_json(read_bytes(path), path).value
    said = (
        [value.get(name) for name in ("rows", "validated", "invalid")]
        if isinstance(value, dict)
        else []
    )
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def machine() -> Record:
    """The machine without its name: cores this process may use, memory in bytes, the processor's
    model."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "cpu": clock.cpu_model(),
        "cores": cores,
        "memory_bytes": memory,
    }


def _performed(records: Sequence[Record]) -> Record:
    """The processors that performed the runs, that of most runs first, and the least and the
    largest `clock.rate` of their cores, of as many runs as have kept them."""
    known = [record["rate"] for record in records if "rate" in record]
    if not known:
        return {}
    counts = Counter(record["cpu"] for record in records if "cpu" in record)
    cpus = [cpu for cpu, _ in counts.most_common()]
    return {"cpus": cpus, "rates": [min(known), max(known)], "rated_runs": len(known)}


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of the libraries that decide numbers."""
    known = {"python": platform.python_version()}
    for name in ("learned-mapping", *LIBRARIES):
        try:
            known[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return known


CHECKED: set[tuple[Path, int]] = set()
"""Files, and hashes of their bytes, that this process has found whole: a page reads a result a
hundred times."""


def load(artifact_id: str, profile: str = "full") -> Record:
    """The stored result of an artifact; raises `InputError` where it is missing or damaged."""
    path = result_path(artifact_id, profile)
    data = read_bytes(path)
    node = parse_json(data, path)
    if (path, hash(data)) not in CHECKED:
        expect_schema(node, "result")
        check_result(node, artifact_id)
        CHECKED.add((path, hash(data)))
    return node.value


def stored(artifact_id: str, profile: str = "full") -> Record | None:
    """The result that `load` returns, or None where nothing is stored."""
    return load(artifact_id, profile) if result_path(artifact_id, profile).exists() else None


def staleness(result: Record) -> list[str]:
    """Why a result is stale: the methods that behave differently now, those of which nobody knows,
    the data sets that have changed, the parts that say something else now."""
    now, then = fingerprints.current(), result["fingerprints"]
    changed = [
        key if key in now else f"no fingerprint of {key}"
        for key in then
        if now.get(key) != then[key]
    ]
    read = dict.fromkeys(TABLE.get(result["id"], {}).get("parts", ()), "") | result["data"]
    digests = {
        name: data_digest(name) if name in SETS else part_digest(name, result["profile"])
        for name in read
    }
    return changed + [name for name, digest in read.items() if digests[name] != digest]


def check_result(node: Node, artifact_id: str) -> None:
    """Raises `InputError` unless the value is a whole result of this artifact, free of invalid
    solutions."""
    top = node.object(
        (
            "schema",
            "id",
            "profile",
            "seeds",
            "created",
            "seconds",
            "peak_bytes",
            "machine",
            "versions",
        )
        + ("fingerprints", "data", "rows", "paper", "validated", "invalid", "runs")
    )
    if top["id"].string() != artifact_id:
        top["id"].fail(f"expected {artifact_id!r}, got {top['id'].value!r}")
    top["profile"].choice(*PROFILES)
    top["seeds"].integer(1, MAX_SEEDS)
    top["seconds"].number(0, LARGEST)
    top["peak_bytes"].integer(0, 2**60)
    try:
        zone = datetime.datetime.fromisoformat(top["created"].string()).tzinfo
    except ValueError:
        top["created"].fail(f"not a time: {top['created'].value!r}")
    if zone is None:
        top["created"].fail(f"a time without a zone: {top['created'].value!r}")
    top["machine"].metadata()
    for version in top["versions"].mapping(1000).values():
        version.string()
    for name in ("fingerprints", "data"):
        for digest in top[name].mapping(1000).values():
            digest.string(64)
    top["validated"].integer(0, 2**53)
    if top["invalid"].integer(0, 2**53):
        top["invalid"].fail(f"{top['invalid'].value} invalid solutions")
    for digest in top["runs"].elements(MAX_ROWS):
        digest.string(64)
    for rows in (top["rows"], top["paper"]):
        for row in rows.elements(MAX_ROWS):
            _check_row(row)


def _check_row(row: Node) -> None:
    """A tidy row: three names, a value (a number, or a word where the metric is one), its interval,
    its count."""
    cells = row.mapping(100, ("instance", "method", "metric", "value"))
    for name in ("instance", "method", "metric"):
        cells[name].string()
    if cells["value"].value is not None and not isinstance(cells["value"].value, bool | str):
        cells["value"].number(-LARGEST, LARGEST)
    for name in ("low", "high"):
        if name in cells and cells[name].value is not None:
            cells[name].number(-LARGEST, LARGEST)
    if "n" in cells:
        cells["n"].integer(0, 2**53)
    if "curve" in cells:
        curve = cells["curve"].mapping(20, ("x", "y", "x_unit"))
        lengths = {len(curve[name].elements(MAX_ROWS)) for name in ("x", "y")}
        if len(lengths) > 1:
            cells["curve"].fail("x and y differ in length")


def select(result: Record, where: str = "rows", **keys: Any) -> list[Record]:
    """The rows of a result whose cells equal `keys`: ``select(result, instance="bert",
    metric="throughput")``."""
    return [
        row for row in result[where] if all(row.get(name) == value for name, value in keys.items())
    ]


def value(result: Record, where: str = "rows", **keys: Any) -> Any:
    """The value of the one row whose cells equal `keys`; raises LookupError unless there is exactly
    one."""
    rows = select(result, where, **keys)
    if len(rows) != 1:
        raise LookupError(f"{len(rows)} rows of {result['id']} match {keys}")
    return rows[0]["value"]
