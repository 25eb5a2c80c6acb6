"""The output of the commands: what they print and where they write."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, is_whole, shown

JSON_ENDINGS = (".json", ".json.gz")


def unknown_costs(metadata: Mapping[str, Any]) -> str:
    """A line on the ops of unknown cost that a graph's or a program's metadata tell of; empty for
    none."""
    unknown = metadata.get("unknown_ops")
    if not isinstance(unknown, Mapping) or not all(is_whole(n) for n in unknown.values()):
        return ""
    count, named = sum(unknown.values()), shown(", ".join(map(str, unknown)), 400)
    plural = "s" if count > 1 else ""
    return f"{count:,} op{plural} of unknown cost: {named}; charged 1 FLOP per element" * (
        count > 0
    )


def guessed_parameters(metadata: Mapping[str, Any]) -> str:
    """A line on the arguments of a model that were taken for parameters; empty for none."""
    guess = metadata.get("guessed_parameters")
    count, size = (guess.get(key) if isinstance(guess, Mapping) else None for key in GUESSED)
    if not is_whole(count) or not is_whole(size) or not 0 < count <= 10**9 or not 0 <= size < 2**60:
        return ""
    unit, each = next((u, e) for u, e in UNITS if size >= e or e == 1)
    who, looks = ("argument", "looks like a parameter"), ("arguments", "look like parameters")
    noun, verb = looks if count > 1 else who
    return (
        f"{count:,} {noun} of {size / each:.3g} {unit} {verb}; `lmap trace --parameters none`"
        " treats them as inputs"
    )


def rounds_at_most(metadata: Mapping[str, Any]) -> str:
    """A line on a loop that may end before the rounds that are charged; empty for none."""
    rounds = metadata.get("rounds_at_most")
    if not is_whole(rounds) or not 1 < rounds <= 10**9:
        return ""
    return f"a loop that may end earlier is charged its most rounds, {rounds:,}"


def shared_weights(graph: Any) -> str:
    """A line on weights that are well above the parameters of the model: what several ops use
    counts for each of them, as constants do; empty for none."""
    distinct = graph.metadata.get("parameter_bytes")
    counted = int(graph.op_weight_bytes.sum()) if hasattr(graph, "op_weight_bytes") else 0
    if not is_whole(distinct) or not 0 < (1 + ABOVE) * distinct < counted:
        return ""
    return (
        f"{counted / 1e6:.3g} MB of weights, of {distinct / 1e6:.3g} MB of parameters: what several"
        " ops use, and constants, count in memory for each use"
    )


ABOVE = 0.01  # Less than this share more is what small constants take.
GUESSED = ("arguments", "bytes")
UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 1000), ("bytes", 1))


NOTES: list[str] = []
"""Lines for stderr that are said with the answer: a refusal stands alone."""


def tell_notes() -> None:
    """Says what a user may have missed, before the answer."""
    while NOTES:
        print(NOTES.pop(0), file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON object on one line; numbers that JSON lacks become null."""
    tell_notes()
    print(json.dumps(_finite(value), allow_nan=False, default=_plain))


def report(options: Any, value: Any, text: object, good: object = True) -> int:
    """Prints what a command found, `value` with ``--json``, else `text`; its exit code, 1 for a
    no."""
    if options.json:
        print_json(value)
    else:
        tell_notes()
        print(text)
    return 0 if good else 1


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two spaces apart; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )


def check_out(out: str, endings: Sequence[str], inputs: Sequence[str]) -> Path:
    """The path of an output file, before any work is spent on its content.

    Raises:
      InputError: another ending, a folder, one of the inputs, or a place that cannot be written.
    """
    path = Path(out)
    if not str(path).endswith(tuple(endings)):
        raise InputError(out, "", f"the name of this output ends in {' or '.join(endings)}")
    try:
        if path.is_dir():
            raise InputError(out, "", "is a folder, expected a file")
        if path.exists() and not path.is_file():
            raise InputError(out, "", "is not a regular file")
        if path.exists() and any(
            os.path.exists(source) and path.samefile(source) for source in inputs
        ):
            raise InputError(out, "", "would overwrite an input")
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise InputError(out, "", f"cannot be written ({folder} is not a folder)")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(out, "", f"cannot be written (no permission in {folder})")
    except (OSError, ValueError) as error:
        raise InputError(
            out, "", f"cannot be written ({getattr(error, 'strerror', None) or error})"
        ) from None
    return path


@contextmanager
def search_progress(
    label: str, seconds: float | None, samples: int | None, interrupted: Sequence[int] = ()
) -> Iterator[Any]:
    """A callback (samples, seconds, best) for `Budget` that moves a bar on a terminal's stderr, and
    ends the budget once something is in `interrupted`."""
    from tqdm import tqdm

    total = samples if samples is not None else seconds
    unit = "evaluation" if samples is not None else "s"
    bar_options = {"desc": label, "unit": unit, "file": sys.stderr, "disable": None, "leave": False}
    with tqdm(total=total, unit_scale=True, **bar_options) as bar:

        def report(done_samples: int, done_seconds: float, best: float | None) -> bool:
            bar.n = done_samples if samples is not None else round(done_seconds, 1)
            if best is not None:
                bar.set_postfix_str(f"best {best:.6g}", refresh=False)
            bar.refresh()
            return bool(interrupted)

        yield report


@contextmanager
def steps_progress(label: str, unit: str) -> Iterator[Any]:
    """A callback (steps done, steps in all) that moves a bar on a terminal's stderr."""
    from tqdm import tqdm

    with tqdm(desc=label, unit=unit, file=sys.stderr, disable=None, leave=False) as bar:

        def report(done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.refresh()

        yield report
