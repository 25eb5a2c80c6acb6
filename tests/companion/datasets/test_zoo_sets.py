"""The stored files: readable, of the stated kind, and what the code makes today."""

from pathlib import Path

import numpy as np
import pytest
from learned_mapping_builders import zoo_sets

from learned_mapping.programs.formats import read_graph, read_program

DATA = Path(__file__).parents[3] / "data"
PAPER_BUFFERS = {
    "alexnet_train_batch_32": 300,
    "wavenet_coherent_batch32": 3020,
    "AlphaTensor": 9084,
    "tensor2tensor_transformer_bf16": 9888,
}
"""Paper 1, table 2."""


def test_graphs_can_be_read():
    """Would catch a stored graph that its own reader refuses."""
    for name in zoo_sets.GRAPHS:
        graph = read_graph(DATA / "graphs" / f"{name}.json.gz")
        assert graph.name == name and 20 <= graph.num_ops <= 2500


def test_programs_have_about_as_many_buffers_as_the_papers():
    """Would catch a change of the rules that moves the instances away from table 2, or a latency
    model in which fast memory does harm."""
    for name in zoo_sets.PROGRAMS:
        program = read_program(DATA / "programs" / f"{name}.json.gz")
        assert program.name == name
        if name in PAPER_BUFFERS:
            assert program.num_buffers == pytest.approx(PAPER_BUFFERS[name], rel=0.15)
        # In these programs fast memory slows nothing down: to the last bit, everything in it saves
        # what can be saved.
        assert program.possible_saving_s == float(np.sum(program.slow_s - program.supply_s))


def test_files_are_what_the_code_makes(tmp_path):
    """Would catch stored files that no longer follow from the code; a few, since all would take
    half a minute."""
    zoo_sets.build_graphs(tmp_path, chosen=["lenet_inference", "alexnet_inference", "gru_4_steps"])
    zoo_sets.build_programs(tmp_path, chosen=["alexnet_train_batch_32", "lstm"])
    for path in tmp_path.iterdir():
        folder = (
            "programs"
            if path.name.split(".")[0] in ("alexnet_train_batch_32", "lstm")
            else "graphs"
        )
        assert path.read_bytes() == (DATA / folder / path.name).read_bytes(), path.name
