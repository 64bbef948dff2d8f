import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops import ngrams

B, N, E = 3, 12, 4
WORDS = np.array(
    [
        [0, 0, 1, 3, 3, 3, 4, 5, 6, 7, 8, 8],
        [0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1],
        [-1] * N,
    ]
)


def rows(dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(0).normal(size=(B, N, E)), dtype)


def test_a_word_is_the_sum_of_its_pieces():
    x = rows()
    got = jax.jit(ngrams.sum_words)(x, WORDS)
    for b in range(B):
        for w in range(N):
            want = np.asarray(x)[b][WORDS[b] == w].sum(axis=0)
            np.testing.assert_allclose(got[b, w], want, atol=1e-6)


def test_sums_of_low_precision_are_float32():
    x = jnp.full((1, 512, 1), 1.0, jnp.bfloat16)
    got = ngrams.sum_words(x, jnp.zeros((1, 512), jnp.int32))
    assert got.dtype == jnp.float32 and got[0, 0, 0] == 512.0


def test_padding_gets_no_gradient_and_each_piece_that_of_its_word():
    weights = np.random.default_rng(1).normal(size=(B, N, E)).astype(np.float32)
    grads = jax.grad(lambda x: jnp.sum(ngrams.sum_words(x, WORDS) * weights))(rows())
    for b in range(B):
        want = np.where(WORDS[b][:, None] >= 0, weights[b][WORDS[b]], 0.0)
        np.testing.assert_allclose(grads[b], want, atol=1e-6)


def test_words_are_counted_to_the_last():
    assert ngrams.num_words(WORDS).tolist() == [9, 2, 0]


@pytest.mark.parametrize("longest", [1, 5])
def test_runs_end_inside_of_the_text(longest):
    number = np.array([9, 2, 0])
    got = np.asarray(ngrams.ngram_mask(number, N, longest))
    assert got.shape == (B, longest, N)
    for b, k, i in np.ndindex(got.shape):
        assert got[b, k, i] == (i + k + 1 <= number[b])
