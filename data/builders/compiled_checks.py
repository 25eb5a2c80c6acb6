"""How far the compiled set can be trusted: latency tables on placements held out of them, and full
compilations.

Usage, in the folder ``data``: python -m builders.compiled_checks [--tables N] [--full] [NAME...]

Needs the extra ``tpu``. Each program's record goes into ``data/compiled/checks.json`` as soon as it
is known; a program that has one is left alone, so an interrupted run goes on.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.programs.json_io import locked, write_json
from learned_mapping_companion.datasets.compiled import CHECKS, read_checks
from learned_mapping_companion.datasets.registry import SETS

from .compiled import PRICES, compile_workload, read_prices
from .tpu import latency_tables as tables
from .tpu.compiler import V4, Compilation, CompilerError
from .tpu.extract import total_cycles
from .tpu.hlo_program import hlo_program
from .tpu.pricing import price
from .workloads import WORKLOADS

FULL_SECONDS = 300.0  # A full compilation may take this long.


def held_out(
    compilation: Compilation, prices: tables.Prices, count: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Prices random placements that the tables were not made from, and compares.

    Args:
      compilation: of the program.
      prices: what its tables are made from.
      count: placements; an instruction is drawn as often as it occurs, then one of its subsets not
        priced.
      rng: draws them.

    Returns:
      ``placements``, how many have an estimate; ``weighted_error``, sum of |predicted - estimated|
      over the sum of the estimated cycles; ``savings_correlation``, Pearson's, of predicted with
      estimated savings over nothing in CMEM; ``rows``, in cycles: predicted, estimated, and the
      same two with everything in HBM.
    """
    program = hlo_program(compilation.before)
    planned = tables.plan(compilation.before, program, fast_bytes=V4.fast_bytes)
    used = prices | tables.infer_prices(planned, prices)
    candidates = []
    for item in planned:
        have = prices.get(item.signature, {})
        if used.get(item.signature, {}).get("") is not None:
            every = (tables.subset_of(entry) for entry in range(1, 1 << len(item.units)))
            open_ = [s for s in every if item.fits(s) and tables.subset_key(s) not in have]
            candidates.append((item, open_))
    candidates = [(item, open_) for item, open_ in candidates if open_]
    if not candidates:
        return {"placements": 0, "weighted_error": None, "savings_correlation": None, "rows": []}
    weights = np.array([item.count for item, _ in candidates], float)
    drawn: dict[tuple[str, tables.Subset], tables.Priceable] = {}
    for i in rng.choice(len(candidates), size=count, p=weights / weights.sum()):
        item, open_ = candidates[i]
        drawn[item.signature, open_[rng.integers(len(open_))]] = item
    wanted = [(item, [frozenset(), subset]) for (_, subset), item in drawn.items()]
    slow = {signature: {"": have[""]} for signature, have in prices.items() if "" in have}
    compiled_prices = price(compilation.before_text, program, wanted, known=slow)
    rows = []
    for (signature, subset), item in drawn.items():
        estimated, slow = (
            compiled_prices[signature][tables.subset_key(subset)],
            compiled_prices[signature][""],
        )
        if estimated is not None and slow is not None:
            table = tables.complete_table(item.unit_bytes, used[signature])
            rows.append(
                [float(table[sum(1 << u for u in subset)]), estimated, float(table[0]), slow]
            )
    predicted, estimated, predicted_slow, slow = np.array(rows, float).reshape(-1, 4).T
    savings = np.stack([predicted_slow - predicted, slow - estimated])
    varies = len(rows) > 2 and np.all(savings.std(axis=1) > 0)
    return {
        "placements": len(rows),
        "weighted_error": float(np.abs(predicted - estimated).sum() / estimated.sum())
        if rows
        else None,
        "savings_correlation": float(np.corrcoef(savings)[0, 1]) if varies else None,
        "rows": [[round(value) for value in row] for row in rows],
    }


def full_cycles(name: str) -> dict[str, Any]:
    """Cycles of two full compilations, CMEM on and off; None where one does not end in
    `FULL_SECONDS`."""
    result: dict[str, Any] = {}
    for key, assign in (("compiled_cycles", True), ("compiled_slow_cycles", False)):
        try:
            compiled = compile_workload(name, assign=assign, cycles=True, seconds=FULL_SECONDS)
            result |= {
                key: total_cycles(compiled.generated),
                key.replace("cycles", "seconds"): compiled.seconds,
            }
        except CompilerError:
            return {"compiled_cycles": None, "compiled_slow_cycles": None}
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="workloads (default: all)")
    parser.add_argument(
        "--tables", type=int, default=0, metavar="N", help="price N held-out placements of each"
    )
    parser.add_argument(
        "--full", action="store_true", help="compile each in full, with CMEM on and off"
    )
    options = parser.parse_args(arguments)
    folder = SETS["compiled"].path
    prices = read_prices(folder / PRICES)
    for name in options.names or WORKLOADS:
        record = read_checks(folder / CHECKS).get(name, {})
        if options.tables and "weighted_error" not in record:
            rng = np.random.default_rng([2023, list(WORKLOADS).index(name)])
            record |= held_out(compile_workload(name), prices, options.tables, rng)
        if options.full and "compiled_cycles" not in record:
            record |= full_cycles(name)
        with locked(folder):  # another process may have checked others meanwhile
            checks = read_checks(folder / CHECKS) | {name: record}
            ordered = {workload: checks[workload] for workload in WORKLOADS if workload in checks}
            write_json(folder / CHECKS, {"schema": "learned-mapping/checks/1", "programs": ordered})
        print(name, {key: value for key, value in record.items() if key != "rows"}, flush=True)


if __name__ == "__main__":
    main()
