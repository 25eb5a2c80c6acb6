"""A program and a game in progress as the JAX environment has them, pytrees of arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.learning.precision import require_exact
from learned_mapping.mmap.rules.actions import NEVER
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program

FILLED = ("updated", "next_of_tensor")
"""Arrays that are padded by -1, which stands for none; the others are by zeros."""
UNUSED = 2**30  # The offset of an empty slot: above every fast memory.


class EnvProgram(NamedTuple):
    """A program on the device. [B] arrays are int32 unless said otherwise; zeros behind any of them
    (-1 behind `updated`) change no game."""

    # []: how many of the B buffers are the program's, the others being padding.
    num_buffers: jax.Array
    instruction: jax.Array
    tensor: jax.Array
    is_output: jax.Array  # [B] bool.
    alias: jax.Array
    group_left: jax.Array  # Later buffers of the same alias group.
    bit: jax.Array
    size: jax.Array  # Bytes; one more than the fast memory holds where larger.
    live_end: jax.Array
    updated: jax.Array
    """[B, K]: tensors an output may overlap at its step because its instruction updates them in
    place, or -1."""
    demand_s: jax.Array  # [B] float64.
    table_start: jax.Array  # [T + 1].
    latency_s: jax.Array  # float64.
    supply_s: jax.Array  # [T] float64.
    in_hbm_from: jax.Array  # [N]: 0 for parameters, else NEVER.
    tensor_size: jax.Array  # [N]: as `size`.
    num_groups: jax.Array  # [max(G, 1)] zeros; its shape tells G.
    fast_bytes: jax.Array  # [].


class Position(NamedTuple):
    """All of a state that Drop-backup takes back. T steps, N tensors, G groups, B buffers, C slots;
    int32."""

    cursor: jax.Array  # The buffer to decide next; B when the game is over.
    supply_s: jax.Array  # [T] float64: W.
    joined: jax.Array  # [T] bool: one copy runs through both u and u + 1.
    slot_offset: jax.Array  # [C], ascending; `UNUSED` in an empty slot.
    slot_top: jax.Array  # [C]: offset + size.
    slot_end: jax.Array  # [C]: last step; -1 in an empty slot.
    slot_tensor: jax.Array  # [C].
    forgotten: jax.Array  # The latest last step of an allocation that had to make room, or -1.
    tensor_end: jax.Array  # [N]: last step of the latest allocation, or -1.
    tensor_offset: jax.Array  # [N].
    # [N] bool: another allocation occupies the latest allocation's bytes after its end.
    tensor_blocked: jax.Array
    in_hbm_from: jax.Array  # [N].
    group_status: jax.Array  # [G].
    group_offset: jax.Array  # [G].
    placed: jax.Array  # B' of the current instruction as an index into its table.
    open_groups: jax.Array
    saved_s: jax.Array  # [] float64: sum of the rewards.
    action: jax.Array  # [B] int8: the decisions so far.
    legal: jax.Array  # [3] bool, of the buffer at the cursor; all False when the game is over.
    start: jax.Array  # [3]: the first step of I(b) under each action.
    end: jax.Array  # [3].
    offset: jax.Array  # [3].
    reward_s: jax.Array  # [3] float64.
    leftover_s: jax.Array  # [] float64: supply left at the far step of the copy.


class EnvState(NamedTuple):
    """A game in progress, a state of this decision process. A pytree; no number in it is NaN.

    - Reset: `reset`, from a program and a number of slots; no randomness.
    - Step: `step`, 0 Copy, 1 NoCopy or 2 Drop of the buffer at ``position.cursor``; deterministic.
      Drop-backup, which a dead end causes, is part of the step.
    - Observe: ``position`` is all there is; `observe` makes a vector of it.
    - Mask: ``position.legal`` [3] bool; an action that is not legal changes nothing and earns
      nothing.
    - Reward: seconds that the move saves; ``position.saved_s`` is their sum less what Drop-backup
      took back, so its difference over a step is a reward that sums to the game's saving.
    - Termination: `over`, after the last buffer. A decision with one legal action is a step like
      any other.
    - Units: seconds, bytes, steps of the program.
    """

    position: Position
    backup: Position  # The latest prefix with no alias group open.
    forced: jax.Array  # [G] bool: groups that may only be dropped.
    resets: jax.Array
    moves: jax.Array  # Decisions made, those taken back included.
    overflow: jax.Array  # [] bool: the capacity was too small for the game to be exact.

    @property
    def over(self) -> jax.Array:
        """[] bool."""
        return ~self.position.legal.any(axis=-1)


def env_program(program: Program | ProgramArrays) -> EnvProgram:
    """A program for `reset` and `step`.

    Raises:
      InputError: not inside `exact`, or the fast memory has 2^30 bytes or more.
    """
    arrays = program_arrays(program)
    require_exact("mmap.env")
    if arrays.fast_bytes >= UNUSED:
        raise InputError("environment", "fast_bytes", f"{arrays.fast_bytes} is 2^30 or more")
    buffers, counts = arrays.buffers, np.diff(arrays.updated_offsets)
    updated = np.full((arrays.num_buffers, max(int(counts.max(initial=0)), 1)), -1)
    updated[np.arange(updated.shape[1]) < counts[:, None]] = arrays.updated
    size = np.minimum(buffers["bytes"], arrays.fast_bytes + 1)
    tensor_size = np.zeros(len(arrays.is_parameter), np.int64)
    tensor_size[buffers["tensor"]] = size
    names = ("instruction", "tensor", "alias", "group_left", "bit", "live_end")
    integers = {
        **{name: buffers[name] for name in names},
        "num_buffers": arrays.num_buffers,
        "size": size,
        "updated": updated,
        "table_start": arrays.table_start,
        "in_hbm_from": np.where(arrays.is_parameter, 0, NEVER),
        "tensor_size": tensor_size,
        "num_groups": np.zeros(max(arrays.num_groups, 1)),
        "fast_bytes": arrays.fast_bytes,
    }
    seconds = {
        "demand_s": buffers["demand_s"],
        "latency_s": arrays.latency_s,
        "supply_s": arrays.supply_s,
    }
    return EnvProgram(
        **{name: jnp.asarray(values, jnp.int32) for name, values in integers.items()},
        **{name: jnp.asarray(values, jnp.float64) for name, values in seconds.items()},
        is_output=jnp.asarray(buffers["is_output"] != 0),
    )


def padded(rows: Sequence[Any]) -> Any:
    """The `EnvProgram`, or `env_observation.ObservationTables`, of several programs as one along a
    leading axis, each array padded to the largest: to `vmap` over, so that games of all programs
    run side by side in one `jit`. Inside `exact`."""
    columns = zip(*jax.device_get(list(rows)))
    return type(rows[0])(*map(_padded, rows[0]._fields, columns))


def _padded(name: str, leaves: Sequence[Any]) -> jax.Array:
    arrays = [np.asarray(leaf) for leaf in leaves]
    shape = np.max([array.shape for array in arrays], axis=0, initial=0).astype(int)
    out = np.full((len(arrays), *shape), -1 if name in FILLED else 0, arrays[0].dtype)
    for i, array in enumerate(arrays):
        place: Any = (i, *map(slice, array.shape))  # also of a number, which has no axes
        out[place] = array
    return jnp.asarray(out)
