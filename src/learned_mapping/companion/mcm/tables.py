"""Paper 2's tables and figures, in the order of the book. Apart from what computes them, so that none rests on all."""

from __future__ import annotations

from learned_mapping.companion.artifact import Artifact
from learned_mapping.companion.mcm import classical as mcm_classical
from learned_mapping.companion.mcm import learning as mcm_learning
from learned_mapping.companion.mcm import learning_bert as mcm_learning_bert
from learned_mapping.companion.mcm import memory as mcm_memory
from learned_mapping.companion.mcm import schematics as mcm_schematics
from learned_mapping.companion.mcm import silicon as mcm_silicon
from learned_mapping.companion.mcm import silicon_ties as mcm_silicon_ties
from learned_mapping.companion.mcm import unsolved as mcm_unsolved

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
