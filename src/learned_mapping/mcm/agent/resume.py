"""A learner's run on one graph, kept in a file between two updates, so that it goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, read_checkpoint, unflatten, write_checkpoint

COUNTED = ("samples", "best", "curve_s", "curve_samples", "curve_best")


def keep(budget: Budget, run: str, learned: Any, best: np.ndarray, rng: np.random.Generator) -> None:
    """Writes the budget's checkpoint, where it has one.

    Args:
      run: what tells this run from others: graph, package, method and configuration.
      learned: a pytree of arrays.
      best: [N] int32, the fastest partition so far.
      rng: all randomness to come.
    """
    if budget.checkpoint is None:
        return
    counted = {name: getattr(budget, name) for name in COUNTED}
    header = {"kind": "mcm-run", "run": run, "seconds": budget.seconds, "counted": counted}
    header["random"] = rng.bit_generator.state
    write_checkpoint(budget.checkpoint, flatten(learned, "learned") | {"best": best}, header)


def go_on(budget: Budget, run: str, learned: Any, best: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """(what was learned, the best partition) of the budget's checkpoint, where there is one; else as given.

    The budget's account and the generator are set to what they were.

    Raises:
      InputError: the file is damaged, or of another run.
    """
    if budget.checkpoint is None or not Path(budget.checkpoint).exists():
        return learned, best
    arrays, header = read_checkpoint(budget.checkpoint)
    if header.get("kind") != "mcm-run" or header.get("run") != run:
        raise InputError(budget.checkpoint, "run", "is a checkpoint of another run")
    found = unflatten(learned, arrays, "learned", budget.checkpoint)
    try:
        assert arrays["best"].shape == best.shape and arrays["best"].dtype == best.dtype
        rng.bit_generator.state = header["random"]
        for name in COUNTED:
            setattr(budget, name, header["counted"][name])
        budget.spent_before(float(header["seconds"]))
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise InputError(budget.checkpoint, "header", f"is damaged ({type(error).__name__})") from None
    return found, arrays["best"]
