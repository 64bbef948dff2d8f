"""How many blocks are worked on at once changes nothing, with dropout too."""

import jax
import jax.numpy as jnp
import numpy as np
import op_collectives_test as ops
import pytest

from etc_jax.ops import blocking
from etc_jax.ops.attention import block_sparse, lsh
from etc_jax.ops.attention.parts import sizes
from etc_jax.ops.attention.parts.sizes import even_chunk

CASES = (
    "global-local, labels",
    "windows, globals",
    "blocks after globals",
    "lsh",
    "local chunks",
)


def drawn(x, rng):
    """An array for a `Split`: two packed examples, or numbers that are places."""
    if x.dtype != jnp.int32:
        return rng.normal(size=x.shape)
    count = np.arange(x.shape[-1])
    if x.shape[1:] == (ops.N,):
        count = count // 25 + 1
    return np.broadcast_to(count, x.shape).astype(np.int32)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.full(but=["windows, globals", "lsh", "local chunks"])
def test_the_default_chunk_changes_nothing(case, monkeypatch):
    run, *splits = ops.CASES[case]()
    rng = np.random.default_rng(0)
    floats, ints = jax.tree.map(
        lambda x: drawn(x, rng),
        tuple(splits),
        is_leaf=lambda x: isinstance(x, ops.Split),
    )

    chosen = []

    def result(step_bytes):
        monkeypatch.setattr(blocking, "step_bytes", lambda: step_bytes)
        chosen.clear()
        return jax.jit(lambda floats: run(floats, ints))(floats), min(chosen)

    def recorded(count, *args):
        chunk = even_chunk(count, *args)
        chosen.append(chunk / count)
        return chunk

    for module in (sizes, block_sparse, lsh):
        monkeypatch.setattr(module, "even_chunk", recorded)
    with jax.enable_x64(True):
        whole, all_blocks = result(2**30)
        parts, some_blocks = result(4_000)
    assert some_blocks < all_blocks == 1
    for a, b in zip(*map(jax.tree.leaves, (whole, parts)), strict=True):
        assert np.abs(a).max() > 0.1
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
