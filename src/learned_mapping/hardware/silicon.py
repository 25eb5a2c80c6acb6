"""The "silicon" of paper 2: chips that the analytical model only approximates, seen through noisy
measurements.

The paper measures BERT on a package nobody else has. This is a simulator in its place. Whoever
searches gets samples of it, `Silicon.measure`, and never its equations. Chip d runs its ops u in
the graph's topological order:

    r_u   = the roofline of `chip_package` without the overhead; the seconds that a graph states
    t_u   = r_u slowdown(class of u) (1 + half_efficiency_s / r_u)^efficiency_exponent
            exp(op_spread z_u) + launch_s,   z_u standard normal, the chips' own for each op
    s_d   = max(0, bytes of the chip's weights - sram_bytes / 2) / link_bytes_per_s
    c_d   = Σ t_u + s_d + switch_s (number of times the class changes from one op to the next)
    b_d   = bytes over link d -> d + 1 / link_bytes_per_s + message_s (number of tensors over it)
    t_d   = c_d + contention c_d (b_{d-1} + b_d) / (c_d + b_{d-1} + b_d) + sync_s
            (t_d = sync_s where c_d = 0)
    runtime = max over d of t_d and b_d
    throughput = exp(noise z) / runtime,   z standard normal, one per measurement

Half of a chip's memory is for weights. Those beyond it stay in the host's memory and come over a
link for every result, as weights that an Edge TPU cannot cache do: they cost time, s_d, and break
nothing. The other half is for tensors, which have nowhere else to be. They live as in
`chip_package.chip_memory`, from production or arrival to their last use or, where they go on to
another chip, to the end of the chip's turn; each that arrives or leaves has a second buffer all the
time, since the neighbours work on other results. A partition is invalid, and its throughput zero,
where a chip's tensors ever exceed sram_bytes / 2 (the function H of Eq. 5) or an edge runs
backwards (Eq. 2).

Bytes and tensors over a link are counted as in `chip_package`; program inputs take no time.

An op that looks up rows of a table (a word embedding) never holds it: the table stays in the host's
memory, and only the rows come over a link. r_u counts its activations, plus output bytes /
link_bytes_per_s.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.errors import InputError, expect_type, expect_whole, real
from learned_mapping.hardware import chip_package
from learned_mapping.programs.graph import ComputationGraph, frozen_array

# Kinds of ops that read some rows of the weights they name.
LOOKUPS = frozenset({"gather", "dynamic_slice"})


@dataclass(frozen=True)
class SiliconParameters:
    """The differences of chips from the analytical model.

    Chosen by `builders.mcm_tuning`; `data/mcm/silicon.json` is the record.
    """

    attention: float = 1.93
    """Slowdown of products of activations; those of activations and weights are the reference,
    1."""
    elementwise: float = 1.41  # Slowdown of arithmetic op by op.
    transcendental: float = 1.87  # Slowdown of exponentials, powers and roots.
    reduction: float = 1.6  # Slowdown of sums and maxima.
    movement: float = 1.91  # Slowdown of copies that compute nothing.
    # Seconds of an op whose efficiency is 2^-efficiency_exponent of a large op's.
    half_efficiency_s: float = 2.58e-06
    efficiency_exponent: float = 0.695  # 0 is an efficiency that does not depend on size.
    launch_s: float = 7.67e-07  # Seconds to start an op.
    switch_s: float = 1.55e-07  # Seconds to change from one class of ops to another.
    # Share of the links' time that a chip much busier than its links loses.
    contention: float = 0.402
    message_s: float = 4.62e-06  # Seconds a tensor takes on a link beside those of its bytes.
    sync_s: float = 5e-6  # Seconds every chip waits for the others, per result.
    noise: float = 0.01  # Standard deviation of the logarithm of a measured throughput.
    # Standard deviation of the logarithm of an op's own factor: 0 are chips that part from the
    # model by the class of an op alone.
    op_spread: float = 0.0
    op_seed: int = 0  # Of these factors: which of such chips.

    @property
    def slowdowns(self) -> np.ndarray:
        """[6] float64, by `OP_CLASSES`."""
        return np.array([getattr(self, name, 1.0) for name in chip_package.OP_CLASSES])


SRAM_BYTES = 90.0625 * chip_package.MIB
"""Memory of a chip, both halves, bytes, from the same record. Half of it at the paper's 16 bits a
number."""


def silicon_package(chips: int = 36, sram_bytes: float = SRAM_BYTES) -> chip_package.ChipPackage:
    """The default package with the memory of the silicon."""
    return chip_package.ChipPackage(chips=chips, sram_bytes=sram_bytes)


def check_parameters(parameters: SiliconParameters) -> None:
    """Raises `InputError` unless every parameter is usable."""
    expect_whole(parameters.op_seed, "silicon", "op_seed", 0, 2**63 - 1)
    for field in dataclasses.fields(parameters):
        value = real(getattr(parameters, field.name), "silicon", field.name)
        positive = field.name in chip_package.OP_CLASSES
        if not (0 < value if positive else 0 <= value) or value == float("inf"):
            raise InputError(
                "silicon",
                field.name,
                f"must be {'above' if positive else 'at least'} 0, got {value}",
            )


class Stages(NamedTuple):
    """The cost of one result, stage by stage, without noise."""

    chip_s: np.ndarray  # [C] float64, t_d.
    link_s: np.ndarray  # [C] float64, b_d.
    # [C] float64, twice the most bytes of tensors ever held: the memory they ask for.
    needed_bytes: np.ndarray


class Silicon:
    """One graph on one package of chips.

    Args:
      package: the chips; `silicon_package` where None.
      parameters: how they differ from the model.

    Raises:
      InputError: a package or parameters that are not usable.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        package: chip_package.ChipPackage | None = None,
        parameters: SiliconParameters = SiliconParameters(),
    ):
        package = silicon_package() if package is None else package
        expect_type(package, chip_package.ChipPackage, "package")
        chip_package.expect_alike(package, "the simulated silicon has")
        if isinstance(package.sram_bytes, tuple):
            fault = "differs from chip to chip: the simulated silicon has alike chips only"
            raise InputError("chips", "sram_bytes", fault)
        check_parameters(parameters)
        self.graph, self.package, self.parameters = graph, package, parameters
        hosted = tables_on_host(graph)
        bare = dataclasses.replace(package, op_overhead_s=0.0)
        classes, work = chip_package.op_classes(graph), chip_package.graph_work(hosted)
        roofline, is_op = chip_package.op_seconds(work, bare), np.ones(graph.num_ops, bool)
        if graph.op_seconds is None:
            roofline += np.where(
                looks_up(graph), graph.op_output_bytes / package.link_bytes_per_s, 0.0
            )
            is_op = work.is_op > 0
        penalty = 1.0 + parameters.half_efficiency_s / np.where(roofline > 0, roofline, 1.0)
        seconds = roofline * parameters.slowdowns[classes] * penalty**parameters.efficiency_exponent
        own = np.random.default_rng(parameters.op_seed).standard_normal(graph.num_ops)
        seconds *= np.exp(parameters.op_spread * own)
        order = graph.topological_order
        position = np.argsort(order).astype(np.int32)
        self._arrays = ScheduleArrays(
            order=order,
            position=position,
            seconds=np.where(is_op, seconds + parameters.launch_s, 0.0),
            unit=np.where(is_op, classes, -1),
            resident=hosted.op_weight_bytes.astype(np.float64),
            output_bytes=graph.op_output_bytes.astype(np.float64),
            tensor_producer=graph.tensor_producer,
            tensor_bytes=work.tensor_bytes,
            tensor_is_output=graph.tensor_is_output,
            consumer_offsets=graph.consumer_offsets,
            consumers=graph.edge_consumer[
                np.lexsort((position[graph.edge_consumer], graph.edge_tensor))
            ],
        )

    @property
    def op_seconds(self) -> np.ndarray:
        """[N] float64, t_u: what no method may see. A cut by these bounds what correcting costs can
        win."""
        return self._arrays.seconds

    def measure(self, assignment: np.ndarray, rng: np.random.Generator) -> float:
        """Runs a partition, [N] chip ids in 0..C-1, once: results per second, 0 where it cannot
        run. Draws one number from `rng` either way."""
        noise = float(np.exp(self.parameters.noise * rng.standard_normal()))
        return self.throughput(assignment) * noise

    def throughput(self, assignment: np.ndarray) -> float:
        """Results per second without noise, 0 where invalid: for reports, not for a search."""
        stages = self.stages(assignment)
        if stages is None or np.any(stages.needed_bytes > self.package.sram_bytes):
            return 0.0
        runtime = max(float(stages.chip_s.max()), float(stages.link_s.max()))
        return 1.0 / max(runtime, chip_package.LEAST_S)

    def stages(self, assignment: np.ndarray) -> Stages | None:
        """Every stage's seconds, whether its tensors fit the memory or not; None where an edge runs
        backwards.

        Raises:
          InputError: not one chip id in 0..C-1 per op.
        """
        chips, p = self.package.chips, self.parameters
        assignment = np.asarray(assignment)
        if assignment.shape != (self.graph.num_ops,) or assignment.dtype.kind not in "iu":
            fault = (
                f"expected {self.graph.num_ops} integers, got {assignment.dtype} of shape"
                f" {assignment.shape}"
            )
            raise InputError("assignment", "", fault)
        if assignment.min() < 0 or assignment.max() >= chips:
            raise InputError("assignment", "", f"there are chips outside [0, {chips - 1}]")
        compute, link_bytes, messages, peak = schedule(
            self._arrays, assignment.astype(np.int32), chips, p.switch_s
        )
        if link_bytes[0] < 0:
            return None
        weights = np.bincount(assignment, self._arrays.resident, chips)
        half_bytes = self.package.each("sram_bytes") / 2
        compute += np.maximum(weights - half_bytes, 0.0) / self.package.link_bytes_per_s
        link = link_bytes / self.package.link_bytes_per_s + p.message_s * messages
        sides = link + np.concatenate([[0.0], link[:-1]])
        together = np.where(compute > 0, compute + sides, 1.0)
        chip = compute + p.contention * compute * sides / together + p.sync_s
        return Stages(chip, link, 2 * peak)


class SiliconModel(chip_package.ChipModel):
    """Silicon behind the interface of the analytical model: every method runs on it.

    What a compiler knows stays the model's: `op_seconds`, `tensor_seconds`, `latencies`, `runtime`.
    What it can only find out by running is measured: `throughput`.

    Args:
      rng: of the measurements' noise, and of nothing else.
    """

    def __init__(self, silicon: Silicon, rng: np.random.Generator):
        super().__init__(silicon.graph, silicon.package)
        self.silicon = silicon
        self.ran: list[bool] = []  # Of every measurement so far, whether the partition ran.
        self._rng = rng

    def throughput(self, assignment: np.ndarray) -> float:
        """Results per second, measured once; 0 where the partition cannot run."""
        throughput = self.silicon.measure(assignment, self._rng)
        self.ran.append(throughput > 0)
        return throughput

    def judged(self, assignment: np.ndarray) -> tuple[float, np.ndarray]:
        """(results per second, [C] seconds of each chip), of one measurement with its noise; all 0
        where the partition cannot run."""
        throughput = self.throughput(assignment)
        if throughput <= 0:
            return 0.0, np.zeros(self.package.chips)
        noise = throughput / self.silicon.throughput(assignment)
        stages = self.silicon.stages(assignment)
        assert stages is not None  # It ran.
        return throughput, stages.chip_s / noise


def looks_up(graph: ComputationGraph) -> np.ndarray:
    """[N] bool, ops whose weights are a table of which they read rows."""
    return np.array([kind in LOOKUPS for kind in graph.op_kinds]) & (graph.op_weight_bytes > 0)


def tables_on_host(graph: ComputationGraph) -> ComputationGraph:
    """The graph whose tables take no memory of a chip and no time to stream."""
    tables = np.where(looks_up(graph), graph.op_weight_bytes, 0)
    untouched = graph.op_untouched_bytes
    return dataclasses.replace(
        graph,
        op_weight_bytes=frozen_array(graph.op_weight_bytes - tables, np.int64),
        op_untouched_bytes=(
            None if untouched is None else frozen_array(np.maximum(untouched - tables, 0), np.int64)
        ),
    )


class ScheduleArrays(NamedTuple):
    """A graph as the kernel reads it: N ops, M tensors, E uses."""

    order: np.ndarray  # [N] int32 topological order, which every chip follows.
    position: np.ndarray  # [N] int32, the place of each op in it.
    seconds: np.ndarray  # [N] float64, seconds of each op.
    unit: np.ndarray  # [N] int64 class of each op; -1 for an op that occupies no unit.
    resident: np.ndarray  # [N] float64 bytes of weights each op has on its chip.
    output_bytes: np.ndarray  # [N] float64 bytes of the tensors each op makes.
    tensor_producer: np.ndarray  # [M] int32.
    tensor_bytes: np.ndarray  # [M] float64.
    tensor_is_output: np.ndarray  # [M] bool.
    consumer_offsets: np.ndarray  # [M + 1] int64.
    consumers: np.ndarray  # [E] int32, of each tensor in topological order.


@njit(cache=True)
def schedule(arrays, assignment, chips, switch_s):
    """Runs every chip's ops in order.

    Returns:
      ([C] seconds of the ops, [C] bytes and [C] messages over the link behind each chip, [C] peak
      bytes of tensors); the first link's bytes are -1 where an edge runs back to an earlier chip.
    """
    n, tensors = len(arrays.order), len(arrays.tensor_producer)
    compute, link_bytes, messages = np.zeros(chips), np.zeros(chips + 1), np.zeros(chips + 1)
    held, freed = np.zeros(chips), np.zeros(n)
    last_use, stamp = np.zeros(chips, np.int64), np.full(chips, -1, np.int64)
    there = np.empty(chips, np.int64)
    for t in range(tensors):
        producer, size = arrays.tensor_producer[t], arrays.tensor_bytes[t]
        home = assignment[producer]
        stamp[home], last_use[home], there[0] = t, arrays.position[producer], home
        count, furthest = 1, home
        for e in range(arrays.consumer_offsets[t], arrays.consumer_offsets[t + 1]):
            consumer = arrays.consumers[e]
            chip = assignment[consumer]
            if chip < home:
                link_bytes[0] = -1.0
                return compute, link_bytes[:chips], messages[:chips], held
            if stamp[chip] != t:
                stamp[chip] = t
                there[count] = chip
                count += 1
            last_use[chip] = arrays.position[consumer]
            furthest = max(furthest, chip)
        for i in range(count):
            chip = there[i]
            if chip != home:
                held[chip] += 2.0 * size
            if chip != home or (count == 1 and not arrays.tensor_is_output[t]):
                freed[last_use[chip]] += size
        if count > 1:
            held[home] += size
        link_bytes[home] += size * (furthest > home)
        link_bytes[furthest] -= size * (furthest > home)
        messages[home] += furthest > home
        messages[furthest] -= furthest > home
    link_bytes, messages = np.cumsum(link_bytes), np.cumsum(messages)
    peak = held.copy()
    unit = np.full(chips, -1, np.int64)
    for i in range(n):
        op = arrays.order[i]
        chip = assignment[op]
        held[chip] += arrays.output_bytes[op]
        peak[chip] = max(peak[chip], held[chip])
        if arrays.unit[op] >= 0:
            compute[chip] += arrays.seconds[op]
            if unit[chip] >= 0 and unit[chip] != arrays.unit[op]:
                compute[chip] += switch_s
            unit[chip] = arrays.unit[op]
        held[chip] -= freed[i]
    return compute, link_bytes[:chips], messages[:chips], peak
