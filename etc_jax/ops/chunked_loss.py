"""Cross entropy over a large vocabulary, some tokens at a time.

The logits of all tokens never exist at once (Kitaev et al. 2020, section 3, "chunking"
of the output); the backward pass computes them again.
"""

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking


def cross_entropy(
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    targets: jax.Array,
    chunk_length: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """The negative log-probability of each target, and whether it is the likeliest.

    Args:
      x: `[b, n, e]`.
      kernel: `[e, v]`.
      bias: `[v]`.
      targets: int `[b, n]` in 0..v - 1.
      chunk_length: tokens of each row at once; 0: all.

    Returns:
      (float32 `[b, n]` in nats, bool `[b, n]`).
    """
    n = x.shape[1]

    @jax.checkpoint
    def losses(x, targets):
        logits = x @ kernel.astype(x.dtype)
        logits = logits.astype(jnp.float32) + bias.astype(jnp.float32)[None, None]
        picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        hits = jnp.argmax(logits, axis=-1) == targets
        return jax.nn.logsumexp(logits, axis=-1) - picked, hits

    if not chunk_length or n <= chunk_length:
        return losses(x, targets)

    def pieces(a):
        a = blocking.pad_axis(a, 1, 0, -n % chunk_length)
        a = blocking.blocks(a, a.shape[1] // chunk_length, 1)
        return jnp.moveaxis(a, 1, 0)

    def whole(a):
        return blocking.unblock(jnp.moveaxis(a, 0, 1), 1)[:, :n]

    found = jax.lax.map(lambda both: losses(*both), (pieces(x), pieces(targets)))
    return jax.tree.map(whole, found)
