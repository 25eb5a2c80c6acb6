"""Where a graph comes from: a file of whatever kind its bytes say, or a function of the user's."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import read_head
from learned_mapping.programs.recognition import COSTGRAPH, JSON, MODELS, kind_of, refused

NONE = "nor another kind that is read: CostGraphDef, StableHLO, jax.export, ONNX, torch.export"


def is_function(source: str) -> bool:
    """Whether a source names a function, ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION``, rather than a
    file."""
    colon, name = source.rpartition(":")[1:]
    return bool(colon) and "/" not in name and not os.path.exists(source)


def read_graph_of(
    source: str, parameters: Sequence[int] | None = None, **settings: Any
) -> ComputationGraph:
    """The graph of a file or of a user's function.

    Args:
      source: a file, or ``MODULE:FUNCTION`` of a function without arguments that returns a function
        with its own, a torch module with its inputs, or an exported program.
      parameters, settings: as `trace.models.read_model` has them, for a model's file.

    Raises:
      InputError: it is no graph, and which door takes it.
    """
    if is_function(source):
        return _of_function(source)
    head = read_head(source)
    kind = kind_of(head)
    if kind in MODELS:
        from learned_mapping.doors.models import read_model

        return read_model(source, parameters, **settings)
    if kind == COSTGRAPH:
        from learned_mapping.doors.costgraph import read_costgraph

        return read_costgraph(source)
    if kind != JSON:
        raise InputError(source, "", f"not JSON {refused(head, JSON) or NONE}")
    from learned_mapping.programs.formats import read_graph

    return read_graph(source)


def _of_function(source: str) -> ComputationGraph:
    from learned_mapping.doors.user_function import beside, graph_of_example, load_example

    with beside(source), redirect_stdout(sys.stderr):  # what the user's code prints is no report
        return graph_of_example(load_example(source), source.rpartition(":")[2])
