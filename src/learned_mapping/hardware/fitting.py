"""Whether a graph fits the memory of chips or devices at all: by arithmetic, before anything is
searched.

Every op's weights lie on some chip, and while an op runs its chip holds its weights, what it reads
and what it makes. So nothing fits chips that together have less than all weights, or of which the
largest has less than one op needs; whatever other rules there are.
"""

import numpy as np

from learned_mapping.errors import LearnedMappingError, shown
from learned_mapping.programs.graph import ComputationGraph

ARITHMETIC, CHAIN, ALL = "arithmetic", "chain", "all"
"""Proofs that nothing fits: by a bound on what is needed; of what obeys paper 2's chain rule; of
everything that is valid."""


class DoesNotFitError(LearnedMappingError):
    """Nothing that is valid fits the memory there is.

    Args:
      graph: what does not fit.
      limit: [d] bytes that each chip or device has.
      share: of its memory that each must have at least, above 1.
      proof: one of those above.
      sharp: whether something fits with so much, and nothing with less.
      why: what does not fit, in words.
      word: ``chip`` or ``device``.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        limit: np.ndarray,
        share: float,
        proof: str,
        *,
        sharp: bool,
        why: str = "",
        word: str = "chip",
    ):
        self.proof, self.share, self.sharp = proof, share, sharp
        self.least_bytes = np.ceil(share * limit - 1e-6)
        """[d] float64, what each must have."""
        alike = len(np.unique(limit)) == 1
        has, least = f"{int(limit[0]):,}", f"{int(self.least_bytes[0]):,}"
        had = f"{len(limit)} x {has} bytes" if alike else f"{int(limit.sum()):,} bytes"
        much = f"{least} bytes a {word}" if alike else f"{share:.4g} times each {word}'s memory"
        rule = "under the chain rule" if proof == CHAIN else "whatever the search"
        if proof == ARITHMETIC:
            advice = f"{much} is the least that may do"
        else:
            advice = f"{much} does, nothing less" if sharp else f"{much} does"
        told = f"does not fit in {had}{why and ': '}{why}; {advice} (proved {rule})"
        super().__init__(f"{shown(graph.name)}: {told}")


def least_share(graph: ComputationGraph, limit: np.ndarray) -> float:
    """The share of its memory that each of some chips or devices must have at least, by
    arithmetic."""
    weights, own = int(graph.op_weight_bytes.sum()), _own_bytes(graph)
    return float(max(weights / limit.sum(), own.max() / limit.max()))


def refuse_by_arithmetic(graph: ComputationGraph, limit: np.ndarray, word: str) -> None:
    """Raises `DoesNotFitError` where the weights or one op pass the memory there is."""
    if (share := least_share(graph, limit)) <= 1.0:
        return
    weights, own = int(graph.op_weight_bytes.sum()), _own_bytes(graph)
    op = int(own.argmax())
    why = f"op {shown(graph.op_names[op])} alone needs {int(own[op]):,} bytes"
    if weights > limit.sum():
        why = f"{weights:,} bytes of weights"
    raise DoesNotFitError(graph, limit, share, ARITHMETIC, sharp=False, why=why, word=word)


def _own_bytes(graph: ComputationGraph) -> np.ndarray:
    """[N] int64, what each op needs while it runs."""
    return graph.op_weight_bytes + graph.op_input_bytes + graph.op_output_bytes
