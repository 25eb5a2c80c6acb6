"""The numbers of the agent, and which of them go with which program."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.learning.settings import (
    COUNT,
    NOT_NEGATIVE,
    ONE_OR_MORE,
    POSITIVE,
    SHARE,
    Ranges,
    check_settings,
)
from learned_mapping.programs.json_io import Node

LONG = 1000
"""Buffers from which on self-play is in windows."""
SIZES = LIGHT_SIZE, PAPER_SIZE = ("light", "paper")
"""Sizes of the agent and of its network."""
MOST_WIDE = 65_536
"""The most units of a layer."""


@dataclass(frozen=True)
class AgentConfig:
    """All that a training depends on besides program and seed. Values are in *units*: the possible
    saving divided by the decisions of a game."""

    games: int = 64
    """Side by side."""
    windows: int = 0
    """Games that start anew in every iteration, at a decision of the best game; the others play
    whole games."""
    moves: int = 64
    """Decisions of every game per iteration; the length of a window."""
    cold_games: int = 8
    """Whole games at `cold_temperature`, the others at 1."""
    cold_temperature: float = 0.25
    """The number that divides the logits of cold games."""
    simulations: int = 8
    """Simulations of the search; 0 plays by the policy head, improved by single model steps
    (`improves_alone`)."""
    value_scale: float = 1.5
    """Logits per unit of Q in the improved policy (Danihelka et al. 2022, sigma at no more than
    these visits)."""
    discount: float = 0.997
    network: str = LIGHT_SIZE
    """Perceptrons, or the paper's ResNet and residual perceptrons: `light_network`,
    `paper_network`."""
    width: int = 192
    """Units of hidden layers."""
    ids: bool = True
    """Whether ids are embedded; without, alike positions look alike."""
    potential: bool = True
    """Whether rewards and values of whole games are relative to the return to go expected at a
    buffer."""
    log_values: bool = False
    """Whether atoms are evenly spaced in sign(x) ln(1 + |x|) instead of x, see `network`."""
    limit: float = 43.0
    """The last atom, in units."""
    unroll: int = 5
    """Decisions after the first that a sample of an update holds."""
    batch: int = 256
    updates: int = 18
    """Per iteration."""
    learning_rate: float = 1e-3
    replay: int = 100_000
    """Decisions."""
    reanalyse: int = 0
    """Batches of `games` replayed decisions that are searched anew per iteration."""
    drop_start: float = 0.0
    """Logit of Drop in the untrained policy, the others' being 0: play starts near "Drop
    everything"."""
    patience: int = 0
    """Updates that bring no better game after which a round ends and learning starts anew, see
    `rounds`; 0: never."""
    imitation: float = 0.0
    """Share of a batch that is the best game."""
    priced: bool = False
    """Whether it sees prices, begins at the game of `searches.priced` with that rule for a prior,
    and returns the best game it meets by whatever means."""
    frozen: bool = False
    """The control: nothing is learned; the policy head plays, or a search in the game itself."""
    backup: bool = True
    """Whether dead ends are settled by Drop-backup; else they end a game with a return of 0."""
    evaluate_every: int = 100
    """Iterations between evaluations of the agent alone; 0 leaves one at the end of the
    training."""
    true_dynamics: bool = False
    """The search asks the game itself instead of the learned model; with `frozen` only."""
    iterations: int = 0
    """Iterations after which training ends whatever the budget; 0: none."""

    @property
    def whole_games(self) -> int:
        return self.games - self.windows

    @property
    def own_windows(self) -> int:
        """Windows that start at a decision of the agent's own last cold game, and end like that."""
        return self.windows // 3

    @property
    def latent(self) -> int:
        """Units of the state."""
        return self.width // 2

    @property
    def id_width(self) -> int:
        """Units of an id's embedding in the input; in `paper_network` also of each part of the
        observation."""
        return max(self.width // (8 if self.network == PAPER_SIZE else 6), 1)

    @property
    def weight_decay(self) -> float:
        """Decoupled; in the paper's size Table 6's."""
        return 1e-4 if self.network == PAPER_SIZE else 1e-5

    @property
    def training_steps(self) -> int:
        """Updates until training ends; 0 where the configuration sets no end."""
        return self.iterations * self.updates

    @property
    def share_reanalysed(self) -> float:
        """Decisions searched anew for each sample of an update."""
        return self.reanalyse * self.games / max(self.updates * self.batch, 1)

    @property
    def improves_alone(self) -> bool:
        """Whether the policy is improved by the learned model without a search."""
        return (
            not self.simulations and self.unroll > 0 and not self.frozen and not self.true_dynamics
        )

    @property
    def search_simulations(self) -> int:
        return 0 if self.frozen and not self.true_dynamics else self.simulations


WHOLE = AgentConfig()
"""The configuration for short programs."""
WINDOWS = AgentConfig(
    games=128,
    windows=120,
    moves=48,
    cold_games=6,
    cold_temperature=0.1,
    value_scale=1.0,
    discount=0.99,
    log_values=True,
    limit=2980.0,
    batch=512,
    updates=24,
    replay=131_072,
    imitation=0.1,
)
"""The configuration for long ones."""
PAPER = AgentConfig(
    games=128,
    moves=32,
    cold_games=16,
    cold_temperature=0.2,
    simulations=400,
    value_scale=1.0,
    discount=0.9999,
    network=PAPER_SIZE,
    width=512,
    log_values=True,
    limit=2980.0,
    batch=512,
    updates=16,
    learning_rate=2e-4,
    replay=20_000,
    reanalyse=32,
    iterations=62_500,
)
"""Table 6, for programs of every length: 400 simulations, discount .9999, a million steps of Adam
on 512 samples.

What Table 6 says in words that this code does not know: weight decay is decoupled (AdamW). The
replay counts decisions. Half of the training data from Reanalyse are as many searches of replayed
decisions in an iteration as half the samples of its updates (`share_reanalysed`). The temperature
does not fall from 1 to .2: some games are played at .2, the others at 1. The policy has no noise at
the root, where every action is looked into anyway. What Table 6 does not say is ours.
"""


RANGES: Ranges = {
    "width": (2, MOST_WIDE),
    **dict.fromkeys(("games", "moves", "batch", "replay"), ONE_OR_MORE),
    **dict.fromkeys(
        ("windows", "cold_games", "simulations", "unroll", "updates", "reanalyse"), COUNT
    ),
    **dict.fromkeys(("patience", "evaluate_every", "iterations"), COUNT),
    **dict.fromkeys(("cold_temperature", "limit"), POSITIVE),
    **dict.fromkeys(("value_scale", "learning_rate"), NOT_NEGATIVE),
    **dict.fromkeys(("discount", "imitation"), SHARE),
    "drop_start": (-1e3, 1e3),
}
RULES: tuple[tuple[str, Callable[[AgentConfig], object], str], ...] = (
    (
        "games",
        lambda c: 0 <= c.windows < c.games,
        "must be more than windows",
    ),
    (
        "true_dynamics",
        lambda c: not (c.true_dynamics and c.windows),
        "plays whole games only; set windows to 0",
    ),
    (
        "potential",
        lambda c: c.potential or not c.windows,
        "windows are relative to the game they follow",
    ),
    (
        "backup",
        lambda c: c.backup or not (c.windows or c.true_dynamics),
        "can be left out of whole games only, with no search in the game",
    ),
    (
        "patience",
        lambda c: not c.patience or (c.backup and c.potential and not c.frozen),
        ("starts anew only what learns from scratch, with Drop-backup and potential; set it to 0"),
    ),
    (
        "true_dynamics",
        lambda c: not c.true_dynamics or (c.frozen and c.simulations > 0),
        "asks no network: set frozen and simulations",
    ),
    (
        "priced",
        lambda c: not c.priced or c.windows > 0,
        "begins at a game that windows can follow: set windows",
    ),
    ("network", lambda c: c.network in SIZES, f"expected one of {', '.join(SIZES)}, got {{!r}}"),
    (
        "cold_games",
        lambda c: c.cold_games <= c.whole_games,
        "must be no more than the games without windows",
    ),
)
"""Rules of a configuration: the setting to blame, the condition, and the fault without it, of its
value."""


def config_for(num_buffers: int, size: str = LIGHT_SIZE, **changes: Any) -> AgentConfig:
    """The configuration for a program of so many buffers, with some values changed; `size` is one
    of `SIZES`.

    Raises:
      InputError: an unknown name, or a value that no training can have.
    """
    if size not in SIZES:
        raise InputError("size", "", f"expected one of {', '.join(SIZES)}, got {size!r}")
    config = WINDOWS if changes.get("priced") or num_buffers >= LONG else WHOLE
    config = PAPER if size == PAPER_SIZE else config
    known = {field.name for field in dataclasses.fields(AgentConfig)}
    for name in changes:
        if name not in known:
            raise InputError("config", name, "is no setting of the agent")
    config = dataclasses.replace(config, **changes)
    check_settings(config, RANGES)
    for name, holds, fault in RULES:
        if not holds(config):
            raise InputError("config", name, fault.format(getattr(config, name)))
    return config


def config_to_json(config: AgentConfig) -> dict[str, Any]:
    """The configuration as JSON."""
    return dataclasses.asdict(config)


def changes_from_json(node: Node) -> dict[str, Any]:
    """Settings from a JSON object of some of them; raises `InputError` naming file and field."""
    fields = {field.name: field for field in dataclasses.fields(AgentConfig)}
    values = node.object((), tuple(fields))
    return {name: _setting(value, type(fields[name].default)) for name, value in values.items()}


def _setting(node: Node, kind: type) -> Any:
    if kind is bool:
        return node.boolean()
    if kind is str:
        return node.choice(*SIZES)
    return node.integer(0, 2**31) if kind is int else node.number(0.0, 1e9)
