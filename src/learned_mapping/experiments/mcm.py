"""Paper 2's tables and figures, in the order of the book. Apart from what computes them, so that none rests on all."""

from __future__ import annotations

from learned_mapping.experiments import (
    mcm_classical,
    mcm_learning,
    mcm_learning_bert,
    mcm_memory,
    mcm_schematics,
    mcm_silicon,
    mcm_silicon_ties,
    mcm_unsolved,
)
from learned_mapping.experiments.artifact import Artifact

ARTIFACTS: tuple[Artifact, ...] = (
    *mcm_classical.ARTIFACTS,
    *mcm_unsolved.ARTIFACTS,
    *mcm_silicon.ARTIFACTS,
    *mcm_silicon_ties.ARTIFACTS,
    *mcm_schematics.ARTIFACTS,
    *mcm_learning.ARTIFACTS,
    *mcm_learning_bert.ARTIFACTS,
    *mcm_memory.ARTIFACTS,
)
