"""Every number of the agent in frozen dataclasses, and the named profiles.

What the paper gives is Table 6. It does not give: the sizes of the networks, the number l of same-tensor buffers, the
resolutions of the window and of the profile, the unroll and n-step lengths, the categorical supports, the number of
actors, or how often they play per training step. Those are ours, after MuZero (Schrittwieser et al. 2020, Appendix F
and G) where it has an answer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from learned_mapping.errors import InputError

PUCT, GUMBEL, EXACT, NO_SEARCH = "puct", "gumbel", "exact", "none"
SEARCHES = (PUCT, GUMBEL, EXACT, NO_SEARCH)
SEARCH_TARGET, OUTCOME_TARGET = "search", "outcome"
GREEDY_TUNED, NO_DEMONSTRATIONS = "greedy-tuned", "none"


@dataclass(frozen=True)
class RepresentationConfig:
    """Sizes of what the network sees of a state (section 4.3.1)."""

    next_buffers: int = 5
    """k, the buffers after the current one."""
    same_tensor_buffers: int = 5
    """l, the next buffers of the current one's tensor; the paper does not say how many."""
    window: int = 128
    """Side of the square occupancy image, a multiple of 8."""
    steps_per_column: int = 1
    """Logical steps that one column of the image stands for."""
    profile: int = 1024
    """Cells of the occupancy vector at the target time, a multiple of 8; the paper's grid has up to 32,768."""
    supply: int = 128
    """Steps of the supply window."""
    prices: bool = False
    """Whether to add the features by which the threshold rules of `mmap.greedy` decide; not in the paper."""


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the networks; Fig. 4 of the paper shows their arrangement without numbers."""

    block: int = 8
    """Side of the patches of the image that become channels before the first convolution."""
    channels: tuple[int, ...] = (32, 48)
    """Channels of the stages of the ResNet; each stage after the first halves both sides."""
    blocks: int = 1
    """Residual blocks of a stage."""
    part: int = 64
    """Width of each embedded part of the input."""
    embedding: int = 128
    """Width of the latent state."""
    hidden: tuple[int, ...] = (128,)
    """Hidden layers of the policy, value, reward and dynamics MLPs."""
    bins: int = 129
    """Atoms of the categorical value and reward, odd."""
    value_scale: float = 256.0
    """Return of 1 (all of the possible saving) in the units of value and reward; atoms cover plus and minus this."""
    transform: bool = True
    """Whether atoms are even in h(x) = sign(x) (sqrt(|x| + 1) - 1) + x / 1000, as in MuZero, or in x. The paper says
    "categorical" and no more."""


@dataclass(frozen=True)
class MuZeroConfig:
    """The agent. Defaults are Table 6 of the paper, or MuZero's where it is silent."""

    representation: RepresentationConfig = RepresentationConfig()
    network: NetworkConfig = NetworkConfig()
    discount: float = 0.9999
    simulations: int = 400
    search: str = PUCT
    """`PUCT` as in the paper; `GUMBEL`; the ablations of Fig. 7: `EXACT` (true dynamics, no network, no learning) and
    `NO_SEARCH` (acts from the policy head)."""
    init_temperature: float = 1.0
    final_temperature: float = 0.2
    temperature_decay_steps: int = 400_000
    """Training steps over which the temperature falls, linearly (the shape is not stated)."""
    noise_fraction: float = 0.25
    noise_alpha: float = 0.03
    training_steps: int = 1_000_000
    """The agent stops after so many."""
    batch_size: int = 512
    learning_rate: float = 2e-4
    weight_decay: float = 1e-4
    replay_size: int = 20_000
    """Decisions kept. The paper gives the number without saying of what."""
    reanalyse_fraction: float = 0.5
    """Of each batch, how much gets fresh policy and value targets from a search with the current network."""
    unroll_steps: int = 5
    n_step: int = 10
    """Rewards summed before the value bootstraps; 0 takes all rewards to the end of the game."""
    value_loss_weight: float = 0.25
    max_gradient_norm: float = 0.0
    """Clips the gradient's global norm; 0 does not. The paper mentions no clipping."""
    parallel_games: int = 16
    moves_per_iteration: int = 32
    """Decisions per parallel game between two rounds of training steps."""
    updates_per_iteration: int = 4
    drop_backup: bool = True
    """Section 4.3.2; without it a dead end ends the game with a return of 0."""
    # What the paper does not have.
    gumbel_value_scale: float = 0.04
    """c_scale of completed Q-values, which are not rescaled, in the units of `NetworkConfig.value_scale`."""
    exploiting_games: int = 0
    """How many of the parallel games take the search's favourite throughout, whatever the temperature."""
    policy_target: str = SEARCH_TARGET
    """`OUTCOME_TARGET`: the action taken, weighted by exp(advantage / `outcome_scale`)."""
    outcome_scale: float = 2.0
    """In the units of `NetworkConfig.value_scale`."""
    demonstrations: str = NO_DEMONSTRATIONS
    """`GREEDY_TUNED` seeds the replay with games of the tuned threshold rule."""
    demonstration_share: float = 0.1
    """Of the budget, for finding demonstrations."""
    demonstration_confidence: float = 1.0
    """Probability of the demonstration's action in the policy target; the rest is shared by the other legal ones. At 1
    the agent ends up copying one game without a variation to learn from."""
    pretraining_updates: int = 0
    """Training steps on the demonstrations before the first game, without Reanalyse: an untrained search has nothing
    to teach."""
    shaped: bool = False
    """Whether rewards count relative to the demonstration's at the same buffer. The sum over a game is the return
    minus the demonstration's."""
    exact_rollout: int = 32
    """Random decisions by which the `EXACT` search values a leaf."""

    def __post_init__(self):
        check_config(self)


def check_config(config: MuZeroConfig) -> None:
    """Raises `InputError` where a number makes no sense."""

    def need(holds: bool, field: str, fault: str) -> None:
        if not holds:
            raise InputError("config", field, fault)

    seen, net = config.representation, config.network
    need(config.search in SEARCHES, "search", f"{config.search!r} is none of {', '.join(SEARCHES)}")
    need(config.policy_target in (SEARCH_TARGET, OUTCOME_TARGET), "policy_target", f"{config.policy_target!r}")
    need(config.demonstrations in (GREEDY_TUNED, NO_DEMONSTRATIONS), "demonstrations", f"{config.demonstrations!r}")
    need(0.0 < config.discount <= 1.0, "discount", f"must be in (0, 1], got {config.discount}")
    need(0.0 <= config.reanalyse_fraction <= 1.0, "reanalyse_fraction", f"{config.reanalyse_fraction} not in [0, 1]")
    confidence = config.demonstration_confidence
    need(0.0 <= confidence <= 1.0, "demonstration_confidence", f"{confidence} not in [0, 1]")
    need(seen.steps_per_column >= 1, "representation.steps_per_column", "must be at least 1")
    need(config.simulations >= 1, "simulations", f"must be at least 1, got {config.simulations}")
    need(config.final_temperature > 0, "final_temperature", f"must be above 0, got {config.final_temperature}")
    for name in ("batch_size", "replay_size", "parallel_games", "moves_per_iteration", "unroll_steps"):
        need(getattr(config, name) >= 1, name, f"must be at least 1, got {getattr(config, name)}")
    for name in ("updates_per_iteration", "n_step", "pretraining_updates", "training_steps"):
        need(getattr(config, name) >= 0, name, f"must not be negative, got {getattr(config, name)}")
    for name in ("window", "profile"):
        size = getattr(seen, name)
        need(size >= 8 and size % 8 == 0, f"representation.{name}", f"must be a multiple of 8, got {size}")
    need(seen.window % net.block == 0, "network.block", f"{net.block} does not divide the window of {seen.window}")
    need(net.bins >= 3 and net.bins % 2 == 1, "network.bins", f"must be odd and at least 3, got {net.bins}")
    need(0 <= config.exploiting_games <= config.parallel_games, "exploiting_games", f"{config.exploiting_games}")
    need(not config.shaped or config.demonstrations != NO_DEMONSTRATIONS, "shaped", "needs demonstrations")


PAPER = MuZeroConfig(
    representation=RepresentationConfig(steps_per_column=4, profile=32_768),
    network=NetworkConfig(
        block=2, channels=(32, 64, 128), blocks=2, part=256, embedding=512, hidden=(512, 512), bins=601
    ),
    value_loss_weight=1.0,
    parallel_games=64,
    moves_per_iteration=64,
    updates_per_iteration=32,
)
"""Table 6 to the letter; a day on accelerators per program in the paper."""
FULL = dataclasses.replace(
    MuZeroConfig(),
    simulations=32,
    temperature_decay_steps=2_000,
    batch_size=64,
    learning_rate=1e-3,
    n_step=50,
    max_gradient_norm=1.0,
)
"""The paper's algorithm at a size that two CPU cores bear."""
QUICK = dataclasses.replace(
    FULL,
    representation=RepresentationConfig(window=32, steps_per_column=4, profile=256, supply=32),
    network=NetworkConfig(channels=(16,), part=32, embedding=64, hidden=(64,), bins=65),
    simulations=8,
    temperature_decay_steps=200,
    batch_size=32,
)
"""For a chapter that learns while it is built."""
PROFILES = {"quick": QUICK, "full": FULL, "paper": PAPER}


def paper_config(profile: str = "full") -> MuZeroConfig:
    """The paper's agent at a profile's size.

    Raises:
      InputError: no such profile.
    """
    if profile not in PROFILES:
        raise InputError("profile", "", f"{profile!r} is none of {', '.join(PROFILES)}")
    return PROFILES[profile]


def improved_config(profile: str = "full") -> MuZeroConfig:
    """The paper's agent with what we found to help: Gumbel search without rescaling of Q, demonstrations of the tuned
    threshold rule, rewards relative to theirs, that rule's features, some games without exploration, and the policy
    taught by outcomes: a search with a young value network teaches it worse than it was."""
    base = paper_config(profile)
    return dataclasses.replace(
        base,
        representation=dataclasses.replace(base.representation, prices=True),
        search=GUMBEL,
        demonstrations=GREEDY_TUNED,
        demonstration_confidence=0.8,
        gumbel_value_scale=0.005,
        policy_target=OUTCOME_TARGET,
        exploiting_games=base.parallel_games // 4,
        pretraining_updates={"quick": 20, "full": 100, "paper": 2000}[profile],
        shaped=True,
    )


def only(config: MuZeroConfig, *fields: str) -> MuZeroConfig:
    """The defaults with these fields of `config`: what is compiled for some numbers is shared by all who have them."""
    return MuZeroConfig(**{name: getattr(config, name) for name in fields})


def config_to_json(config: MuZeroConfig) -> dict[str, Any]:
    """The configuration as a JSON object."""
    return dataclasses.asdict(config)


def config_digest(config: MuZeroConfig) -> str:
    """16 hexadecimal digits that change with any number of the configuration."""
    text = json.dumps(config_to_json(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
