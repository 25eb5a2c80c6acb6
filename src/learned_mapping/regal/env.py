"""The environment of paper 3 in JAX: one graph, one action, one reward (REGAL, Section 2.3).

An episode has one step: the action is a bin for every Beta parameter of every op, the reward -M /
H, the cost that BRKGA ends with when its mutants follow these laws over the one it ends with when
they are uniform. `reset` and `step` are pure and go through jit and vmap; the search is compiled
code behind `jax.pure_callback`. Laws tried with one seed share their initial population and their
random numbers; given to one call, the population is scored once.

Seconds are float64: use everything here inside ``with exact():``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from learned_mapping.errors import (
    InputError,
    expect_sequence,
    expect_type,
    expect_whole,
    real,
    told,
)
from learned_mapping.hardware.in_jax import Devices
from learned_mapping.learning.precision import exact, require_exact, whole_scalar
from learned_mapping.regal.agent.features import Features
from learned_mapping.regal.agent.rollouts import generations_in, rollouts, uniform_cost
from learned_mapping.regal.rules.instance import Arrays, Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters
from learned_mapping.regal.searches.random_numbers import TABULATED, stream

__all__ = ["EnvGraph", "EnvState", "env_graphs", "exact", "reset", "seconds_of", "step"]

MAX_EVALUATIONS = 10**7  # Of a run.
MAX_SEED = 2**63 - 1  # A negative one counts from its other end.
UNIFORM_RUNS = 4  # Runs with uniform mutants whose mean is H.
_KINDS = {
    "device_seconds": "N",
    "weight_bytes": "N",
    "tensor_bytes": "M",
    "tensor_producer": "M",
    "tensor_is_output": "M",
    "consumer_offsets": "M+",
    "consumers": "E",
    "input_offsets": "N+",
    "inputs": "E",
    "output_offsets": "N+",
    "outputs": "M",
}
"""Arrays of an instance -> what they have an entry for; + for one more."""


class EnvGraph(NamedTuple):
    """A graph for `reset`, padded to N ops, M tensors and E uses; graphs of equal sizes share a
    compilation."""

    sizes: jax.Array  # [3] int32: the graph's own ops, tensors and uses.
    flop: jax.Array  # [N] float64.
    # [N] float64: what the roofline of `op_seconds` divides by the bandwidth.
    touched_bytes: jax.Array
    computes: jax.Array  # [N] bool: not of kind ``input``, which takes no time.
    stated_seconds: jax.Array  # [N] float64: the graph's own times; -1 where it brings none.
    arrays: dict[str, jax.Array]  # The padded arrays of `Instance.arrays` but its seconds.
    minimise_memory: jax.Array  # [] bool: whether the objective is peak memory.
    # What the policy sees: attributes of ops and uses, one padded graph (Section 2.1).
    observation: jraph.GraphsTuple


class EnvState(NamedTuple):
    """An episode, a state of this decision process. A pytree; no number in it is NaN.

    - Reset: `reset`, from a graph, a machine, a seed of the uniform runs and a number of
      evaluations.
    - Step: `step`, a bin for every Beta parameter of every op and a seed of the search; the same
      seed, the same result.
    - Observe: what `reset` returns beside the state, one padded graph; it does not change.
    - Mask: none; bins that are not there change nothing and earn nothing.
    - Reward: -M / H, the search's cost over that of uniform mutants; no unit.
    - Termination: ``done``, after one legal step.
    - Units: seconds, or bytes where the objective is memory.
    """

    graph: EnvGraph
    machine: Devices  # Its numbers are traced; devices and the reading of transfers are not.
    evaluations: jax.Array  # [] int32, of a run.
    uniform_cost: jax.Array  # [] float64: H, seconds or bytes.
    done: jax.Array  # [] bool.


def env_graphs(instances: Sequence[Instance], seen: Sequence[Features]) -> EnvGraph:
    """Graphs with their attributes, stacked along a leading axis and padded to the largest.

    Raises:
      InputError: not inside `exact`.
    """
    require_exact("regal.env")
    for values, kind, source in ((instances, Instance, "instances"), (seen, Features, "seen")):
        expect_sequence(values, source, "")
        for value in values:
            expect_type(value, kind, source)
    if not 0 < len(instances) == len(seen):
        fault = f"{len(seen)} of them for {len(instances)} instances"
        raise InputError("seen", "", fault)
    sizes = [(i.graph.num_ops, i.graph.num_tensors, i.graph.num_edges) for i in instances]
    n, m, e = (max(column) for column in zip(*sizes))
    padded = {"N": n, "M": m, "E": e, "N+": n + 1, "M+": m + 1}
    stacked = []
    for instance, size, attributes in zip(instances, sizes, seen):
        graph, arrays = instance.graph, instance.arrays._asdict()
        touched = graph.op_tensor_traffic + graph.op_weight_traffic
        computes = np.array([kind != "input" for kind in graph.op_kinds])
        times = np.full(size[0], -1.0) if graph.op_seconds is None else graph.op_seconds
        tuple_ = jraph.GraphsTuple(
            nodes=attributes.nodes,
            edges=attributes.edges,
            senders=attributes.senders,
            receivers=attributes.receivers,
            globals=None,
            n_node=np.array([size[0]]),
            n_edge=np.array([size[2]]),
        )
        leaves: dict[str, Any] = dict(  # NumPy's, until they are stacked.
            sizes=np.array(size, np.int32),
            flop=_pad(graph.op_flop * computes, n),
            touched_bytes=_pad(touched * computes, n),
            computes=_pad(computes, n, bool),
            stated_seconds=_pad(times, n),
            arrays={
                k: _pad(arrays[k], padded[v], None)
                for k, v in _KINDS.items()
                if k != "device_seconds"
            },
            minimise_memory=np.array(arrays["minimise_memory"]),
            observation=jraph.pad_with_graphs(tuple_, n + 1, e + 1, 2),
        )
        stacked.append(EnvGraph(**leaves))
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *stacked)


def _pad(values: np.ndarray, size: int, dtype: type | None = np.float64) -> np.ndarray:
    values = np.asarray(values, dtype)
    return np.pad(values, (0, size - len(values)))


def seconds_of(graph: EnvGraph, machine: Devices) -> jax.Array:
    """[N, d] float64: as `hardware.devices.device_seconds`, traced in the machine's numbers."""
    d = machine.devices
    computing = graph.flop[:, None] / _numbers(machine.flop_per_s, (d,))
    moving = graph.touched_bytes[:, None] / _numbers(machine.bytes_per_s, (d,))
    overhead = jnp.where(graph.computes[:, None], _numbers(machine.op_overhead_s, (d,)), 0.0)
    stated = graph.stated_seconds[:, None]
    return jnp.where(stated < 0, jnp.maximum(computing, moving) + overhead, stated)


def reset(
    graph: EnvGraph, machine: Devices, seed: jax.Array, evaluations: int
) -> tuple[EnvState, jraph.GraphsTuple]:
    """A new episode and what the policy sees of it.

    Args:
      graph: one of `env_graphs`, without the leading axis.
      seed: [] integer, of the uniform runs that give H.
      evaluations: chromosomes scored in a run.

    Raises:
      InputError: fewer evaluations than a generation after the initial population needs, or not
        inside `exact`.
    """
    require_exact("regal.env")
    expect_whole(evaluations, "environment", "evaluations", 1, MAX_EVALUATIONS)
    if generations_in(evaluations, BrkgaParameters()) < 1:
        fault = f"{evaluations} do not reach a generation after the first"
        raise InputError("environment", "evaluations", fault)
    expect_type(graph, EnvGraph, "graph")
    expect_type(machine, Devices, "machine")
    seed = whole_scalar(seed, "seed")
    state = EnvState(graph, machine, jnp.int32(evaluations), jnp.float64(1), jnp.bool_(False))

    def run(arrays: Arrays, seed: int, evaluations: int) -> float:
        return uniform_cost(arrays, (seed,), evaluations, UNIFORM_RUNS)

    return state._replace(uniform_cost=_call(run, (), state, seed)), graph.observation


def step(
    state: EnvState, choices: jax.Array, seed: jax.Array, bins: tuple[float, ...]
) -> tuple[EnvState, jax.Array]:
    """The episode after its one action, and the reward, -M / H; an illegal action, a bin that is
    not there, changes nothing and earns nothing.

    Args:
      choices: [N, d + 1, 2] integers, bins of alpha and beta; or [K, N, d + 1, 2], K laws tried in
        as many runs.
      seed: [] integer: the initial population and the random numbers after it, the same for all K.
      bins: the values to choose from.

    Returns:
      The state, and [] or [K] float64.

    Raises:
      InputError: choices of another shape or type, or not inside `exact`.
    """
    require_exact("regal.env")
    expect_type(state, EnvState, "state")
    expect_sequence(bins, "environment", "bins")
    bins, seed = tuple(real(b, "environment", "bins") for b in bins), whole_scalar(seed, "seed")
    low, high = TABULATED  # a stream draws from tables alone
    if not bins or not all(low <= b <= high for b in bins):
        fault = f"expected numbers in [{low}, {high}], got {bins}"
        raise InputError("environment", "bins", fault)
    shape = (len(state.graph.flop), state.machine.devices + 1, 2)
    is_array = isinstance(choices, np.ndarray | jax.Array)
    fits = is_array and choices.shape[-3:] == shape and choices.ndim <= 4
    if not fits or not jnp.issubdtype(choices.dtype, jnp.integer):
        fault = f"expected integers of shape {shape}, or K of it, got {told(choices)}"
        raise InputError("environment", "choices", fault)
    laws = choices.reshape(-1, *choices.shape[-3:])
    counts = (jnp.arange(laws.shape[1]) < state.graph.sizes[0])[:, None, None]
    legal = ((laws >= 0) & (laws < len(bins)) | ~counts).all(axis=(1, 2, 3))
    laws = jnp.where(legal[:, None, None, None], laws, 0)

    def run(arrays: Arrays, seed: int, evaluations: int, chosen: np.ndarray) -> np.ndarray:
        return rollouts(arrays, chosen[:, : len(arrays.seconds)], bins, stream(seed), evaluations)

    legal &= ~state.done
    rewards = jnp.where(
        legal, -_call(run, laws.shape[:1], state, seed, laws) / state.uniform_cost, 0.0
    )
    return state._replace(done=state.done | legal.any()), rewards.reshape(choices.shape[:-3])


def _call(
    function: Callable, shape: tuple[int, ...], state: EnvState, seed: jax.Array, *rest: jax.Array
) -> jax.Array:
    """`shape` float64 from compiled code: function(arrays, seed, evaluations, *rest)."""
    graph, machine = state.graph, state.machine
    d, own = machine.devices, jnp.eye(machine.devices, dtype=bool)
    speed = _numbers(machine.link_bytes_per_s, (d, d))
    latency = _numbers(machine.link_latency_s, (d, d))
    links = {
        "memory_bytes": _numbers(machine.memory_bytes, (d,)),
        "link_bytes_per_s": jnp.where(own, jnp.inf, speed),
        "link_latency_s": jnp.where(own, 0.0, latency),
    }
    padded = graph.arrays | {"device_seconds": seconds_of(graph, machine)}
    numbers = (state.evaluations, jnp.int64(seed))
    inputs = (graph.sizes, graph.minimise_memory, *numbers, links, padded, *rest)
    dtypes = jax.tree.map(lambda leaf: np.dtype(leaf.dtype), inputs)

    def host(*narrow):
        sizes, minimise, evaluations, seed, links, padded, *rest = jax.tree.map(
            _widen, narrow, dtypes
        )
        n, m, e = (int(size) for size in sizes)
        counts = {"N": n, "M": m, "E": e, "N+": n + 1, "M+": m + 1}
        arrays = {
            name: np.ascontiguousarray(padded[name][: counts[kind]])
            for name, kind in _KINDS.items()
        }
        costly = bool(np.isfinite(links["link_bytes_per_s"]).any() or links["link_latency_s"].any())
        total = arrays["weight_bytes"].sum() + arrays["tensor_bytes"].sum()
        problem = Arrays(
            **arrays,
            **links,
            seconds=arrays["device_seconds"].min(axis=1),
            devices=d,
            costly_links=costly and not bool(minimise),
            overlapped=machine.transfers != "rendezvous",
            queued=machine.transfers == "queued",
            minimise_memory=bool(minimise),
            counts_memory=bool(minimise or total > links["memory_bytes"].min()),
        )
        numbers = np.asarray(
            function(problem, int(seed) & MAX_SEED, int(evaluations), *rest), np.float64
        )
        return numbers[..., None].view(np.uint32)

    out = jax.ShapeDtypeStruct((*shape, 2), jnp.uint32)
    bits = jax.pure_callback(host, out, *jax.tree.map(_narrow, inputs), vmap_method="sequential")
    return jax.lax.bitcast_convert_type(bits, jnp.float64)


def _numbers(value: Any, shape: tuple[int, ...]) -> jax.Array:
    """A number of the devices, or one for each, as an array of this shape."""
    return jnp.broadcast_to(jnp.asarray(value, jnp.float64), shape)


def _narrow(leaf: jax.Array) -> jax.Array:
    """64-bit numbers as pairs of 32: JAX calls back on a thread that does not know of `exact`, and
    would round them."""
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32) if leaf.dtype.itemsize == 8 else leaf


def _widen(leaf: jax.Array, dtype: np.dtype) -> np.ndarray:
    values = np.asarray(leaf)
    return np.ascontiguousarray(values).view(dtype)[..., 0] if dtype.itemsize == 8 else values
