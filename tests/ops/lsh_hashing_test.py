"""Angular hashing: buckets by hand, by a plain loop, and by what they promise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.attention.parts import lsh_hashing as hashing


def by_loop(vectors, rotations, factors):
    """Buckets `[b, h, r, n]`, a vector at a time."""
    b, n, h, _ = vectors.shape
    rounds = rotations.shape[2]
    buckets = np.zeros((b, h, rounds, n), int)
    for i in np.ndindex(b, h, rounds, n):
        batch, head, round_, place = i
        rotated = vectors[batch, place, head] @ rotations[head, :, round_]
        start, step = 0, 1
        for factor in factors:
            part = rotated[start : start + factor // 2]
            buckets[i] += step * int(np.argmax(np.concatenate([part, -part])))
            start, step = start + factor // 2, step * factor
    return buckets


@pytest.mark.parametrize("num_buckets", [2, 8, (4, 6)])
def test_buckets_are_those_of_a_plain_loop(num_buckets):
    factors = hashing.factors_of(num_buckets)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 7, 3, 5)).astype(np.float32)
    rotations = hashing.draw_rotations(jax.random.key(1), 3, 5, 4, num_buckets)
    got = hashing.hash_vectors(vectors, rotations, num_buckets)
    assert got.dtype == jnp.int32
    np.testing.assert_array_equal(got, by_loop(vectors, np.asarray(rotations), factors))


def test_a_vector_falls_to_the_axis_it_points_along():
    # Two axes, and their opposite ends: buckets 0, 1 and 2, 3.
    rotations = jnp.eye(2).reshape(1, 2, 1, 2)
    vectors = jnp.array([[3.0, 1.0], [1.0, 3.0], [-3.0, 1.0], [1.0, -3.0]])
    got = hashing.hash_vectors(vectors[None, :, None], rotations, 4)
    np.testing.assert_array_equal(got[0, 0, 0], [0, 1, 2, 3])


def test_length_does_not_matter_and_opposites_never_meet():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1, 50, 2, 8))
    rotations = hashing.draw_rotations(jax.random.key(0), 2, 8, 3, 16)
    buckets = hashing.hash_vectors(vectors, rotations, 16)
    np.testing.assert_array_equal(
        hashing.hash_vectors(0.01 * vectors, rotations, 16), buckets
    )
    assert (hashing.hash_vectors(-vectors, rotations, 16) != buckets).all()


def test_neighbours_meet_more_often_than_strangers():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1, 400, 1, 16))
    near = vectors + 0.1 * rng.normal(size=vectors.shape)
    rotations = hashing.draw_rotations(jax.random.key(0), 1, 16, 8, (8, 8))
    own, other = (hashing.hash_vectors(x, rotations, (8, 8)) for x in (vectors, near))
    assert np.mean(own == other) > 0.5
    # By chance one in 64.
    assert np.mean(own == np.roll(other, 1, axis=-1)) < 0.05


def test_nothing_flows_back_through_buckets():
    rotations = hashing.draw_rotations(jax.random.key(0), 1, 4, 1, 4)

    def soft(x):
        return jnp.sum(hashing.hash_vectors(x, rotations, 4).astype(jnp.float32) + x)

    gradient = jax.grad(soft)(jnp.ones((1, 1, 1, 4)))
    np.testing.assert_array_equal(gradient, 1.0)


@pytest.mark.parametrize(
    "length, chunk, most, want",
    [
        (64, 8, 64, (16,)),
        (65536, 256, 65536, (512,)),
        # Beyond 2 * max(sqrt(chunks), chunk) buckets in two factors.
        (65536, 64, 65536, (32, 64)),
        (4096, 16, 4096, (16, 32)),
        (100, 64, None, (2,)),
        (10, 64, None, (2,)),
    ],
)
def test_the_number_of_buckets_follows_the_length(length, chunk, most, want):
    assert hashing.buckets_for(length, chunk, most) == want


@pytest.mark.parametrize("wrong", [0, 3, 1, (4, 3), (2, 2, 2), ()])
def test_buckets_that_are_no_ends_of_axes_are_refused(wrong):
    with pytest.raises(ValueError, match="expected an even number of at least 2"):
        hashing.factors_of(wrong)


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="num_hashes is 0, expected at least 1"):
        hashing.draw_rotations(jax.random.key(0), 2, 4, 0, 4)
    rotations = hashing.draw_rotations(jax.random.key(0), 2, 4, 1, 4)
    with pytest.raises(ValueError, match=r"rotations have shape \(2, 4, 1, 2\)"):
        hashing.hash_vectors(jnp.ones((1, 3, 2, 4)), rotations, 8)
