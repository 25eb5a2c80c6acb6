"""The ledger: for each artifact its command, what it costs, when it last ran, and whether it is fresh."""

from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.artifact import PAPERS, TABLE
from learned_mapping.errors import InputError

STATES = ("fresh", "stale", "not yet run", "damaged")


def entries(profile: str = "full") -> list[dict[str, Any]]:
    """One row per artifact, from its stored result.

    Args:
      profile: of the results to look at.

    Returns:
      Rows with ``id``, ``paper``, ``title``, ``command``, ``state`` (one of `STATES`), ``changed`` (why it is
      stale) and, None where nothing is
      stored, ``profile``, ``seeds``, ``created``, ``seconds``, ``peak_bytes``, ``runs``, ``validated``.
    """
    rows = []
    for artifact_id, title, _, _ in TABLE:
        fault = ""
        try:
            result = results.stored(artifact_id, profile)
        except InputError as error:
            result, fault = None, str(error)
        row: dict[str, Any] = {"id": artifact_id, "paper": PAPERS[artifact_id.partition(".")[0]], "title": title}
        row["command"] = f"lmap make {artifact_id} --profile {profile}"
        row["changed"] = [fault] * bool(fault) if result is None else results.staleness(result)
        row["state"] = "not yet run" if result is None else "stale" if row["changed"] else "fresh"
        row["state"] = "damaged" if fault else row["state"]
        for key in ("profile", "seeds", "created", "seconds", "peak_bytes", "validated"):
            row[key] = None if result is None else result[key]
        row["runs"] = None if result is None else len(result["runs"])
        rows.append(row)
    return rows


def totals(profile: str = "full") -> dict[str, Any]:
    """Sums over the ledger: artifacts, how many are stored and fresh, seconds of work, solutions validated."""
    rows = entries(profile)
    stored = [row for row in rows if row["created"] is not None]
    return {
        "artifacts": len(rows),
        "stored": len(stored),
        "fresh": sum(row["state"] == "fresh" for row in rows),
        "seconds": sum(row["seconds"] for row in stored),
        "validated": sum(row["validated"] for row in stored),
    }


def ledger_table(profile: str = "full"):
    """The ledger as an HTML table for the book."""
    from learned_mapping.companion.display import minutes, number, simple_table

    names = ("artifact", "state", "work", "memory", "last run")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = ""
    for row in entries(profile):
        missing = row["created"] is None
        cells = [
            f'<span class="lm-{"fresh" if row["state"] == "fresh" else "stale"}">{row["state"]}</span>',
            "–" if missing else f"{minutes(row['seconds'])}<br>{number(row['runs'])} runs",
            "–" if missing else f"{row['peak_bytes'] / 2**20:,.0f} MiB",
            "–" if missing else f"{row['created'][:10]}<br>{row['seeds']} seeds",
        ]
        body += f'<tr><td class="lm-wrap">{row["title"]}<br><code>{row["command"]}</code></td>'
        body += "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    return simple_table(f"Artifacts, profile {profile}", f"<tr>{head}</tr>", body)
