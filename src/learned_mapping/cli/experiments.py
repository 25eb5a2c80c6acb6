"""``lmap artifacts`` and ``lmap make``."""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any

from learned_mapping.cli.output import print_json, print_table
from learned_mapping.companion.time_limit import TimeLimit
from learned_mapping.companion.worker import SINGLE_THREAD
from learned_mapping.errors import InputError, LearnedMappingError, UnfinishedError


def artifacts(options: Any) -> int:
    """Lists the artifacts with the state of their stored results."""
    from learned_mapping.companion.ledger import entries

    rows = entries()
    if options.json:
        print_json({"artifacts": rows})
        return 0
    table = [("ID", "STORED", "SEEDS", "AGE", "STATE", "TITLE")]
    for row in rows:
        table.append(
            (
                row["id"],
                row["profile"] or "-",
                str(row["seeds"] or "-"),
                _age(row["created"]),
                row["state"],
                row["title"],
            )
        )
    print_table(table)
    return 0


def _age(created: str | None) -> str:
    if created is None:
        return "-"
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(created)
    return (
        f"{age.days} d"
        if age.days
        else f"{age.seconds // 3600} h"
        if age.seconds >= 3600
        else f"{age.seconds // 60} min"
    )


def make(options: Any) -> int:
    """Regenerates artifacts, one after the other; one that fails or is not finished does not stop the others."""
    if bool(options.ids) == options.all:
        raise InputError("make", "", "give artifact ids, or --all")
    if (options.only or options.instances) and (options.all or len(set(options.ids)) > 1):
        raise InputError("make", "", "--only and --instances go with one artifact")
    limit = None if options.minutes is None else TimeLimit(60 * options.minutes)
    if options.jobs == 1 and options.cluster is None:
        for name, value in SINGLE_THREAD.items():  # effective because no numerical library is imported yet
            os.environ.setdefault(name, value)
    from learned_mapping.companion import results
    from learned_mapping.companion.artifact import find_artifact, registry

    chosen = list(registry().values()) if options.all else [find_artifact(name) for name in dict.fromkeys(options.ids)]
    made, failed, unfinished = [], [], []
    for artifact in chosen:
        try:
            result = results.make(
                artifact,
                options.profile,
                seeds=options.seeds,
                jobs=options.jobs,
                cluster=options.cluster,
                reuse_stale=options.reuse_stale,
                only=options.only,
                instances=options.instances,
                limit=limit,
                progress=sys.stderr.isatty() or not options.json,
            )
        except InputError:
            raise
        except UnfinishedError as error:
            unfinished.append({"id": artifact.id, "fault": str(error)})
            continue
        except LearnedMappingError as error:
            failed.append({"id": artifact.id, "fault": str(error)})
            continue
        path = str(results.result_path(artifact.id, options.profile))
        made.append({key: result[key] for key in ("id", "profile", "seeds", "seconds", "validated", "invalid")})
        made[-1] |= {"rows": len(result["rows"]), "runs": len(result["runs"]), "path": path}
        if not options.json:
            print(f"{artifact.id}: {len(result['rows'])} rows of {len(result['runs'])} runs -> {path}", flush=True)
    if options.json:
        print_json({"made": made, "failed": failed, "unfinished": unfinished})
    # One series may be missing to several artifacts.
    missing = list(dict.fromkeys(entry["fault"] for entry in unfinished))
    if failed:
        faults = [f"{entry['id']}: {entry['fault']}" for entry in failed]
        raise LearnedMappingError(f"{len(failed)} of {len(chosen)} artifacts failed: {'; '.join(faults + missing)}")
    if missing:
        raise UnfinishedError("; ".join(missing))
    return 0
