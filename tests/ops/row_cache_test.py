"""One token more from a cache is what attention of the whole sequence gives it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.attention import full, row_cache, sliding_window
from etc_jax.ops.attention.bias import BucketBias

B, H, D, N = 3, 4, 2, 29
# Prompts of other lengths in one batch.
LENGTHS = np.array([1, 7, 12], np.int32)


pytestmark = pytest.mark.usefixtures("float64")


def rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(B, N, H, D)).astype(dtype) for _ in range(3)]


def bias():
    table = np.random.default_rng(1).normal(size=(6, H))
    return BucketBias(table, 9, causal=True)


WINDOWS = {
    "everything": {},
    "a window": {"radius": 5},
    "its own place alone": {"radius": 0},
    "dilated": {"radius": 2, "dilation": 3},
    "dilated by heads": {"radius": 3, "dilation": (1, 2, 2, 5)},
    "farther than the sequence": {"radius": 40, "dilation": (1, 2, 2, 5)},
    "bias and scale": {"radius": 4, "scale": 0.8, "bias": bias},
    "everything, bias and scale": {"scale": 0.8, "bias": bias},
}


def decoded(query, key, value, options):
    """Outputs of the tokens after the prompts, and how many rows the cache has."""
    radius, dilation = options.get("radius"), options.get("dilation", 1)
    size = N if radius is None else row_cache.window_rows(radius, dilation, N)
    cache = row_cache.fill(
        *(jnp.asarray(x[:, : LENGTHS.max()]) for x in (key, value)), LENGTHS, size
    )
    cache = jax.tree.map(lambda x: jnp.stack([jnp.zeros_like(x), x]), cache)
    step = jax.jit(functools.partial(row_cache.step, **options))
    out = {}
    for i in range(N - LENGTHS.max()):
        at = (np.arange(B), LENGTHS + i)
        newest = [x[at][:, None] for x in (query, key, value)]
        now = row_cache.Newest(jnp.asarray(LENGTHS + i), 1)
        found, cache = step(*newest, cache, now)
        out.update({(b, LENGTHS[b] + i): found[b, 0] for b in range(B)})
    assert not cache.key[0].any()  # of another layer
    return out, size


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.full(
    but=[
        "everything",
        "a window",
        "dilated by heads",
        "farther than the sequence",
        "everything, bias and scale",
    ]
)
def test_token_by_token_equals_the_whole(name):
    options = dict(WINDOWS[name])
    if "bias" in options:
        options["bias"] = bias()
    arrays = rows()
    attend = sliding_window.attend if "radius" in options else full.attend
    whole = jax.jit(functools.partial(attend, causal=True, **options))(*arrays)
    got, size = decoded(*arrays, options)
    for (b, token), out in got.items():
        np.testing.assert_allclose(out, whole[b, token], atol=1e-12)
    if name in ("a window", "dilated"):
        assert size == 1 + options["radius"] * options.get("dilation", 1) < N


def test_bfloat16_rows_come_back_as_they_were():
    arrays = [jnp.asarray(x, jnp.bfloat16) for x in rows(np.float32)]
    cache = row_cache.fill(*arrays[1:], jnp.full((B,), N), N)
    assert cache.key.dtype == jnp.uint16
    got = row_cache.take(cache.key[None], (0,), jnp.bfloat16)
    np.testing.assert_array_equal(got, arrays[1])


def test_rows_of_several_tokens_are_refused():
    query, key, value = (x[:, :2] for x in rows())
    cache = row_cache.RowCache(key[None], value[None])
    now = row_cache.Newest(jnp.zeros((B,), jnp.int32), 0)
    with pytest.raises(ValueError, match="expected one shape"):
        row_cache.step(query, key, value, cache, now)
