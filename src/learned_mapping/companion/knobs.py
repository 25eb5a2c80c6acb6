"""Sliders and menus over the parameters of a chapter's cell, in JupyterLab; in the rendered book its defaults alone."""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import Markdown, display

STATIC = "LEARNED_MAPPING_STATIC"
"""Variable of the environment that is set while the book is rendered: its pages have no kernel to ask."""


def knobs(shown: Callable[..., Any], **choices: Sequence[Any]) -> None:
    """Shows what a function makes of its defaults, and again whenever a reader turns a knob.

    Args:
      shown: returns what is displayed, or a tuple of that; its defaults are where the knobs stand first.
      **choices: for each knob the parameter's range (least, most, step), or a list of values.

    Raises:
      TypeError: a knob is no parameter with a default.
    """
    defaults = {name: p.default for name, p in inspect.signature(shown).parameters.items() if p.default is not p.empty}
    if unknown := set(choices) - set(defaults):
        raise TypeError(f"no parameters with a default: {', '.join(sorted(unknown))}")
    static = bool(os.environ.get(STATIC))
    turned = {} if static else {name: _knob(name, defaults[name], choice) for name, choice in choices.items()}
    if turned:
        display(*turned.values())
    first = shown(**defaults)
    pieces = first if isinstance(first, tuple) else (first,)
    if static:
        display(*pieces)
        named = ", ".join(name.replace("_", " ") for name in choices)
        display(Markdown(f"*With the defaults. In JupyterLab these are knobs: {named}.*"))
        return
    places = [display(piece, display_id=True) for piece in pieces]

    def turn(_: Any) -> None:
        try:
            found = shown(**defaults | {name: knob.value for name, knob in turned.items()})
        except Exception as fault:  # the reader may turn a knob to where there is no answer
            found = Markdown(f"*No answer here: {fault}*")
        found = found if isinstance(found, tuple) else (found,)
        for place, piece in zip(places, (*found, *[Markdown("")] * len(places)), strict=False):
            place.update(piece)

    for knob in turned.values():
        knob.observe(turn, names="value")


def _knob(name: str, value: Any, choice: Sequence[Any]) -> Any:
    import ipywidgets

    wide = {"description_width": "9em"}
    common = {"value": value, "description": name.replace("_", " "), "style": wide}
    if isinstance(choice, list):
        named = [(" ".join(map(str, one)) if isinstance(one, tuple) else str(one), one) for one in choice]
        return ipywidgets.Dropdown(options=named, **common)  # a bare pair would be taken for a name and a value
    least, most, step = choice
    kind = ipywidgets.IntSlider if isinstance(value, int) else ipywidgets.FloatSlider
    return kind(min=least, max=most, step=step, continuous_update=False, **common)
