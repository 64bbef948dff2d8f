"""Each operation against a loop over pairs, and each transpose by its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as hs

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


def assert_distance_labels(q, k, offset, keys, unused):
    num_labels = 2 * k + 1 + unused
    t, distance = normal(2, num_labels, q), labels.Distance(k, offset, keys)

    @jax.jit
    def both(t, y):
        return distance.logits(t), distance.gradient(y, num_labels)

    want = np.zeros((2, keys, q), np.float32)
    for j, i in np.ndindex(keys, q):
        want[:, j, i] = t[:, label_of(j + offset - i, k), i]
    y = normal(*want.shape, seed=1)
    got, back = both(t, y)
    np.testing.assert_array_equal(got, want)
    assert_adjoint(lambda _: got, lambda _: back, t, y)
    by_pairs = np.zeros_like(t)
    for j, i in np.ndindex(keys, q):
        by_pairs[:, label_of(j + offset - i, k), i] += y[:, j, i]
    np.testing.assert_allclose(back, by_pairs, atol=1e-5)


@few
@given(q=small, k=hs.integers(1, 4), r=hs.integers(1, 6), unused=hs.integers(0, 3))
@example(q=3, k=4, r=2, unused=3)  # r < k
@example(q=3, k=3, r=3, unused=0)  # r = k
@example(q=3, k=2, r=6, unused=1)  # r > k
@example(q=1, k=2, r=3, unused=3)
def test_distance_gives_the_label_of_every_pair_of_a_window(q, k, r, unused):
    assert_distance_labels(q, k, -r, q + 2 * r, unused)


@few
@given(n=hs.integers(1, 7), k=hs.integers(1, 4), unused=hs.integers(0, 3))
@example(n=1, k=2, unused=3)
@example(n=7, k=1, unused=0)
def test_distance_gives_the_label_of_every_pair_of_a_square(n, k, unused):
    assert_distance_labels(n, k, 0, n, unused)


@few
@given(
    q=small,
    k=hs.integers(1, 4),
    offset=hs.integers(-14, 14),
    keys=hs.integers(1, 8),
    unused=hs.integers(0, 3),
)
@example(q=3, k=2, offset=-1, keys=2, unused=1)  # all in the band
@example(q=3, k=2, offset=-20, keys=4, unused=1)  # all to the left of it
@example(q=3, k=2, offset=20, keys=4, unused=1)  # all to the right of it
@example(q=3, k=2, offset=-5, keys=4, unused=1)  # partly to the left
@example(q=3, k=2, offset=3, keys=4, unused=1)  # partly to the right
@example(q=3, k=2, offset=-6, keys=4, unused=0)  # the last key just outside, left
@example(q=3, k=2, offset=5, keys=4, unused=0)  # the first key just outside, right
@example(q=1, k=1, offset=-1, keys=1, unused=0)
@example(q=5, k=1, offset=2, keys=1, unused=0)
def test_distance_gives_the_label_of_every_pair_at_any_offset(
    q, k, offset, keys, unused
):
    assert_distance_labels(q, k, offset, keys, unused)


@pytest.mark.parametrize("offset", [-9, -4, 0, 4, 9])
@pytest.mark.full(but=["-4", "9"])
def test_distance_is_linear_so_its_gradient_is_that_of_autodiff(offset):
    distance, q, num_labels = labels.Distance(2, offset, 6), 4, 7
    t, y = normal(2, 3, num_labels, q), normal(2, 3, 6, q, seed=1)
    _, back = jax.vjp(distance.logits, t)
    np.testing.assert_allclose(distance.gradient(y, num_labels), back(y)[0], atol=1e-5)


@pytest.mark.parametrize("label", [0, 2, 4])
def test_constant_is_one_label_for_all_keys(label):
    t, constant = normal(3, 5, 2), labels.Constant(label)
    want = np.broadcast_to(t[:, label, None, :], (3, 6, 2))
    got = np.broadcast_to(constant.logits(t), want.shape)
    np.testing.assert_array_equal(got, want)
    assert_adjoint(
        lambda x: np.broadcast_to(constant.logits(x), want.shape),
        lambda b: constant.gradient(b, 5),
        t,
        normal(*want.shape, seed=1),
    )


def chosen(t, base, label, values):
    """`choose` of the base and of label rows where `label` is one of `values`."""
    rows = [t[..., v, None, :] for v in values]
    return labels.choose(base.logits(t), rows, [label == v for v in values])


def chosen_gradient(block, base, label, values, num_labels):
    places = [label == v for v in values]
    return labels.choose_gradient(block, base, values, places, num_labels)


@few
@given(
    seed=hs.integers(0, 99),
    keys=hs.integers(1, 5),
    values=hs.sampled_from([(), (4,), (4, 2)]),
)
def test_choose_overrides_the_base_where_another_label_stands(seed, keys, values):
    rng = np.random.default_rng(seed)
    t, base = normal(2, 6, 3, seed=seed), labels.Constant(1)
    label = rng.choice([1, 2, 4, 5], size=(2, keys, 3))
    want = np.zeros((2, keys, 3), np.float32)
    for b, j, i in np.ndindex(want.shape):
        one = label[b, j, i] if label[b, j, i] in values else 1
        want[b, j, i] = t[b, one, i]

    def forward(x):
        return np.broadcast_to(chosen(x, base, label, values), want.shape)

    np.testing.assert_array_equal(forward(t), want)
    assert_adjoint(
        forward,
        lambda b: chosen_gradient(b, base, label, values, 6),
        t,
        normal(*want.shape, seed=1),
    )


def test_choose_over_distances():
    k, n, other = 2, 4, 7
    t, base = normal(2, 8, n), labels.Distance(k, 0, n)
    order = np.array([0, 1, 1, 0])
    label = np.where(order[:, None] != order[None], other, 0)[None]
    want = np.zeros((2, n, n), np.float32)
    for j, i in np.ndindex(n, n):
        same = order[i] == order[j]
        want[:, j, i] = t[:, label_of(j - i, k) if same else other, i]
    np.testing.assert_array_equal(chosen(t, base, label, (other,)), want)
    assert_adjoint(
        lambda x: chosen(x, base, label, (other,)),
        lambda b: chosen_gradient(b, base, label, (other,), 8),
        t,
        normal(2, n, n, seed=1),
    )


def test_the_last_of_overlapping_places_wins():
    t, base = normal(6, 3), labels.Constant(0)
    first = np.array([[True, True, False], [True, False, False]])
    second = np.array([[True, False, True], [False, False, False]])
    which = np.array([[5, 2, 5], [2, 0, 0]])
    want = t[which, np.arange(3)]

    def forward(x):
        rows = [x[..., v, None, :] for v in (2, 5)]
        return labels.choose(base.logits(x), rows, (first, second))

    np.testing.assert_array_equal(forward(t), want)
    assert_adjoint(
        forward,
        lambda b: labels.choose_gradient(b, base, (2, 5), (first, second), 6),
        t,
        normal(*want.shape, seed=1),
    )


@few
@given(seed=hs.integers(0, 99), keys=hs.integers(1, 5), shared=hs.booleans())
def test_gather_takes_the_label_of_every_pair(seed, keys, shared):
    # Labels of one row of heads serve all of them, so they broadcast.
    t = normal(2, 3, 6, 4, seed=seed)
    shape = (1 if shared else 2, 1, keys, 4)
    label = np.random.default_rng(seed).integers(6, size=shape)
    want = np.zeros((2, 3, keys, 4), np.float32)
    for b, h, j, i in np.ndindex(want.shape):
        want[b, h, j, i] = t[b, h, label[0 if shared else b, 0, j, i], i]
    np.testing.assert_array_equal(labels.gather(t, jnp.asarray(label)), want)
    assert_adjoint(
        lambda x: labels.gather(x, jnp.asarray(label)),
        lambda b: labels.gather_gradient(b, jnp.asarray(label), 6),
        t,
        normal(*want.shape, seed=1),
    )
