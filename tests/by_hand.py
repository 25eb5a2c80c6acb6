"""Graphs and programs that are small enough to be worked out by hand."""

from collections.abc import Iterable, Sequence
from typing import Any

from learned_mapping.programs.graph import ComputationGraph, make_graph
from learned_mapping.programs.program import Program, Step, program_of_steps


def hand_graph(num_ops: int, edges: Iterable[tuple[int, int]], **fields: Any) -> ComputationGraph:
    """A graph whose op i makes tensor i, of 1 byte and in no time unless `fields` of `make_graph`
    say otherwise."""
    edges = list(edges)
    defaults = {
        "name": "by hand",
        "op_names": [f"o{i}" for i in range(num_ops)],
        "op_kinds": ["add"] * num_ops,
        "op_flop": [0] * num_ops,
        "tensor_names": [f"t{i}" for i in range(num_ops)],
        "tensor_producer": range(num_ops),
        "tensor_bytes": [1] * num_ops,
        "edge_tensor": [producer for producer, _ in edges],
        "edge_consumer": [consumer for _, consumer in edges],
    }
    return make_graph(**defaults | fields)


def chain_edges(num_ops: int) -> list[tuple[int, int]]:
    """Edges from each op to the next."""
    return [(op, op + 1) for op in range(num_ops - 1)]


def hand_program(
    uses: Sequence[tuple[int, str, bool]],
    *,
    sizes: dict[str, int] | None = None,
    parameters: Iterable[str] = (),
    results: Iterable[str] = (),
    aliases: dict[int, int] | None = None,
    best_s: Sequence[float] | None = None,
    saving_s: float = 1.0,
    fast_bytes: int = 8,
    copy_bytes_per_s: float = 4.0,
) -> Program:
    """Buffers (step, tensor, is_output); tensors of 4 bytes unless `sizes` has them; `aliases`:
    buffer -> group.

    Step t takes `best_s[t]` (1 s by default), and `saving_s` more for each of its buffers that lies
    in HBM.
    """
    sizes = dict.fromkeys(sorted({tensor for _, tensor, _ in uses}), 4) | (sizes or {})
    names, steps = list(sizes), []
    for t, best in enumerate(best_s or [1.0] * (1 + max(step for step, _, _ in uses))):
        mine = [
            (names.index(tensor), output, (aliases or {}).get(b, -1))
            for b, (step, tensor, output) in enumerate(uses)
            if step == t
        ]
        table = [best + saving_s * (len(mine) - fast.bit_count()) for fast in range(1 << len(mine))]
        steps.append(Step(f"i{t}", "fusion", mine, range(len(mine)), table))
    return program_of_steps(
        steps,
        name="by hand",
        fast_bytes=fast_bytes,
        copy_bytes_per_s=copy_bytes_per_s,
        tensor_names=names,
        tensor_bytes=list(sizes.values()),
        tensor_is_parameter=[name in parameters for name in names],
        tensor_is_output=[name in results for name in names],
    )
