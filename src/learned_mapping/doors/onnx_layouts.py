"""What operations of ONNX consist of in JAX, where that is more than one primitive, or depends on
what a node says besides its inputs.

Each entry of `LAYOUTS` takes what a node says (`Given`) and returns a function of its inputs, None
for those that are left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn


@dataclass(frozen=True)
class Given:
    """What a node says besides its inputs: attributes, and the inputs that stand in the file."""

    op: str
    attributes: dict[str, Any]
    arrays: Sequence[np.ndarray | None]
    results: int  # How many are asked for.

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, text as a string."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def array(self, place: int) -> np.ndarray | None:
        """The numbers of an input, None where it is left out or not in the file."""
        return self.arrays[place] if place < len(self.arrays) else None

    def whole(self, place: int, name: str, default: Any = None) -> Any:
        """Whole numbers that older versions say as an attribute and newer ones as an input."""
        array = self.array(place)
        if array is not None:
            return [int(n) for n in np.ravel(array)]
        if place < len(self.arrays) and name not in self.attributes and default is None:
            raise ValueError(f"the numbers of its input {name} are not in the file")
        return self.get(name, default)


def _window(given: Given, x: Any, kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, dilations and padding of a window over what follows batch and channel."""
    rank = len(kernel)
    strides, dilations = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    pads, auto = given.get("pads", [0] * 2 * rank), given.get("auto_pad", "NOTSET")
    padding = list(zip(pads[:rank], pads[rank:]))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        padding = lax.padtype_to_pads(x.shape[2:], reach, strides, "SAME")
    return {"window_strides": strides, "rhs_dilation": dilations, "padding": padding}


def _channel(value: Any, rank: int) -> Any:
    return value.reshape((1, -1, *[1] * rank))


def _convolved(given: Given, x: Any, w: Any, bias: Any, **window: Any) -> Any:
    groups, rank = given.get("group", 1), w.ndim - 2
    y = lax.conv_general_dilated(x, w.astype(x.dtype), feature_group_count=groups, **window)
    return y if bias is None else y + _channel(bias, rank)


def conv(given: Given) -> Callable:
    def run(x: Any, w: Any, bias: Any = None) -> Any:
        return _convolved(given, x, w, bias, **_window(given, x, w.shape[2:]))

    return run


def conv_of_integers(given: Given) -> Callable:
    def run(x: Any, w: Any, *points: Any) -> Any:
        window = _window(given, x, w.shape[2:])
        return _convolved(given, x, w, None, **window, preferred_element_type=jnp.int32)

    return run


def conv_transpose(given: Given) -> Callable:
    def run(x: Any, w: Any, bias: Any = None) -> Any:
        kernel, groups = w.shape[2:], given.get("group", 1)
        window = _window(given, x, kernel)
        extra = given.get("output_padding", [0] * len(kernel))
        reach = [(k - 1) * d for k, d in zip(kernel, window["rhs_dilation"])]
        strides = window["lhs_dilation"] = window.pop("window_strides")
        sides = zip(window["padding"], reach, extra)
        window["padding"] = [(r - low, r - high + e) for (low, high), r, e in sides]
        made = given.get("output_shape")
        if given.get("auto_pad", "NOTSET").startswith("SAME"):
            made = [size * stride for size, stride in zip(x.shape[2:], strides)]
        if made:
            axes = zip(made, x.shape[2:], strides, reach)
            rest = [size - (n - 1) * stride - 1 + r for size, n, stride, r in axes]
            window["padding"] = [(n // 2, n - n // 2) for n in rest]
        inside, made = w.shape[0] // groups, w.shape[1]
        w = w.reshape(groups, inside, made, *kernel).swapaxes(1, 2)
        w = w.reshape(groups * made, inside, *kernel)
        return _convolved(given, x, w, bias, window_strides=[1] * len(kernel), **window)

    return run


def gemm(given: Given) -> Callable:
    def run(a: Any, b: Any, c: Any = None) -> Any:
        sides = ((1 - given.get("transA", 0),), (given.get("transB", 0),))
        alpha, beta = given.get("alpha", 1.0), given.get("beta", 1.0)
        y = lax.dot_general(a, b, (sides, ((), ())))
        y = y if alpha == 1 else y * np.asarray(alpha, y.dtype)
        if c is None:
            return y
        return y + (c if beta == 1 else c * np.asarray(beta, c.dtype))

    return run


REDUCED: dict[str, Callable] = {
    "ReduceSum": jnp.sum,
    "ReduceMean": jnp.mean,
    "ReduceMax": jnp.max,
    "ReduceMin": jnp.min,
    "ReduceProd": jnp.prod,
    "ReduceL1": lambda x, **axes: jnp.sum(jnp.abs(x), **axes),
    "ReduceL2": lambda x, **axes: jnp.sqrt(jnp.sum(x * x, **axes)),
    "ReduceSumSquare": lambda x, **axes: jnp.sum(x * x, **axes),
    "ReduceLogSum": lambda x, **axes: jnp.log(jnp.sum(x, **axes)),
    "ReduceLogSumExp": lambda x, **axes: nn.logsumexp(x, **axes),
}


def reduce(given: Given) -> Callable:
    def run(x: Any, *rest: Any) -> Any:
        axes = given.whole(1, "axes", () if len(given.arrays) < 2 else None)
        if not axes and given.get("noop_with_empty_axes", 0):
            return x
        keep = bool(given.get("keepdims", 1))
        return REDUCED[given.op](x, axis=tuple(axes) if axes else None, keepdims=keep)

    return run


def global_pool(given: Given) -> Callable:
    reduced = jnp.max if given.op == "GlobalMaxPool" else jnp.mean
    return lambda x: reduced(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def normalised(given: Given) -> Callable:
    """A layer's, a root mean square's, or an instance's or a group's normalisation."""
    count = {"InstanceNormalization": 0}.get(given.op, given.get("num_groups"))

    def over(x: Any, axes: tuple[int, ...]) -> tuple[Any, ...]:
        centred = given.op not in ("RMSNormalization", "SimplifiedLayerNormalization")
        mean = jnp.mean(x, axes, keepdims=True) if centred else None
        apart = x - mean if centred else x
        spread = jnp.mean(apart * apart, axes, keepdims=True)
        factor = lax.rsqrt(spread + np.asarray(given.get("epsilon", 1e-5), x.dtype))
        return apart * factor, mean, factor

    def run(x: Any, scale: Any, bias: Any = None) -> Any:
        if count is None:
            axes = tuple(range(given.get("axis", -1) % x.ndim, x.ndim))
            y, *facts = over(x, axes)
        else:
            groups, facts = x.reshape(x.shape[0], count or x.shape[1], -1), []
            y = over(groups, (2,))[0].reshape(x.shape)
            each = x.shape[1] // scale.shape[0]
            scale, bias = (_channel(jnp.repeat(v, each), x.ndim - 2) for v in (scale, bias))
        y = y * scale if bias is None else y * scale + bias
        return (y, *facts)[: max(given.results, 1)]

    return run


def batch_norm(given: Given) -> Callable:
    def run(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        epsilon = np.asarray(given.get("epsilon", 1e-5), variance.dtype)
        factor = scale * lax.rsqrt(variance + epsilon)
        mean, factor, bias = (_channel(v, x.ndim - 2) for v in (mean, factor, bias))
        return ((x - mean) * factor + bias).astype(x.dtype)

    return run


def local_norm(given: Given) -> Callable:
    """The normalisation of AlexNet over neighbouring channels."""
    size, scale = given.get("size"), given.get("alpha", 1e-4) / given.get("size")

    def run(x: Any) -> Any:
        window = (1, size, *[1] * (x.ndim - 2))
        total = lax.reduce_window(x * x, x.dtype.type(0), lax.add, window, [1] * x.ndim, "SAME")
        return x / (given.get("bias", 1.0) + scale * total) ** given.get("beta", 0.75)

    return run


def softmax(given: Given) -> Callable:
    function = nn.softmax if given.op == "Softmax" else nn.log_softmax
    return lambda x: function(x, axis=given.get("axis", -1))


ACTIVATIONS: dict[str, Callable[[Given, Any], Any]] = {
    "Relu": lambda g, x: nn.relu(x),
    "Gelu": lambda g, x: nn.gelu(x, approximate=g.get("approximate", "none") == "tanh"),
    "Elu": lambda g, x: nn.elu(x, g.get("alpha", 1.0)),
    "Celu": lambda g, x: nn.celu(x, g.get("alpha", 1.0)),
    "Selu": lambda g, x: nn.selu(x),
    "LeakyRelu": lambda g, x: nn.leaky_relu(x, g.get("alpha", 0.01)),
    "HardSigmoid": lambda g, x: jnp.clip(g.get("alpha", 0.2) * x + g.get("beta", 0.5), 0, 1),
    "HardSwish": lambda g, x: nn.hard_swish(x),
    "Swish": lambda g, x: nn.silu(x),
    "Mish": lambda g, x: nn.mish(x),
    "Softplus": lambda g, x: nn.softplus(x),
    "Softsign": lambda g, x: nn.soft_sign(x),
    "ThresholdedRelu": lambda g, x: jnp.where(x > g.get("alpha", 1.0), x, 0),
    "Shrink": lambda g, x: jnp.where(jnp.abs(x) > g.get("lambd", 0.5), x - jnp.sign(x), 0),
    "Hardmax": lambda g, x: nn.one_hot(jnp.argmax(x, -1), x.shape[-1], dtype=x.dtype),
    "Reciprocal": lambda g, x: 1 / x,
    "LpNormalization": lambda g, x: x / jnp.linalg.norm(x, g.get("p", 2), g.get("axis", -1), True),
    "Det": lambda g, x: jnp.linalg.det(x),
    "Trilu": lambda g, x: (jnp.triu if g.get("upper", 1) else jnp.tril)(x),
}
"""Operations of one input."""


def activation(given: Given) -> Callable:
    return lambda x, *rest: ACTIVATIONS[given.op](given, x)


def several(given: Given) -> Callable:
    function = {"Max": jnp.maximum, "Min": jnp.minimum}.get(given.op, jnp.add)

    def run(*arrays: Any) -> Any:
        total = arrays[0]
        for array in arrays[1:]:
            total = function(total, array)
        return total / len(arrays) if given.op == "Mean" else total

    return run


def power(given: Given) -> Callable:
    exponent = given.array(1)

    def run(x: Any, y: Any) -> Any:
        if exponent is not None and exponent.size == 1 and float(exponent.item()).is_integer():
            return lax.integer_pow(x, int(exponent.item()))
        return x**y

    return run


def clip(given: Given) -> Callable:
    def run(x: Any, low: Any = None, high: Any = None) -> Any:
        low = given.get("min") if low is None else low
        high = given.get("max") if high is None else high
        return x if low is None and high is None else jnp.clip(x, low, high).astype(x.dtype)

    return run


TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def resize(given: Given) -> Callable:
    """A weighted sum of neighbours along each axis whose size changes."""

    def run(x: Any, *rest: Any) -> Any:
        place = 1 if given.op == "Upsample" or len(given.arrays) < 3 else 2
        scales: Any = given.array(place) if given.array(place) is not None else given.get("scales")
        sizes, axes = given.array(3), given.get("axes") or range(x.ndim)
        if given.get("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise ValueError("sizes that keep the ratio of the sides are not read")
        if sizes is None and (scales is None or not len(scales)):
            raise ValueError("neither scales nor sizes are in the file")
        for i, axis in enumerate(axes):
            size = int(sizes[i]) if sizes is not None else int(x.shape[axis] * scales[i])
            if size != x.shape[axis]:
                taps = TAPS[given.get("mode", "nearest")]
                index = jnp.minimum(lax.iota(np.int32, size), x.shape[axis] - 1)
                rows = [jnp.take(x, index, axis, mode="clip") for _ in range(taps)]
                x = rows[0] if taps == 1 else sum(row * row.dtype.type(0.5) for row in rows)
        return x

    return run


def one_hot(given: Given) -> Callable:
    def run(index: Any, depth: Any, values: Any) -> Any:
        count, axis = given.whole(1, "depth")[0], given.get("axis", -1)
        return nn.one_hot(index, count, dtype=values.dtype, axis=axis)

    return run


def dropout(given: Given) -> Callable:
    def run(x: Any, *rest: Any) -> Any:
        return (x, jnp.ones(x.shape, bool)) if given.results > 1 else x

    return run


def product_of_integers(given: Given) -> Callable:
    return lambda a, b, *points: jnp.matmul(a, b.astype(a.dtype), preferred_element_type=jnp.int32)


def scaled(given: Given) -> Callable:
    """A product or a convolution of whole numbers that stand for others, and its rounding."""
    inner = product_of_integers if given.op == "QLinearMatMul" else conv_of_integers

    def run(a, a_scale, a_point, b, b_scale, b_point, y_scale, y_point, bias=None) -> Any:
        y = inner(given)(a, b)
        factor = a_scale * b_scale / y_scale
        if given.op == "QLinearConv":
            y = y if bias is None else y + _channel(bias, a.ndim - 2)
            factor = _channel(factor, a.ndim - 2)
        return (jnp.round(y * factor) + y_point).astype(y_point.dtype)

    return run


def quantised(given: Given) -> Callable:
    axis = given.get("axis", 1)

    def along(value: Any, x: Any) -> Any:
        if value.size == 1:
            return value.reshape(())
        if value.ndim == x.ndim:  # in blocks
            return jnp.repeat(value, x.shape[axis] // value.shape[axis], axis)
        return value.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])

    def quantise(x: Any, scale: Any, point: Any = None) -> Any:
        y = jnp.round(x / along(scale, x).astype(x.dtype))
        kind = jnp.dtype(jnp.uint8) if point is None else point.dtype
        y = y if point is None else y + along(point, x).astype(y.dtype)
        if jnp.issubdtype(kind, jnp.integer):
            y = jnp.clip(y, int(jnp.iinfo(kind).min), int(jnp.iinfo(kind).max))
        return y.astype(kind)

    def dequantise(x: Any, scale: Any, point: Any = None) -> Any:
        y = x.astype(scale.dtype)
        y = y if point is None else y - along(point, x).astype(y.dtype)
        return y * along(scale, x)

    return quantise if given.op == "QuantizeLinear" else dequantise


def _cell(op: str, row: Any, h: Any, r: Any, state: Any) -> tuple[Any, Any]:
    """The next output and state of a cell, from what the input gives, the last output, the
    recurrent weights and the last state."""
    made = h @ r.T
    if op == "RNN":
        return jnp.tanh(row + made), state
    if op == "LSTM":
        i, o, f, g = jnp.split(row + made, 4, -1)
        state = nn.sigmoid(f) * state + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(state), state
    z, reset, new = jnp.split(row, 3, -1)
    hz, hr, hn = jnp.split(made, 3, -1)
    z, reset = nn.sigmoid(z + hz), nn.sigmoid(reset + hr)
    return (1 - z) * jnp.tanh(new + reset * hn) + z * h, state


def recurrent(given: Given) -> Callable:
    """A cell for each step and direction."""

    def run(x: Any, w: Any, r: Any, bias: Any = None, *rest: Any) -> Any:
        x = jnp.swapaxes(x, 0, 1) if given.get("layout", 0) else x
        begin = jnp.zeros((x.shape[1], r.shape[-1]), x.dtype)
        ways = []
        for way in range(w.shape[0]):
            rows = x @ w[way].T
            if bias is not None:
                rows = rows + bias[way].reshape(2, -1).sum(0)

            def step(carry: Any, row: Any, way: int = way) -> Any:
                h, state = _cell(given.op, row, carry[0], r[way], carry[1])
                return (h, state), h

            (h, state), rows = lax.scan(step, (begin, begin), rows, reverse=way == 1)
            ways.append((rows, h, state))
        every, last, states = zip(*ways)
        made = (jnp.stack(every, 1), jnp.stack(last), jnp.stack(states))[: max(given.results, 1)]
        return [jnp.moveaxis(v, -2, 0) if given.get("layout", 0) else v for v in made]

    return run


def einsum(given: Given) -> Callable:
    return lambda *arrays: jnp.einsum(given.get("equation").replace(" ", ""), *arrays)


LAYOUTS: dict[str, Callable[[Given], Callable]] = {
    **dict.fromkeys(ACTIVATIONS, activation),
    **dict.fromkeys(REDUCED, reduce),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), global_pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(("Sum", "Mean", "Max", "Min"), several),
    **dict.fromkeys(("Resize", "Upsample"), resize),
    **dict.fromkeys(("QLinearMatMul", "QLinearConv"), scaled),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantised),
    **dict.fromkeys(
        "LayerNormalization RMSNormalization SimplifiedLayerNormalization InstanceNormalization"
        " GroupNormalization".split(),
        normalised,
    ),
    "BatchNormalization": batch_norm,
    "LRN": local_norm,
    "Conv": conv,
    "ConvInteger": conv_of_integers,
    "ConvTranspose": conv_transpose,
    "MatMul": lambda given: jnp.matmul,
    "MatMulInteger": product_of_integers,
    "Gemm": gemm,
    "Einsum": einsum,
    "PRelu": lambda given: lambda x, slope: jnp.where(x > 0, x, slope * x),
    "Pow": power,
    "Clip": clip,
    "OneHot": one_hot,
    "Dropout": dropout,
}
"""Operation of ONNX -> what it lays out."""
