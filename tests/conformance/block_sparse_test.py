"""BigBird's blocks against every pair: the internal form."""

import functools

import block_sparse_cases as cases
import jax
import numpy as np
import pytest
from attention_cases import pairwise
from block_sparse_cases import BLOCK, HEADS

from etc_jax.ops.attention import block_sparse


def drawn(blocks, r, heads=HEADS, seed=1):
    """Blocks that may be among those that are seen anyway, and twice."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, blocks, (heads, max(blocks - 2, 0), r)).astype(np.int32)


SIZES = [
    (1, 2, 1),
    (7, 0, None),
    (9, 2, 1),
    (20, 2, 2),
    (31, 3, 4),
    (32, 0, 5),
    (32, 2, None),
]


@pytest.mark.parametrize("heads, n, r, chunk_blocks", pairwise((HEADS, 1), SIZES))
@pytest.mark.full(but=["3-1-2-1", "3-9-2-1", "3-31-3-4", "3-32-2-None"])
def test_blocks_equal_every_pair(heads, n, r, chunk_blocks):
    with jax.enable_x64(True):
        rows, weight = cases.inputs(n)
        options = {
            "random_blocks": drawn(-(-n // BLOCK), r, heads),
            "example_ids": cases.packed(n),
        }
        got = cases.results(rows, weight, chunk_blocks=chunk_blocks, **options)
        want = cases.results(rows, weight, implementation="dense", **options)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("implementation", ["xla", "dense"])
def test_a_block_sees_its_neighbours_the_ends_and_what_was_drawn(implementation):
    """By hand: scores are 0, so that a row is the mean of what it sees."""
    blocks = 8
    zero = np.zeros((1, blocks * BLOCK, 1, 1), np.float32)
    value = np.arange(blocks, dtype=np.float32).repeat(BLOCK).reshape(zero.shape)
    ids = np.array([[[5, 5], [0, 6], [3, 5], [1, 2], [0, 0], [3, 6]]], np.int32)
    attend = functools.partial(
        block_sparse.attend, block_size=BLOCK, implementation=implementation
    )
    got = jax.jit(attend)(zero, zero, value, random_blocks=ids)
    seen = [
        range(8),
        [0, 1, 2, 7, 5, 5],
        [0, 1, 2, 3, 7, 0, 6],
        [0, 2, 3, 4, 7, 3, 5],
        [0, 3, 4, 5, 7, 1, 2],
        [0, 4, 5, 6, 7, 0, 0],
        [0, 5, 6, 7, 3, 6],
        range(8),
    ]
    want = np.repeat([np.mean(list(x)) for x in seen], BLOCK)
    np.testing.assert_allclose(got[0, :, 0, 0], want, rtol=1e-6)


def test_padding_is_zero_and_changes_nothing_inside_a_block():
    n, ids = 30, drawn(8, 2)
    rows, _ = cases.inputs(n, dtype=np.float32)
    real = np.arange(32)[None] < n
    whole = [
        np.pad(x, ((0, 0), (0, 2), (0, 0), (0, 0)), constant_values=3) for x in rows
    ]
    attend = jax.jit(functools.partial(block_sparse.attend, block_size=BLOCK))
    got = attend(
        *whole,
        random_blocks=ids,
        example_ids=np.broadcast_to(real, (2, 32)).astype(np.int32),
    )
    want = attend(*rows, random_blocks=ids)
    np.testing.assert_allclose(got[:, :n], want, atol=1e-6)
    np.testing.assert_array_equal(got[:, n:], 0)


def test_dropout_is_the_same_in_both_passes():
    cases.check_dropout(31, 300, random_blocks=drawn(8, 2))


def test_bfloat16_is_near_float32():
    cases.check_bfloat16(40, block_size=8, random_blocks=drawn(5, 1))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"block_size": 0}, "block_size is 0"),
        ({"chunk_blocks": 0}, "chunk_blocks 0"),
        ({"random_blocks": drawn(5, 2)}, r"expected \(3 or 1, 6, r\) for 32 tokens"),
        ({"random_blocks": drawn(8, 2, 2)}, r"expected \(3 or 1, 6, r\)"),
        ({"dropout_rate": -0.1}, "dropout_rate must be in"),
        ({"implementation": "fast"}, "'fast' is not one of"),
        ({"example_ids": np.ones((2, 4), np.int32)}, r"expected \(2, 32\)"),
    ],
)
def test_what_does_not_fit_is_told(change, message):
    rows, _ = cases.inputs(32)
    with pytest.raises(ValueError, match=message):
        block_sparse.attend(*rows, **{"block_size": BLOCK} | change)
