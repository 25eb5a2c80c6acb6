"""Seeded generator of programs, for property tests and scaling studies."""

from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs import program as programs
from learned_mapping.programs.program import NO_ALIAS, Program, Step

MEDIAN_BYTES = 2**20  # Median size of a tensor.

Drawn = tuple[list[int], list[int], int]
"""Operands, results, and the alias group of the first operand and the first result."""


class SyntheticMachine(NamedTuple):
    """Constants of the roofline that times synthetic instructions; round numbers of the order of
    one TPUv4i."""

    peak_flop_per_s: float = 1e14
    hbm_bytes_per_s: float = 6e11
    cmem_bytes_per_s: float = 2.4e12
    overhead_s: float = 5e-7


def random_program(
    rng: np.random.Generator,
    num_buffers: int,
    *,
    parameter_fraction: float = 0.25,
    alias_fraction: float = 0.1,
    alias_chain: float = 0.3,
    max_inputs: int = 4,
    locality: float = 6.0,
    compute_bound: float = 0.2,
    fast_fraction: float = 0.3,
    copy_ratio: float = 1.0,
) -> Program:
    """A valid program of exactly `num_buffers` buffers.

    Instructions read 1 to `max_inputs` tensors and write one, sometimes two. A tensor updated in
    place is not read again. Latencies follow the roofline of `SyntheticMachine`.

    Args:
      num_buffers: B, at least 2.
      parameter_fraction: probability that an operand is a parameter.
      alias_fraction: probability that an instruction updates its first operand in place, which
        makes an alias group.
      alias_chain: probability that an in-place update of an in-place result joins its group: long
        groups are what dead ends come from.
      max_inputs: operands of an instruction at most; above 8 minus the outputs some buffers are not
        varied.
      locality: mean distance, in tensors, between a use and the tensor's birth; larger is harder
        (longer live ranges).
      compute_bound: probability that an instruction gains little or nothing from fast memory.
      fast_fraction: capacity of the fast memory over the peak of live bytes, parameters included,
        which are alive from
        the start: with the default a greedy rule comes close to the optimum, at 0.1 it does not.
      copy_ratio: seconds to copy every operand once over the seconds the program takes with all in
        fast memory; above 1 the copy engine is scarce.

    Raises:
      InputError: fewer than 2 buffers.
    """
    if num_buffers < 2:
        raise InputError(
            "num_buffers",
            "",
            f"{num_buffers}: a program has at least 2 buffers, an operand and a result",
        )
    sizes: list[int] = []
    is_parameter: list[bool] = []
    group_of: list[int] = []  # the alias group of the buffer that wrote the tensor
    alive: list[int] = []  # tensors that may still be read, oldest first
    parameters: list[int] = []
    instructions: list[Drawn] = []

    def new_tensor(parameter: bool, size: int | None = None, group: int = NO_ALIAS) -> int:
        if size is None:
            size = max(512, int(MEDIAN_BYTES * np.exp(rng.standard_normal())) // 512 * 512)
        sizes.append(size)
        is_parameter.append(parameter)
        group_of.append(group)
        (parameters if parameter else alive).append(len(sizes) - 1)
        return len(sizes) - 1

    def pick(chosen: list[int]) -> int:
        """A tensor that is not `taken`: a parameter, old or new, or a recent result."""
        if alive and rng.random() >= parameter_fraction:
            back = min(int(rng.exponential(locality)), len(alive) - 1)
            if alive[-1 - back] not in chosen:
                return alive[-1 - back]
        if parameters and rng.random() < 0.3:
            choice = parameters[int(rng.integers(len(parameters)))]
            if choice not in chosen:
                return choice
        return new_tensor(True)

    num_groups, remaining = 0, num_buffers
    while remaining:
        num_outputs = 2 if rng.random() < 0.1 and remaining >= 5 else 1
        num_inputs = min(int(rng.integers(1, max_inputs + 1)), remaining - num_outputs)
        if remaining - num_outputs - num_inputs == 1:  # one buffer cannot be an instruction
            num_inputs += 1
        operands: list[int] = []
        while len(operands) < num_inputs:
            operands.append(pick(operands))
        group = NO_ALIAS
        if rng.random() < alias_fraction:
            group = group_of[operands[0]]
            if group == NO_ALIAS or rng.random() > alias_chain:
                group, num_groups = num_groups, num_groups + 1
            (parameters if is_parameter[operands[0]] else alive).remove(operands[0])
        results = [new_tensor(False, sizes[operands[0]] if group != NO_ALIAS else None, group)]
        results += [new_tensor(False) for _ in range(num_outputs - 1)]
        instructions.append((operands, results, group))
        remaining -= num_inputs + num_outputs
    machine = SyntheticMachine()
    steps: list[Step] = []
    for t, (operands, results, group) in enumerate(instructions):
        used = operands + results
        touched = [sizes[i] for i in used]
        # Above 1 the arithmetic hides the memory; below the ratio of the bandwidths, 1/4, all bytes
        # count.
        intensity = rng.uniform(0.7, 3.0) if rng.random() < compute_bound else rng.uniform(0.0, 0.4)
        flop = intensity * sum(touched) / machine.hbm_bytes_per_s * machine.peak_flop_per_s
        alias = [group if j in (0, len(operands)) else NO_ALIAS for j in range(len(used))]
        buffers = [(tensor, j >= len(operands), alias[j]) for j, tensor in enumerate(used)]
        table = programs.instruction_latency_table(flop, touched, machine)
        kind = "update" if group != NO_ALIAS else "fusion"
        steps.append(
            Step(f"instruction.{t}", kind, buffers, programs.varied_buffers(touched), table)
        )
    read = {tensor for operands, _, _ in instructions for tensor in operands}
    leaves = [tensor not in read and not parameter for tensor, parameter in enumerate(is_parameter)]
    supply = sum(float(step.latency_s[-1]) for step in steps)
    operand_bytes = sum(sizes[i] for operands, _, _ in instructions for i in operands)
    program = programs.program_of_steps(
        steps,
        name="synthetic",
        fast_bytes=2**50,
        copy_bytes_per_s=operand_bytes / (copy_ratio * supply),
        tensor_names=[f"{'parameter' if p else 'tensor'}.{i}" for i, p in enumerate(is_parameter)],
        tensor_bytes=sizes,
        tensor_is_parameter=is_parameter,
        tensor_is_output=leaves,
        metadata={
            "generator": "random_program",
            "num_buffers": sum(len(step.buffers) for step in steps),
        },
    )
    return program.with_memory(
        fast_bytes=max(512, int(fast_fraction * peak_live_bytes(program)) // 512 * 512)
    )


def peak_live_bytes(program: Program) -> int:
    """The largest sum of bytes of tensors alive at one logical time, the fast memory that would
    hold everything."""
    change = np.zeros(program.num_instructions + 1, np.int64)
    np.add.at(change, program.tensor_live[:, 0], program.tensor_bytes)
    np.add.at(change, program.tensor_live[:, 1] + 1, -program.tensor_bytes)
    return int(np.cumsum(change).max())
