"""What the tests of BigBird's two forms share: small inputs, results, gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.ops.attention import block_sparse

HEADS, SIZE, BLOCK = 3, 4, 4


def inputs(n, *, batch=2, seed=0, dtype=np.float64):
    """(query, key, value), and a weight of each output."""
    rng = np.random.default_rng(seed)
    rows = [
        rng.normal(size=(batch, n, HEADS, SIZE)).astype(dtype) * scale
        for scale in (2, 1, 1, 1)
    ]
    return tuple(rows[:3]), rows[3]


def packed(n, batch=2, seed=1):
    """Ids of examples one after the other, with padding after them."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(0, 3, (batch, n)), axis=-1)[:, ::-1].astype(np.int32)


def output(*rows, block_size=BLOCK, **options):
    """What `attend` gives, compiled as a whole."""

    @jax.jit
    def run(*rows):
        return block_sparse.attend(*rows, block_size=block_size, **options)

    return run(*rows)


def results(rows, weight, **options):
    """(output, gradients of query, key and value)."""

    @jax.jit
    def run(*rows):
        def loss(*rows):
            out = block_sparse.attend(*rows, block_size=BLOCK, **options)
            return jnp.sum(out * weight), out

        gradients, out = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*rows)
        return out, *gradients

    return run(*rows)


def check_dropout(n, draws, **options):
    """Dropout keeps the mean and is the same in both passes.

    Args:
      n: tokens.
      draws: that the mean is of.
      **options: of `block_sparse.attend`.
    """
    rows, weight = inputs(n, dtype=np.float32)

    def out(value, seed=0):
        return block_sparse.attend(
            *rows[:2],
            value,
            block_size=BLOCK,
            dropout_rate=0.25,
            dropout_rng=jax.random.key(seed),
            **options,
        )

    # Linear in the values, so that the gradient must give the output back.
    @jax.jit
    def both(value):
        got, pull = jax.vjp(out, value)
        return got, *pull(weight)

    got, back = both(rows[2])
    np.testing.assert_allclose(
        jnp.vdot(rows[2], back), jnp.vdot(got, weight), rtol=1e-4
    )
    ones = np.ones_like(rows[2])
    made = jax.jit(jax.vmap(lambda s: out(ones, s)))(jnp.arange(draws))
    np.testing.assert_allclose(made.mean(0), 1, atol=0.2)
    assert np.std(made) > 0.05


def check_bfloat16(n, **options):
    """Results in bfloat16 are near those in float32."""
    rows, _ = inputs(n, dtype=np.float32)

    got = output(*(jnp.asarray(x, jnp.bfloat16) for x in rows), **options)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        got.astype(np.float32), output(*rows, **options), atol=0.1
    )
