"""Spans chosen on the device: against numpy, row by row."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.data.pretraining.denoising import span_corruption
from etc_jax.data.text.pairs import cut_to
from etc_jax.ops import span_choice

SENTINELS = np.arange(900, 930, dtype=np.int32)
END = 3
N, M, S, P = 24, 9, 7, 20
# Spans as (first place, tokens), in texts of some length that END follows.
TEXTS = {
    "no text": (0, ()),
    "one token": (1, ()),
    "no span": (5, ()),
    "one span": (6, ((2, 3),)),
    "one span at the end": (6, ((1, 5),)),
    "a span first": (6, ((0, 2), (4, 1))),
    "three": (17, ((1, 1), (4, 2), (9, 5))),
    "no room": (N - 1, ((1, 7), (10, 9))),
    "as many as there may be": (N - 1, tuple((3 * k + 1, 2) for k in range(S))),
}


def batch_of(names, seed=0):
    """(tokens, example_ids, spans) `[rows, N]`, and the texts."""
    rng = np.random.default_rng(seed)
    tokens, ids, spans = np.zeros((3, len(names), N), np.int32)
    texts = []
    for row, name in enumerate(names):
        size, places = TEXTS[name]
        text = rng.integers(10, 800, size).astype(np.int32)
        tokens[row, : size + 1] = np.append(text, END)
        ids[row, : size + 1] = 1
        for k, (first, length) in enumerate(places, 1):
            spans[row, first : first + length] = k
        texts.append((text, spans[row, :size].copy()))
    return (tokens, ids, spans), texts


@functools.partial(jax.jit, static_argnums=3)
def corrupt(arrays, missing, sentinels, length):
    tokens, ids, spans = arrays
    ends = tokens == END
    return span_choice.corrupt(tokens, ids, spans, missing, sentinels, ends, length)


@pytest.mark.parametrize("length", [1, M, 2 * N])
def test_both_sides_are_those_of_span_corruption(length):
    """Bit by bit, whichever spans are missing."""
    names = list(TEXTS)
    for seed in range(12):
        arrays, texts = batch_of(names, seed)
        missing = np.random.default_rng(seed).random((len(names), S)) < 0.6
        got = corrupt(arrays, missing, SENTINELS, length)
        for row, (text, spans) in enumerate(texts):
            gone = (spans > 0) & missing[row, np.maximum(spans, 1) - 1]
            want = span_corruption(text, gone, SENTINELS)
            read, written = (np.append(x, END) for x in want)
            assert got.input_sizes[row] == len(read)
            assert got.target_sizes[row] == len(written)
            for side, full in (
                (got.input, read),
                (got.target, cut_to(written, length)),
            ):
                padded = np.zeros(side.shape[1], np.int32)
                padded[: len(full)] = full
                np.testing.assert_array_equal(side[row], padded)


def test_a_row_of_padding_stays_one():
    zeros = np.zeros((2, N), np.int32)
    got = corrupt((zeros, zeros, zeros), np.ones((2, S), bool), SENTINELS, M)
    assert all(not np.any(x) for x in got)


def test_places_are_those_of_the_tokens_of_spans():
    (_, _, spans), _ = batch_of(list(TEXTS))
    places, numbers = jax.jit(span_choice.positions_of, static_argnums=1)(spans, P)
    for row in range(len(spans)):
        want = np.flatnonzero(spans[row] > 0)
        np.testing.assert_array_equal(places[row, : len(want)], want)
        np.testing.assert_array_equal(numbers[row, : len(want)], spans[row, want])
        assert not np.any(places[row, len(want) :])
        assert not np.any(numbers[row, len(want) :])


def test_means_and_the_highest_of_them():
    rng = np.random.default_rng(1)
    names = list(TEXTS)
    (_, _, spans), _ = batch_of(names)
    _, numbers = span_choice.positions_of(spans, P)
    # Eighths add up without rounding.
    losses = rng.integers(0, 80, (len(names), P)).astype(np.float32) / 8
    counts = np.array([min(2, len(TEXTS[name][1])) for name in names])
    means = jax.jit(span_choice.span_means, static_argnums=2)(losses, numbers, S)
    chosen = jax.jit(span_choice.hardest)(means, counts)
    for row, name in enumerate(names):
        of_row = [losses[row, numbers[row] == k] for k in range(1, S + 1)]
        want = [x.mean() if len(x) else -np.inf for x in of_row]
        np.testing.assert_allclose(means[row], want, rtol=1e-6)
        number = len(TEXTS[name][1])
        order = sorted(range(number), key=lambda k, w=want: -w[k])
        top = np.isin(np.arange(S), order[: counts[row]])
        np.testing.assert_array_equal(chosen[row], top)


def test_of_equal_spans_the_first_are_chosen():
    means = jnp.array([[1.0, 2.0, 1.0, 2.0, 2.0, -jnp.inf]])
    for count, want in ((0, []), (1, [1]), (2, [1, 3]), (4, [0, 1, 3, 4])):
        got = span_choice.hardest(means, jnp.array([count]))
        assert np.flatnonzero(got[0]).tolist() == want
