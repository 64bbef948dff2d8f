"""Each operation against a loop over pairs, and each transpose by its definition."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as hs

from etc_jax.ops import labels

few = settings(max_examples=4, deadline=None, derandomize=True)
small = hs.integers(1, 5)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def label_of(distance, k):
    """The official ids: 0 here, 1..k to the right, k+1..2k to the left."""
    if distance >= 0:
        return min(distance, k)
    return k + min(-distance, k)


def assert_adjoint(forward, transpose, x, y):
    """<A x, y> = <x, A^T y>, and the transpose has the shape of x."""
    back = transpose(y)
    assert back.shape == x.shape
    left = np.sum(np.asarray(forward(x), np.float64) * y)
    right = np.sum(x * np.asarray(back, np.float64))
    assert left == pytest.approx(right, abs=1e-4)


def test_distance_order_runs_from_left_to_right():
    np.testing.assert_array_equal(labels.distance_order(2), [4, 3, 0, 1, 2])
    want = [label_of(d, 3) for d in range(-3, 4)]
    np.testing.assert_array_equal(labels.distance_order(3), want)


@few
@given(q=small, w=small)
@example(q=1, w=1)
def test_shear_moves_each_row_one_further(q, w):
    x = normal(2, q, w)
    want = np.zeros((2, q, w + q - 1), np.float32)
    for i in range(q):
        want[:, i, i : i + w] = x[:, i]
    np.testing.assert_array_equal(labels.shear(x), want)
    assert_adjoint(labels.shear, labels.unshear, x, normal(*want.shape, seed=1))


@few
@given(q=small, k=hs.integers(1, 4), r=hs.integers(1, 6), unused=hs.integers(0, 3))
@example(q=3, k=4, r=2, unused=3)  # r < k
@example(q=3, k=3, r=3, unused=0)  # r = k
@example(q=3, k=2, r=6, unused=1)  # r > k
@example(q=1, k=2, r=3, unused=3)
def test_band_gives_the_label_of_every_distance(q, k, r, unused):
    num_labels = 2 * k + 1 + unused
    t, band = normal(2, q, num_labels), labels.Band(k, r)
    want = np.zeros((2, q, q + 2 * r), np.float32)
    for i in range(q):
        for j in range(q + 2 * r):
            distance = j - r - i
            if abs(distance) <= r:
                want[:, i, j] = t[:, i, label_of(distance, k)]
    np.testing.assert_array_equal(band.logits(t), want)
    y = normal(*want.shape, seed=1)
    assert_adjoint(band.logits, lambda b: band.gradient(b, num_labels), t, y)


@few
@given(n=hs.integers(1, 7), k=hs.integers(1, 4), unused=hs.integers(0, 3))
@example(n=1, k=2, unused=3)
@example(n=7, k=1, unused=0)
def test_square_gives_the_label_of_every_pair(n, k, unused):
    num_labels = 2 * k + 1 + unused
    t, square = normal(2, n, num_labels), labels.Square(k, n)
    want = np.zeros((2, n, n), np.float32)
    for i in range(n):
        for j in range(n):
            want[:, i, j] = t[:, i, label_of(j - i, k)]
    np.testing.assert_array_equal(square.logits(t), want)
    y = normal(*want.shape, seed=1)
    assert_adjoint(square.logits, lambda b: square.gradient(b, num_labels), t, y)


@pytest.mark.parametrize("label", [0, 2, 4])
def test_constant_is_one_label_for_all_keys(label):
    t, constant = normal(3, 2, 5), labels.Constant(label)
    want = np.broadcast_to(t[:, :, label, None], (3, 2, 6))
    got = np.broadcast_to(constant.logits(t), want.shape)
    np.testing.assert_array_equal(got, want)
    assert_adjoint(
        lambda x: np.broadcast_to(constant.logits(x), want.shape),
        lambda b: constant.gradient(b, 5),
        t,
        normal(3, 2, 6, seed=1),
    )


@few
@given(
    seed=hs.integers(0, 99),
    keys=hs.integers(1, 5),
    others=hs.sampled_from([(), (4,), (4, 2)]),
)
def test_choose_overrides_the_base_where_another_label_stands(seed, keys, others):
    rng = np.random.default_rng(seed)
    t, base = normal(2, 3, 6, seed=seed), labels.Constant(1)
    label = rng.choice([1, 2, 4, 5], size=(2, 3, keys))
    want = np.zeros((2, 3, keys), np.float32)
    for b, i, j in np.ndindex(want.shape):
        chosen = label[b, i, j] if label[b, i, j] in others else 1
        want[b, i, j] = t[b, i, chosen]

    def forward(x):
        return np.broadcast_to(labels.choose(x, base, label, others), want.shape)

    np.testing.assert_array_equal(forward(t), want)
    assert_adjoint(
        forward,
        lambda b: labels.choose_gradient(b, base, label, others, 6),
        t,
        normal(*want.shape, seed=1),
    )


def test_choose_over_a_square():
    k, n, other = 2, 4, 7
    t, base = normal(2, n, 8), labels.Square(k, n)
    order = np.array([0, 1, 1, 0])
    label = np.where(order[:, None] != order[None], other, 0)[None]
    want = np.zeros((2, n, n), np.float32)
    for i in range(n):
        for j in range(n):
            same = order[i] == order[j]
            want[:, i, j] = t[:, i, label_of(j - i, k) if same else other]
    np.testing.assert_array_equal(labels.choose(t, base, label, (other,)), want)
    assert_adjoint(
        lambda x: labels.choose(x, base, label, (other,)),
        lambda b: labels.choose_gradient(b, base, label, (other,), 8),
        t,
        normal(2, n, n, seed=1),
    )


@few
@given(seed=hs.integers(0, 99), keys=hs.integers(1, 5), shared=hs.booleans())
def test_gather_takes_the_label_of_every_pair(seed, keys, shared):
    # Labels of one row of heads serve all of them, so they broadcast.
    t = normal(2, 3, 4, 6, seed=seed)
    shape = (1 if shared else 2, 1, 4, keys)
    label = np.random.default_rng(seed).integers(6, size=shape)
    want = np.zeros((2, 3, 4, keys), np.float32)
    for b, h, i, j in np.ndindex(want.shape):
        want[b, h, i, j] = t[b, h, i, label[0 if shared else b, 0, i, j]]
    np.testing.assert_array_equal(labels.gather(t, jnp.asarray(label)), want)
    assert_adjoint(
        lambda x: labels.gather(x, jnp.asarray(label)),
        lambda b: labels.gather_gradient(b, jnp.asarray(label), 6),
        t,
        normal(*want.shape, seed=1),
    )
