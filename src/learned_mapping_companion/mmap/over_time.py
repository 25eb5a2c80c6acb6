"""The return that a method has after so many CPU seconds, in the mean of a table's programs."""

import numpy as np

from learned_mapping_companion.mmap import runs
from learned_mapping_companion.table import Record, Records, Rows, by, mean_row

PLACES = np.geomspace(0.01, runs.SECONDS_LARGE, 45)
LOOKS = np.array([0.05, 0.25, 1.0, 10.0, 60.0])
"""CPU seconds at which the curves are drawn, and those at which a table has them."""


def over_time(method: str, records: Records) -> Rows:
    """The row ``after``: a method's mean return over all programs, with its curve over CPU seconds
    and 95% intervals over programs; and rows ``return_at`` after each of `LOOKS`. A search is at 0
    until its first game has ended, and stays where its clock ends."""
    curves_of = {
        name: [record["result"]["curve"] for record in group]
        for name, group in by(records, "instance").items()
    }

    def means(places: np.ndarray) -> Rows:
        columns = [
            np.mean([best_by(curve, places) for curve in found], axis=0)
            for found in curves_of.values()
        ]
        return [mean_row("all", method, "return_at", column) for column in np.transpose(columns)]

    for second, entry in zip(LOOKS, means(LOOKS)):
        yield entry | {"seconds": f"{second:g}"}
    along = means(PLACES)
    places = {"x": [round(float(second), 5) for second in PLACES], "x_unit": "s"}
    lines = {
        name: [round(entry[cell], 6) for entry in along]
        for name, cell in (("y", "value"), ("low", "low"), ("high", "high"))
    }
    yield along[-1] | {"metric": "after", "curve": places | lines}


def best_by(curve: Record, places: np.ndarray) -> np.ndarray:
    """The best return of a curve by so many seconds; 0 before its first."""
    y = np.maximum.accumulate([0.0, *curve["y"]])
    return y[np.searchsorted(curve["x"], places, side="right")]
