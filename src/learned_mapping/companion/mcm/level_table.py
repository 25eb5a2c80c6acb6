"""Tables 2 and 3 of paper 2 as a chapter shows them: methods against levels, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.display import Html, grid


def level_table(
    result: Mapping[str, Any],
    caption: str,
    *,
    levels: Collection[str] | None = None,
    paper_seconds_a_sample: float | None = None,
) -> Html:
    """Samples to every level by method; a dash is a level not reached, an empty cell one that was not tried.

    Args:
      result: of ``mcm.table2`` or ``mcm.table3``; where it has rows ``minutes``, they stand beside the samples.
      caption: the table's.
      levels: which; all where None.
      paper_seconds_a_sample: what turns the paper's samples into minutes; None leaves these out.
    """
    ours = _by_method_and_level(results.select(result, metric="samples"))
    minutes = _by_method_and_level(results.select(result, metric="minutes"))
    paper = _by_method_and_level(results.select(result, "paper", metric="samples"))
    keys = [key for key in dict.fromkeys((*ours, *paper)) if levels is None or key[1] in levels]
    down, across = (list(dict.fromkeys(key[place] for key in keys)) for place in (0, 1))
    scale = None if paper_seconds_a_sample is None else paper_seconds_a_sample / 60
    cells = {}
    for key in keys:
        lines = [_amount(ours[key], minutes.get(key))] if key in ours else []
        if key in paper:
            count = paper[key]
            took = None if count is None or scale is None else count * scale
            lines.append(f'<span class="lm-paper">paper {_amount(count, took)}</span>')
        cells[key] = "<br>".join(lines)
    return grid(caption, down, across, cells)


def _by_method_and_level(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    return {(row["method"], row["target"]): row["value"] for row in rows}


def _amount(samples: float | None, minutes: float | None) -> str:
    """``36, 16.2 min``; a dash where there are no samples."""
    if samples is None:
        return "–"
    return f"{samples:,.0f}" if minutes is None else f"{samples:,.0f}, {minutes:.1f} min"
