"""The linear relaxation of the MMapGame: variables and constraints that every game satisfies,
written for a solver.

**Variables**, all in [0, 1], with their values in a game:

- p_b: buffer b is placed. Members of an alias group share one variable (rule 8).
- c_b: b is placed by Copy. n_o = p_o - c_o: output o is placed by NoCopy.
- k_j, for consecutive buffers i, j of one tensor: an allocation that began with i or earlier covers
  steps [t_i, t_j].
- x_o, for an output: o is copied out and the next input's k is 0.
- lambda_(t, S): exactly the buffers S of instruction t are placed, S over subsets that agree with
  the alias groups.

**Objective**: the sum over t and S of lambda_(t, S) (L_t({}) - L_t(S)), the saving exactly; in the
relaxation it is the concave closure of the saving over the p of the instruction: sum_S lambda_(t,
S) = 1, sum_(S with b) lambda_(t, S) = p_b. Where the table is a sum over buffers, that sum stands
there itself.

**Constraints**, with why each holds in every game:

1. p_j <= k_j + c_j for an input: NoCopy extends an allocation that began with an earlier buffer
   (rule 4). c_b <= p_b.
2. k_j <= k_i + c_i for an input i, k_j <= p_i for an output i: such an allocation began with i or
   before i.
3. k_j + c_j <= 1: what is in fast memory is not copied in (rule 1); so at any step one buffer at
   most accounts for a tensor, and the terms of one tensor in (6) may be added up.
4. k_j >= n_o for all inputs j of o's tensor: NoCopy of an output holds its live range (rule 5). By
   (3), no input of it is copied.
5. Let a *minimal* copy of b be the one with all supplies untouched: supplies only shrink, so every
   copy of b contains its steps. A copy whose minimal one does not exist, or starts before the data
   can be in HBM, has c_b = 0; two such that only the copy-out of the output stands in the way give
   c_o + c_j <= 1. An input j with t_j inside the minimal allocation of its copied-out tensor has
   k_j >= c_o.
6. Capacity: at each step the sizes of the tensors held fit in fast memory. Held at t_j is size (k_j
   + c_j), or size p_o for an output; between two uses size k_j; over the minimal copy of j, size
   c_j; over that of o, size x_o where a k accounts for the tensor too (x_o >= c_o - k), else size
   c_o; and after the last use size n_o to the end of the live range. In an in-place update input
   and output may share their space: only the input's is counted.
7. One copy at a time: each pair of consecutive steps lies inside one copy at most (Eq. 6), so over
   the minimal copies that contain the pair c_b sums to at most 1.
8. Supply: copies use each step's supply once (Eq. 5). So the demands of copies in with t_b <= u + 1
   fit in the supply of steps 0..u, and those of copies whose data cannot be there before step u in
   that of steps u and later.

For a window of instructions the same constraints are written for the variables of its own
instructions, and what reaches in from outside is free: constraints are dropped, none is added.
"""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

from learned_mapping.mmap.bounds.prices import far_steps
from learned_mapping.mmap.rules.state import NONE, program_arrays
from learned_mapping.programs.program import NO_ALIAS, Program

ADDITIVE_TOLERANCE = 1e-12
"""A table counts as a sum over buffers when it deviates by less than this share of its largest
entry."""


class LinearProgram:
    """max objective . x over rows . x <= limits and x in [0, 1], built row by row."""

    def __init__(self) -> None:
        self.objective: list[float] = []
        self.limits: list[float] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.constant = 0.0

    @property
    def num_variables(self) -> int:
        return len(self.objective)

    def variable(self, objective: float = 0.0) -> int:
        self.objective.append(objective)
        return len(self.objective) - 1

    def at_most(self, terms: list[tuple[int, float]], limit: float) -> None:
        row = len(self.limits)
        self.limits.append(limit)
        for column, value in terms:
            self.rows.append(row)
            self.columns.append(column)
            self.values.append(value)

    def equal(self, terms: list[tuple[int, float]], limit: float) -> None:
        self.at_most(terms, limit)
        self.at_most([(column, -value) for column, value in terms], -limit)

    def bound(self) -> float:
        """The Lagrangian at the solver's multipliers: at least the optimum, whatever they are."""
        if not self.num_variables:
            return self.constant
        multipliers = np.zeros(len(self.limits))
        if len(self.limits):
            solved = linprog(
                -np.array(self.objective),
                A_ub=self.matrix(),
                b_ub=self.limits,
                bounds=(0, 1),
                method="highs",
            )
            if solved.ineqlin is not None and solved.ineqlin.marginals is not None:
                multipliers = np.maximum(-np.asarray(solved.ineqlin.marginals, float), 0.0)
        return self.lagrangian(multipliers)

    def lagrangian(self, multipliers: np.ndarray) -> float:
        """max over the box of objective . x + multipliers . (limits - rows . x), multipliers >= 0:
        weak duality."""
        reduced = np.array(self.objective) - self.matrix().T @ multipliers
        return (
            self.constant
            + float(np.dot(self.limits, multipliers))
            + float(np.maximum(reduced, 0.0).sum())
        )

    def matrix(self) -> csr_array:
        """The rows; entries of the same row and column add up."""
        shape = (len(self.limits), len(self.objective))
        return coo_array((self.values, (self.rows, self.columns)), shape=shape).tocsr()


def minimal_copies(program: Program) -> np.ndarray:
    """[B, 2] ints: first and last step of each buffer's allocation if it were copied with all
    supplies untouched.

    For an input [s, t], for an output [t, e]; (-1, -1) where the supply before or after t never
    suffices, or, for an input, not after the step that writes the tensor.
    """
    far, t = far_steps(program_arrays(program)), program.buffer_instruction
    copies = np.stack([np.minimum(far, t), np.maximum(far, t)], axis=1)
    return np.where(far[:, None] == NONE, NONE, copies)


class Relaxation:
    """Writes the variables and constraints of the module's docstring for one window of
    instructions."""

    def __init__(self, program: Program, first: int, last: int, copies: np.ndarray | None = None):
        self.program, self.first, self.last = program, first, last
        self.linear = LinearProgram()
        self.copies = minimal_copies(program) if copies is None else copies
        self.buffers = range(int(program.buffer_offsets[first]), int(program.buffer_offsets[last]))
        self.placed: dict[int, int] = {}
        self.copied: dict[int, int] = {}
        self.kept: dict[int, int] = {}  # by the later of the two buffers
        self.held: list[list[tuple[int, float]]] = [[] for _ in range(last - first)]
        self.first_use = np.full(program.num_tensors, program.num_buffers)
        np.minimum.at(self.first_use, program.buffer_tensor, np.arange(program.num_buffers))
        self.uses: dict[int, list[int]] = {}
        for b in self.buffers:
            self.uses.setdefault(int(program.buffer_tensor[b]), []).append(b)
        self.decisions()
        self.savings()
        for buffers in self.uses.values():
            self.tensor(buffers)
        self.capacity()
        self.one_copy_at_a_time()
        self.supply()

    def decisions(self) -> None:
        """Variables p and c; those that cannot be 1 do not exist."""
        p = self.program
        too_big = p.buffer_bytes > p.fast_bytes
        groups: dict[int, int] = {}
        for b in self.buffers:
            group = int(p.buffer_alias[b])
            if too_big[b]:
                continue
            if group == NO_ALIAS or group not in groups:
                groups[group] = self.linear.variable()
            self.placed[b] = groups[group]
            if self.copies[b, 0] >= 0:
                self.copied[b] = self.linear.variable()
                self.linear.at_most([(self.copied[b], 1.0), (self.placed[b], -1.0)], 0.0)

    def savings(self) -> None:
        """The concave closure of each instruction's saving."""
        p = self.program
        possible = p.possible_saving_s if p.possible_saving_s > 0 else 1.0
        for t in range(self.first, self.last):
            table = p.latency_s[p.latency_offsets[t] : p.latency_offsets[t + 1]]
            bits: dict[int, int] = {}  # variable -> the bits of the buffers it places
            for b in range(p.buffer_offsets[t], p.buffer_offsets[t + 1]):
                if p.buffer_bit[b] >= 0 and b in self.placed:
                    bits[self.placed[b]] = bits.get(self.placed[b], 0) | 1 << int(p.buffer_bit[b])
            variables, masks = list(bits), list(bits.values())
            subsets = np.zeros(1, np.int64)
            for mask in masks:
                subsets = np.concatenate([subsets, subsets | mask])
            saving = (table[0] - table[subsets]) / possible
            alone = saving[[1 << i for i in range(len(masks))]] if masks else np.zeros(0)
            members = (np.arange(len(subsets))[:, None] >> np.arange(len(masks))) & 1
            if (
                np.abs(saving - members @ alone).max()
                <= ADDITIVE_TOLERANCE * np.abs(table).max() / possible
            ):
                for variable, value in zip(variables, alone.tolist()):
                    self.linear.objective[variable] += value
                # What the comparison let pass, so that the bound stays one.
                self.linear.constant += float(np.maximum(saving - members @ alone, 0.0).max())
                continue
            chosen = [self.linear.variable(float(value)) for value in saving]
            self.linear.equal([(column, 1.0) for column in chosen], 1.0)
            for i, variable in enumerate(variables):
                terms = [(column, 1.0) for column, row in zip(chosen, members) if row[i]]
                self.linear.equal([*terms, (variable, -1.0)], 0.0)

    def hold(self, start: int, end: int, variable: int, size: float) -> None:
        """`variable` accounts for `size` of the capacity over steps [start, end], as far as they
        are in the window."""
        for u in range(max(start, self.first), min(end, self.last - 1) + 1):
            self.held[u - self.first].append((variable, size))

    def tensor(self, buffers: list[int]) -> None:
        """Constraints 1 to 5 for the buffers of one tensor, and what they hold."""
        p, linear = self.program, self.linear
        tensor = int(p.buffer_tensor[buffers[0]])
        if p.tensor_bytes[tensor] > p.fast_bytes:
            return
        size = float(p.tensor_bytes[tensor]) / max(p.fast_bytes, 1)
        output = buffers[0] if p.buffer_is_output[buffers[0]] else None
        enters = self.first_use[tensor] < self.buffers.start
        previous: int | None = None
        for j in buffers:
            t = int(p.buffer_instruction[j])
            if j == output:
                if not p.updated_tensors[j]:
                    self.hold(t, t, self.placed[j], size)
                previous = j
                continue
            supply = [(self.copied[j], -1.0)] if j in self.copied else []
            if previous is not None or enters:
                kept = self.kept[j] = linear.variable()
                supply.append((kept, -1.0))
                begin = self.first if previous is None else int(p.buffer_instruction[previous]) + 1
                self.hold(begin, t - 1, kept, size)
                self.follow(previous, output, kept)
                if j in self.copied:
                    linear.at_most([(kept, 1.0), (self.copied[j], 1.0)], 1.0)
                if output is not None:
                    self.keep_output(output, j)
            linear.at_most([(self.placed[j], 1.0), *supply], 0.0)
            for variable, _ in supply:
                self.hold(t, t, variable, size)
            if j in self.copied:
                self.hold(int(self.copies[j, 0]), t - 1, self.copied[j], size)
            previous = j
        if output is not None:
            self.copy_out(output, [j for j in buffers if j in self.kept], size)

    def follow(self, previous: int | None, output: int | None, kept: int) -> None:
        """Constraint 2: k_j <= k_i + c_i, or p_o."""
        if previous is None:
            return
        if previous == output:
            sources = [self.placed[previous]]
        else:
            sources = [table[previous] for table in (self.kept, self.copied) if previous in table]
        self.linear.at_most([(kept, 1.0), *((source, -1.0) for source in sources)], 0.0)

    def keep_output(self, output: int, j: int) -> None:
        """Constraints 4 and 5 between an output and a later input of its tensor."""
        linear, copied = self.linear, self.copied.get(output)
        terms = [(self.placed[output], 1.0), (self.kept[j], -1.0)]
        linear.at_most(terms if copied is None else [*terms, (copied, -1.0)], 0.0)
        if copied is None:
            return
        if self.copies[output, 1] >= self.program.buffer_instruction[j]:
            linear.at_most([(copied, 1.0), (self.kept[j], -1.0)], 0.0)
        if j in self.copied and self.copies[output, 1] >= self.copies[j, 0]:
            linear.at_most([(copied, 1.0), (self.copied[j], 1.0)], 1.0)

    def copy_out(self, output: int, after: list[int], size: float) -> None:
        """The hold of an output after its step where no k accounts for it: copied out, or kept to
        its last use."""
        p, copied = self.program, self.copied.get(output)
        t, tensor = int(p.buffer_instruction[output]), int(p.buffer_tensor[output])
        steps = [int(p.buffer_instruction[j]) for j in after]
        begin = steps[-1] + 1 if steps else t + 1
        self.hold(begin, int(p.tensor_live[tensor, 1]), self.placed[output], size)
        if copied is None:
            return
        self.hold(begin, int(p.tensor_live[tensor, 1]), copied, -size)
        end = int(self.copies[output, 1])
        following = next((i for i, step in enumerate(steps) if step > end), None)
        if following is None:
            self.hold(begin, end, copied, size)
            return
        extra = self.linear.variable()
        self.linear.at_most(
            [(copied, 1.0), (self.kept[after[following]], -1.0), (extra, -1.0)], 0.0
        )
        self.hold(steps[following - 1] + 1 if following else t + 1, end, extra, size)

    def capacity(self) -> None:
        """Constraint 6; rows that cannot bind, and repetitions of the row before, are left out."""
        last: list[tuple[int, float]] = []
        for terms in self.held:
            if terms != last and sum(max(size, 0.0) for _, size in terms) > 1.0:
                self.linear.at_most(terms, 1.0)
            last = terms

    def one_copy_at_a_time(self) -> None:
        """Constraint 7, over the pairs (u, u + 1) of the window."""
        inside: dict[int, list[tuple[int, float]]] = {}
        for b, copied in self.copied.items():
            start, end = self.copies[b].tolist()
            low, high = (start + 1, end) if self.program.buffer_is_output[b] else (start, end - 1)
            for u in range(max(low, self.first), min(high, self.last)):
                inside.setdefault(u, []).append((copied, 1.0))
        for u, terms in inside.items():
            if len(terms) > 1 and terms != inside.get(u - 1):
                self.linear.at_most(terms, 1.0)

    def supply(self) -> None:
        """Constraint 8, in shares of the whole supply; running sums are variables, so that rows
        stay short."""
        p = self.program
        total = float(p.supply_s.sum())
        if total <= 0:
            return
        before = np.concatenate([[0.0], np.cumsum(p.supply_s)]) / total
        born = np.where(p.tensor_is_parameter, -1, p.tensor_live[:, 0])
        share = {b: float(p.buffer_demand_s[b]) / total for b in self.copied}
        everything = [(self.copied[b], share[b]) for b in self.copied]
        self.linear.at_most(everything, 1.0)
        by_deadline: dict[int, list[tuple[int, float]]] = {}
        by_release: dict[int, list[tuple[int, float]]] = {}
        for b, copied in self.copied.items():
            step = int(p.buffer_instruction[b])
            if not p.buffer_is_output[b]:
                by_deadline.setdefault(step, []).append((copied, share[b]))
            release = step + 1 if p.buffer_is_output[b] else int(born[p.buffer_tensor[b]]) + 1
            if release > 0:
                by_release.setdefault(release, []).append((copied, share[b]))
        self.running_sum(by_deadline, sorted(by_deadline), before)
        self.running_sum(by_release, sorted(by_release, reverse=True), 1.0 - before)

    def running_sum(
        self, terms: dict[int, list[tuple[int, float]]], order: list[int], limits: np.ndarray
    ) -> None:
        """The terms of all steps of `order` up to each step fit within that step's limit."""
        so_far: list[tuple[int, float]] = []
        for step in order:
            following = self.linear.variable()
            self.linear.at_most([*so_far, *terms[step], (following, -1.0)], 0.0)
            self.linear.at_most([(following, 1.0)], float(limits[step]) + 1e-12)
            so_far = [(following, 1.0)]
