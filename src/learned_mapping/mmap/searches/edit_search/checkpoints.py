"""The shipped edit networks: one per fold of the compiled programs, by families.

A program is mapped by the network of the other fold, which has seen none of its family; a program of any other name by
that of fold b.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.mmap.searches.edit_search.scorer import HIDDEN, NUM_FEATURES, Scorer, new_scorer

FAMILIES_A = (
    "transformer", "wavenet", "alphatensor", "alphazero", "alexnet", "resnet", "rnn_", "unet", "mobilenet", "mnasnet",
    "efficientnet", "graph_network", "pointnet", "tabnet", "autoencoder",
)  # fmt: skip
"""A program whose name has one of these in it is of fold a, any other of fold b. The four programs of Table 2 are of
one fold."""
FOLDS = ("a", "b")


def fold_of(name: str) -> str:
    """The fold of a compiled program."""
    return "a" if any(family in name.lower() for family in FAMILIES_A) else "b"


def checkpoint_path(fold: str) -> Path:
    """The file of the network trained on a fold."""
    return data_folder() / "checkpoints" / "mmap" / f"edits-{fold}.npz"


def path_for(name: str) -> Path:
    """The file of the network that has seen no program of the family of `name`."""
    return checkpoint_path("b" if fold_of(name) == "a" else "a")


def scorer_for(name: str) -> Scorer:
    """The network for a program; an untrained one where no checkpoint is there."""
    path = path_for(name)
    return load_scorer(path) if path.exists() else new_scorer(np.random.default_rng(0))


def checkpoint_digest(name: str) -> str:
    """16 hexadecimal digits of the file of `scorer_for`; empty where there is none."""
    path = path_for(name)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def save_scorer(path: str | Path, scorer: Scorer) -> None:
    """Writes what a scorer has learned, without the optimiser's memory."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, first=scorer.first.astype(np.float32), second=scorer.second.astype(np.float32))


def load_scorer(path: str | Path) -> Scorer:
    """Reads a scorer `save_scorer` wrote; it can go on learning.

    Raises:
      InputError: the file is missing, damaged, or of other sizes.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            first, second = file["first"].astype(np.float64), file["second"].astype(np.float64)
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(str(path), "", f"not a checkpoint of the edit network: {error}") from None
    if first.shape != (HIDDEN, NUM_FEATURES) or second.shape != (HIDDEN + 1,):
        raise InputError(str(path), "first", f"expected shape {(HIDDEN, NUM_FEATURES)}, got {first.shape}")
    return new_scorer(np.random.default_rng(0))._replace(first=first, second=second)
