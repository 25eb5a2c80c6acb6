"""Runs that end before their end: by their samples, by their seconds, by Ctrl-C, by a kill; each at
a stated place."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from learned_mapping.budget import Budget
from learned_mapping.learning.checkpoint import read_checkpoint

ENDS = ("samples", "seconds", "interrupt", "kill")
CLOCKED = ("seconds", "evaluation_s", "curve_s", "cpu_s", "curve")
"""What a clock measured."""


class Killed(BaseException):
    """An end that nothing catches: what is on the disk is what a killed process leaves."""


@contextmanager
def cut(monkeypatch, how: str, place: int) -> Iterator[dict[str, float]]:
    """The limits of a run that ends at a place: after so many samples, when a clock is asked or a
    sample is judged for that time. What ends it is not raised further."""
    asked = {"spent": 0, "record": 0}
    spent, record = Budget.spent, Budget.record

    def out_of_time(budget: Budget, *arguments) -> bool:
        asked["spent"] += 1
        return asked["spent"] >= place or spent(budget, *arguments)

    def ended(budget: Budget, *arguments, **options) -> bool:
        asked["record"] += 1
        if asked["record"] == place:
            if how == "kill":
                raise Killed
            signal.raise_signal(signal.SIGINT)
        return record(budget, *arguments, **options)

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt, Killed):
        if how == "seconds":
            patched.setattr(Budget, "spent", out_of_time)
        elif how != "samples":
            patched.setattr(Budget, "record", ended)
        yield {"samples": place} if how == "samples" else {"seconds": 1e9}


def assert_same_state(one, other) -> None:
    """Two checkpoints hold the same arrays, to the bit, and the same header but for what a clock
    measured."""
    (arrays, header), (others, another) = read_checkpoint(one), read_checkpoint(other)
    assert list(arrays) == list(others)
    different = [name for name in arrays if arrays[name].tobytes() != others[name].tobytes()]
    assert not different, (
        f"{len(different)} of {len(arrays)} arrays differ, {different[0]} among them"
    )
    assert without_clocks(header) == without_clocks(another)


def without_clocks(value):
    """A header without what a clock measured."""
    if isinstance(value, dict):
        return {name: without_clocks(item) for name, item in value.items() if name not in CLOCKED}
    return value


def assert_goes_on(
    monkeypatch, tmp_path, run: Callable, places: dict[str, tuple[int, ...]], samples: int
) -> None:
    """A run of so many samples leaves one state, in one go or cut in two, by each end at each of
    its places.

    Args:
      run: of a checkpoint's path and limits.
      places: the end -> where.
    """
    run(tmp_path / "whole.npz", samples=samples)
    for how, where in places.items():
        for place in where:
            path = tmp_path / f"{how}{place}.npz"
            with cut(monkeypatch, how, place) as limits:
                run(path, **limits)
            run(path, samples=samples)
            assert_same_state(path, tmp_path / "whole.npz")
