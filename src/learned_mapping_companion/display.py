"""Results as the book's chapters show them: tables with the paper's numbers beside ours, and a line
of provenance."""

import datetime
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from learned_mapping_companion import results
from learned_mapping_companion.artifact import find_artifact, read_table


class Html(str):
    """HTML text that a notebook renders: the only text that a table takes as markup, all other is
    escaped."""

    def _repr_html_(self) -> str:
        return str(self)


def escaped(value: Any) -> Html:
    """A value as HTML: what is `Html` as it is, all else as text."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def quick(artifact_id: str) -> dict[str, Any]:
    """The result of the ``quick`` profile, performed now unless the same code has already performed
    it here."""
    return results.make(artifact_id, "quick", progress=False)


def show_result(artifact_id: str, **options: Any) -> Html:
    """The stored result of an artifact as a `table` with its provenance, or how to make one."""
    result = results.stored(artifact_id)
    if result is None:
        title, command = find_artifact(artifact_id).title, f"lmap make {artifact_id} --profile full"
        return Html(
            f'<p class="lm-provenance"><b>{escaped(title)}</b>: no stored <em>full</em> result yet.'
            f" <code>{escaped(command)}</code> makes it.</p>"
        )
    return Html(table(result, **options) + provenance_line(result))


def provenance_line(result: dict[str, Any], *, state: bool = True) -> Html:
    """Profile, seeds, minutes, machine and date of a result; with `state` whether it is fresh."""
    machine = result["machine"]
    day = datetime.datetime.fromisoformat(result["created"]).date().isoformat()
    parts = [
        f"<code>{escaped(result['id'])}</code>, profile <em>{escaped(result['profile'])}</em>",
        f"<code>--seeds {result['seeds']}</code>",
        f"{minutes(result['seconds'])} of work on"
        f" {escaped(_processors(machine))},"
        f" {plural(machine.get('cores', 0), 'core')}" + _rates(machine),
        f"{plural(result['validated'], 'solution')} validated, {result['invalid']} invalid",
        day,
    ]
    if not result["validated"]:  # a drawing: there was nothing to solve
        parts = [*parts[:2], day]
    if state:
        changed = results.staleness(result)
        meaning = (
            f"changed since: {', '.join(changed)}" if changed else "its methods still do the same"
        )
        word = "stale" if changed else "fresh"
        parts.append(f'<span class="lm-{word}" title="{escaped(meaning)}">{word}</span>')
    return Html(f'<p class="lm-provenance">{" · ".join(parts)}</p>')


def _processors(machine: dict[str, Any]) -> str:
    """The kinds of processors that performed the runs, that of most first; where no run says it,
    that of the machine which assembled the result."""
    cpus = machine.get("cpus") or [machine.get("cpu", "?")]
    return " and ".join(dict.fromkeys(cpu.partition(" (family")[0] for cpu in cpus))


def _rates(machine: dict[str, Any]) -> str:
    """The speed of the cores that performed the runs, in units of the reference core; empty where
    no run says it."""
    if "rates" not in machine:
        return ""
    least, most = (f"{rate:.2f}" for rate in machine["rates"])
    return f" at {least}{'' if least == most else f' to {most}'} of the reference core's rate"


def caption(metric: str) -> str:
    """The caption of a metric's table, from ``captions.yml``; a plain word is its own."""
    plain = metric.replace("_", " ")
    return read_table("captions.yml").get(metric, plain[:1].upper() + plain[1:])


def table(
    result: dict[str, Any],
    *,
    metrics: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    instances: Sequence[str] | None = None,
    paper: bool = True,
    key: bool = False,
    joined: str = "",
) -> Html:
    """One table per metric: instances against methods, each cell our value, its 95% interval, and
    the paper's number.

    Args:
      result: as `results.make` and `results.load` return it.
      metrics, methods, instances: which, in this order; None for all, in the order of the rows.
      paper: show the paper's numbers.
      key: as for `grid`.
      joined: title of the one table that takes their place: a column per metric, a row per method,
        or per instance where there is one method.
    """
    groups = {"ours": result["rows"], "paper": result["paper"] if paper else []}
    cells: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for origin, rows in groups.items():
        for row in rows:
            cells.setdefault((row["metric"], row["instance"], row["method"]), {})[origin] = row
    chosen, repeated = metrics or list(dict.fromkeys(key[0] for key in cells)), _repeated(result)
    if joined:
        cells = {
            key_: cell
            for key_, cell in cells.items()
            if key_[0] in chosen
            and (not methods or key_[2] in methods)
            and (not instances or key_[1] in instances)
        }
        place = 2 if len({key_[2] for key_ in cells}) > 1 else 1
        texts = {
            (key_[place], caption(key_[0])): _cell(cell, repeated) for key_, cell in cells.items()
        }
        return grid(
            joined,
            list(dict.fromkeys(row for row, _ in texts)),
            [*map(caption, chosen)],
            texts,
            key=key,
        )
    pieces = []
    for metric in chosen:
        keys = [key for key in cells if key[0] == metric]
        down = [
            i
            for i in instances or dict.fromkeys(key[1] for key in keys)
            if any(k[1] == i for k in keys)
        ]
        across = [
            m
            for m in methods or dict.fromkeys(key[2] for key in keys)
            if any(k[2] == m for k in keys)
        ]
        texts = {key[1:]: _cell(cells[key], repeated) for key in keys}
        pieces.append(grid(caption(metric), down, across, texts, key=key))
    return Html("".join(pieces))


def grid(
    title: str,
    down: Sequence[str],
    across: Sequence[str],
    cells: dict[tuple[str, str], str],
    *,
    key: bool = False,
) -> Html:
    """A table of cells keyed by (row, column); turned on its side where that makes it
    narrower. The book folds long tables, but for those that are `key` to their page."""
    if len(across) > max(len(down), 4):
        down, across, cells = (
            across,
            down,
            {(column, row): cell for (row, column), cell in cells.items()},
        )
    body = "".join(
        f'<tr><th scope="row">{_label(name)}</th>'
        + "".join(f"<td>{escaped(cells.get((name, column), ''))}</td>" for column in across)
        + "</tr>"
        for name in down
    )
    return simple_table(title, head_row(["", *map(_label, across)]), Html(body), key=key)


def crossed(title: str, cells: dict[tuple[str, str], str], *, key: bool = False) -> Html:
    """`grid` of all rows and columns of the cells, in the order in which they come."""
    down, across = (list(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
    return grid(title, down, across, cells, key=key)


def crossed_rows(
    result: dict[str, Any],
    title: str,
    metric: str,
    *,
    down: str = "{instance}",
    across: str = "{method}",
    cell: str = "",
    names: Mapping[str, Mapping[str, str]] | None = None,
    methods: Sequence[str] = (),
    instances: Sequence[str] | None = None,
    provenance: bool = False,
) -> Html:
    """`crossed` of the rows of a metric.

    Args:
      down, across, cell: formats over a row, such as ``"{value:.3f}"``; empty for `number` of the
        value.
      names: key of a row -> word there -> what is written in its place.
      methods, instances: which, methods in this order; all where there are none.
      provenance: whether `provenance_line` stands beneath.
    """
    texts, rows, repeated = (
        {},
        [row for row in result["rows"] if row["metric"] == metric],
        _repeated(result),
    )
    if methods:
        rows = sorted(
            (row for row in rows if row["method"] in methods),
            key=lambda row: methods.index(row["method"]),
        )
    for row in rows if instances is None else [row for row in rows if row["instance"] in instances]:
        context = row | {key: words.get(row[key], row[key]) for key, words in (names or {}).items()}
        words = cell.format_map(context) if cell else number(row["value"])
        words += f" ({ALONE})" if _alone(row, repeated) and "{n}" not in cell else ""
        texts[down.format_map(context), across.format_map(context)] = words
    line = provenance_line(result) if provenance else ""
    return Html(crossed(title, texts) + line)


def against(result: dict[str, Any], method: str, metric: str, title: str) -> Html:
    """The gains of a method over each of its baselines: a row a baseline, a column an instance,
    with intervals; the title may say ``{method}``."""
    rows = [
        row
        for row in result["rows"]
        if (row["method"], row["metric"]) == (method, metric) and "baseline" in row
    ]
    repeated = _repeated(result)
    cells = {(row["baseline"], row["instance"]): _cell({"ours": row}, repeated) for row in rows}
    return crossed(title.format(method=method), cells, key=True)


def listing(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Html:
    """A table of rows as they come: the first cell names the row, numbers are written by `number`,
    cells of more than 30 characters wrap. The first name of a column may be empty."""
    body = ""
    for first, *rest in rows:
        words = [number(cell.item() if hasattr(cell, "item") else cell) for cell in rest]
        cells = "".join(
            f"<td{' class=lm-wrap' if len(cell) > 30 else ''}>{escaped(cell)}</td>"
            for cell in words
        )
        body += f'<tr><th scope="row">{escaped(number(first))}</th>{cells}</tr>'
    return simple_table(title, head_row(head), Html(body))


def head_row(names: Iterable[str]) -> Html:
    """The first row of a table."""
    cells = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    return Html(f"<tr>{cells}</tr>")


def simple_table(caption: str, head: Html, body: Html, *, key: bool = False) -> Html:
    """A table in a box of its own that scrolls sideways on a narrow screen; `head` and `body` are
    its rows."""
    return Html(
        '<div class="lm-table" style="overflow-x:auto"><table'
        f' class="table{" lm-key" if key else ""}">'
        f"<caption>{escaped(caption)}</caption><thead>{escaped(head)}</thead>"
        f"<tbody>{escaped(body)}</tbody></table></div>"
    )


def number(value: Any) -> str:
    """A value as text: four digits within four decimals, two below a thousandth, a dash for
    nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (abs(value) >= 1e4 and abs(value) < 1e15):
        return f"{value:,.0f}"
    if value and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.3e}"
    if value and abs(value) < 1e-3:
        return f"{value:.2g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(digits, 4)}f}"


def minutes(seconds: float) -> str:
    """A duration in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def plural(count: int, noun: str) -> str:
    """``1 seed``, ``5 seeds``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def named_values(values: Mapping[str, Any], names: Iterable[str], form: str = "") -> str:
    """Values with their names before them, of the names given."""
    return ", ".join(f"{name.replace('_', ' ')} {values[name]:{form}}" for name in names)


ALONE = "n = 1"


def _repeated(result: dict[str, Any]) -> set[str]:
    """The metrics that some cell of a result has of more than one run; rows of all instances
    together are no cells."""
    return {
        row["metric"] for row in result["rows"] if row.get("n", 0) > 1 and row["instance"] != "all"
    }


def _alone(row: dict[str, Any], repeated: set[str]) -> bool:
    """Whether a row is of one run, and rows beside it of more."""
    return row.get("n") == 1 and row["metric"] in repeated


def _cell(origins: dict[str, dict[str, Any]], repeated: set[str]) -> Html:
    """Our value, its interval, or that it is of one run where others of its metric are `repeated`;
    the paper's."""
    lines = []
    if "ours" in origins:
        row = origins["ours"]
        lines.append(f"<b>{escaped(number(row['value']))}</b>")
        if row.get("low") is not None and row.get("high") is not None and row["low"] != row["high"]:
            lines.append(
                f'<span class="lm-interval">{number(row["low"])} to {number(row["high"])}</span>'
            )
        if _alone(row, repeated):
            lines.append(f'<span class="lm-interval">{ALONE}</span>')
    if "paper" in origins:
        lines.append(
            f'<span class="lm-paper">paper {escaped(number(origins["paper"]["value"]))}</span>'
        )
    return Html("<br>".join(lines))


def _label(name: object) -> Html:
    """A name that may break after an underscore, so that long ones push no column out of sight."""
    return name if isinstance(name, Html) else Html(escaped(name).replace("_", "_<wbr>"))
