"""Trains the edit networks of paper 1: one per fold of the compiled programs, by families, so that a program is never
mapped by a network that has seen one of its family.

    python -m learned_mapping.companion.training.mmap_edits a --seconds 20
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from learned_mapping.companion.datasets import compiled
from learned_mapping.companion.training.command import say
from learned_mapping.mmap.methods import warm_up
from learned_mapping.mmap.searches.edits.agent import pretrain
from learned_mapping.mmap.searches.edits.checkpoints import FOLDS, checkpoint_path, fold_of, save_scorer


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train the edit network on a fold of the compiled programs.")
    parser.add_argument("fold", choices=FOLDS)
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds per program")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    warm_up()
    names = [name for name in compiled.names() if fold_of(name) == chosen.fold]
    rng = np.random.default_rng(chosen.seed)
    names = [names[i] for i in rng.permutation(len(names))]
    programs = (compiled.load(name)[0] for name in names)
    scorer = pretrain(programs, chosen.seconds, rng, report=lambda each, value: say(f"{each.name}: {value:.4f}"))
    save_scorer(checkpoint_path(chosen.fold), scorer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
