"""Where data and results are. Apart from `results`, so that an experiment can find its graphs without resting on it."""

import os
from pathlib import Path


def project_folder() -> Path:
    """The checkout this package runs from; the current folder when it is installed elsewhere."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file():
            return folder
    return Path.cwd()


def data_folder() -> Path:
    """Datasets and stored results: ``LEARNED_MAPPING_DATA``, or ``data/`` of the checkout."""
    return Path(os.environ.get("LEARNED_MAPPING_DATA") or project_folder() / "data")


def build_folder() -> Path:
    """Whatever can be made again: ``LEARNED_MAPPING_BUILD``, or ``build/`` of the checkout."""
    return Path(os.environ.get("LEARNED_MAPPING_BUILD") or project_folder() / "build")
