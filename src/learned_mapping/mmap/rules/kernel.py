"""The MMapGame of `rules` compiled: exact rectangles in lists by time and by offset, with a log
that takes moves back.

The cost of a move does not grow with the program: it depends on how many allocations overlap the
interval asked for. Decisions come in program order, so every allocation starts at or before the
current step t, and one overlaps an interval [s, e] with e >= t exactly if it ends at s or later.
Those that end at t or later stand in ``live``, sorted by offset; those that ended earlier hang in a
list per step, visited only for the steps from s to t - 1.
"""

import numba

from learned_mapping.mmap.rules.actions import (
    COPY,
    DROP,
    DROPPED,
    NEAREST,
    NEVER,
    NO_COPY,
    NO_OFFSET,
    PLACED,
    UNDECIDED,
)
from learned_mapping.mmap.rules.state import NONE, GameState, ProgramArrays


@numba.njit(cache=True)
def benefit_s(program: ProgramArrays, b: int, placed: int) -> float:
    """L(B') - L(B' + b), seconds: what buffer b in fast memory saves its instruction beside the
    buffers `placed`."""
    buffer = program.buffers[b]
    if buffer.bit < 0:
        return 0.0
    without = program.table_start[buffer.instruction] + (placed & ~(1 << buffer.bit))
    return program.latency_s[without] - program.latency_s[without + (1 << buffer.bit)]


@numba.njit(cache=True)
def copy_span(program: ProgramArrays, b: int, start: int, end: int) -> tuple[int, int]:
    """First and last step that the copy of buffer b takes where I(b) = [start, end]."""
    t = program.buffers[b].instruction
    return (t + 1, end) if program.buffers[b].is_output != 0 else (start, t - 1)


@numba.njit(cache=True)
def _enter_live(state: GameState, r: int) -> None:
    game, live, rectangle = state.game[0], state.live, state.rectangles[r]
    position = game.num_live
    while position > 0 and live[position - 1].offset > rectangle.offset:
        live[position] = live[position - 1]
        position -= 1
    live[position].offset = rectangle.offset
    live[position].top = rectangle.top
    live[position].rectangle = r
    game.num_live += 1
    game.live_bytes += rectangle.top - rectangle.offset


@numba.njit(cache=True)
def _leave_live(state: GameState, r: int) -> None:
    game, live, rectangle = state.game[0], state.live, state.rectangles[r]
    low, high = 0, game.num_live
    while low < high:
        middle = (low + high) // 2
        if live[middle].offset < rectangle.offset:
            low = middle + 1
        else:
            high = middle
    while live[low].rectangle != r:
        low += 1
    for position in range(low, game.num_live - 1):
        live[position] = live[position + 1]
    game.num_live -= 1
    game.live_bytes -= rectangle.top - rectangle.offset


@numba.njit(cache=True)
def _link(state: GameState, r: int, end: int) -> None:
    first = state.steps[end].ended
    rectangle = state.rectangles[r]
    rectangle.end, rectangle.next, rectangle.previous = end, first, NONE
    if first != NONE:
        state.rectangles[first].previous = r
    state.steps[end].ended = r


@numba.njit(cache=True)
def _unlink(state: GameState, r: int) -> None:
    rectangle = state.rectangles[r]
    if rectangle.previous == NONE:
        state.steps[rectangle.end].ended = rectangle.next
    else:
        state.rectangles[rectangle.previous].next = rectangle.next
    if rectangle.next != NONE:
        state.rectangles[rectangle.next].previous = rectangle.previous


@numba.njit(cache=True)
def _move_now(state: GameState, now: int) -> None:
    """Lets ``live`` hold what ends at step `now` or later."""
    game = state.game[0]
    while game.now < now:
        r = state.steps[game.now].ended
        while r != NONE:
            _leave_live(state, r)
            r = state.rectangles[r].next
        game.now += 1
    while game.now > now:
        game.now -= 1
        r = state.steps[game.now].ended
        while r != NONE:
            _enter_live(state, r)
            r = state.rectangles[r].next


@numba.njit(cache=True)
def _lowest_offset(program: ProgramArrays, state: GameState, start: int, size: int) -> int:
    """The lowest offset free from step `start` on, or `NO_OFFSET`: one sweep over what overlaps, by
    offset."""
    game, live, rectangles, ended = state.game[0], state.live, state.rectangles, state.scratch
    num_ended = 0
    for u in range(start, game.now):
        r = state.steps[u].ended
        while r != NONE:
            offset = rectangles[r].offset
            position = num_ended
            while position > 0 and rectangles[ended[position - 1]].offset > offset:
                ended[position] = ended[position - 1]
                position -= 1
            ended[position] = r
            num_ended += 1
            r = rectangles[r].next
    free_from, i, j = 0, 0, 0
    while i < game.num_live or j < num_ended:
        if j == num_ended or (i < game.num_live and live[i].offset <= rectangles[ended[j]].offset):
            offset, top = live[i].offset, live[i].top
            i += 1
        else:
            offset, top = rectangles[ended[j]].offset, rectangles[ended[j]].top
            j += 1
        if offset - free_from >= size:
            return free_from
        free_from = max(free_from, top)
    return free_from if program.fast_bytes - free_from >= size else NO_OFFSET


@numba.njit(cache=True)
def _updates_in_place(program: ProgramArrays, b: int, tensor: int) -> bool:
    for i in range(program.updated_offsets[b], program.updated_offsets[b + 1]):
        if program.updated[i] == tensor:
            return True
    return False


@numba.njit(cache=True)
def _is_free(program: ProgramArrays, state: GameState, b: int, start: int, offset: int) -> bool:
    """Whether [offset, offset + size(b)) is free from step `start` on, but for the overlap of an
    in-place update."""
    game, live, rectangles = state.game[0], state.live, state.rectangles
    buffer = program.buffers[b]
    top = offset + buffer.bytes
    if top > program.fast_bytes:
        return False
    for i in range(game.num_live):
        if live[i].offset >= top:
            break
        if live[i].top > offset:
            rectangle = rectangles[live[i].rectangle]
            if rectangle.end != buffer.instruction or rectangle.offset != offset:
                return False
            if not _updates_in_place(program, b, rectangle.tensor):
                return False
    for u in range(game.now - 1, start - 1, -1):
        r = state.steps[u].ended
        while r != NONE:
            if rectangles[r].offset < top and rectangles[r].top > offset:
                return False
            r = rectangles[r].next
    return True


@numba.njit(cache=True)
def _place(program: ProgramArrays, state: GameState, b: int, start: int) -> int:
    """The offset rule 7 gives buffer b from step `start` on, or `NO_OFFSET`."""
    buffer = program.buffers[b]
    if buffer.alias != NONE and state.groups[buffer.alias].status == PLACED:
        offset = state.groups[buffer.alias].offset
        if buffer.bytes == 0 or _is_free(program, state, b, start, offset):
            return offset
        return NO_OFFSET
    if buffer.bytes == 0:
        return 0
    return _lowest_offset(program, state, start, buffer.bytes)


@numba.njit(cache=True)
def _evaluate_copy(program: ProgramArrays, state: GameState, b: int) -> None:
    buffer, outcome = program.buffers[b], state.outcomes[COPY]
    tensor = state.tensors[buffer.tensor]
    t = buffer.instruction
    if buffer.bytes > program.fast_bytes:
        return
    forward = buffer.is_output != 0
    if not forward and tensor.in_hbm_from > t:
        return
    far, remaining = NONE, buffer.demand_s
    if buffer.bytes == 0:
        far, remaining = t, 0.0
    else:
        stride, stop = (1, len(state.supply_s)) if forward else (-1, tensor.in_hbm_from - 1)
        for u in range(t + stride, stop, stride):
            if u != t + stride and state.steps[min(u, u - stride)].joined != 0:
                break
            if state.supply_s[u] >= remaining:
                far, remaining = u, state.supply_s[u] - remaining
                break
            remaining -= state.supply_s[u]
    if far == NONE:
        return
    start, end = (t, far) if forward else (far, t)
    if not forward and tensor.end >= start:
        return
    offset = _place(program, state, b, start)
    if offset == NO_OFFSET:
        return
    outcome.legal, outcome.start, outcome.end, outcome.offset, outcome.leftover_s = (
        1,
        start,
        end,
        offset,
        remaining,
    )


@numba.njit(cache=True)
def _evaluate_no_copy(program: ProgramArrays, state: GameState, b: int) -> None:
    buffer, outcome = program.buffers[b], state.outcomes[NO_COPY]
    tensor = state.tensors[buffer.tensor]
    t = buffer.instruction
    if buffer.is_output != 0:
        if buffer.bytes > program.fast_bytes:
            return
        start, end = t, buffer.live_end
        offset = _place(program, state, b, start)
        if offset == NO_OFFSET:
            return
    else:
        if tensor.end == NONE:
            return
        start, end, offset = min(tensor.end, t) + 1, t, tensor.offset
        if buffer.alias != NONE and state.groups[buffer.alias].status == PLACED:
            if state.groups[buffer.alias].offset != offset:
                return
        if start <= end and buffer.bytes > 0 and not _is_free(program, state, b, start, offset):
            return
    outcome.legal, outcome.start, outcome.end, outcome.offset = 1, start, end, offset


@numba.njit(cache=True)
def _legal_by_group(program: ProgramArrays, state: GameState, b: int) -> tuple[bool, bool]:
    """Whether b's alias group allows that it is placed, and that it is dropped (rule 8)."""
    alias = program.buffers[b].alias
    if alias == NONE:
        return True, True
    group = state.groups[alias]
    return group.status != DROPPED and group.forced == 0, group.status != PLACED


@numba.njit(cache=True)
def _clear(state: GameState, action: int) -> None:
    outcome = state.outcomes[action]
    outcome.legal, outcome.start, outcome.end, outcome.offset = 0, NONE, NONE, NO_OFFSET
    outcome.leftover_s = outcome.reward_s = 0.0


@numba.njit(cache=True)
def evaluate(program: ProgramArrays, state: GameState) -> int:
    """Fills ``state.outcomes`` for the buffer at the cursor; returns how many actions are legal."""
    game, outcomes = state.game[0], state.outcomes
    b = game.cursor
    if game.evaluated != b:
        t = program.buffers[b].instruction
        _move_now(state, t)
        for action in range(3):
            _clear(state, action)
        may_place, may_drop = _legal_by_group(program, state, b)
        if may_place:
            _evaluate_copy(program, state, b)
            _evaluate_no_copy(program, state, b)
        if may_drop:
            outcomes[DROP].legal = 1
        if outcomes[COPY].legal + outcomes[NO_COPY].legal > 0:
            reward_s = benefit_s(program, b, state.steps[t].placed)
            for action in (COPY, NO_COPY):
                if outcomes[action].legal != 0:
                    outcomes[action].reward_s = reward_s
        game.evaluated = b
    return outcomes[COPY].legal + outcomes[NO_COPY].legal + outcomes[DROP].legal


@numba.njit(cache=True)
def evaluate_action(program: ProgramArrays, state: GameState, action: int) -> bool:
    """Fills the outcome of one action on the buffer at the cursor, as `evaluate` does; whether it
    is legal."""
    b, outcome = state.game[0].cursor, state.outcomes[action]
    t = program.buffers[b].instruction
    _move_now(state, t)
    _clear(state, action)
    may_place, may_drop = _legal_by_group(program, state, b)
    if action == DROP:
        outcome.legal = 1 if may_drop else 0
    elif may_place:
        if action == COPY:
            _evaluate_copy(program, state, b)
        else:
            _evaluate_no_copy(program, state, b)
        if outcome.legal != 0:
            outcome.reward_s = benefit_s(program, b, state.steps[t].placed)
    return outcome.legal != 0


@numba.njit(cache=True)
def _drain(state: GameState, step: int, supply_s: float) -> None:
    game = state.game[0]
    state.drained[game.num_drained].step = step
    state.drained[game.num_drained].supply_s = state.supply_s[step]
    game.num_drained += 1
    state.supply_s[step] = supply_s


@numba.njit(cache=True)
def _allocate(program: ProgramArrays, state: GameState, b: int, action: int) -> None:
    game, buffer, outcome = state.game[0], program.buffers[b], state.outcomes[action]
    tensor = state.tensors[buffer.tensor]
    if outcome.end < outcome.start:
        return
    if action == NO_COPY and buffer.is_output == 0:
        if tensor.rectangle != NONE:
            r = tensor.rectangle
            was_live = state.rectangles[r].end >= game.now
            _unlink(state, r)
            _link(state, r, outcome.end)
            if not was_live:
                _enter_live(state, r)
    elif buffer.bytes > 0:
        r = game.num_rectangles
        game.num_rectangles += 1
        rectangle = state.rectangles[r]
        rectangle.offset, rectangle.top = outcome.offset, outcome.offset + buffer.bytes
        rectangle.tensor = buffer.tensor
        _link(state, r, outcome.end)
        _enter_live(state, r)
        tensor.rectangle = r
    tensor.end, tensor.offset = outcome.end, outcome.offset


@numba.njit(cache=True)
def apply(program: ProgramArrays, state: GameState, action: int) -> float:
    """Makes a legal move, evaluated before; returns the reward in seconds."""
    game = state.game[0]
    b = game.cursor
    buffer, outcome, move = program.buffers[b], state.outcomes[action], state.moves[b]
    tensor, t = state.tensors[buffer.tensor], buffer.instruction
    move.action, move.start, move.end, move.offset = (
        action,
        outcome.start,
        outcome.end,
        outcome.offset,
    )
    move.reward_s, move.saved_s = outcome.reward_s, game.saved_s
    move.tensor_end, move.tensor_offset, move.tensor_rectangle = (
        tensor.end,
        tensor.offset,
        tensor.rectangle,
    )
    move.in_hbm_from, move.open_groups, move.backup = (
        tensor.in_hbm_from,
        game.open_groups,
        game.backup,
    )
    move.num_drained, move.num_rectangles, move.opened_group = (
        game.num_drained,
        game.num_rectangles,
        0,
    )
    if action == COPY and buffer.bytes > 0:
        first, last = copy_span(program, b, outcome.start, outcome.end)
        far = last if buffer.is_output != 0 else first
        for u in range(first, last + 1):
            _drain(state, u, outcome.leftover_s if u == far else 0.0)
        for u in range(first, last):
            state.steps[u].joined = 1
    if action != DROP:
        _allocate(program, state, b, action)
        if buffer.bit >= 0:
            state.steps[t].placed |= 1 << buffer.bit
    if buffer.is_output != 0:
        tensor.in_hbm_from = (
            NEVER if action == NO_COPY else (t if action == DROP else outcome.end) + 1
        )
    if buffer.alias != NONE:
        group = state.groups[buffer.alias]
        if group.status == UNDECIDED:
            move.opened_group = 1
            group.status = DROPPED if action == DROP else PLACED
            group.offset = outcome.offset
            if action != DROP:
                game.open_groups += 1
        if buffer.group_left == 0 and group.status == PLACED:
            game.open_groups -= 1
    game.saved_s += outcome.reward_s
    game.cursor += 1
    game.moves += 1
    if game.open_groups == 0:
        game.backup = game.cursor
    return outcome.reward_s


@numba.njit(cache=True)
def rewind(program: ProgramArrays, state: GameState, prefix: int) -> None:
    """Takes back all but the first `prefix` decisions. Groups forced to Drop stay so."""
    game = state.game[0]
    if prefix >= game.cursor:
        return
    game.evaluated = NONE
    while game.cursor > prefix:
        game.cursor -= 1
        b = game.cursor
        buffer, move = program.buffers[b], state.moves[b]
        tensor = state.tensors[buffer.tensor]
        if move.num_rectangles < game.num_rectangles:
            if state.rectangles[tensor.rectangle].end >= game.now:
                _leave_live(state, tensor.rectangle)
            _unlink(state, tensor.rectangle)
        elif tensor.end != move.tensor_end and tensor.rectangle != NONE:
            if state.rectangles[tensor.rectangle].end >= game.now > move.tensor_end:
                _leave_live(state, tensor.rectangle)
            _unlink(state, tensor.rectangle)
            _link(state, tensor.rectangle, move.tensor_end)
        tensor.end, tensor.offset, tensor.rectangle = (
            move.tensor_end,
            move.tensor_offset,
            move.tensor_rectangle,
        )
        tensor.in_hbm_from = move.in_hbm_from
        if move.action == COPY and move.num_drained < game.num_drained:
            first, last = copy_span(program, b, move.start, move.end)
            for u in range(first, last):
                state.steps[u].joined = 0
            for i in range(game.num_drained - 1, move.num_drained - 1, -1):
                state.supply_s[state.drained[i].step] = state.drained[i].supply_s
        if move.action != DROP and buffer.bit >= 0:
            state.steps[buffer.instruction].placed &= ~(1 << buffer.bit)
        if move.opened_group != 0:
            state.groups[buffer.alias].status = UNDECIDED
            state.groups[buffer.alias].offset = NO_OFFSET
        game.num_rectangles, game.num_drained = move.num_rectangles, move.num_drained
        game.open_groups, game.backup, game.saved_s = move.open_groups, move.backup, move.saved_s
    _move_now(state, program.buffers[prefix].instruction)


@numba.njit(cache=True)
def drop_backup(program: ProgramArrays, state: GameState) -> None:
    """Drop-backup: a dead end goes back to the backup, the offending alias group is forced to Drop
    (section 4.3.2)."""
    game = state.game[0]
    group = program.buffers[game.cursor].alias
    state.groups[group].forced = 1
    game.resets += 1
    rewind(program, state, game.backup)


@numba.njit(cache=True)
def restart(program: ProgramArrays, state: GameState) -> None:
    """Back to the start of the game; forgets forced groups and counts too."""
    rewind(program, state, 0)
    game = state.game[0]
    game.resets = game.moves = 0
    game.evaluated = NONE
    state.groups["forced"][:] = 0


@numba.njit(cache=True)
def step(program: ProgramArrays, state: GameState, action: int) -> float:
    """`apply`, then settles dead ends by Drop-backup: the next state is over or has a legal action.
    Returns the reward in seconds of the action alone; what a reset takes back shows in
    ``game.saved_s``."""
    reward = apply(program, state, action)
    while state.game[0].cursor < len(program.buffers):
        if evaluate(program, state) > 0:
            break
        drop_backup(program, state)
    return reward


@numba.njit(cache=True)
def nearest_legal(state: GameState, wanted: int) -> int:
    """The first legal action of ``NEAREST[wanted]``; one is legal."""
    for action in NEAREST[wanted]:
        if state.outcomes[action].legal != 0:
            return action
    return NONE


@numba.njit(cache=True)
def follow(program: ProgramArrays, state: GameState, wanted: int) -> bool:
    """Plays the action wanted, or the nearest legal one; False, and nothing played, where none is
    legal.

    The others are looked at only where it is illegal: Drop costs nothing to judge, the two others a
    search for an offset each.
    """
    game = state.game[0]
    if game.evaluated == game.cursor or not evaluate_action(program, state, wanted):
        if evaluate(program, state) == 0:
            return False
        wanted = nearest_legal(state, wanted)
    apply(program, state, wanted)
    return True


@numba.njit(cache=True)
def follow_on(program: ProgramArrays, state: GameState, wanted: int) -> None:
    """`follow`, and Drop-backup at a dead end."""
    if not follow(program, state, wanted):
        drop_backup(program, state)
