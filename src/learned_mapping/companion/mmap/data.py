"""Paper 1's figure 9: how many buffers each of the sixty workloads has.

Apart from `mmap`, so that the tables made there do not rest on it.
"""

from __future__ import annotations

from typing import Any

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.datasets.manifest import FILE_NAME, read_manifest
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import read_json

PAPER_RANGE = (169, 16_490)
"""Buffers of the smallest and of the largest workload (section 5.1)."""
PAPER_BUFFERS = {
    "alexnet_train_batch_32": 300, "wavenet_coherent_batch32": 3020, "AlphaTensor": 9084,
    "tensor2tensor_transformer_bf16": 9888,
}  # fmt: skip
"""The four whose number the paper gives (table 2)."""
FAMILIES = {
    "recurrent": (
        "inference_lstm", "inference_gru", "mlperf_nmt_1_shard_batch_64", "rnn_0", "rnn_1", "rnn_2", "rnn_3", "rnn_4",
        "rnn_5", "rnn_6", "rnn_7", "seq2seq_train_batch_128",
    ),
    "attention": (
        "tensor2tensor_transformer_bf16", "tensor2tensor_transformer", "inference_vit", "inference_bert",
        "mlperf_bert_batch_16", "vit_train_batch_32_bf16", "transformer_train_batch_16", "AlphaTensor",
        "fleet_transformer_46_layers", "fleet_bert_large", "fleet_vit_large", "fleet_mixture_of_experts",
        "fleet_decoder_batch_32",
    ),
    "tables, points, mixing": (
        "inference_mixer", "mlperf_dlrm_batch_8192", "tabnet_train_batch_16384", "pointnet_train_batch_32",
        "graph_network_train",
    ),
}  # fmt: skip
"""What a workload's operations are mostly; all others are `CONVOLUTIONAL`."""
CONVOLUTIONAL = "convolutional"


def family(name: str) -> str:
    """The family of a workload."""
    return next((each for each, names in FAMILIES.items() if name in names), CONVOLUTIONAL)


def buffer_counts() -> dict[str, int]:
    """Buffers per workload: of the set ``compiled`` where it is stored, else of the record of its compilation.

    Raises:
      InputError: the file is missing or damaged.
    """
    stored = data_folder() / "compiled" / FILE_NAME
    if stored.exists():
        counts = {item.name: item.facts.get("buffers") for item in read_manifest(stored).items}
        missing = [name for name, count in counts.items() if not isinstance(count, int)]
        if missing:
            raise InputError(stored, missing[0], "has no number of buffers")
        return counts
    node = read_json(data_folder() / "workloads" / "compiled.json", "compiled-workloads")
    rows = node.object(("schema", "compiler", "jax", "workloads"))["workloads"].array(10_000)
    cells = [row.mapping(100) for row in rows]
    for row, cell in zip(rows, cells):
        for name in ("name", "buffers"):
            if name not in cell:
                row.fail(f"missing field {name!r}")
    return {cell["name"].string(): cell["buffers"].integer(1, 1_000_000) for cell in cells}


def plan_fig9(profile: str, seeds: int) -> list[Run]:
    """Nothing to run: the numbers are facts of the stored data."""
    return []


def assemble_fig9(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A row per workload, the smallest first, and the paper's numbers."""
    counts = buffer_counts()
    rows = [
        {**_row(name, "xla", counts[name]), "family": family(name)}
        for name in sorted(counts, key=lambda name: (counts[name], name))
    ]
    paper = [_row(which, "xla", value) for which, value in zip(("smallest", "largest"), PAPER_RANGE)]
    paper += [_row(name, "xla", value) for name, value in PAPER_BUFFERS.items()]
    return {"rows": rows, "paper": paper, "validated": 0, "invalid": 0}


def _row(instance: str, method: str, value: int) -> dict[str, Any]:
    return {"instance": instance, "method": method, "metric": "buffers", "value": value, "n": 1}
