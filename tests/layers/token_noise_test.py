"""Noise on the rows of tokens, and on nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from etc_jax.layers import token_noise

SIZES = (64, 32)
TOKENS = np.arange(64, dtype=np.int32).reshape(4, 16)
SCALE = 3.0


class Reads(nn.Module):
    """Rows of tokens, scaled, and of positions, by tables of their own."""

    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32
    name_of_table: str = token_noise.TABLE

    def setup(self):
        def table():
            return nn.Embed(*SIZES, dtype=self.dtype, param_dtype=self.param_dtype)

        setattr(self, self.name_of_table, table())
        self.position_embedder = table()

    def __call__(self, tokens):
        rows = getattr(self, self.name_of_table)
        positions = self.position_embedder(jnp.arange(tokens.shape[1])[None])
        # Twice, and as logits.
        found = SCALE * rows(tokens), SCALE * rows(tokens), positions
        return *found, rows.attend(jnp.ones((1, SIZES[1]), self.dtype))


def read(size, kind="uniform", seed=1, **fields):
    """What `Reads` gives with noise, and without."""
    model = Reads(**fields)
    variables = model.init(jax.random.key(0), TOKENS)

    def apply():
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply(variables, TOKENS, rngs=rngs)

    with token_noise.added(size, kind):
        noisy = apply()
    return noisy, apply()


def test_noise_is_of_the_rows_of_tokens_before_they_are_scaled():
    noisy, clean = read(1e-2)
    first, second, *others = (a - b for a, b in zip(noisy, clean, strict=True))
    for noise in (first, second):
        assert 0.99 < np.abs(noise).max() / (SCALE * 1e-2) < 1 + 1e-4
        assert abs(noise.mean()) < SCALE * 5e-4
    assert (first != second).mean() > 0.99  # drawn anew
    for other in others:
        np.testing.assert_array_equal(other, 0)


def test_another_key_is_other_noise_and_the_same_key_the_same():
    first, again, other = (read(1e-2, seed=seed)[0][0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.99


def test_normal_noise_has_the_size_as_its_standard_deviation():
    noisy, clean = read(1e-2, "normal")
    noise = (noisy[0] - clean[0]) / SCALE
    np.testing.assert_allclose(noise.std(), 1e-2, rtol=0.05)
    assert np.abs(noise).max() > 2e-2


def test_noise_of_size_0_changes_nothing():
    noisy, clean = read(0.0, dtype=jnp.bfloat16)
    jax.tree.map(np.testing.assert_array_equal, noisy, clean)


def test_in_bfloat16_noise_below_a_step_is_there_in_the_mean():
    """Of rows of 1 / 50, where numbers are 2 ** -13 apart and those between are cut."""
    size, many = 1e-5, (64, 2048)
    table = nn.Embed(*SIZES, dtype=jnp.bfloat16, name=token_noise.TABLE)
    rows = np.linspace(0.018, 0.022, SIZES[0] * SIZES[1], dtype=np.float32)
    variables = {"params": {"embedding": jnp.asarray(rows).reshape(SIZES)}}
    tokens = np.random.default_rng(0).integers(0, SIZES[0], many)

    @jax.jit
    def moved(variables):
        with token_noise.added(size, "uniform"):
            noisy = table.apply(variables, tokens, rngs={"dropout": jax.random.key(3)})
        return (noisy - table.apply(variables, tokens)).astype(jnp.float32)

    steps = np.asarray(moved(variables)) * 2**13
    assert set(np.unique(steps)) == {-1.0, 0.0, 1.0}
    # The mean of |noise| is size / 2, in steps of 2 ** -13.
    np.testing.assert_allclose(np.abs(steps).mean(), size / 2 * 2**13, rtol=0.1)
    assert abs(steps.mean()) < 1e-3


def test_a_table_that_would_lose_the_noise_is_refused():
    with pytest.raises(ValueError, match="stored in bfloat16, in which noise of 1e-05"):
        read(1e-5, param_dtype=jnp.bfloat16)


def test_a_model_without_such_a_table_is_refused():
    with pytest.raises(ValueError, match="no token table was read.*'token_embedder'"):
        read(1e-5, name_of_table="words")
