"""Windows and sums of blocks, against every pair and blocks counted one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_options_test import (
    BUCKETS,
    FAR,
    B,
    D,
    H,
    check_equal,
    gradients,
    normal,
    packed,
    rows,
)

from etc_jax.ops.attention import dense, sliding_window
from etc_jax.ops.attention.bias import BucketBias, SideBias
from etc_jax.ops.attention.sliding_window import SideKeys
from etc_jax.ops.attention.transient_blocks import block_sums, blocks_of, side_bias

pytestmark = pytest.mark.usefixtures("float64")


def counted(ids, size):
    """(block of each token or -1, example of each block), one row, in a plain loop."""
    of_token, example = [], []
    for name in dict.fromkeys(ids):
        length = list(ids).count(name)
        whole = length // size if name else 0
        for i in range(length):
            # What is left over joins the last block.
            block = min(i // size, whole - 1)
            of_token.append(len(example) + block if whole else -1)
        example += [name] * whole
    spare = len(ids) // size - len(example)
    return of_token, example + [0] * spare


@pytest.mark.parametrize(
    "ids",
    [
        [1],
        [1, 1, 1],
        [1] * 7,
        [1] * 8 + [0] * 5,
        [3] * 3 + [1] * 5 + [2] * 9 + [0] * 2,
        [0] * 9,
        [2] * 4 + [1] * 2 + [5] * 4,
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.full(but=["1-ids5", "2-*", "4-*"])
def test_blocks_are_those_of_a_loop(ids, size):
    got = blocks_of(np.array([ids, ids[:1] * len(ids)], np.int32), size)
    for row, want in enumerate((counted(ids, size), counted(ids[:1] * len(ids), size))):
        np.testing.assert_array_equal(got.of_token[row], want[0])
        np.testing.assert_array_equal(got.example[row], want[1])


def test_sums_are_of_the_tokens_of_a_block():
    ids = np.array([[1] * 5 + [2] * 3 + [3]], np.int32)
    x = normal(1, 9, 3)
    got = block_sums(x, blocks_of(ids, 2))
    want = [x[0, :2].sum(0), x[0, 2:5].sum(0), x[0, 5:8].sum(0), np.zeros(3)]
    np.testing.assert_allclose(got[0], want, atol=1e-12)


def by_hand(query, key, value, sums, table, of_blocks, *, ids, radius, size):
    """All pairs and blocks in one softmax, of masks made pair by pair."""
    n, blocks = ids.shape[1], ids.shape[1] // size
    near = np.zeros((B, 1, n, n + blocks), bool)
    of_token = np.zeros((B, n), int)
    for row in range(B):
        of_token[row], example = counted(ids[row], size)
        for i, j in np.ndindex(n, n):
            same = ids[row, i] == ids[row, j] > 0
            near[row, 0, i, j] = same and abs(i - j) <= radius
        for i, g in np.ndindex(n, blocks):
            near[row, 0, i, n + g] = ids[row, i] == example[g] > 0
    place = np.arange(n)
    offset = np.broadcast_to(place[None] - place[:, None], (B, n, n))
    to_block = np.arange(blocks)[None, None] - of_token[..., None]
    pairs = [
        jnp.moveaxis(BucketBias(x, FAR, causal=False)(jnp.asarray(of)), 0, 1)
        for x, of in ((table, offset), (of_blocks, to_block))
    ]
    # A token's part of the sum of its block: [b, g, n] of ones.
    member = of_token[:, None] == np.arange(blocks)[None, :, None]
    side_keys = jnp.einsum("bgn,bnhd->bghd", member.astype(float), sums)
    keys = jnp.concatenate([key, side_keys], axis=1)
    values = jnp.concatenate([value, jnp.tanh(side_keys)], axis=1)
    bias = jnp.concatenate(pairs, axis=-1)
    return dense.attend(query, keys, values, near, bias, scale=0.7)


@pytest.mark.parametrize(
    "n, radius, size", [(1, 2, 1), (3, 1, 4), (12, 3, 4), (23, 5, 4), (23, 40, 3)]
)
@pytest.mark.full(but=["23-5-4", "1-2-1"])
def test_attention_is_that_of_all_pairs(n, radius, size):
    ids = packed(n)
    arrays = (
        *rows(n, n),
        normal(B, n, H, D, seed=7),
        normal(BUCKETS, H, seed=5),
        normal(BUCKETS, H, seed=6),
    )

    def attend(form, query, key, value, sums, table, of_blocks):
        blocks = blocks_of(ids, size)
        found = block_sums(sums.reshape(B, n, H * D), blocks).reshape(B, -1, H, D)
        bias, of_blocks = (BucketBias(x, FAR, causal=False) for x in (table, of_blocks))
        sides = side_bias(of_blocks, blocks)
        return sliding_window.attend(
            *(query, key, value),
            radius=radius,
            example_ids=ids,
            side_keys=SideKeys(found, jnp.tanh(found), blocks.example, sides),
            bias=bias,
            scale=0.7,
            implementation=form,
            block_size=4,
            chunk_blocks=2,
        )

    def hand(*arrays):
        return by_hand(*arrays, ids=ids, radius=radius, size=size)

    want = gradients(hand, *arrays)
    for form in ("xla", "dense"):
        check_equal(gradients(lambda *x, f=form: attend(f, *x), *arrays), want)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"bias": None}, "side_keys goes with bias and without globals_"),
        (
            {"example_ids": (2, 4)},
            r"side_keys.example_ids has shape \(2, 4\), expected",
        ),
    ],
)
def test_keys_beside_that_do_not_fit_are_refused(change, message):
    n, g = 8, 2
    shapes = {"example_ids": (B, g)} | {k: v for k, v in change.items() if v}
    side_keys = SideKeys(
        *(normal(B, g, H, D),) * 2,
        np.ones(shapes["example_ids"], np.int32),
        SideBias.of_tokens(normal(B, n, H, g)),
    )
    bias = None if "bias" in change else BucketBias(normal(8, H), 9, causal=False)
    with pytest.raises(ValueError, match=message):
        sliding_window.attend(*rows(n, n), radius=2, side_keys=side_keys, bias=bias)


def test_the_bias_of_all_tokens_and_blocks_never_exists_at_once():
    n, h, size = 2048, 8, 4
    ids = jnp.ones((1, n), jnp.int32)

    def loss(query, table):
        blocks = blocks_of(ids, size)
        keys = block_sums(query.reshape(1, n, -1), blocks).reshape(1, -1, h, D)
        bias = BucketBias(table, FAR, causal=False)
        out = sliding_window.attend(
            *(query,) * 3,
            radius=2,
            example_ids=ids,
            side_keys=SideKeys(keys, keys, blocks.example, side_bias(bias, blocks)),
            bias=bias,
            block_size=32,
            chunk_blocks=2,
        )
        return jnp.sum(jnp.sin(out))

    shapes = ((1, n, h, D), (BUCKETS, h))
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(*args).compile()
    all_pairs = n * h * (n // size) * 4
    assert compiled.memory_analysis().temp_size_in_bytes < all_pairs
