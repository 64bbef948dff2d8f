"""BigBird's blocks against every pair: the form with global tokens in front."""

import functools

import block_sparse_cases as cases
import jax
import numpy as np
import pytest
from attention_cases import pairwise
from block_sparse_cases import BLOCK, HEADS

from etc_jax.ops.attention import block_sparse, full


def drawn(blocks, r, heads=HEADS, seed=1):
    """Blocks that may be among those that are seen anyway, and twice; -1 is none."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, blocks, (heads, blocks, r)).astype(np.int32)


def packed(n, g):
    """Ids of examples, of which each may have some of the global tokens."""
    ids = cases.packed(n)
    ids[:, :g] = np.random.default_rng(2).integers(0, 3, ids[:, :g].shape)
    return ids


SIZES = [
    # All tokens global.
    (3, 5, 2, None),
    (5, 5, 0, 1),
    # One block, with fewer tokens than it has places.
    (4, 3, 1, None),
    (9, 1, 2, 1),
    (24, 4, 2, 3),
    (31, 6, 3, 4),
    (32, 9, 0, None),
]


@pytest.mark.parametrize("heads, n, g, r, chunk_blocks", pairwise((HEADS, 1), SIZES))
@pytest.mark.full(but=["3-3-5-2-None", "1-5-5-0-1", "1-9-1-2-1", "3-24-4-2-3"])
def test_blocks_equal_every_pair(heads, n, g, r, chunk_blocks):
    blocks = -(-max(n - g, 0) // BLOCK)
    options = {
        "num_globals": g,
        "random_blocks": drawn(blocks, r, heads) if blocks else np.zeros((heads, 0, r)),
        "example_ids": packed(n, g),
    }
    with jax.enable_x64(True):
        rows, weight = cases.inputs(n)
        got = cases.results(rows, weight, chunk_blocks=chunk_blocks, **options)
        want = cases.results(rows, weight, implementation="dense", **options)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("implementation", ["xla", "dense"])
def test_a_block_sees_its_neighbours_the_globals_and_what_was_drawn(implementation):
    """By hand: scores are 0, so that a row is the mean of what it sees."""
    g, blocks = 3, 6
    # Of no two choices the sums are the same.
    of_globals, of_blocks = [100.0, 200.0, 400.0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    value = np.array(of_globals + [x for x in of_blocks for _ in range(BLOCK)])
    value = value.astype(np.float32)[None, :, None, None]
    ids = np.array([[[3, 5], [-1, -1], [0, 0], [1, -1], [4, 0], [2, 3]]], np.int32)
    got = cases.output(
        np.zeros_like(value),
        np.zeros_like(value),
        value,
        num_globals=g,
        random_blocks=ids,
        implementation=implementation,
    )
    seen = [
        [0, 1, 3, 5],
        [0, 1, 2],
        [1, 2, 3, 0, 0],
        [2, 3, 4, 1],
        [3, 4, 5, 4, 0],
        [4, 5, 2, 3],
    ]

    def mean(numbers):
        total = 700 + BLOCK * sum(of_blocks[i] for i in numbers)
        return total / (g + BLOCK * len(numbers))

    want = [mean(range(blocks))] * g
    want += [mean(numbers) for numbers in seen for _ in range(BLOCK)]
    np.testing.assert_allclose(got[0, :, 0, 0], want, rtol=1e-6)


@pytest.mark.parametrize("implementation", ["xla", "dense"])
def test_global_tokens_are_those_of_their_example(implementation):
    """By hand, of two examples whose global tokens stand in front of both."""
    ids = np.array([[1, 2, 1, 1, 1, 1, 2, 2, 2, 0]], np.int32)
    value = (2.0 ** np.arange(10, dtype=np.float32))[None, :, None, None]
    got = cases.output(
        np.zeros_like(value),
        np.zeros_like(value),
        value,
        block_size=2,
        num_globals=2,
        example_ids=ids,
        implementation=implementation,
    )
    # Blocks are (2, 3), (4, 5), (6, 7), (8, 9).
    seen = [[0, 2, 3, 4, 5], [1, 6, 7, 8], *[[0, 2, 3, 4, 5]] * 4, *[[1, 6, 7, 8]] * 3]
    want = [np.mean([2**i for i in places]) for places in seen] + [0]
    np.testing.assert_allclose(got[0, :, 0, 0], want, rtol=1e-6)


# Of two blocks there is none to draw.
@pytest.mark.parametrize("blocks", [2, 5])
def test_blocks_that_draw_all_others_see_everything(blocks):
    g = 2
    n = g + blocks * BLOCK - 1
    others = [[j for j in range(blocks) if abs(i - j) > 1] for i in range(blocks)]
    ids = np.array([[(x + [-1] * 3)[:3] for x in others]], np.int32)
    options = {"example_ids": packed(n, g)}
    with jax.enable_x64(True):
        rows, _ = cases.inputs(n)
        got = cases.output(*rows, num_globals=g, random_blocks=ids, **options)
        dense = functools.partial(full.attend, implementation="dense", **options)
        want = jax.jit(dense)(*rows)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


def test_padding_is_zero_and_changes_nothing():
    n, g, ids = 22, 3, drawn(5, 2)
    rows, _ = cases.inputs(n, dtype=np.float32)
    options = {"num_globals": g, "random_blocks": ids}
    # Behind the tokens to the end of a block, and in place of a global token.
    whole = [
        np.pad(x, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=3) for x in rows
    ]
    real = np.ones((2, n + 1), np.int32)
    real[:, n] = real[:, 1] = 0
    got = cases.output(*whole, example_ids=real, **options)
    np.testing.assert_array_equal(got[:, [1, n]], 0)
    other = [x.copy() for x in whole]
    for x in other:
        x[:, [1, n]] = -7
    again = cases.output(*other, example_ids=real, **options)
    np.testing.assert_array_equal(got, again)
    short = cases.output(*rows, example_ids=real[:, :n], **options)
    np.testing.assert_allclose(got[:, :n], short, atol=1e-6)


@pytest.mark.full
def test_dropout_is_the_same_in_both_passes():
    cases.check_dropout(22, 200, num_globals=3, random_blocks=drawn(5, 2))


def test_bfloat16_is_near_float32():
    cases.check_bfloat16(40, block_size=8, num_globals=10, random_blocks=drawn(4, 1))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"num_globals": -1}, "num_globals is -1; expected 0 or more"),
        (
            {"random_blocks": drawn(8, 2)},
            r"expected \(3 or 1, 7, r\) for 32 tokens in blocks of 4 after 6 global",
        ),
        (
            {"num_globals": 33, "random_blocks": drawn(8, 2)},
            r"expected \(3 or 1, 0, r\)",
        ),
    ],
)
def test_what_does_not_fit_is_told(change, message):
    rows, _ = cases.inputs(32)
    with pytest.raises(ValueError, match=message):
        block_sparse.attend(*rows, **{"block_size": BLOCK, "num_globals": 6} | change)
