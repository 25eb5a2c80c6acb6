"""What is known of a graph of paper 2 before any learner runs: size, chips, the static optimum, two greedy rules."""

from __future__ import annotations

from typing import Any

from learned_mapping.experiments.datasets.mcm_chips import chip_count, longest_chain
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.mcm.fold import fold_cheap_sources
from learned_mapping.mcm.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.optimum import TooManyIdealsError, ideals_of, lower_bound, optimum
from learned_mapping.programs.graph import ComputationGraph

MAX_IDEALS = 50_000
"""Wider graphs have no exact optimum here: the dynamic programme would run for minutes."""
PRODUCTS = ("dot_general", "conv_general_dilated")


def products_of_activations(graph: ComputationGraph) -> list[str]:
    """Names of the products neither of whose operands is a parameter: attention has two a layer and head.

    A product of a convolutional or of a recurrent network holds the weights of its layer.
    """
    return [
        name
        for name, kind, weights in zip(graph.op_names, graph.op_kinds, graph.op_weight_bytes)
        if kind in PRODUCTS and not weights
    ]


def sources_of_parameters(graph: ComputationGraph) -> list[str]:
    """Names of the ops that start from parameters alone and are not products: a parameter kept as an op, in effect.

    A product without producers is the first step of a recurrent network, whose state of zeros is folded into it.
    """
    fed = set(graph.op_edges[:, 1].tolist())
    own = (*PRODUCTS, "input")
    return [graph.op_names[op] for op in range(graph.num_ops) if op not in fed and graph.op_kinds[op] not in own]


def facts(graph: ComputationGraph, chips: int | None = None) -> dict[str, Any]:
    """Plain names to numbers.

    What a method sees is the folded graph (`fold_cheap_sources`): ``chips`` and all that follows is of it.
    ``optimum_s`` is the least time between two results under the chain rule on ``chips`` chips, None where the graph is
    too wide (``exact`` false). The greedy rules are so many per cent above it, or else above ``bound_s``, which no
    partition beats.

    Args:
      graph: as traced.
      chips: how many chips; `chip_count` decides where None.
    """
    folded = fold_cheap_sources(graph)
    chips = chip_count(folded) if chips is None else chips
    model = ChipModel(folded, ChipPackage(chips=chips))
    bound = lower_bound(model)
    best = _optimum(model)
    careful = careful_greedy(model)
    floor = bound if best is None else model.runtime(best)

    def above(runtime: float) -> float:
        return round(100 * (runtime / floor - 1), 2)

    partition = careful if best is None else best
    return {
        "ops": graph.num_ops,
        "ops_folded": folded.num_ops,
        "edges": graph.num_edges,
        "edges_folded": folded.num_edges,
        "gflop": round(float(graph.op_flop.sum()) / 1e9, 3),
        "parameters": int(graph.metadata["parameters"]),
        "activation_bytes": int(graph.tensor_bytes.sum()),
        "longest_chain_chips": longest_chain(folded),
        "chips": chips,
        "one_chip_s": float(f"{model.op_seconds.sum():.6g}"),
        "largest_op_share": round(float(model.op_seconds.max() / model.op_seconds.sum()), 4),
        "exact": best is not None,
        "bound_s": float(f"{bound:.6g}"),
        "optimum_s": None if best is None else float(f"{floor:.6g}"),
        "optimum_chips_used": None if best is None else int(best.max()) + 1,
        "greedy_naive_above_percent": above(model.runtime(naive_greedy(model))),
        "greedy_careful_above_percent": above(model.runtime(careful)),
        "fullest_chip_bytes": int(chip_memory(folded, partition, chips).max()),
    }


def _optimum(model: ChipModel):
    try:
        return optimum(model, ideals=ideals_of(model, MAX_IDEALS))
    except TooManyIdealsError:
        return None
