"""``lmap data``: the data sets listed, built anew, verified."""

import argparse
from pathlib import Path

from learned_mapping.cli.output import JSON_ENDINGS, print_json, report, steps_progress, table
from learned_mapping.errors import InputError


def data(options: argparse.Namespace) -> int:
    """Performs one of the actions ``list``, ``build`` and ``verify``."""
    if options.out is not None and options.action != "build":
        raise InputError("--out", "", "goes with build")
    if options.files and options.action == "build":
        raise InputError("--files", "", "goes with list and verify")
    if options.files:
        return _files(options)
    return {"list": _list, "build": _build, "verify": _verify}[options.action](options)


def _list(options: argparse.Namespace) -> int:
    from learned_mapping.folders import data_folder
    from learned_mapping_companion.datasets.manifest import SPLITS
    from learned_mapping_companion.datasets.registry import bytes_of, files_of, find_sets

    rows, lines = [], [("SET", "ITEMS", "SPLITS", "FILES", "BYTES", "DIGEST", "ABOUT")]
    for data_set in find_sets(options.sets):
        manifest = data_set.manifest()
        present = files_of(data_set.path)
        row = {
            "set": data_set.name,
            "folder": data_set.folder,
            "items": None,
            "splits": {},
            "files": len(present),
        }
        row |= {"bytes": bytes_of(present), "digest": None, "about": data_set.about}
        if manifest is not None:
            counts = {split: len(manifest.split(split)) for split in SPLITS}
            row["splits"] = {split: count for split, count in counts.items() if count}
            row |= {
                "items": len(manifest.items),
                "digest": manifest.digest,
                "about": manifest.about,
            }
        rows.append(row)
        splits = ", ".join(f"{split} {count:,}" for split, count in row["splits"].items()) or "-"
        cells = (
            ("not built", "-")
            if row["items"] is None
            else (f"{row['items']:,}", row["digest"][:16])
        )
        lines.append(
            (
                row["set"],
                cells[0],
                splits,
                f"{row['files']:,}",
                f"{row['bytes']:,}",
                cells[1],
                row["about"],
            )
        )
    size, total = sum(row["bytes"] for row in rows), bytes_of(files_of(data_folder()))
    text = f"{table(lines)}\n{size:,} bytes in sets, {total:,} with results and records"
    return report(options, {"sets": rows, "bytes": size, "all_bytes": total}, text)


def _build(options: argparse.Namespace) -> int:
    from learned_mapping_companion.datasets.registry import builder, find_sets

    if not options.sets:
        raise InputError("build", "", "name the sets to build (see: lmap data list)")
    chosen = find_sets(options.sets)
    for data_set in chosen:
        data_set.require_extra()
    targets = [
        data_set.path if options.out is None else Path(options.out) / data_set.folder
        for data_set in chosen
    ]
    for target in targets if options.out is not None else ():  # what somebody has there stays
        try:
            occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
        except (OSError, ValueError) as error:
            raise InputError(
                target, "", f"cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from None
        if occupied:
            raise InputError(target, "", "exists and is not an empty folder")
    rows = []
    for data_set, target in zip(chosen, targets):
        try:
            stored = data_set.manifest()
        except InputError:  # a damaged one, which building mends
            stored = None
        with steps_progress(f"building {data_set.name}", "item") as progress:
            manifest = builder("building").build_in(data_set, target, progress=progress)
        state = "new" if stored is None else "same" if stored == manifest else "changed"
        rows.append(
            {
                "set": data_set.name,
                "state": state,
                "items": len(manifest.items),
                "digest": manifest.digest,
            }
        )
        rows[-1]["folder"] = str(target)
        if not options.json:
            print(
                f"{data_set.name}: {state}, {len(manifest.items):,} items, {manifest.digest[:16]}"
                f" -> {target}"
            )
    if options.json:
        print_json({"sets": rows})
    return 0


def _verify(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from learned_mapping_companion.datasets.registry import builder, find_sets

    chosen = find_sets(options.sets)
    everything = not options.sets
    total, verified = (
        len(chosen) + 4 * everything,
        builder("verify").verify(chosen, everything=everything),
    )
    verdicts = list(tqdm(verified, total=total, disable=None, leave=False))
    faults = sum(len(verdict.faults) for verdict in verdicts)
    lines = [("CHECKED", "ITEMS", "FILES", "BYTES", "VERDICT")]
    for v in verdicts:
        verdict = (
            "as stated"
            if not v.faults
            else "1 fault"
            if len(v.faults) == 1
            else f"{len(v.faults):,} faults"
        )
        lines.append((v.name, f"{v.items:,}", f"{v.files:,}", f"{v.bytes:,}", verdict))
    answer = [
        table(lines),
        *(f"{verdict.name}: {fault}" for verdict in verdicts for fault in verdict.faults),
    ]
    rows = [dict(vars(verdict), faults=list(verdict.faults)) for verdict in verdicts]
    return report(options, {"valid": faults == 0, "checked": rows}, "\n".join(answer), not faults)


def _files(options: argparse.Namespace) -> int:
    """Every data file but the results, in a set or not; with ``verify`` also what it is and its
    checksums."""
    from learned_mapping.folders import data_folder
    from learned_mapping.programs.json_io import file_sha256, read_json, schema_name
    from learned_mapping_companion.datasets.registry import READERS, bytes_of, files_of, find_sets

    wanted = (
        [data_set.path for data_set in find_sets(options.sets)] if options.sets else [data_folder()]
    )
    rows = []
    for path in (path for folder in wanted for path in files_of(folder)):
        relative = path.relative_to(data_folder())
        if relative.parts[0] == "results" or not path.name.endswith(
            (*JSON_ENDINGS, ".npz", ".csv")
        ):
            continue
        row = {"file": relative.as_posix(), "bytes": bytes_of([path])}
        if options.action == "verify":
            node = read_json(path) if path.name.endswith(JSON_ENDINGS) else None
            kind = schema_name(node) if node else path.suffix[1:]
            instance = READERS[kind](node) if kind in READERS else None
            row |= {
                "kind": kind,
                "digest": getattr(instance, "digest", "")[:16],
                "sha256": file_sha256(path),
            }
        rows.append(row)
    if rows or options.json:
        lines = [tuple(map(str, row.values())) for row in rows]
        report(options, {"files": rows}, table([*map(tuple, rows[:1]), *lines]))
    return 0
