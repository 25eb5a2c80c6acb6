"""Examples from haiku models: inference, and training steps. Nothing is allocated."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from learned_mapping.doors.user_function import Example


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """An abstract array."""
    return jax.ShapeDtypeStruct(shape, dtype)


def inference(
    forward: Callable, *inputs: jax.ShapeDtypeStruct, dtype: Any = jnp.float32
) -> Example:
    """A forward pass of a function that uses haiku modules, of abstract arguments; floats of
    `dtype`."""
    model = hk.transform_with_state(forward)
    params, state = _abstract(model, inputs, dtype)

    def run(params: Any, state: Any, *inputs: Any) -> Any:
        return model.apply(params, state, None, *inputs)[0]

    return Example(run, (params, state, *inputs), (0, 1))


def train_step(
    loss: Callable,
    *inputs: jax.ShapeDtypeStruct,
    optimiser: optax.GradientTransformation,
    dtype: Any = jnp.float32,
    random: bool = False,
) -> Example:
    """One step of training: value and gradient, then the optimiser's update of the donated
    parameters.

    Args:
      loss: a function that uses haiku modules, of the inputs, to a scalar.
      *inputs, dtype: as of `inference`.
      random: whether the loss draws random numbers (dropout).
    """
    model = hk.transform_with_state(loss)
    params, state = _abstract(model, inputs, dtype)
    optimiser_state = jax.eval_shape(optimiser.init, params)

    def run(params: Any, optimiser_state: Any, state: Any, *batch: Any) -> Any:
        key, batch = (batch[0], batch[1:]) if random else (None, batch)

        def objective(params: Any) -> Any:
            return model.apply(params, state, key, *batch)

        (value, new_state), gradients = jax.value_and_grad(objective, has_aux=True)(params)
        updates, new_optimiser_state = optimiser.update(gradients, optimiser_state, params)
        return optax.apply_updates(params, updates), new_optimiser_state, new_state, value

    key = (array(2, dtype=jnp.uint32),) if random else ()
    return Example(run, (params, optimiser_state, state, *key, *inputs), (0, 1, 2), (0, 1, 2))


def _abstract(model: hk.TransformedWithState, inputs: tuple, dtype: Any) -> tuple[Any, Any]:
    """Shapes of the parameters and the state; nothing is allocated."""
    params, state = jax.eval_shape(model.init, array(2, dtype=jnp.uint32), *inputs)

    def cast(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return array(*leaf.shape, dtype=dtype) if leaf.dtype == jnp.float32 else leaf

    return jax.tree_util.tree_map(cast, params), state
