"""What is known of a graph of paper 2 before any learner runs: size, chips, the static optimum, two
greedy rules."""

from typing import Any

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.mcm.bounds.optimum import TooManyIdealsError, ideals_of, lower_bound, optimum
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.programs.graph import ComputationGraph

from .mcm_chips import chip_count, longest_chain

MAX_IDEALS = 50_000
"""For wider graphs the dynamic programme would run for minutes; CP-SAT is asked instead."""
CP_SAT_EFFORT = 15.0  # Limit of CP-SAT's work, in its own units: the same result everywhere.
IDEALS, CP_SAT = "ideals", "cp-sat"


def facts(graph: ComputationGraph, chips: int | None = None) -> dict[str, Any]:
    """Plain names to numbers, of a graph as traced, on so many chips; `chip_count` decides where
    None.

    What a method sees is the folded graph (`fold_cheap_sources`): ``chips`` and all that follows is
    of it. ``optimum_s`` is the least time between two results under the chain rule on ``chips``
    chips, by the method that
    ``proof`` names: dynamic programming over ideals, or CP-SAT, which rounds times to a billionth
    of their sum. It is None where neither proves it (``exact`` false). The greedy rules are so many
    per cent above it, or else above ``bound_s``, which no partition beats. ``parameters`` is None
    for a graph that does not state them.
    """
    folded = fold_cheap_sources(graph)
    chips = chip_count(folded) if chips is None else chips
    model = ChipModel(folded, ChipPackage(chips=chips))
    bound = lower_bound(model)
    naive, careful = naive_greedy(model), careful_greedy(model)
    best, proof = _optimum(model, min(naive, careful, key=model.runtime))
    floor = bound if best is None else model.runtime(best)

    def above(runtime: float) -> float:
        return round(max(100 * (runtime / floor - 1), 0.0), 2)

    partition = careful if best is None else best
    return {
        "ops": graph.num_ops,
        "ops_folded": folded.num_ops,
        "edges": graph.num_edges,
        "edges_folded": folded.num_edges,
        "gflop": round(float(graph.op_flop.sum()) / 1e9, 3),
        "parameters": graph.metadata.get("parameters"),
        "activation_bytes": int(graph.tensor_bytes.sum()),
        "longest_chain_chips": longest_chain(folded),
        "chips": chips,
        "one_chip_s": float(f"{model.op_seconds.sum():.6g}"),
        "largest_op_share": round(float(model.op_seconds.max() / model.op_seconds.sum()), 4),
        "exact": best is not None,
        "proof": proof,
        "bound_s": float(f"{bound:.6g}"),
        "optimum_s": None if best is None else float(f"{floor:.6g}"),
        "optimum_chips_used": None if best is None else int(best.max()) + 1,
        "greedy_naive_above_percent": above(model.runtime(naive)),
        "greedy_careful_above_percent": above(model.runtime(careful)),
        "fullest_chip_bytes": int(chip_memory(folded, partition, chips).max()),
    }


def _optimum(model: ChipModel, start: np.ndarray) -> tuple[np.ndarray | None, str | None]:
    """A fastest partition and what proves it, both None where nothing does; `start` is a valid
    partition."""
    try:
        return optimum(model, ideals=ideals_of(model, MAX_IDEALS)), IDEALS
    except TooManyIdealsError:
        outcome = fastest_partition(model, effort=CP_SAT_EFFORT, start=start)
        return (outcome.assignment, CP_SAT) if outcome.optimal else (None, None)
