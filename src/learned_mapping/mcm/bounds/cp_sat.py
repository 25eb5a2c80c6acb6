"""CP-SAT on small graphs: the fastest partition."""

from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.rules.cp_sat import Rules

UNITS = 10**9  # Times are rounded to this part of the graph's total.


@dataclass(frozen=True)
class CpSatOutcome:
    """What the solver found within its limit."""

    assignment: np.ndarray | None  # [N] int32, or None where it found nothing.
    value: float  # Seconds.
    bound: float  # What no valid partition can beat.
    optimal: bool


def fastest_partition(
    model: ChipModel,
    *,
    effort: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: np.ndarray | None = None,
) -> CpSatOutcome:
    """The partition of least runtime; value and bound in seconds, to a billionth of the graph's total time.

    Args:
      effort: limit in the solver's own units of work, of about a second each; the same result everywhere.
      seconds: limit in seconds instead.
      start: a valid partition [N] to start from.
    """
    graph, chips = model.graph, model.package.chips
    rules = Rules(graph, chips, "chain")
    unit = float(model.op_seconds.sum() + model.tensor_seconds.sum()) / UNITS
    if unit <= 0:
        raise InputError("cp-sat", "", "the graph takes no time")
    scale = [round(s / unit) for s in model.op_seconds.tolist()]
    load = [[(scale[u], rules.on[u][c]) for u in range(graph.num_ops)] for c in range(chips)]
    for tensor in range(graph.num_tensors):
        size = round(float(model.tensor_seconds[tensor]) / unit)
        producer, consumers = int(graph.tensor_producer[tensor]), graph.consumers(tensor).tolist()
        if not size or not consumers:
            continue
        for link in range(chips - 1):
            crosses = rules.model.new_bool_var("")
            here = rules.at_least[producer][link + 1]
            for consumer in consumers:
                rules.model.add_bool_or([~rules.at_least[consumer][link + 1], here, crosses])
            load[link].append((size, crosses))
            load[link + 1].append((size, crosses))
    slowest = rules.model.new_int_var(max(scale), 2 * UNITS, "")
    for terms in load:
        rules.model.add(sum(weight * variable for weight, variable in terms) <= slowest)
    rules.model.minimize(slowest)
    if start is not None:
        rules.hint(start)
    assignment, value, bound, optimal = rules.solve(effort, seconds, seed)
    return CpSatOutcome(assignment, value * unit, bound * unit, optimal)
