"""``lmap bench``: MMapBench listed, methods run on it or on a set of one's own, mappings handed
in."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from learned_mapping.cli.output import print_json, report, steps_progress, table
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.json_io import check_writable

OPTIONS = {
    "track": "run", "instances": "run", "seed": "run", "set": "run", "out": "run", "by": "submit",
}  # fmt: skip
"""Options of one action alone."""


def bench(options: Any, enter: Callable[[str, str], Any] | None = None) -> int:
    """Performs one of the actions ``list``, ``run`` and ``submit``.

    Args:
      enter: (path, by) -> the score of a mapping, and the standing before; enters what is better.
        Where None, as in an installed package, mappings are judged and the standings stay.
    """
    for name, action in OPTIONS.items():
        if action != options.action and getattr(options, name) is not None:
            raise InputError(f"--{name}", "", f"is for bench {action}")
    if options.action == "submit":
        return _submit(options, enter)
    return {"list": _list, "run": _run}[options.action](options)


def _list(options: Any) -> int:
    from learned_mapping.mmap.bench import standings

    if options.what:
        raise InputError("bench list", "", f"takes no {options.what[0]!r}")
    known = standings().values()
    lines: list[tuple[str, ...]] = [
        ("PROGRAM", "BUFFERS", "BEST", "BEST GAME", "BOUND", "LATENCY MS", "BY", "SINCE")
    ]
    for row in known:
        returns = _digits(row.best, row.game, row.bound)
        numbers = (f"{row.buffers:,}", *returns, f"{1e3 * row.latency_s:.4f}")
        lines.append((row.program, *numbers, row.by, row.date))
    means = [sum(getattr(row, name) for row in known) / len(known) for name in ("best", "game")]
    last = f"{len(known)} programs, mean return {means[0]:.4f}, of games {means[1]:.4f}"
    return report(options, {"programs": [asdict(row) for row in known]}, f"{table(lines)}\n{last}")


def _run(options: Any) -> int:
    from learned_mapping.mmap import bench as room
    from learned_mapping.mmap.methods import PROBLEM

    methods = tuple(dict.fromkeys(options.what))
    if not methods:
        raise InputError("bench run", "", "expected one METHOD or more")
    for method in methods:
        PROBLEM.method(method)
    track, seed = options.track or "minute", options.seed or 0
    out = None if options.out is None else Path(options.out)
    if out is not None and len(methods) > 1:
        raise InputError("--out", "", "keeps the mappings of one method")
    if out is not None:
        check_writable(out)
    own = {} if options.set is None else room.own(Path(options.set))
    standings = {name: row for name, (row, _) in own.items()} if own else room.standings()
    chosen = options.instances or tuple(standings)
    unknown = [name for name in chosen if name not in standings]
    if unknown:
        fault = "is not of the set" if own else "is none of the sixty; `lmap bench` names them"
        raise InputError("--instances", unknown[0], fault)
    scores: dict[str, list[room.Score]] = {method: [] for method in methods}
    with steps_progress(", ".join(methods), "program") as progress:
        for number, name in enumerate(chosen, 1):
            program = own[name][1] if own else room.load(name)
            for method in methods:
                scores[method].append(room.run(program, method, track, seed, out))
            progress(number, len(chosen))
    rows = [standings[name] for name in chosen]
    clock = room.CLOCKS[track]
    means = [_mean_of(method, scores[method], rows, clock) for method in methods]
    first = scores[methods[0]]
    answer = [_table_of_one(first, rows) if len(methods) == 1 else _table(scores, rows)]
    answer += [_sentence(mean, own, len(methods) > 1) for mean in means]
    better = [s for s, row in zip(first, rows) if s.value > row.best + room.SAME]
    if better and out is not None and not own:
        files = " ".join(str(out / f"{s.program}{room.MAPPING}") for s in better)
        answer.append(f"above the best known: lmap bench submit {files}")
    content = {"track": track, "seed": seed, "means": means, "programs": [
        {"method": method, **vars(s), "best": row.best, "bound": row.bound}
        for method in methods for s, row in zip(scores[method], rows)
    ]}  # fmt: skip
    return report(options, content, "\n".join(answer), not any(m["invalid"] for m in means))


def _digits(*returns: float) -> tuple[str, ...]:
    return tuple(f"{value:.6f}" for value in returns)


def _known(row: Any) -> str:
    """The best return known, of a set of one's own nothing."""
    return _digits(row.best)[0] if row.by else "-"


def _table_of_one(scores: Sequence[Any], rows: Sequence[Any]) -> str:
    lines = [("PROGRAM", "RETURN", "BEST KNOWN", "BOUND", "LATENCY MS", "SECONDS")]
    for s, row in zip(scores, rows):
        value = _digits(s.value)[0] if s.valid else "invalid"
        costs = f"{1e3 * s.latency_s:.4f}", f"{s.seconds:.3g}"
        lines.append((s.program, value, _known(row), *_digits(row.bound), *costs))
    return table(lines)


def _table(scores: dict[str, list[Any]], rows: Sequence[Any]) -> str:
    """The returns of several methods side by side."""
    lines = [("PROGRAM", *(shown(method, 30) for method in scores), "BEST KNOWN", "BOUND")]
    for row, *of_program in zip(rows, *scores.values()):
        values = [_digits(s.value)[0] if s.valid else "invalid" for s in of_program]
        lines.append((row.program, *values, _known(row), *_digits(row.bound)))
    return table(lines)


def _mean_of(
    method: str, scores: Sequence[Any], rows: Sequence[Any], clock: float
) -> dict[str, Any]:
    """The mean return of a method with its interval over programs, how often it is above, level
    with or below the best known, and on how many programs it took much longer than its clock."""
    from learned_mapping.mmap.bench import LATE, SAME, interval

    low, high = interval([s.value for s in scores])
    above = [s.value - row.best for s, row in zip(scores, rows)]
    return {
        "method": method,
        "mean": sum(s.value for s in scores) / len(scores),
        "low": low,
        "high": high,
        "best_known": sum(row.best for row in rows) / len(rows),
        "above": sum(gap > SAME for gap in above),
        "level": sum(abs(gap) <= SAME for gap in above),
        "below": sum(gap < -SAME for gap in above),
        "invalid": sum(not s.valid for s in scores),
        "late": sum(s.seconds > LATE * clock for s in scores),
        "seconds": sum(s.seconds for s in scores),
    }


def _sentence(mean: dict[str, Any], own: Any, named: bool) -> str:
    whose = f"{shown(mean['method'], 60)}: " if named else ""
    text = f"{whose}mean return {mean['mean']:.4f} [{mean['low']:.4f}, {mean['high']:.4f}]"
    count = mean["above"] + mean["level"] + mean["below"]
    against = (
        f", of the best known {mean['best_known']:.4f}; above it on {mean['above']}, level on"
        f" {mean['level']}, below on {mean['below']} of {count}"
    )
    late = f"; over its time on {mean['late']} of {count}" if mean["late"] else ""
    ends = f"{mean['invalid']} invalid; {mean['seconds']:.3g} s{late}"
    return f"{text}{'' if own else against}; {ends}"


def _submit(options: Any, enter: Callable[[str, str], Any] | None) -> int:
    from learned_mapping.mmap.bench import SAME, judge, standings

    if not options.what:
        raise InputError("bench submit", "", "expected MAPPING.json ...")
    by = options.by or ""
    if not by.isprintable() or len(by) > 100 or (enter is not None and not by):
        fault = "says who or what found the mapping, in at most 100 characters"
        raise InputError("--by", "", fault)
    rows = []
    for path in options.what:
        if enter is None:
            program, _, scored = judge(path)
            before = standings()[program.name]
        else:
            scored, before = enter(path, by)
        above = scored.value > before.best + SAME or scored.game > before.game + SAME
        numbers = {"best_before": before.best, "above": above, "entered": above and bool(enter)}
        rows.append(vars(scored) | {"file": path} | numbers)
        if not options.json:  # at once: what is entered stays, whatever comes after it
            print(f"{path}: {_word(scored, before, enter is not None)}")
    if options.json:
        print_json({"submitted": rows})
    return 0 if all(row["above"] for row in rows) else 1


def _word(scored: Any, before: Any, enters: bool) -> str:
    """What became of a mapping that was handed in."""
    from learned_mapping.mmap.bench import SAME

    if not scored.valid:
        return f"invalid: {scored.violation}"
    values, best = (scored.value, scored.game), (before.best, before.game)
    better = [value > known + SAME for value, known in zip(values, best)]
    what = " and ".join(
        name for name, is_better in zip(("best mapping", "best game"), better) if is_better
    )
    known = (
        f"{scored.program} {values[0]:.6f}, as a game {values[1]:.6f}; known {best[0]:.6f} and"
        f" {best[1]:.6f}: "
    )
    entered = "entered as" if enters else "in a checkout the same command enters it as"
    return known + (f"{entered} the {what}" if what else "above neither")
