"""``lmap bench``: MMapBench listed, run, and added to."""

from pathlib import Path
from typing import Any

from learned_mapping.cli.output import print_json, report, steps_progress, table
from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import check_writable

OPTIONS = {"track": "run", "instances": "run", "seed": "run", "out": "run", "by": "submit"}
"""Options of one action alone."""


def bench(options: Any) -> int:
    """Performs one of the actions ``list``, ``run`` and ``submit``."""
    for name, action in OPTIONS.items():
        if action != options.action and getattr(options, name) is not None:
            raise InputError(f"--{name}", "", f"is for bench {action}")
    return {"list": _list, "run": _run, "submit": _submit}[options.action](options)


def _list(options: Any) -> int:
    from dataclasses import asdict

    from learned_mapping_companion.mmap.bench import standings

    if options.what:
        raise InputError("bench list", "", f"takes no {options.what[0]!r}")
    known = standings().values()
    lines = [("PROGRAM", "BUFFERS", "BEST", "BOUND", "LATENCY MS", "A GAME", "BY", "SINCE")]
    for row in known:
        numbers = (
            f"{row.buffers:,}",
            f"{row.best:.6f}",
            f"{row.bound:.6f}",
            f"{1e3 * row.latency_s:.4f}",
        )
        lines.append((row.program, *numbers, "yes" if row.game else "no", row.by, row.date))
    text = (
        f"{table(lines)}\n{len(known)} programs, mean return"
        f" {_mean([row.best for row in known]):.4f}"
    )
    return report(options, {"programs": [asdict(row) for row in known]}, text)


def _run(options: Any) -> int:
    from learned_mapping.mmap.methods import PROBLEM
    from learned_mapping_companion.mmap import bench as room

    if len(options.what) != 1:
        raise InputError("bench run", "", "expected one METHOD")
    method, track, seed = options.what[0], options.track or "minute", options.seed or 0
    PROBLEM.method(method)
    standings = room.standings()
    chosen = options.instances or tuple(standings)
    unknown = [name for name in chosen if name not in standings]
    if unknown:
        raise InputError("--instances", unknown[0], "is none of the sixty; `lmap bench` names them")
    out = None if options.out is None else Path(options.out)
    if out is not None:
        check_writable(out)
    scores = []
    with steps_progress(method, "program") as progress:
        for number, name in enumerate(chosen, 1):
            scores.append(room.run(room.load(name), method, track, seed, out))
            progress(number, len(chosen))
    better = [s for s in scores if s.value > standings[s.program].best + room.SAME]
    level = sum(abs(s.value - standings[s.program].best) <= room.SAME for s in scores)
    invalid = sum(not s.valid for s in scores)
    means = [
        _mean(column) for column in zip(*((s.value, standings[s.program].best) for s in scores))
    ]
    lines = [("PROGRAM", "RETURN", "BEST KNOWN", "BOUND", "LATENCY MS", "SECONDS")]
    for s in scores:
        known = standings[s.program]
        value = f"{s.value:.6f}" if s.valid else "invalid"
        numbers = (
            value,
            f"{known.best:.6f}",
            f"{known.bound:.6f}",
            f"{1e3 * s.latency_s:.4f}",
            f"{s.seconds:.1f}",
        )
        lines.append((s.program, *numbers))
    answer = [
        table(lines),
        (
            f"mean return {means[0]:.4f}, of the best known {means[1]:.4f}; above it on"
            f" {len(better)}, level on {level}, below on {len(scores) - len(better) - level} of"
            f" {len(scores)}; {invalid} invalid"
        ),
    ]
    if better and out is not None:
        files = " ".join(str(out / f"{s.program}{room.MAPPING}") for s in better)
        answer.append(f"above the best known: lmap bench submit {files}")
    rows = [
        vars(s) | {column: getattr(standings[s.program], column) for column in ("best", "bound")}
        for s in scores
    ]
    content = {"method": method, "track": track, "seed": seed, "programs": rows}
    return report(options, content, "\n".join(answer), not invalid)


def _submit(options: Any) -> int:
    from learned_mapping_companion.mmap.bench import SAME, submit

    if not options.what:
        raise InputError("bench submit", "", "expected MAPPING.json ...")
    if not options.by or not options.by.isprintable() or len(options.by) > 100:
        raise InputError(
            "--by", "", "says who or what found the mapping, in at most 100 characters"
        )
    rows = []
    for path in options.what:
        scored, before = submit(path, options.by)
        above = scored.valid and scored.value > before.best + SAME
        rows.append(vars(scored) | {"file": path, "best_before": before.best, "entered": above})
        if not options.json:  # at once: what is entered stays, whatever comes after it
            known = (
                ""
                if not scored.valid
                else f"{scored.program} {scored.value:.6f}, best known {before.best:.6f}: "
            )
            word = (
                "entered"
                if above
                else "not above it"
                if scored.valid
                else f"invalid: {scored.violation}"
            )
            print(f"{path}: {known}{word}")
    if options.json:
        print_json({"submitted": rows})
    return 0 if all(row["entered"] for row in rows) else 1


def _mean(values: Any) -> float:
    return sum(values) / max(len(values), 1)
