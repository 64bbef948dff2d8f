"""BigBird's blocks by kernels for TPUs, against every pair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tpu_process
from full_kernels_test import compare
from pair_options_test import B, D, H, normal, packed, rows

from etc_jax.ops.attention import block_sparse

BLOCK = 16


def drawn(n, g, r, heads=H, block=BLOCK):
    """Blocks that may be among those that are seen anyway, and twice; -1 is none."""
    blocks = -(-(n - g) // block)
    shape = (heads, block_sparse.drawing_blocks(n, block, g), r)
    rng = np.random.default_rng(1)
    return rng.integers(-1 if g else 0, blocks, shape).astype(np.int32)


@pytest.mark.parametrize(
    "n, g, r, heads, d",
    [
        (150, 0, 2, H, D),
        # No block but those that see everything.
        (30, 0, 2, H, D),
        # Three blocks, and nothing is drawn.
        (48, 0, 0, H, D),
        (150, 20, 3, 1, D),
        # A head fills the lanes by itself; whole blocks of global tokens.
        (112, 32, 1, H, 100),
    ],
)
@pytest.mark.full(but=["150-20-3-1-4", "48-0-0-3-4"])
def test_blocks_equal_every_pair(n, g, r, heads, d):
    ids = packed(n)
    ids[1, : n // 2], ids[1, n // 2 :] = 0, 3
    options = {"block_size": BLOCK, "num_globals": g, "example_ids": ids}
    options |= {"random_blocks": drawn(n, g, r, heads), "scale": 0.7}

    def attend(form, query, key, value):
        return block_sparse.attend(query, key, value, implementation=form, **options)

    out, grads = compare(attend, *(np.resize(x, (B, n, H, d)) for x in rows(n, n)))
    assert not np.asarray(out)[ids == 0].any()
    assert not np.asarray(grads[0])[ids == 0].any()


def test_each_pair_draws_its_own_dropout_which_is_the_same_in_both_passes():
    n, rate = 96, 0.5
    # Each pair of a row has the same probability.
    query, key = np.zeros((2, B, n, H, D), np.float32)
    attend = functools.partial(
        block_sparse.attend,
        *(query, key),
        block_size=BLOCK,
        random_blocks=drawn(n, 0, 2),
        implementation="mosaic",
        dropout_rate=rate,
        dropout_rng=jax.random.key(3),
    )
    value = np.ones((B, n, H, D), np.float32)
    out, back = jax.vjp(jax.jit(attend), value)
    # Of blocks that see a part: the three around them, both ends, and two drawn.
    inner = np.asarray(out)[:, 2 * BLOCK : -2 * BLOCK, :, 0]
    spread = (rate / (1 - rate) / (7 * BLOCK)) ** 0.5
    assert abs(inner.mean() - 1) < 4 * spread / inner.size**0.5
    for axis in range(3):
        assert 0.8 < inner.std(axis).mean() / spread / (1 - 1 / inner.shape[axis]) < 1.2
    weight = normal(*out.shape, seed=9).astype(np.float32)
    np.testing.assert_allclose(
        (back(weight)[0] * value).sum(), (out * weight).sum(), rtol=1e-4
    )


@pytest.mark.parametrize(
    "n, block, problem",
    [
        (40, 8, "the block size is 8, not a multiple of 16"),
        (8200, 64, "there are 8200 tokens of sparse blocks, more than 8192"),
    ],
)
def test_what_kernels_cannot_do_is_an_error_that_says_so(n, block, problem):
    like = jax.ShapeDtypeStruct((1, n, 1, D), np.float32)
    attend = functools.partial(block_sparse.attend, implementation="mosaic")
    with pytest.raises(ValueError, match=problem):
        jax.eval_shape(functools.partial(attend, block_size=block), *[like] * 3)


def compile_blocks():
    """What "auto" takes, of the base model with dropout, both passes of one layer."""
    rng = jax.eval_shape(lambda: jax.random.key(0))

    def loss(arrays, ids, draws, rng, g):
        arrays = [x.reshape(*x.shape[:2], 12, -1) for x in arrays]
        options = {"num_globals": g, "example_ids": ids, "random_blocks": draws}
        options |= {"dropout_rate": 0.1, "dropout_rng": rng}
        out = block_sparse.attend(*arrays, block_size=64, **options)
        return (out.astype(jnp.float32) ** 2).sum()

    # XLA's form on v5e: 12.9 GB, and 1,207 MiB.
    cases = [(chip, 4096, 0, 0.8, 60) for chip in tpu_process.CHIPS]
    for chip, n, g, *most in (*cases, (tpu_process.CHIPS[0], 4352, 256, 1.1, 70)):
        array = jax.ShapeDtypeStruct((2, n, 768), jnp.bfloat16)
        ids = jax.ShapeDtypeStruct((2, n), jnp.int32)
        draws = jax.ShapeDtypeStruct(drawn(n, g, 3, 12, 64).shape, jnp.int32)
        run = jax.jit(jax.grad(functools.partial(loss, g=g)))
        program = tpu_process.compiled(chip, run, [array] * 3, ids, draws, rng)
        tpu_process.check_kernels(program, 4, *most)


@pytest.mark.tpu_aot
def test_blocks_compile_for_tpus_and_leave_no_logits_in_memory():
    print(tpu_process.in_a_process(__name__, compile_blocks))
