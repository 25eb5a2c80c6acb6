"""``lmap bench``: MMapBench listed, run, and added to."""

from pathlib import Path
from typing import Any

from learned_mapping.cli.output import first_use, print_json, print_table, steps_progress
from learned_mapping.errors import InputError


def bench(options: Any) -> int:
    """Performs one of the actions ``list``, ``run`` and ``submit``."""
    return {"list": _list, "run": _run, "submit": _submit}[options.action](options)


def _list(options: Any) -> int:
    from dataclasses import asdict

    from learned_mapping.companion.mmap.bench import standings

    if options.what:
        raise InputError("bench list", "", f"takes no {options.what[0]!r}")
    table = standings()
    if options.json:
        print_json({"programs": [asdict(row) for row in table.values()]})
        return 0
    lines = [("PROGRAM", "BUFFERS", "BEST", "BOUND", "LATENCY MS", "BY", "SINCE")]
    for row in table.values():
        numbers = (f"{row.buffers:,}", f"{row.best:.6f}", f"{row.bound:.6f}", f"{1e3 * row.latency_s:.4f}")
        lines.append((row.program, *numbers, row.by, row.date))
    print_table(lines)
    print(f"{len(table)} programs, mean return {_mean([row.best for row in table.values()]):.4f}")
    return 0


def _run(options: Any) -> int:
    from learned_mapping.companion.mmap import bench as room
    from learned_mapping.mmap.methods import PROBLEM

    if len(options.what) != 1:
        raise InputError("bench run", "", "expected one METHOD")
    method = options.what[0]
    PROBLEM.method(method)
    table = room.standings()
    chosen = options.instances or tuple(table)
    unknown = [name for name in chosen if name not in table]
    if unknown:
        raise InputError("--instances", unknown[0], "is none of the sixty; `lmap bench` names them")
    out = None if options.out is None else Path(options.out)
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(out, "", "is a file, expected a folder")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    scores = []
    with steps_progress(method, "program") as progress, first_use():
        for number, name in enumerate(chosen, 1):
            scores.append(room.run(room.load(name), method, options.track, options.seed, out))
            progress(number, len(chosen))
    better = [s for s in scores if s.value > table[s.program].best + room.SAME]
    level = sum(abs(s.value - table[s.program].best) <= room.SAME for s in scores)
    invalid = sum(not s.valid for s in scores)
    means = [_mean(column) for column in zip(*((s.value, table[s.program].best) for s in scores))]
    if options.json:
        rows = [vars(s) | {"best": table[s.program].best, "bound": table[s.program].bound} for s in scores]
        print_json({"method": method, "track": options.track, "seed": options.seed, "programs": rows})
        return 1 if invalid else 0
    lines = [("PROGRAM", "RETURN", "BEST KNOWN", "BOUND", "LATENCY MS", "SECONDS")]
    for s in scores:
        known = table[s.program]
        value = f"{s.value:.6f}" if s.valid else "invalid"
        numbers = (value, f"{known.best:.6f}", f"{known.bound:.6f}", f"{1e3 * s.latency_s:.4f}", f"{s.seconds:.1f}")
        lines.append((s.program, *numbers))
    print_table(lines)
    print(
        f"mean return {means[0]:.4f}, of the best known {means[1]:.4f}; above it on {len(better)}, level on {level}, "
        f"below on {len(scores) - len(better) - level} of {len(scores)}; {invalid} invalid"
    )
    if better and out is not None:
        files = " ".join(str(out / f"{s.program}{room.MAPPING}") for s in better)
        print(f"above the best known: lmap bench submit {files}")
    return 1 if invalid else 0


def _submit(options: Any) -> int:
    from learned_mapping.companion.mmap.bench import SAME, submit

    if not options.what:
        raise InputError("bench submit", "", "expected MAPPING.json ...")
    if not options.by or not options.by.isprintable() or len(options.by) > 100:
        raise InputError("--by", "", "says who or what found the mapping, in at most 100 characters")
    rows, entered = [], 0
    for path in options.what:
        scored, before = submit(path, options.by)
        above = scored.valid and scored.value > before.best + SAME
        entered += above
        rows.append(vars(scored) | {"file": path, "best_before": before.best, "entered": above})
        if options.json:
            continue
        if not scored.valid:
            print(f"{path}: invalid: {scored.violation}")
        else:
            word = "entered" if above else "not above it"
            print(f"{path}: {scored.program} {scored.value:.6f}, best known {before.best:.6f}: {word}")
    if options.json:
        print_json({"submitted": rows})
    return 0 if entered == len(rows) else 1


def _mean(values: Any) -> float:
    return sum(values) / max(len(values), 1)
