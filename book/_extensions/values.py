"""Numbers within a line of text that come from the code and from stored results, so that no text
can be behind them.

    {value}`of("mmap.agent.config").WHOLE.simulations`
    {value}`row("mcm.fig7", "bert", "uniform", "pearson"):.2f`
    {value}`100 * record("mcm/silicon.json")["invalid"]:.1f`

The expression may have a format behind a colon. One that cannot be evaluated fails the build.
"""

import importlib
import json
import re
from typing import Any

from docutils import nodes

from learned_mapping.folders import data_folder
from learned_mapping_companion import results

FORMAT = re.compile(r"^(?P<expression>.*?)(?::(?P<form>[+,]*(?:\.\d+)?[fgde%]?))?$", re.S)


def of(module: str) -> Any:
    """A module of the library, such as ``mmap.agent.config``, or of the companion,
    ``companion.claims``."""
    return importlib.import_module(
        f"learned_mapping{'_' if module.startswith('companion.') else '.'}{module}"
    )


def row(artifact: str, instance: str, method: str, metric: str, **keys: Any) -> Any:
    """The value of the one row of a stored result that these name; a further key ``end`` is ``low``
    or ``high``."""
    end = keys.pop("end", "value")
    matching = results.select(
        results.load(artifact), instance=instance, method=method, metric=metric, **keys
    )
    if len(matching) != 1:
        raise ValueError(
            f"{artifact}: {len(matching)} rows are {instance}, {method}, {metric}, {keys}"
        )
    return matching[0][end]


def rows(artifact: str, **keys: Any) -> list[Any]:
    """The values of all rows of a stored result that have these cells."""
    return [entry["value"] for entry in results.select(results.load(artifact), **keys)]


def record(file: str) -> Any:
    """What a JSON file of the data folder holds."""
    return json.loads((data_folder() / file).read_text(encoding="utf-8"))


NAMES = {known.__name__: known for known in (of, row, rows, record, min, max, len, sum, abs)}


def text_of(words: str) -> str:
    """What the role shows; raises `ValueError` where the expression cannot be evaluated."""
    parts = FORMAT.match(words)
    assert parts is not None
    try:
        value = eval(parts["expression"], {"__builtins__": {}, **NAMES})
        return format(value, parts["form"] or "")
    except Exception as error:
        raise ValueError(f"value {words!r}: {type(error).__name__}: {error}") from error


def value(name, rawtext, text, lineno, inliner, options=None, content=None) -> tuple[list, list]:
    """The role."""
    return [nodes.Text(text_of(text))], []


def setup(app) -> dict:
    app.add_role("value", value)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
