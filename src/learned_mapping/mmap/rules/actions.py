"""The MMapGame (paper 1, section 4.2 and Appendix A): its rules, resolved where the paper leaves
them open.

**State.** Buffers are decided one at a time in program order. A state holds

- W [T]: what is left of each step's supply, in seconds of the copy engine; at the start
  ``program.supply_s``;
- joined [T]: whether one copy runs through both step u and step u + 1 (what Eq. 6 needs to know);
- the allocations: (tensor, interval [s, e] of steps, both ends included, offset and size in bytes);
- per tensor, the first step at which its data can be read from HBM (`NEVER` if it never gets
  there);
- per alias group, whether it is undecided, placed (then at which offset) or dropped;
- per instruction, the set B' of its buffers placed so far.

**Actions** on buffer b of tensor n at step t (its target_time): `COPY`, `NO_COPY`, `DROP`.

1. *Copy of an input* takes the steps copy(b) = [s, t - 1] and allocates I(b) = [s, t]. From t - 1
   downwards each step gives all it has until the demand is covered; s is the step where that
   happens (the latest one that satisfies Eq. 5), and what it does not need stays there. The walk
   never goes from u + 1 to u when (u, u + 1) is joined, so two copies share at most one step (Eq.
   6). Illegal if the walk ends before the demand is covered, if it would pass the first step at
   which HBM has the data, or if the tensor already has an allocation somewhere in [s, t].
2. HBM has the data of a parameter from step 0; of a tensor whose output was dropped at u, from u +
   1; of one whose output was copied out over (u, e], from e + 1; of one whose output was placed by
   NoCopy, never. A copy into fast memory leaves the data in HBM.
3. *Copy of an output* is the mirror image: copy(b) = [t + 1, e], I(b) = [t, e], illegal past the
   last step. It may go beyond the tensor's last use.
4. *NoCopy of an input* extends the tensor's latest allocation [s', e'] at its offset by (e', t],
   which must be free there. If e' >= t it is free of charge: I(b) is empty, written [t + 1, t].
   Without an allocation it is illegal.
5. *NoCopy of an output* needs no earlier allocation (Appendix A, not section 4.2): I(b) is the
   tensor's live range.
6. *Drop* allocates nothing. It is legal unless the buffer's alias group is already placed, even for
   an input whose
   data lives in fast memory only: the rules leave the write-back to the latency model.
7. *Offsets.* The lowest offset such that [O, O + size) is within the fast memory and free during
   all of I(b). A buffer whose alias group is placed takes the group's offset (Eq. 4), and it must
   be free there. One overlap is allowed, the
   step of an in-place update: an output of instruction t may start at t on top of an allocation
   that ends at t if that one belongs to a tensor which instruction t reads through a buffer of the
   same alias group.
8. *Alias groups.* The first member decided decides for all: after Drop only Drop is legal, after
   Copy or NoCopy only those. A state without a legal action is a dead end.
9. A buffer of zero bytes is copied in no time, I(b) = [t, t], and overlaps nothing.

**Reward**: L_I(B') - L_I(B' + {b}), in seconds, for Copy and NoCopy; 0 for Drop. Rewards of an
instruction telescope, so their sum over a game is the time saved; reported returns divide it by
``program.possible_saving_s``, what the best subset of each instruction would save. So no return
passes 1; where nothing can be saved the return is 0.

**Drop-backup** (section 4.3.2): the backup is the latest prefix of decisions after which no alias
group is open, that is, placed in part and not yet decided in full. At a dead end at b the game goes
back to the backup, b's group may only be dropped for the rest of the game, and play continues. Each
dead end forces one more group, so games end.

**A game to play by hand** is `toy_program`: its optimum, by trying all sequences, stands in its
  docstring.
"""

import numpy as np

from learned_mapping.programs.program import NO_ALIAS, Program, Step, program_of_steps

COPY, NO_COPY, DROP = 0, 1, 2  # The three actions, in the order of every array with an action axis.
NUM_ACTIONS = 3
ACTION_NAMES = ("Copy", "NoCopy", "Drop")
NEAREST = np.array([(COPY, NO_COPY, DROP), (NO_COPY, COPY, DROP), (DROP, NO_COPY, COPY)])
"""[3, 3]: what is taken, best first, where the wanted action is illegal: one that leaves the buffer
in the same memory before another."""
UNDECIDED, PLACED, DROPPED = 0, 1, 2  # States of an alias group.
NO_OFFSET = -1  # The paper's symbol for "in HBM": the offset, start and end of a dropped buffer.
# A step after all others: the first step at which HBM has data that it never gets.
NEVER = 2**31 - 1


def toy_program() -> Program:
    """Four instructions, six buffers, 8 bytes of fast memory: small enough for pencil and paper.

    Each buffer in fast memory saves 1 s, and copying 4 bytes takes 1 s, which is the supply of
    every step::

        step  instruction  reads                        writes
        0     load                                      x, 4 bytes
        1     widen        x                            y, 8 bytes
        2     weigh        y; parameter w, 4 bytes
        3     close        x

    Decisions in order: x at 0, x at 1, y at 1, y at 2, w at 2, x at 3. Placing y fills the fast
    memory during steps 1 and 2, which excludes x at 1 and w at 2; x at 0 would need step 1 too, be
    it for NoCopy's live range or for the copy out; x at 3 could only come by a copy over step 2. So
    whoever places y ends with 2 s of the 6 s there are to save. NoCopy x, NoCopy x, Drop, Drop,
    Copy w (over step 1), NoCopy x saves 4 s, and that is the optimum: a return of 2/3.
    """
    x, y, w = 0, 1, 2
    uses = {
        "load": [(x, True)],
        "widen": [(x, False), (y, True)],
        "weigh": [(y, False), (w, False)],
        "close": [(x, False)],
    }
    steps = []
    for name, buffers in uses.items():
        table = [1.0 + len(buffers) - subset.bit_count() for subset in range(1 << len(buffers))]
        steps.append(
            Step(name, "fusion", [(*use, NO_ALIAS) for use in buffers], range(len(buffers)), table)
        )
    return program_of_steps(
        steps,
        name="toy",
        fast_bytes=8,
        copy_bytes_per_s=4.0,
        tensor_names=("x", "y", "w"),
        tensor_bytes=[4, 8, 4],
        tensor_is_parameter=[False, False, True],
        tensor_is_output=[False, False, False],
    )
