"""``lmap artifacts``, ``lmap make``, ``lmap verify`` and ``lmap fingerprint``."""

import datetime
import os
import sys
from typing import Any

from learned_mapping.cli.output import print_json, report, steps_progress, table
from learned_mapping.errors import InputError, LearnedMappingError, UnfinishedError
from learned_mapping.folders import data_folder
from learned_mapping_companion.runs import TimeLimit
from learned_mapping_companion.worker import SINGLE_THREAD


def artifacts(options: Any) -> int:
    """Lists the artifacts with the state of their stored results."""
    data_folder()  # complains where there is none
    from learned_mapping_companion.ledger import entries

    rows, lines = entries(), [("ID", "STORED", "--SEEDS", "AGE", "STATE", "TITLE")]
    for row in rows:
        stored = (row["profile"] or "-", str(row["seeds"] or "-"), _age(row["created"]))
        lines.append((row["id"], *stored, row["state"], row["title"]))
    damaged = [f"{row['id']}: {row['changed'][0]}" for row in rows if row["state"] == "damaged"]
    return report(options, {"artifacts": rows}, "\n".join([table(lines), *damaged]))


def _age(created: str | None) -> str:
    if created is None:
        return "-"
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(created)
    if age.days:
        return f"{age.days} d"
    return f"{age.seconds // 3600} h" if age.seconds >= 3600 else f"{age.seconds // 60} min"


def make(options: Any) -> int:
    """Regenerates artifacts, one after the other; one that fails or is not finished does not stop
    the others."""
    data_folder()  # complains where there is none
    if bool(options.ids) == options.all:
        raise InputError("make", "", "give artifact ids, or --all")
    if (options.only or options.instances) and (options.all or len(set(options.ids)) > 1):
        raise InputError("make", "", "--only and --instances go with one artifact")
    limit = None if options.minutes is None else TimeLimit(60 * options.minutes)
    if options.jobs == 1 and options.cluster is None:
        _one_thread()
    from learned_mapping_companion import results
    from learned_mapping_companion.artifact import TABLE, find_artifact

    ids = list(TABLE if options.all else dict.fromkeys(options.ids))
    chosen = [find_artifact(name) for name in ids]
    passed_on = ("seeds", "jobs", "cluster", "reuse_stale", "long", "only", "instances")
    settings = {name: getattr(options, name) for name in passed_on}
    settings |= {"limit": limit, "progress": sys.stderr.isatty() or not options.json}
    finished, failed, unfinished = [], [], []
    for artifact in chosen:
        try:
            result = results.make(artifact, options.profile, **settings)
        except LearnedMappingError as error:
            if isinstance(error, InputError) and len(chosen) == 1:
                raise
            kept = unfinished if isinstance(error, UnfinishedError) else failed
            kept.append({"id": artifact.id, "fault": str(error)})
            continue
        path = str(results.result_path(artifact.id, options.profile))
        finished.append(
            {
                key: result[key]
                for key in ("id", "profile", "seeds", "seconds", "validated", "invalid")
            }
        )
        finished[-1] |= {"rows": len(result["rows"]), "runs": len(result["runs"]), "path": path}
        if not options.json:
            print(
                f"{artifact.id}: {len(result['rows'])} rows of {len(result['runs'])} runs ->"
                f" {path}",
                flush=True,
            )
    if options.json:
        print_json({"made": finished, "failed": failed, "unfinished": unfinished})
    # One series may be missing to several artifacts.
    missing = list(dict.fromkeys(entry["fault"] for entry in unfinished))
    if failed:
        faults = [f"{entry['id']}: {entry['fault']}" for entry in failed]
        raise LearnedMappingError(
            f"{len(failed)} of {len(chosen)} artifacts failed: {'; '.join(faults + missing)}"
        )
    if missing:
        raise UnfinishedError("; ".join(missing))
    return 0


def verify(options: Any) -> int:
    """Computes stored runs that can be repeated on this processor again; exit 1 where one ends
    differently."""
    _one_thread()
    from learned_mapping_companion import ledger

    (records, elsewhere), different = ledger.choose(options.sample, options.seed), []
    if not records:
        raise InputError(
            "data",
            "results",
            "has no stored run that is limited by samples and can be repeated here",
        )
    with steps_progress("verify", "run") as progress:
        for done, record in enumerate(records):
            progress(done, len(records))
            differences = ledger.differences(record)
            if differences:
                names = ("digest", "task", "method", "instance", "seed")
                different.append(
                    {**{name: record[name] for name in names}, "differences": differences[:20]}
                )
    equal = len(records) - len(different)
    lines = [
        "{task} {method} {instance} seed {seed}: {differences[0]}".format(**row)
        for row in different
    ]
    lines.append(f"{equal} of {len(records)} equal")
    if elsewhere:
        lines.append(
            f"{elsewhere:,} more turn on last bits, and were made on another processor or do not"
            " say on which"
        )
    content = {
        "compared": len(records),
        "equal": equal,
        "different": different,
        "elsewhere": elsewhere,
    }
    return report(options, content, "\n".join(lines), not different)


def fingerprint(options: Any) -> int:
    """Measures fingerprints and stores them; with ``--check`` compares only, exit 1 where one has
    changed."""
    _one_thread()
    from learned_mapping_companion import fingerprints

    with steps_progress("fingerprint", "method") as progress:
        measured = fingerprints.measure(options.keys, progress)
    changed = fingerprints.changed(measured)
    if not options.check:
        fingerprints.store(measured, only_these=not options.keys)
    text = "\n".join([*changed, f"{len(changed)} of {len(measured)} changed"])
    return report(
        options,
        {"measured": list(measured), "changed": changed},
        text,
        not (options.check and changed),
    )


def _one_thread() -> None:
    """Effective because no numerical library is imported yet."""
    for name, value in SINGLE_THREAD.items():
        os.environ.setdefault(name, value)
