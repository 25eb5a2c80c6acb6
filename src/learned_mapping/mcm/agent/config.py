"""Every number of the learner in one frozen dataclass, and the named profiles.

The paper (Section 5.1) gives 8 GraphSAGE layers of 128, a policy network of 2 layers of the same
size, 20 rollouts, 4 mini-batches, 10 epochs, 20,000 samples and 200 checkpoints of pre-training. It
does not give T of Eq. 7, the learning rate, clipping, the weights of entropy and value, or the
normalisation of advantages. Those are ours.
"""

import dataclasses
from dataclasses import dataclass

from learned_mapping.errors import InputError
from learned_mapping.learning.settings import NOT_NEGATIVE, POSITIVE, Ranges, check_settings

FIX, SAMPLE = "fix", "sample"
SAMPLE_CREDIT, CANDIDATE, FLOW, EXACT = "sample", "candidate", "flow", "exact"
CREDITS = (SAMPLE_CREDIT, CANDIDATE, FLOW, EXACT)
SPARSE, PENALTY = "sparse", "penalty"
# Of a policy that no solver repairs: what a partition that breaks a rule is paid.
REWARDS = (SPARSE, PENALTY)


@dataclass(frozen=True)
class AgentConfig:
    """One learner."""

    layers: int = 3  # GraphSAGE layers.
    width: int = 48  # Of every layer, of the policy network as well.
    iterations: int = 1  # T of Eq. 7; a policy that is `begun` has no such steps.
    begun: bool = False
    """Whether samples begin at some y^(0) and push ops by one chip from there: `moves_policy`,
    whose credit is ``exact``; else `network`, a distribution over all chips."""
    # How a candidate becomes valid: Algorithm 2 (``fix``) or Algorithm 1 (``sample``).
    mode: str = FIX
    credit: str = FLOW
    """The way from a reward to advantages: ``sample``, one for all ops of y'; ``candidate``, one
    for all ops of the policy's own y, much of which is not what was rewarded; ``flow`` and
    ``exact``, one for each op and each of three chips (`credit`), ``flow`` beside that of
    ``sample``.

    The paper says that PPO is used and that the reward is that of y' (Section 4.1); it does not say
    how the advantage is spread over the ops.
    """
    moved: float = 6.0  # Ops that leave y^(0) at first, where samples begin at one.
    op_weight: float = 10.0  # w of `credit`: what the ops' credits weigh beside the sample's.
    rollouts: int = 20  # Partitions per iteration of PPO.
    minibatches: int = 4
    epochs: int = 10
    learning_rate: float = 1e-3
    clip: float = 0.2  # ε: how far an iteration may move the probability of an action, as a ratio.
    entropy: float = 0.01  # Weight of the entropy of the policy in its objective.
    value_weight: float = 0.5  # Weight of the value's squared error.


RANGES: Ranges = {
    **dict.fromkeys(
        ("layers", "width", "iterations", "rollouts", "minibatches", "epochs"), (1, 100_000)
    ),
    **dict.fromkeys(("moved", "clip"), POSITIVE),
    **dict.fromkeys(("op_weight", "learning_rate", "entropy", "value_weight"), NOT_NEGATIVE),
}
SIZES = {
    "quick": {"layers": 2, "width": 32},
    "full": {"layers": 3, "width": 48},
    "paper": {"layers": 8, "width": 128, "iterations": 2},
}


def agent_config(profile: str = "full", **changes) -> AgentConfig:
    """The configuration of a profile, with fields changed.

    Raises:
      InputError: an unknown profile, or value of a named choice.
    """
    if profile not in SIZES:
        raise InputError("profile", "", f"{profile!r} is none of {', '.join(SIZES)}")
    return check_config(AgentConfig(**{**SIZES[profile], **changes}))


def check_config(config: AgentConfig, source: object = "config") -> AgentConfig:
    """The configuration itself; raises `InputError` where a field is unusable."""
    for name, known in (("mode", (FIX, SAMPLE)), ("credit", CREDITS)):
        if getattr(config, name) not in known:
            raise InputError(
                source, name, f"{getattr(config, name)!r} is none of {', '.join(known)}"
            )
    if config.begun != (config.credit == EXACT):
        raise InputError(
            source, "credit", "is exact where samples begin at a partition, and nowhere else"
        )
    if config.begun and config.mode != FIX:
        raise InputError(source, "mode", f"is {FIX} where samples begin at a partition")
    check_settings(config, RANGES, source)
    if config.rollouts % config.minibatches:
        raise InputError(
            source,
            "rollouts",
            f"{config.rollouts} is no multiple of {config.minibatches} mini-batches",
        )
    return config


def config_from_json(value: dict, source: object) -> AgentConfig:
    """The configuration a checkpoint's header holds; raises `InputError` where it is none."""
    known = {field.name: type(field.default) for field in dataclasses.fields(AgentConfig)}
    for name, entry in value.items():
        if name not in known or type(entry) is not known[name]:
            raise InputError(source, f"config.{name}", f"unknown, or of a wrong type: {entry!r}")
    return check_config(AgentConfig(**value), source)
