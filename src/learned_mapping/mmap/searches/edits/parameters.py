"""Hyperparameters of the search over edits."""

from __future__ import annotations

from typing import NamedTuple


class EditParameters(NamedTuple):
    """Hyperparameters, chosen on programs outside Table 2; seven of these are among the sixty of Table 3.

    They are the compiled mlperf_bert_batch_16, convnext_train_batch_32_bf16, fleet_mixture_of_experts,
    densenet_train_batch_32, inference_densenet, inference_convnext and inference_shufflenet."""

    length: int = 12
    """Decisions of a segment, at most."""
    deviation: float = 0.3
    """Probability that a decision of a segment is redrawn."""
    eject: float = 0.5
    """Share of edits that make room."""
    together: float = 0.5
    """Share of those that make room for all that an instruction lacks."""
    tensors: float = 0.3
    """Share of the others that redecide a tensor."""
    noise: float = 0.3
    """Blur of the costs of what is pushed out."""
    least: float = 0.7
    """An edit that makes room is played if it gains at least this share of what it costs."""
    refill: float = 0.5
    """Probability that an edit also places what has become legal by it."""
    refill_reach: int = 200
    """Decisions behind an edit's last up to which it does."""
    stride: int = 100
    """Most buffers between the places of two edits that follow each other."""
    jump: float = 0.01
    """Probability of a place anywhere in the program instead."""
    far: float = 0.3
    """Probability that a candidate is drawn anywhere in the program instead of near the place."""
    candidates: int = 1
    """Edits drawn for one played; with more than one the scorer chooses."""
    explore: float = 0.3
    """Probability that the kind is drawn by the fixed shares, evenly by chance or by the network, and not by what each
    way has lately gained."""
    sharpness: float = 1.0
    """Of the choice: probabilities go with exp(sharpness * logit)."""
    thrift: float = 1.0
    """Power of the decisions an edit is expected to take, by which its odds are divided."""
    learning_rate: float = 1e-3
    weighting: float = 1.0
    """Power of a gain, relative to the mean gain, by which a success weighs more or less in learning; 0: all alike."""
    trial: float = 0.3
    """Probability that an edit may lose a little, to be followed by others around it."""
    trial_loss: float = 5.0
    """Mean of what it may lose, in shares of the possible saving over the number of buffers."""
    trial_spread: float = 100.0
    """Half of the trials may lose more: up to this many times as much, log-uniformly, the edits after them growing with
    the root of it."""
    trial_edits: int = 8
    """Edits tried after it before it is taken back."""
    trial_stride: int = 40
    """Most buffers between it and them."""
