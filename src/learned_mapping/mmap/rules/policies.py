"""What a compiled game chooses its moves by: chance, preferences, or a linear policy on features of
the action."""

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.kernel import apply, drop_backup, evaluate
from learned_mapping.mmap.rules.state import GameState, ProgramArrays

FEATURES = (
    "one",
    "log_benefit",  # ln(1 + benefit now / unit of benefits)
    "log_size",  # ln(size / fast memory), at least ln(1e-6)
    "log_new_steps",  # ln(1 + steps this action occupies anew)
    # ln of benefit now per byte-step occupied anew, in units of benefit per fast memory and step
    "log_density",
    "log_supply",  # ln(1 + supply seconds this action takes / mean supply of a step)
    "free_of_charge",  # 1 if nothing is occupied anew
    "log_uses_left",  # ln(1 + later buffers of the tensor)
    "log_group_left",  # ln(1 + later buffers of the alias group)
    "offset",  # as a fraction of the fast memory
    "fill",  # bytes in fast memory at this step, as a fraction
    "is_output",
    # as log_density, with the initial benefits of the tensor's later buffers added
    "log_tensor_density",
)
"""Features that `LINEAR` weighs for Copy and for NoCopy: weights [2, len(FEATURES)]; Drop scores 0.
A weight of 1 on log_density and -ln(threshold) on one is the greedy rule "place what saves more
than threshold per byte-step"."""
NUM_FEATURES = len(FEATURES)
RANDOM, PREFERENCES, LINEAR = 0, 1, 2  # What a compiled game chooses its moves by.


@numba.njit(cache=True)
def action_features(
    program: ProgramArrays, state: GameState, scale: np.ndarray, action: int, features: np.ndarray
) -> None:
    """Fills `FEATURES` of a legal Copy or NoCopy on the evaluated buffer; scale [2]: units of
    benefit and supply, s."""
    game = state.game[0]
    buffer, outcome = program.buffers[game.cursor], state.outcomes[action]
    new_steps = max(outcome.end - outcome.start + 1, 0)
    size = max(buffer.bytes / program.fast_bytes, 1e-6)
    benefit = max(outcome.reward_s, 0.0) / scale[0]
    area = max(size * new_steps, 1e-6)
    features[0] = 1.0
    features[1] = np.log1p(benefit)
    features[2] = np.log(size)
    features[3] = np.log1p(new_steps)
    features[4] = np.log(max(benefit, 1e-9) / area)
    features[5] = np.log1p(buffer.demand_s / scale[1]) if action == COPY else 0.0
    features[6] = 1.0 if new_steps == 0 else 0.0
    features[7] = np.log1p(buffer.uses_left)
    features[8] = np.log1p(buffer.group_left)
    features[9] = outcome.offset / program.fast_bytes
    features[10] = game.live_bytes / program.fast_bytes
    features[11] = buffer.is_output
    features[12] = np.log(max(benefit + max(buffer.benefit_left_s, 0.0) / scale[0], 1e-9) / area)


@numba.njit(cache=True)
def choose(program, state, mode, preferences, weights, scale, features, rng) -> int:
    """A legal action by the policy `mode` names."""
    b = state.game[0].cursor
    if mode == RANDOM:
        count = (
            state.outcomes[COPY].legal + state.outcomes[NO_COPY].legal + state.outcomes[DROP].legal
        )
        skip = int(rng.random() * count) if count > 1 else 0
        for action in range(3):
            if state.outcomes[action].legal != 0:
                if skip == 0:
                    return action
                skip -= 1
    best, best_score = -1, -np.inf
    for action in range(3):
        if state.outcomes[action].legal == 0:
            continue
        if mode == LINEAR:
            score = 0.0
            if action != DROP:
                action_features(program, state, scale, action, features)
                for i in range(len(features)):
                    score += weights[action, i] * features[i]
        else:
            score = preferences[b, action]
        if best < 0 or score > best_score:
            best, best_score = action, score
    return best


@numba.njit(cache=True)
def play_on(program, state, mode, preferences, weights, scale, stop, rng) -> None:
    """Plays on until `stop` buffers are decided."""
    features = np.zeros(NUM_FEATURES)
    while state.game[0].cursor < stop:
        if evaluate(program, state) == 0:
            drop_backup(program, state)
        else:
            action = choose(program, state, mode, preferences, weights, scale, features, rng)
            apply(program, state, action)
