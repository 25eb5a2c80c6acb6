"""The ledger: for each artifact its command, what it costs, when it last ran, whether it is fresh.

And ``lmap verify``: stored runs computed again, and compared value by value.
"""

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from learned_mapping.clock import cpu_model
from learned_mapping.errors import InputError
from learned_mapping.folders import project_folder
from learned_mapping_companion import fingerprints, results
from learned_mapping_companion.artifact import DEFAULT_SEEDS, PAPERS, RUN, TABLE, Run
from learned_mapping_companion.display import Html, escaped, head_row, minutes, plural, simple_table
from learned_mapping_companion.records import read_records
from learned_mapping_companion.worker import perform


def entries(profile: str = "full") -> list[dict[str, Any]]:
    """One row per artifact, from its stored result of a profile.

    Returns:
      Rows with ``id``, ``paper``, ``title``, ``command``, ``state`` (fresh, stale, not yet run or
      damaged), ``changed`` (why it is stale) and, None where nothing is stored, ``profile``,
      ``seeds``, ``created``, ``seconds``, ``peak_bytes``, ``runs``, ``validated``.
    """
    rows = []
    for artifact_id, entry in TABLE.items():
        fault = ""
        try:
            result = results.stored(artifact_id, profile)
        except InputError as error:
            result, fault = None, str(error)
        paper = PAPERS[artifact_id.partition(".")[0]]
        row: dict[str, Any] = {"id": artifact_id, "paper": paper, "title": entry["title"]}
        options = (
            ""
            if result is None or result["seeds"] == DEFAULT_SEEDS[profile]
            else f" --seeds {result['seeds']}"
        )
        row["command"] = f"lmap make {artifact_id} --profile {profile}{options}"
        row["changed"] = [fault] * bool(fault) if result is None else results.staleness(result)
        row["state"] = "not yet run" if result is None else "stale" if row["changed"] else "fresh"
        row["state"] = "damaged" if fault else row["state"]
        for key in ("profile", "seeds", "created", "seconds", "peak_bytes", "validated"):
            row[key] = None if result is None else result[key]
        row["runs"] = None if result is None else len(result["runs"])
        rows.append(row)
    return rows


def page_of(artifact_id: str) -> str:
    """The page of the book, and the section of it, that shows an artifact or uses it first; the
    ledger where none does.

    Its verdict goes before a table of it, and both before a cell that only reads it.
    """
    book = project_folder() / "book"
    pages = {
        path: path.read_text(encoding="utf-8")
        for folder in ("*/*.md", "*.md")
        for path in sorted(book.glob(folder))
    }
    for form in ("```{{sentence}} {}\n", 'show("{}"', '"{}"', "`{}`"):
        for path, text in pages.items():
            at = text.find(form.format(artifact_id))
            if at >= 0:
                headings = re.findall(r"^#{1,3} (.+)$", text[:at], re.M)
                anchor = (
                    re.sub(r"[^a-z0-9]+", "-", headings[-1].lower()).strip("-") if headings else ""
                )
                return f"{path.relative_to(book).with_suffix('').as_posix()}.html#{anchor}"
    return "ledger.html"


def ledger_table(profile: str = "full") -> Html:
    """The ledger as an HTML table for the book."""
    head = head_row(("artifact", "state", "work", "memory", "last run"))
    body = ""
    for row in entries(profile):
        missing = row["created"] is None
        colour = "fresh" if row["state"] == "fresh" else "stale"
        cells = [
            f'<span class="lm-{colour}">{escaped(row["state"])}</span>',
            "–" if missing else f"{minutes(row['seconds'])}<br>{plural(row['runs'], 'run')}",
            "–" if missing else f"{row['peak_bytes'] / 2**20:,.0f} MiB",
            "–" if missing else escaped(row["created"][:10]),
        ]
        title = f'<a href="{escaped(page_of(row["id"]))}">{escaped(row["title"])}</a>'
        body += f'<tr><td class="lm-wrap">{title}<br><code>{escaped(row["command"])}</code></td>'
        body += "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    return simple_table(f"Artifacts, profile {profile}", head, Html(body))


CLOCKED = ("seconds", "solver_time", "repeats")
"""Configurations that a clock decides: such a run cannot end the same twice."""
OTHER_TASKS = ("mmap.price",)  # Tasks that ask a compiler, which need not be installed.
TOLERANCE = 1e-9


def repeatable(record: Mapping[str, Any]) -> bool:
    """Whether a run is limited by samples alone."""
    return record["task"] not in OTHER_TASKS and not any(
        name in record["config"] for name in CLOCKED
    )


def of_another_processor(record: Mapping[str, Any]) -> bool:
    """Whether a run turns on last bits and was not made on this model of processor: here it may end
    elsewhere."""
    return record.get("cpu") != cpu_model() and fingerprints.turns_on_last_bits(
        Run(*(record[name] for name in RUN))
    )


def choose(count: int, seed: int) -> tuple[list[dict[str, Any]], int]:
    """Records of runs that can be repeated here, drawn without repetition, fewer where there are
    not so many; and how many are `of_another_processor`."""
    records = [
        record for name in TABLE for record in read_records(results.runs_path(name)).values()
    ]
    records = [record for record in records if repeatable(record)]
    comparable = [record for record in records if not of_another_processor(record)]
    chosen = random.Random(seed).sample(comparable, min(count, len(comparable)))
    return chosen, len(records) - len(comparable)


def differences(record: Mapping[str, Any]) -> list[str]:
    """A run computed again: where what the stored one keeps is another now, what a clock measured
    apart."""
    outcome = perform({name: record[name] for name in RUN})
    if "error" in outcome:
        return [outcome["error"]]
    old, new = (
        fingerprints.without_clocks(value) for value in (record["result"], outcome["result"])
    )
    return list(
        _compare(old, {name: value for name, value in new.items() if name in old}, "result")
    )


def _compare(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new:
                yield f"{where}.{key} is in one of them only"
            else:
                yield from _compare(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where} has {len(new)} entries, stored are {len(old)}"
        else:
            for i, (a, b) in enumerate(zip(old, new)):
                yield from _compare(a, b, f"{where}[{i}]")
    elif isinstance(old, float) or isinstance(new, float):
        if not abs(old - new) <= TOLERANCE * max(abs(old), abs(new)):
            yield f"{where} is {new!r}, stored is {old!r}"
    elif old != new:
        yield f"{where} is {new!r}, stored is {old!r}"
