"""A game as the agent plays it: only real decisions, rewards that add up to the return, Drop-backup or its ablation.

**Decisions.** A buffer with one legal action is decided at once: a step of this game is one choice among two or three
actions and what follows from it without choice. The paper does not say whether its agent steps through forced moves.
The discount counts decisions.

**Rewards** are differences of the return so far, so a Drop-backup gives what it takes back as a negative reward to the
decision that led into the dead end (section 4.3.2: "a negative reward signal, though more local").

**Without Drop-backup** a dead end ends the game. The reward is minus all that was saved: a return of 0, by which the
paper sizes its "sufficiently large" penalty.

**Shaping.** With reference [B + 1], the return so far of another game before each buffer, rewards are relative to it:
potential-based, so the best game stays the best.
"""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.muzero.compiled import KERNEL_SOURCE
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.play import Game, PlayedGame
from learned_mapping.mmap.rules.state import GameState
from learned_mapping.programs.program import Program

ONGOING, OVER, LOST = 0, 1, 2
NO_ACTION = -1


def _compile(kernel_source: str):
    @numba.njit(cache=True)
    def advance(program, state, action: int, drop_backup: bool) -> int:
        """Makes a legal move unless it is `NO_ACTION`, then whatever is forced; returns the game's status."""
        kernel_source  # noqa: B018, see `KERNEL_SOURCE`
        game = state.game[0]
        if action != NO_ACTION:
            kernel.apply(program, state, action)
        while game.cursor < len(program.buffers):
            legal = kernel.evaluate(program, state)
            if legal == 0:
                if not drop_backup:
                    return LOST
                kernel.drop_backup(program, state)
            elif legal == 1:
                for only in (COPY, NO_COPY, DROP):
                    if state.outcomes[only].legal != 0:
                        kernel.apply(program, state, only)
                        break
            else:
                return ONGOING
        return OVER

    return advance


advance = _compile(KERNEL_SOURCE)


class Position:
    """A game of one program in progress, always at a decision, over, or lost.

    Args:
      program: what is mapped, a `Program` or its arrays.
      drop_backup: False ends the game at a dead end.
      reference: [B + 1] returns so far of the game that rewards are relative to, or None.
    """

    def __init__(
        self, program: Program | ProgramArrays, *, drop_backup: bool = True, reference: np.ndarray | None = None
    ):
        self.game = Game(program)
        self.drop_backup = drop_backup
        self.reference = np.zeros(program.num_buffers + 1) if reference is None else np.asarray(reference, np.float64)
        if self.reference.shape != (program.num_buffers + 1,):
            raise InputError("reference", "", f"shape {self.reference.shape}, expected ({program.num_buffers + 1},)")
        self.actions: list[int] = []
        self.restart()

    @property
    def program(self) -> ProgramArrays:
        return self.game.program

    @property
    def state(self) -> GameState:
        return self.game.state

    @property
    def over(self) -> bool:
        """Whether nothing is left to decide, be the game complete or lost."""
        return self.status != ONGOING

    @property
    def lost(self) -> bool:
        return self.status == LOST

    @property
    def value(self) -> float:
        """The return so far; 0 once lost."""
        return 0.0 if self.lost else self.game.value

    @property
    def legal(self) -> np.ndarray:
        """[3] bool: two or three are True while the game goes on."""
        return self.game.legal

    def restart(self) -> None:
        """Back to the first decision, with nothing forced to Drop."""
        kernel.restart(self.program, self.state)
        self.actions.clear()
        self.status = advance(self.program, self.state, NO_ACTION, self.drop_backup)

    def step(self, action: int) -> float:
        """Makes a decision; returns its reward (share of the possible saving, relative to the reference).

        Raises:
          InputError: the game is over or the action is not legal.
        """
        action = int(action)
        if self.over or not (0 <= action < 3 and self.legal[action]):
            raise InputError("action", "", f"{action} is not legal at buffer {self.game.cursor}")
        before = self.game.value - self.reference[self.game.cursor]
        self.actions.append(action)
        self.status = advance(self.program, self.state, action, self.drop_backup)
        where = -1 if self.over else self.game.cursor
        return self.value - self.reference[where] - before

    def replay(self, actions: list[int] | np.ndarray) -> None:
        """Restarts and makes these decisions: the same game again, Drop-backups included."""
        self.restart()
        for action in actions:
            self.step(int(action))

    def played(self) -> PlayedGame:
        """The finished game; raises `InputError` if it is lost or not over."""
        return self.game.played()


def returns_so_far(game: PlayedGame, program: Program) -> np.ndarray:
    """[B + 1]: the return before each buffer of a finished game, and at its end."""
    saving = np.zeros(program.num_buffers)
    placed = np.zeros(program.num_instructions, np.int64)
    for b in np.flatnonzero(game.action != DROP).tolist():
        t, bit = int(program.buffer_instruction[b]), int(program.buffer_bit[b])
        if bit >= 0:
            entry = int(program.latency_offsets[t] + placed[t])
            saving[b] = program.latency_s[entry] - program.latency_s[entry + (1 << bit)]
            placed[t] |= 1 << bit
    possible = program.possible_saving_s
    return np.append(0.0, np.cumsum(saving)) / (possible if possible > 0 else 1.0)
