"""The game that a training sets out from."""

import numpy as np

from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program

RANDOM_GAMES = 64
"""Games of uniformly random moves, which the running mean of the return to go starts from."""


def first_game(
    program: Program, config: AgentConfig, rng: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray | None]:
    """The game that drops everything, with windows; else the best of random games.

    Returns:
      its return, -inf where every random game was lost; its actions [B]; and of random games the
      mean return to go before each buffer and at the end [B + 1].
    """
    best, actions = -np.inf, np.full(program.num_buffers, DROP)
    if config.windows:
        return 0.0, actions, None
    game, to_go = Game(program), np.zeros(program.num_buffers + 1)
    for _ in range(RANDOM_GAMES):
        game.restart()
        game.play_random(rng)
        if game.resets and not config.backup:
            continue  # lost
        saved = np.append(game.state.moves["saved_s"], game.state.game["saved_s"]) / (
            program.possible_saving_s or 1.0
        )
        to_go += (saved[-1] - saved) / RANDOM_GAMES
        if game.value > best:
            best, actions = game.value, game.state.moves["action"].astype(np.int64)
    return best, actions, to_go
