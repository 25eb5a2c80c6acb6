"""Sliders and menus over the parameters of a chapter's cell, in JupyterLab; in the rendered book
its defaults alone."""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import Markdown, display

from learned_mapping_companion.display import Html, escaped, named_values

STATIC = "LEARNED_MAPPING_STATIC"
"""Environment variable that is set while the book is rendered: its pages have no kernel."""


def knobs(function: Callable[..., Any], **choices: Sequence[Any]) -> None:
    """Shows what a function makes of its defaults, and again whenever a reader turns a knob: the
    new answer, and beneath it the one before. A button turns all knobs back.

    Args:
      shown: returns what is displayed, or a tuple of that; its defaults are where the knobs stand
        first.
      **choices: for each knob, a parameter with a default, its range (least, most, step) or a list
        of values.
    """
    defaults = {
        name: p.default
        for name, p in inspect.signature(function).parameters.items()
        if p.default is not p.empty
    }
    if unknown := set(choices) - set(defaults):
        raise TypeError(f"no parameters with a default: {', '.join(sorted(unknown))}")
    if os.environ.get(STATIC):
        display(*_pieces(function(**defaults)))
        named = ", ".join(name.replace("_", " ") for name in choices)
        display(Markdown(f"*With the defaults. In JupyterLab these are knobs: {named}.*"))
        return
    import ipywidgets

    turned = {name: _knob(name, defaults[name], choice) for name, choice in choices.items()}
    back = ipywidgets.Button(description="Turn back")
    display(*turned.values(), back)
    pieces = _pieces(function(**defaults))
    places = [
        display(piece, display_id=True)
        for piece in (*pieces, Markdown(""), *[Markdown("")] * len(pieces))
    ]
    latest = [named_values(defaults, choices), pieces]
    settled = [True]

    def turn(_: Any) -> None:
        if not settled[0]:
            return
        values = defaults | {name: knob.value for name, knob in turned.items()}
        try:
            output = function(**values)
        except Exception as fault:  # the reader may turn a knob to where there is no answer
            output = Html(f"<em>No answer here: {escaped(fault)}</em>")
        rows = (*_pieces(output), *[Markdown("")] * len(pieces))[: len(pieces)]
        for place, piece in zip(
            places, (*rows, Markdown(f"*Before, with {latest[0]}:*"), *latest[1]), strict=True
        ):
            place.update(piece)
        latest[:] = named_values(values, choices), rows

    def turn_back(_: Any) -> None:
        settled[0] = False
        for name, knob in turned.items():
            knob.value = defaults[name]
        settled[0] = True
        turn(None)

    back.on_click(turn_back)
    for knob in turned.values():
        knob.observe(turn, names="value")


def _pieces(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def _knob(name: str, value: Any, choice: Sequence[Any]) -> Any:
    import ipywidgets

    wide = {"description_width": "9em"}
    common = {"value": value, "description": name.replace("_", " "), "style": wide}
    if isinstance(choice, list):
        named = [
            (" ".join(map(str, one)) if isinstance(one, tuple) else str(one), one) for one in choice
        ]
        # a bare pair would be taken for a name and a value
        return ipywidgets.Dropdown(options=named, **common)
    least, most, step = choice
    kind = ipywidgets.IntSlider if isinstance(value, int) else ipywidgets.FloatSlider
    return kind(min=least, max=most, step=step, continuous_update=False, **common)
