"""Edits of a game: what they leave behind is a game, their judgement is that of a whole replay, and
they find what is there to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.budget import Budget
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.searches.edit_search.eviction import evict, make_room
from learned_mapping.mmap.searches.edit_search.incumbent import begin, new_incumbent
from learned_mapping.mmap.searches.edit_search.loop import (
    BETTER,
    BY_TRIAL,
    COUNTS,
    PLAYED,
    UNDONE,
    improve,
)
from learned_mapping.mmap.searches.edit_search.neighbourhood import (
    COMPLETE,
    EJECT,
    KINDS,
    REPEAT,
    chain,
    draw,
    new_edits,
)
from learned_mapping.mmap.searches.edit_search.repeats import RUN, draw_repeat, repeats_of
from learned_mapping.mmap.searches.edit_search.search import (
    PLAIN,
    REPEATING,
    EditParameters,
    EditSearch,
)
from learned_mapping.mmap.searches.greedy import greedy
from learned_mapping.mmap.searches.search import Search
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.program import make_program
from learned_mapping_companion.datasets import compiled
from mmap_games import hard_program

EAGER = EditParameters(trial=0.8, trial_loss=50.0, jump=0.1)
"""Loses and undoes a lot."""


def started(program, seed=0):
    """A search whose best game is the greedy one."""
    search = Search(program, Budget(samples=10**6))
    greedy(search)
    return search, np.random.default_rng(seed)


@pytest.mark.parametrize("parameters", [EditParameters(), EAGER, EAGER._replace(repeats=0.7)])
def test_the_incumbent_is_always_a_game(parameters):
    """Catches an edit judged, accepted or undone where the games did not agree again: a replay of
    the incumbent's actions from the start must meet the same intervals, offsets and savings, after
    every few edits."""
    counts = np.zeros((len(KINDS), COUNTS), np.int64)
    for seed in range(6):
        program = (
            compiled.load("rnn_0")[0] if parameters.repeats else hard_program(seed, 60 + 60 * seed)
        )
        search, rng = started(program, seed)
        arrays, state = search.game.program, search.game.state
        incumbent, edits = new_incumbent(arrays, program.num_tensors), new_edits(arrays)
        repeats = repeats_of(arrays)
        begin(arrays, state, incumbent, search.best.action.astype(np.int64))
        best = incumbent.saved_s[-1]
        for _ in range(25):
            improve(arrays, state, incumbent, edits, repeats, parameters, 30, counts, rng)
            saved = incumbent.saved_s.copy()
            assert saved[-1] >= best * (1 - 1e-12)
            best = saved[-1]
            kept = {
                name: getattr(incumbent, name).copy()
                for name in ("moves", "reach_step", "root", "placed")
            }
            begin(arrays, state, incumbent, kept["moves"]["action"].copy())
            for name, array in kept.items():
                columns = ["action", "start", "end", "offset"] if name == "moves" else ...
                np.testing.assert_array_equal(getattr(incumbent, name)[columns], array[columns])
            np.testing.assert_allclose(incumbent.saved_s, saved, rtol=1e-9, atol=1e-15)
            assert (incumbent.want == -1).all()
    played = counts[:, PLAYED]
    assert counts[:, BETTER].sum() > 15 and (np.delete(played, REPEAT) > 30).all()
    assert (played[REPEAT] > 30) == (parameters.repeats > 0.0)
    if parameters.trial > 0.5:
        assert counts[:, BY_TRIAL].sum() > 0 and counts[:, UNDONE].sum() > 50


def test_one_action_looked_at_is_as_good_as_all_three():
    """Two games of the same wishes, one that looks at all actions of every decision: equal moves
    and dead ends."""
    rng = np.random.default_rng(3)
    dead_ends = 0
    for seed in range(20):
        program = hard_program(seed, 200)
        one, two = Game(program), Game(program)
        one.restart()
        two.restart()
        while one.state.game["cursor"][0] < program.num_buffers:
            wanted = int(rng.integers(3))
            if not kernel.follow(one.program, one.state, wanted):
                dead_ends += 1
                assert kernel.evaluate(two.program, two.state) == 0
                kernel.drop_backup(one.program, one.state)
                kernel.drop_backup(two.program, two.state)
                continue
            kernel.evaluate(two.program, two.state)
            kernel.apply(two.program, two.state, kernel.nearest_legal(two.state, wanted))
            c = one.state.game["cursor"][0]
            assert one.state.moves[c - 1] == two.state.moves[c - 1]
            if rng.random() < 0.02:
                back = int(rng.integers(c))
                kernel.rewind(one.program, one.state, back)
                kernel.rewind(two.program, two.state, back)
        np.testing.assert_array_equal(one.state.supply_s, two.state.supply_s)
        assert one.value == two.value
    assert dead_ends > 0


def test_edits_improve_and_stay_valid():
    program = random_program(
        np.random.default_rng(5), 400, alias_fraction=0.3, fast_fraction=0.15, copy_ratio=2.0
    )
    search, rng = started(program)
    before = search.best.value
    search.budget = Budget(samples=1500)
    edits = EditSearch(search, rng)
    edits.run()
    assert search.best.value > before
    assert search.best.value == pytest.approx(edits.saved_s / program.possible_saving_s, rel=1e-9)
    verdict = validate(program, search.mapping(), exact=True)
    assert verdict.valid, str(verdict)
    assert search.budget.samples <= 1500


def test_room_is_made_where_it_costs_least():
    """The evicted allocations are the ones at the cheapest offset, by a search over all offsets."""
    rng = np.random.default_rng(2)
    program = random_program(rng, 200, alias_fraction=0.0, fast_fraction=0.08, copy_ratio=0.5)
    search, _ = started(program)
    arrays, state = search.game.program, search.game.state
    incumbent, edits = new_incumbent(arrays, program.num_tensors), new_edits(arrays)
    begin(arrays, state, incumbent, search.best.action.astype(np.int64))
    moves, tried = incumbent.moves, 0
    for b in range(program.num_buffers):
        output = bool(arrays.buffers["is_output"][b])
        if (
            moves["action"][b] != DROP
            or not output
            or not 0 < arrays.buffers["bytes"][b] <= arrays.fast_bytes
        ):
            continue
        game = Game(arrays)
        for action in moves["action"][:b]:
            game.step(int(action))
        edits.facts[:] = 0
        chain(arrays, incumbent, edits, b, rng)
        end = int(edits.parts["last_step"][0])
        start, size = int(arrays.buffers["instruction"][b]), int(edits.facts["size"][0])
        assert evict(arrays, game.state, incumbent, edits, 0, 0.0, rng)
        new = edits.wanted[size : edits.facts["size"][0]]
        evicted = set(new["buffer"].tolist())
        assert set(new["action"].tolist()) <= {DROP}
        stands = {}
        for d in range(program.num_buffers):
            held = moves["action"][d] != DROP and moves["end"][d] >= moves["start"][d]
            if (
                held
                and moves["start"][d] <= end
                and moves["end"][d] >= start
                and incumbent.root[d] >= 0
            ):
                if arrays.buffers["tensor"][d] != arrays.buffers["tensor"][b]:
                    stands[int(incumbent.root[d])] = (
                        moves["offset"][d],
                        arrays.buffers["bytes"][d],
                    )
        costs = []
        need = int(arrays.buffers["bytes"][b])
        for offset in [0, *(low + size_ for low, size_ in stands.values())]:
            if offset + need <= arrays.fast_bytes:
                costs.append(
                    sum(
                        max(incumbent.value_s[r], 0.0)
                        for r, (low, size_) in stands.items()
                        if low < offset + need and low + size_ > offset
                    )
                )
        assert sum(max(incumbent.value_s[r], 0.0) for r in evicted) <= min(costs) + 1e-12
        tried += 1
    assert tried > 4


def test_values_of_allocations_add_up_to_the_return():
    program = hard_program(3, 200)
    search, _ = started(program)
    arrays, state = search.game.program, search.game.state
    incumbent = new_incumbent(arrays, program.num_tensors)
    begin(arrays, state, incumbent, search.best.action.astype(np.int64))
    roots = np.unique(incumbent.root[incumbent.root >= 0])
    assert incumbent.value_s[roots].sum() == pytest.approx(
        search.best.value * program.possible_saving_s
    )
    assert set(incumbent.moves["action"][roots].tolist()) <= {COPY, NO_COPY}


def test_making_room_is_used():
    """The kind that pushes others out wins something on a program too large for its memory."""
    program = random_program(
        np.random.default_rng(8), 500, alias_fraction=0.1, fast_fraction=0.08, copy_ratio=1.0
    )
    search, rng = started(program)
    search.budget = Budget(samples=2500)
    edits = EditSearch(search, rng)
    edits.run()
    assert edits.counts[EJECT:, BETTER].sum() > 0


def test_places_are_alike_as_far_as_their_runs_go():
    """Places of one number begin equal runs, and no two numbers do; places are listed once each."""
    arrays = Game(compiled.load("rnn_0")[0]).program
    repeats = repeats_of(arrays)
    runs = {}
    for place in range(arrays.num_buffers - RUN + 1):
        runs.setdefault(tuple(repeats.alike[place : place + RUN]), set()).add(
            int(repeats.run[place])
        )
    assert all(len(numbers) == 1 for numbers in runs.values())
    assert len({numbers.pop() for numbers in runs.values()}) == len(runs) < arrays.num_buffers
    for name in ("bytes", "is_output", "benefit_s", "demand_s"):
        of_number = {}
        for number, value in zip(repeats.alike, arrays.buffers[name]):
            assert of_number.setdefault(number, value) == value
    assert sorted(repeats.places) == list(range(arrays.num_buffers))
    for number, (first, stop) in enumerate(zip(repeats.first, repeats.first[1:])):
        assert (repeats.run[repeats.places[first:stop]] == number).all() and stop > first


def test_a_repeat_takes_over_what_another_place_has():
    search, rng = started(compiled.load("rnn_0")[0])
    arrays, state = search.game.program, search.game.state
    incumbent, edits = new_incumbent(arrays, search.program.num_tensors), new_edits(arrays)
    begin(arrays, state, incumbent, rng.integers(3, size=arrays.num_buffers))
    repeats, actions, drawn = repeats_of(arrays), incumbent.moves["action"], 0
    for place in range(arrays.num_buffers):
        draw_repeat(incumbent, edits, repeats, place, rng)
        wanted = edits.wanted[: edits.facts["size"][0]]
        others = np.flatnonzero(repeats.run == repeats.run[place])
        ahead = wanted["buffer"] - place
        assert not len(wanted) or any(
            (actions[other + ahead] == wanted["action"]).all()
            for other in others
            if other + ahead[-1] < len(actions)
        )
        drawn += len(wanted) > 0
    assert drawn > 10


def test_layers_are_mapped_alike():
    """On a program of layers equal numbers of edits bring more where some are taken over, three
    seeds together, from the greedy game, which leaves much to do."""
    program, returns = compiled.load("inference_vit")[0], {}
    for parameters in (PLAIN, REPEATING):
        for seed in range(3):
            search = Search(program, Budget(samples=1000))
            greedy(search)
            EditSearch(search, np.random.default_rng(seed), parameters).run()
            returns.setdefault(parameters, []).append(search.best.value)
            assert validate(program, search.mapping(), exact=True).valid
    assert np.mean(returns[REPEATING]) > np.mean(returns[PLAIN]) + 0.01


def crowded(count=60):
    """A program whose last instruction reads eight tensors as large as the memory, while as many
    small ones as given, worth holding, live to the end."""
    last = [2.0 - 0.2 * bin(subset).count("1") for subset in range(256)]
    return make_program(
        name="crowded",
        fast_bytes=count,
        copy_bytes_per_s=1e6,
        instruction_names=[f"i{t}" for t in range(count + 1)],
        instruction_kinds=["fusion"] * (count + 1),
        tensor_names=[f"t{n}" for n in range(count + 8)],
        tensor_bytes=[1] * count + [count] * 8,
        tensor_is_parameter=[False] * count + [True] * 8,
        tensor_is_output=[True] * count + [False] * 8,
        buffer_instruction=[*range(count), *[count] * 8],
        buffer_tensor=[*range(count + 8)],
        buffer_is_output=[True] * count + [False] * 8,
        buffer_alias=[-1] * (count + 8),
        buffer_bit=[0] * count + [*range(8)],
        latency_offsets=[*range(0, 2 * count + 1, 2), 2 * count + 256],
        latency_s=[2e-3, 1e-3] * count + last,
    )


def completed(program, actions=None, draws=300):
    """Edits that complete an instruction of the greedy game, or of one by its actions, with room
    made for them: what they want."""
    search, rng = started(program)
    actions = search.best.action if actions is None else actions
    arrays, state = search.game.program, search.game.state
    incumbent, edits = new_incumbent(arrays, program.num_tensors), new_edits(arrays)
    begin(arrays, state, incumbent, np.asarray(actions, np.int64))
    for _ in range(draws):
        place = int(rng.integers(program.num_buffers))
        draw(arrays, incumbent, edits, COMPLETE, place, PLAIN, rng)
        if edits.facts["size"][0] and make_room(arrays, state, incumbent, edits, PLAIN, rng):
            assert edits.facts["size"][0] <= len(edits.wanted)
        yield edits.wanted[: edits.facts["size"][0]].copy()


def test_an_edit_has_room_for_all_that_its_parts_evict():
    """Catches decisions written past the end of the edit: each of eight parts may evict all that is
    live."""
    program = crowded()
    held = [NO_COPY] * 60 + [DROP] * 8
    assert max(map(len, completed(program, held))) > 4 * program.num_buffers
    result = solve(program, "edit-search", samples=2000, seed=1)
    assert validate(program, result.solution, exact=True).valid


@pytest.mark.parametrize("share", [8, 16])
def test_no_edit_makes_room_for_what_cannot_fit(share):
    """Catches evictions, charged at nothing, for a tensor larger than the memory."""
    program = compiled.load("alexnet_train_batch_32")[0]
    program = replace(program, fast_bytes=program.fast_bytes // share, source="machine")
    sizes, drawn = program.tensor_bytes[program.buffer_tensor], 0
    assert (sizes > program.fast_bytes).any()
    for wanted in completed(program):
        placed = wanted["buffer"][wanted["action"] != DROP]
        assert (sizes[placed] <= program.fast_bytes).all()
        drawn += len(wanted) > 0
    assert drawn
