"""What LSH attention and local attention over chunks must do."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.parts.chunk_dense import meetings
from etc_jax.ops.attention.parts.lsh_hashing import draw_rotations, hash_vectors

BATCH, HEADS, SIZE, BUCKETS = 2, 2, 3, (2, 4)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call; `rounds` 0 is local attention."""

    n: int
    look: lsh.ChunkNeighbors
    rounds: int = 0
    causal: bool = False
    duplicates: str = "count"
    chunks_at_once: int | None = None


# Lengths lie around chunks of 4.
CASES = {
    "lsh, one token": Case(1, lsh.ChunkNeighbors(4), 2),
    "lsh, chunk+1, causal": Case(5, lsh.ChunkNeighbors(4), 2, True, chunks_at_once=3),
    "lsh, prime, once, causal": Case(13, lsh.ChunkNeighbors(4), 3, True, "once", 1),
    "lsh, both sides": Case(16, lsh.ChunkNeighbors(4, 1, 1), 3, chunks_at_once=2),
    "lsh, both sides, once": Case(23, lsh.ChunkNeighbors(4, 2, 1), 2, False, "once", 5),
    "lsh, own chunk": Case(16, lsh.ChunkNeighbors(4, 0, 0), 4, False, "once"),
    "lsh, around the circle": Case(8, lsh.ChunkNeighbors(4, 5, 2), 1, True, "once"),
    "local, causal": Case(13, lsh.ChunkNeighbors(4), causal=True, chunks_at_once=3),
    "local, both sides": Case(9, lsh.ChunkNeighbors(4, 3, 1)),
}


def inputs_of(case, seed=0):
    """Query, key and value, or query-key and value, and weights of the output."""
    rng = np.random.default_rng(seed)
    shape = (BATCH, case.n, HEADS, SIZE)
    count = 2 if case.rounds else 3
    dtype = np.float64 if jax.config.jax_enable_x64 else np.float32
    *args, weight = (rng.normal(size=shape).astype(dtype) for _ in range(count + 1))
    return args, weight


def example_ids(n, seed=0):
    """Two packed examples and padding in each row."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(0, 3, size=(BATCH, n)))[:, ::-1].astype(np.int32)


def buckets_of(case, query_key):
    rng = jax.random.key(1)
    rotations = draw_rotations(rng, HEADS, SIZE, case.rounds, BUCKETS)
    return hash_vectors(query_key, rotations, BUCKETS)


def call(case, args, implementation, buckets=None, **options):
    options = {"chunks_at_once": case.chunks_at_once} | options
    options |= {"causal": case.causal, "implementation": implementation}
    if not case.rounds:
        return lsh.local(*args, look=case.look, **options)
    if buckets is None:
        buckets = buckets_of(case, jnp.asarray(args[0]))
    options |= {"duplicates": case.duplicates, "look": case.look}
    return lsh.attend(*args, buckets, num_buckets=8, **options)


def output_and_gradients(case, args, weight, implementation, **options):
    buckets = buckets_of(case, jnp.asarray(args[0])) if case.rounds else None

    def loss(args):
        out = call(case, args, implementation, buckets, **options)
        return (out * weight).sum(), out

    gradients, out = jax.jit(jax.grad(loss, has_aux=True))(args)
    return out, gradients


@pytest.mark.parametrize("name", CASES)
@pytest.mark.full(
    but=[
        "lsh, one token",
        "lsh, prime, once, causal",
        "lsh, own chunk",
        "lsh, around the circle",
        "local, causal",
    ]
)
def test_values_and_gradients_are_those_of_the_oracle(name):
    case = CASES[name]
    ids = example_ids(case.n)
    with jax.enable_x64(True):
        args, weight = inputs_of(case)
        both = [
            output_and_gradients(case, args, weight, form, example_ids=ids)
            for form in ("xla", "dense")
        ]
        for got, want in zip(*map(jax.tree.leaves, both), strict=True):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, want, atol=1e-10, rtol=0)
    padding = ids == 0
    for x in jax.tree.leaves(both[0]):
        assert not np.asarray(x)[padding].any()


def test_the_oracle_counts_meetings_as_by_hand():
    # Two rounds of four tokens in chunks of two: 01 23, and 02 13; looking one back.
    order = np.array([[0, 1, 2, 3], [0, 2, 1, 3]])
    met = meetings(jnp.asarray(np.argsort(order)), 2, 1, 0)
    chunks = [[0, 1], [2, 3], [0, 2], [1, 3]]
    want = np.zeros((4, 4), int)
    for number, chunk in enumerate(chunks):
        for query in chunk:
            for key in [*chunk, *chunks[number - 1]]:
                want[query, key] += 1
    np.testing.assert_array_equal(met, want)


@functools.cache
def plain_attention(causal):
    """Softmax attention with shared queries and keys, a row at a time."""
    case = Case(12, lsh.ChunkNeighbors(4), 2, causal)
    (query, value), _ = inputs_of(case)
    # Of length 1, but for the 1e-6 beside the mean square.
    key = query / np.sqrt((query**2).sum(-1, keepdims=True) + 1e-6 * SIZE)
    out = np.zeros_like(value)
    for b, i, h in np.ndindex(BATCH, case.n, HEADS):
        seen = [j for j in range(i + 1 if causal else case.n) if j != i] or [i]
        weights = np.exp([query[b, i, h] @ key[b, j, h] for j in seen])
        out[b, i, h] = weights @ value[b, seen, h] / weights.sum()
    return out


@pytest.mark.parametrize(
    "look, duplicates, causal",
    [
        (lsh.ChunkNeighbors(12), "count", True),
        (lsh.ChunkNeighbors(4, 6, 0), "once", False),
        (lsh.ChunkNeighbors(4, 2, 0), "once", True),
    ],
)
def test_who_meets_everybody_attends_to_everybody(look, duplicates, causal):
    case = Case(12, look, 2, causal, duplicates)
    with jax.enable_x64(True):
        (query, value), _ = inputs_of(case)
        if look.before == 2:  # only a circle of one round is closed by two back
            case = dataclasses.replace(case, rounds=1)
        got = jax.jit(lambda *args: call(case, args, "xla"))(query, value)
        np.testing.assert_allclose(got, plain_attention(causal), atol=1e-12)


@pytest.mark.parametrize("name", ["lsh, prime, once, causal", "local, causal"])
@pytest.mark.full(but=["local, causal"])
def test_what_is_after_does_not_leak(name):
    case = dataclasses.replace(CASES[name], n=12)
    args, _ = inputs_of(case)
    # Buckets are given: which tokens meet may depend on all of them.
    buckets = buckets_of(case, jnp.asarray(args[0])) if case.rounds else None
    place = 5

    def early(args):
        return call(case, args, "xla", buckets)[:, : place + 1].sum()

    for gradient in jax.jit(jax.grad(early))(args):
        assert np.abs(gradient[:, : place + 1]).max() > 0
        assert not np.asarray(gradient)[:, place + 1 :].any()


@pytest.mark.parametrize("name", ["lsh, prime, once, causal", "local, causal"])
@pytest.mark.full(but=["lsh, prime, once, causal"])
def test_packed_examples_do_not_see_each_other(name):
    case = dataclasses.replace(CASES[name], causal=False)
    args, _ = inputs_of(case)
    ids = np.repeat([1, 2], [6, 7])[None].repeat(BATCH, 0)
    buckets = buckets_of(case, jnp.asarray(args[0])) if case.rounds else None

    def first(args):
        return call(case, args, "xla", buckets, example_ids=ids)[:, :6].sum()

    for gradient in jax.jit(jax.grad(first))(args):
        assert np.abs(gradient[:, :6]).max() > 0
        assert not np.asarray(gradient)[:, 6:].any()


@pytest.mark.parametrize("name", ["lsh, both sides", "local, both sides"])
def test_bfloat16_is_near_float32(name):
    case = CASES[name]
    args, _ = inputs_of(case)
    # Numbers that bfloat16 has, so that they are hashed alike.
    args = [np.asarray(jnp.asarray(x, jnp.bfloat16), np.float32) for x in args]
    buckets = buckets_of(case, jnp.asarray(args[0])) if case.rounds else None
    short = [jnp.asarray(x, jnp.bfloat16) for x in args]
    run = jax.jit(lambda *args: call(case, args, "xla", buckets))
    got, want = run(*short), run(*args)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), want, atol=5e-2)


@pytest.mark.parametrize(
    "name, implementation",
    [
        ("lsh, both sides", "xla"),
        pytest.param("lsh, both sides", "dense", marks=pytest.mark.full),
        pytest.param("local, causal", "xla", marks=pytest.mark.full),
    ],
)
def test_dropout_is_a_function_of_its_key_with_the_right_mean(name, implementation):
    case = CASES[name]
    args, _ = inputs_of(case)
    buckets = buckets_of(case, jnp.asarray(args[0])) if case.rounds else None

    def run(rng):
        options = {"dropout_rate": 0.25, "dropout_rng": rng}
        return call(case, args, implementation, buckets, **options)

    keys = jax.random.split(jax.random.key(0), 500)
    many = jax.jit(jax.vmap(run))
    first = many(keys)
    np.testing.assert_array_equal(first, many(keys))
    assert (first[0] != first[1]).any()
    plain = jax.jit(lambda: call(case, args, implementation, buckets))()
    error = 4.5 * np.std(first, axis=0) / np.sqrt(len(keys)) + 1e-5
    assert (np.abs(np.mean(first, axis=0) - plain) <= error).all()


def test_the_gradient_of_dropout_equals_finite_differences():
    case = CASES["lsh, both sides, once"]
    with jax.enable_x64(True):
        args, weight = inputs_of(case)
        direction, _ = inputs_of(case, seed=2)
        buckets = buckets_of(case, jnp.asarray(args[0]))
        options = {"dropout_rate": 0.25, "dropout_rng": jax.random.key(5)}

        @jax.jit
        @jax.value_and_grad
        def loss(args):
            return (call(case, args, "xla", buckets, **options) * weight).sum()

        def at(step):
            moved = [x + step * d for x, d in zip(args, direction, strict=True)]
            return float(loss(moved)[0])

        numeric = (at(1e-5) - at(-1e-5)) / 2e-5
        _, gradient = loss(args)
        exact = sum((g * d).sum() for g, d in zip(gradient, direction, strict=True))
    assert float(exact) == pytest.approx(numeric, rel=1e-6)


def test_a_token_alone_loses_no_digits_in_float32():
    # Nothing but itself is seen by the first token of a causal sequence: all of its
    # gradient goes to its own value, however many rounds show it.
    case = Case(8, lsh.ChunkNeighbors(4), 3, causal=True)
    (query, value), _ = inputs_of(case)
    buckets = buckets_of(case, jnp.asarray(query))

    @jax.jit
    @jax.grad
    def gradient_of(value):
        return call(case, (query, value), "xla", buckets)[:, 0].sum()

    gradient = np.asarray(gradient_of(value))
    np.testing.assert_allclose(gradient[:, 0], 1.0, rtol=1e-6)
    assert not gradient[:, 1:].any()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"duplicates": "twice"}, "duplicates 'twice' is not one of"),
        ({"implementation": "fast"}, "implementation 'fast' is not one of"),
        ({"chunks_at_once": 0}, "chunks_at_once is 0; expected 1 or more"),
        ({"dropout_rate": 1.0}, r"dropout_rate must be in \[0, 1\), got 1"),
        ({"example_ids": jnp.ones((2, 4))}, r"example_ids have shape \(2, 4\), expect"),
        ({"num_buckets": 2**29}, "too large to be sorted by 32-bit numbers"),
        ({"buckets": np.zeros((2, 2, 1, 7))}, r"buckets have shape \(2, 2, 1, 7\)"),
        ({"buckets": None}, "buckets are None, expected shape"),
        ({"value": jnp.ones((2, 8, 2, 4))}, r"have shapes \(2, 8, 2, 3\), .*expected"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    given = {
        "query_key": jnp.ones((2, 8, 2, 3)),
        "value": jnp.ones((2, 8, 2, 3)),
        "buckets": np.zeros((2, 2, 1, 8), np.int32),
        "num_buckets": 8,
        "look": lsh.ChunkNeighbors(4),
    }
    with pytest.raises(ValueError, match=message):
        lsh.attend(**(given | change))


@pytest.mark.parametrize("sizes", [(0, 1, 0), (4, -1, 0), (4, 0, -1)])
def test_looks_at_nothing_are_refused(sizes):
    with pytest.raises(ValueError, match="expected chunk_length of at least 1"):
        lsh.ChunkNeighbors(*sizes)
