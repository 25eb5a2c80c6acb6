"""Images to images: U-Net, a variational autoencoder, a super-resolution network."""

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import halved


def unet(images: jax.Array, *, depth: int = 4, channels: int = 64, classes: int = 2) -> jax.Array:
    """U-Net (Ronneberger et al. 2015): per-pixel scores [B, H, W, classes]; H and W divisible by
    2^depth."""

    def double(x: jax.Array, width: int, name: str) -> jax.Array:
        for i in range(2):
            x = jax.nn.relu(hk.Conv2D(width, 3, name=f"{name}_{i}")(x))
        return x

    x, skips = images, []
    for level in range(depth):
        skips.append(double(x, channels * 2**level, f"down_{level}"))
        x = halved(skips[-1])
    x = double(x, channels * 2**depth, "bottom")
    for level in reversed(range(depth)):
        x = hk.Conv2DTranspose(channels * 2**level, 2, stride=2, name=f"rise_{level}")(x)
        x = double(jnp.concatenate([skips[level], x], axis=-1), channels * 2**level, f"up_{level}")
    return hk.Conv2D(classes, 1, name="scores")(x)


def autoencoder_loss(
    images: jax.Array, *, levels: int = 4, channels: int = 32, latent: int = 128
) -> jax.Array:
    """Loss of a convolutional variational autoencoder (Kingma and Welling 2013) on images [B, H, W,
    C] in [0, 1]."""
    x = images
    for i in range(levels):
        x = jax.nn.relu(hk.Conv2D(channels * 2**i, 4, stride=2, name=f"down_{i}")(x))
    grid = x.shape[1:]
    moments = hk.Linear(2 * latent, name="moments")(hk.Flatten()(x))
    mean, log_variance = jnp.split(moments, 2, axis=-1)
    code = mean + jnp.exp(log_variance / 2) * jax.random.normal(
        hk.next_rng_key(), mean.shape, mean.dtype
    )
    x = jax.nn.relu(hk.Linear(grid[0] * grid[1] * grid[2], name="expand")(code)).reshape(-1, *grid)
    for i in reversed(range(levels)):
        width = channels * 2 ** (i - 1) if i else images.shape[-1]
        x = hk.Conv2DTranspose(width, 4, stride=2, name=f"up_{i}")(jax.nn.relu(x))
    likelihood = jnp.sum(
        images * jax.nn.log_sigmoid(x) + (1 - images) * jax.nn.log_sigmoid(-x), axis=(1, 2, 3)
    )
    divergence = jnp.sum(jnp.square(mean) + jnp.exp(log_variance) - 1 - log_variance, axis=-1) / 2
    return jnp.mean(divergence - likelihood)


def super_resolution(
    images: jax.Array, *, blocks: int = 16, channels: int = 64, factor: int = 2
) -> jax.Array:
    """EDSR (Lim et al. 2017): images [B, factor H, factor W, 3] from images [B, H, W, 3]; the
    defaults are its smaller model."""
    head = hk.Conv2D(channels, 3, name="head")(images)
    x = head
    for i in range(blocks):
        with hk.name_scope(f"block_{i}"):
            x = x + hk.Conv2D(channels, 3, name="conv_2")(
                jax.nn.relu(hk.Conv2D(channels, 3, name="conv_1")(x))
            )
    x = hk.Conv2D(channels, 3, name="body")(x) + head
    x = hk.Conv2D(channels * factor**2, 3, name="expand")(x)
    batch, height, width = x.shape[:3]
    x = x.reshape(batch, height, width, factor, factor, channels).transpose(0, 1, 3, 2, 4, 5)
    return hk.Conv2D(3, 3, name="tail")(x.reshape(batch, height * factor, width * factor, channels))
