"""The agent's inputs, compared with what the game's definition says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mmap.muzero.config import RepresentationConfig
from learned_mapping.mmap.muzero.position import Position, returns_so_far
from learned_mapping.mmap.muzero.representation import Observer, layout
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.kernel import FEATURES
from learned_mapping.mmap.rules.play import play_random
from learned_mapping.programs.synthetic import random_program
from mmap_games import hard_program

SEEN = RepresentationConfig(
    next_buffers=3, same_tensor_buffers=2, window=16, steps_per_column=2, profile=24, supply=10, prices=True
)


def crowded_program(seed: int):
    """Long alias groups and little room: random play runs into dead ends."""
    rng = np.random.default_rng(seed)
    return random_program(rng, 80, alias_fraction=0.5, alias_chain=0.9, fast_fraction=0.15, copy_ratio=2.0)


def signed_log(x: float) -> float:
    return math.copysign(math.log1p(abs(x)), x) / 8


def buffer_numbers(program, position, b, t):
    """The ten numbers of a buffer from the `Program` and the decisions made, by definition."""
    u, n = int(program.buffer_instruction[b]), int(program.buffer_tensor[b])
    moves = position.state.moves["action"][: position.game.cursor]
    placed = 0
    for other in range(program.buffer_offsets[u], min(program.buffer_offsets[u + 1], len(moves))):
        if moves[other] != 2 and program.buffer_bit[other] >= 0:
            placed += 1 << int(program.buffer_bit[other])
    benefit = 0.0
    if program.buffer_bit[b] >= 0:
        entry = int(program.latency_offsets[u]) + placed
        benefit = program.latency_s[entry] - program.latency_s[entry + (1 << int(program.buffer_bit[b]))]
    scale = position.game.scale
    return [
        1.0,
        math.log(max(program.buffer_bytes[b] / program.fast_bytes, 1e-6)) / -math.log(1e-6),
        float(program.buffer_is_output[b]),
        signed_log(u - t),
        (n + 1) / program.num_tensors,
        (program.buffer_alias[b] + 1) / max(program.num_alias_groups, 1),
        signed_log(program.tensor_live[n, 0] - t),
        signed_log(program.tensor_live[n, 1] - t),
        math.log1p(program.buffer_demand_s[b] / scale[1]) / 4,
        math.copysign(math.log1p(abs(benefit) / scale[0]), benefit) / 4,
    ]


def reference(program, position):
    """Image, profile and vector in plain Python, cell by cell and byte by byte."""
    b = position.game.cursor
    t = int(program.buffer_instruction[b])
    moves = position.state.moves[:b]
    held = [
        (int(m["start"]), int(m["end"]), int(m["offset"]), int(m["offset"]) + int(program.buffer_bytes[i]))
        for i, m in enumerate(moves)
        if m["action"] != 2
    ]

    def occupied(first, last, cell, cells):
        low, high = cell * program.fast_bytes / cells, (cell + 1) * program.fast_bytes / cells
        return any(s <= last and e >= first and o < high and top > low and top > o for s, e, o, top in held if s <= e)

    q = SEEN.steps_per_column
    image = np.array(
        [[occupied(t + (c - 8) * q, t + (c - 8) * q + q - 1, cell, 16) for cell in range(16)] for c in range(16)]
    )
    profile = np.array([occupied(t, t, cell, 24) for cell in range(24)])
    vector = []
    same = [i for i in range(b + 1, program.num_buffers) if program.buffer_tensor[i] == program.buffer_tensor[b]]
    ahead = list(range(b, min(b + 4, program.num_buffers)))
    for wanted, count in ((ahead, 4), (same[:2], 2)):
        for i in wanted:
            vector += buffer_numbers(program, position, i, t)
        vector += [0.0] * (10 * (count - len(wanted)))
    for u in range(t - 5, t + 5):
        inside = 0 <= u < program.num_instructions
        vector.append(math.log1p(position.state.supply_s[u] / position.game.scale[1]) / 4 if inside else -1.0)
    for action, outcome in enumerate(position.game.outcomes):
        if not outcome["legal"]:
            vector += [0.0] * 4
        elif action == 2:
            vector += [1.0, 0.0, 0.0, 0.0]
        else:
            offset = outcome["offset"] / program.fast_bytes
            vector += [1.0, signed_log(outcome["start"] - t), signed_log(outcome["end"] - t), offset]
    vector += [position.state.game["moves"][0] / program.num_buffers, b / program.num_buffers]
    group = program.buffer_alias[b]
    members = np.flatnonzero(program.buffer_alias == group) if group >= 0 else np.array([b])
    vector += [math.log1p((members < b).sum()) / 4, math.log1p((members > b).sum()) / 4]
    return image, profile, np.array(vector)


@pytest.mark.parametrize("seed", range(4))
def test_observations_are_what_the_definition_says(seed):
    """Every state of a random game with dead ends: catches an index, a bit, a time or a scale that is off."""
    program = hard_program(seed, 60)
    rng = np.random.default_rng(seed)
    position = Position(program)
    observer = Observer(program, position.game.scale, SEEN)
    where = layout(SEEN)
    seen_cells = 0
    while not position.over:
        batch = observer([position, position])
        image, profile, vector = reference(program, position)
        for row in range(2):
            found = np.unpackbits(batch.window[row], axis=-1, bitorder="little")
            np.testing.assert_array_equal(found, image)
            np.testing.assert_array_equal(np.unpackbits(batch.profile[row], bitorder="little"), profile)
            np.testing.assert_allclose(batch.vector[row, : where.prices.start], vector, rtol=1e-6, atol=1e-6)
        one = batch.vector[0, where.prices].reshape(2, len(FEATURES))[:, 0]
        np.testing.assert_allclose(one, position.legal[:2] / 4)
        seen_cells += int(image.sum())
        position.step(int(rng.choice(np.flatnonzero(position.legal))))
    assert seen_cells > 100


def test_rewards_add_up_and_only_real_choices_are_asked():
    """With and without a reference, dead ends included: catches a reward that forgets what a Drop-backup takes back."""
    resets = 0
    for seed in range(6):
        program = crowded_program(seed)
        rng = np.random.default_rng(seed)
        other = play_random(program, rng)
        reference = returns_so_far(other, program)
        assert reference[-1] == pytest.approx(other.value, abs=1e-12)
        for shape in (None, reference):
            position, total = Position(program, reference=shape), 0.0
            while not position.over:
                assert position.legal.sum() >= 2
                total += position.step(int(rng.choice(np.flatnonzero(position.legal))))
            game = position.played()
            assert total == pytest.approx(game.value - (0 if shape is None else reference[-1]), abs=1e-9)
            resets += game.resets
            again = Position(program)
            again.replay(position.actions)
            np.testing.assert_array_equal(again.played().action, game.action)
    assert resets > 0


def test_without_drop_backup_a_dead_end_loses_everything():
    """Catches a lost game that keeps its savings or counts as complete."""
    lost = 0
    for seed in range(12):
        program = crowded_program(seed)
        rng = np.random.default_rng(seed)
        position, total = Position(program, drop_backup=False), 0.0
        while not position.over:
            total += position.step(int(rng.choice(np.flatnonzero(position.legal))))
        if position.lost:
            lost += 1
            assert position.value == 0.0 and total == pytest.approx(0.0, abs=1e-12)
            with pytest.raises(InputError, match="buffers are decided"):
                position.played()
    assert lost > 0


def test_wrong_use_is_refused():
    with pytest.raises(InputError, match="not legal"):
        Position(toy_program()).step(3)
    with pytest.raises(InputError, match="expected \\(7,\\)"):
        Position(toy_program(), reference=np.zeros(3))
