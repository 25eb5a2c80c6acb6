"""Methods that were called otherwise once. A paper's name stands for the paper's agent and for nothing else."""

from __future__ import annotations

RENAMED: dict[str, dict[str, str]] = {
    "mmap": {
        "muzero-paper": "muzero",
        "gumbel": "muzero",
        "segment-search": "edit-search",
    },
    "mcm": {
        "rl-chips": "rl",
        "zeroshot-chips": "zeroshot",
        "finetune-chips": "finetune",
        "rl-weights": "costs-cem",
        "zeroshot-weights": "costs-cem",
        "finetune-weights": "costs-cem",
        "random-weights": "costs-random",
        "cem-weights": "costs-cem",
    },
    "regal": {
        "regal-paper": "regal-imitation-as-printed",
        "regal-mean": "regal-imitation-mean",
        "regal-initial": "regal-imitation-initial",
        "gnn": "regal-imitation-no-search",
        "regal-local-search": "regal-imitation-local-search",
    },
}
"""Problem -> old name -> the name to use.

Once ``muzero`` meant `edit-search` with a network that chose the edits, whose gain was next to nothing;
``finetune`` and ``zeroshot`` a policy over corrected costs, no better than `costs-cem`, which learns nothing; and
``regal`` the networks of `regal-imitation`.
"""
