"""Network blocks."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learned_mapping.learning.networks import count_parameters, draw_parameters, mlp, scale_gradient


def test_gradients_are_scaled_and_values_are_not():
    value, gradient = jax.value_and_grad(lambda x: 3.0 * scale_gradient(x, 0.5))(2.0)
    assert (value, gradient) == (6.0, 1.5)


def test_parameters_are_counted():
    assert count_parameters({"a": np.zeros((2, 3)), "b": [np.float32(1)]}) == 7


def test_parameters_are_drawn_as_haiku_would():
    """Catches a wrong fan-in, a scale that starts at 0, and layers that should start at 0 and do
    not."""

    def network(x):
        return mlp(hk.Conv2D(8, 3, name="conv")(x), (64,), 5, name="head")

    transformed = hk.transform(network)
    image = jnp.ones((1, 4, 4, 32))
    shapes = jax.eval_shape(transformed.init, jax.random.key(0), image)
    actual = draw_parameters({"all": shapes}, np.random.default_rng(0), ("head_out",))["all"]
    assert jax.tree_util.tree_map(np.shape, actual) == jax.tree_util.tree_map(
        lambda x: x.shape, dict(shapes)
    )
    haiku_std = 0.87962566 / np.sqrt(3 * 3 * 32)
    assert actual["conv"]["w"].std() == pytest.approx(haiku_std, rel=0.05)
    assert (actual["head_norm_0"]["scale"] == 1).all() and (
        actual["head_norm_0"]["offset"] == 0
    ).all()
    assert (actual["head_out"]["w"] == 0).all() and actual["head_0"]["w"].any()
