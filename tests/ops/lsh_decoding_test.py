"""One token more from a cache is the last row of attention over the sequence so far."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.attention import lsh, lsh_decoding
from etc_jax.ops.attention.row_cache import Newest

BATCH, HEADS, SIZE, BUCKETS = 2, 2, 3, 6


@dataclasses.dataclass(frozen=True)
class Case:
    """One sequence; `rounds` 0 is local attention."""

    n: int
    look: lsh.ChunkNeighbors
    rounds: int = 0
    duplicates: str = "count"


# Several chunks, the last one begun.
CASES = {
    "lsh": Case(8, lsh.ChunkNeighbors(3), 2),
    "lsh, once": Case(8, lsh.ChunkNeighbors(3), 3, "once"),
    "lsh, own chunk": Case(5, lsh.ChunkNeighbors(2, 0, 0), 4),
    "lsh, both sides, once": Case(7, lsh.ChunkNeighbors(3, 1, 1), 2, "once"),
    "lsh, around the circle": Case(6, lsh.ChunkNeighbors(4, 5, 2), 1),
    "lsh, around the circle, once": Case(6, lsh.ChunkNeighbors(4, 5, 2), 2, "once"),
    "local": Case(11, lsh.ChunkNeighbors(3)),
    "local, far back": Case(11, lsh.ChunkNeighbors(3, 2, 0)),
    "local, both sides": Case(11, lsh.ChunkNeighbors(4, 1, 1)),
    "local, around the circle": Case(8, lsh.ChunkNeighbors(3, 7, 2)),
}


def rows_of(case, dtype=np.float64):
    """Query, key and value, or query-key, value and buckets."""
    rng = np.random.default_rng(case.n + case.rounds)
    shape = (BATCH, case.n, HEADS, SIZE)
    rows = [rng.normal(size=shape).astype(dtype) for _ in range(3)]
    if not case.rounds:
        return rows
    shape = (BATCH, HEADS, case.rounds, case.n)
    return [*rows[:2], rng.integers(0, BUCKETS, shape).astype(np.int32)]


def place(x, at):
    """The rows of one token, of any of `rows_of`."""
    axis = 3 if x.dtype == np.int32 else 1
    return jax.lax.dynamic_slice_in_dim(x, at, 1, axis)


def filled(case, rows, lengths):
    """The cache of a prompt, in the second of two layers."""
    if case.rounds:
        sizes = {"num_buckets": BUCKETS, "length": case.n}
        cache = lsh_decoding.lsh_cache(*rows, lengths, **sizes)
    else:
        sizes = {"look": case.look, "length": case.n}
        cache = lsh_decoding.local_cache(*rows[1:], lengths, **sizes)
    return jax.tree.map(lambda x: jnp.stack([jnp.zeros_like(x), x]), cache)


def one_step(case, rows, cache, now, rounding="exact"):
    if not case.rounds:
        return lsh_decoding.local_step(*rows, cache, now, look=case.look)
    options = {"look": case.look, "duplicates": case.duplicates, "rounding": rounding}
    return lsh_decoding.lsh_step(*rows, cache, now, **options)


step = jax.jit(one_step, static_argnums=0)


def now_at(position):
    position = jnp.asarray(position, jnp.int32)
    return Newest(position, 1, position + 1)


@functools.cache
def decoded_rows(name):
    """(rows, what each token is when it is the newest), in float64."""
    rows = rows_of(CASES[name])
    return rows, decoded(CASES[name], rows)


def decoded(case, rows, **options):
    """`[n, b, h, d]`: each token when it was the newest, from an empty cache on."""

    def body(cache, position):
        newest = [place(x, position) for x in rows]
        now = now_at(jnp.broadcast_to(position, (BATCH,)))
        out, cache = one_step(case, newest, cache, now, **options)
        return cache, out[:, 0]

    rows = list(map(jnp.asarray, rows))
    cache = filled(case, cut(rows, 1), jnp.zeros((BATCH,), jnp.int32))
    run = jax.jit(lambda cache: jax.lax.scan(body, cache, jnp.arange(case.n)))
    return np.asarray(run(cache)[1])


@functools.partial(jax.jit, static_argnames=("case", "implementations", "rounding"))
def whole(case, rows, example_ids, implementations=("dense",), rounding="exact"):
    """`[implementations, b, n, h, d]`."""
    options = {"look": case.look, "causal": True, "example_ids": example_ids}
    attend = lsh.local
    if case.rounds:
        options |= {"duplicates": case.duplicates, "rounding": rounding}
        attend = functools.partial(lsh.attend, num_buckets=BUCKETS)
    return jnp.stack(
        [attend(*rows, implementation=x, **options) for x in implementations]
    )


def cut(rows, n):
    """The first n tokens."""
    return [x[..., :n] if x.dtype == np.int32 else x[:, :n] for x in rows]


def by_prefixes(case, rows, implementations, **options):
    """`[implementations, n, b, h, d]`: the last row of attention over each prefix.

    Prefixes of as many chunks are rows of one batch, with padding after each.
    """
    chunk = case.look.chunk_length
    out = np.zeros((len(implementations), case.n, BATCH, HEADS, SIZE), rows[0].dtype)
    for start in range(0, case.n, chunk):
        last = np.arange(start, min(start + chunk, case.n))
        size, count = start + chunk, len(last)
        padded = [np.concatenate([x, x], 3 if x.dtype == np.int32 else 1) for x in rows]
        many = [np.repeat(x, count, axis=0) for x in cut(padded, size)]
        last = np.tile(last, BATCH)
        ids = (np.arange(size)[None] <= last[:, None]).astype(np.int32)
        got = np.asarray(whole(case, many, ids, implementations, **options))
        got = got[:, np.arange(len(last)), last]
        got = got.reshape(-1, BATCH, count, HEADS, SIZE).swapaxes(1, 2)
        out[:, start : start + count] = got
    return out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.full(
    but=[
        "lsh",
        "lsh, own chunk",
        "lsh, around the circle, once",
        "local, around the circle",
    ]
)
def test_each_token_is_the_last_row_of_attention_so_far(name):
    case = CASES[name]
    with jax.enable_x64(True):
        rows, got = decoded_rows(name)
        [want] = by_prefixes(case, rows, ("dense",))
        np.testing.assert_allclose(got, want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["lsh, once", "local"])
@pytest.mark.full(but=["lsh, once"])
def test_prefixes_without_padding_say_the_same(name):
    case = CASES[name]
    with jax.enable_x64(True):
        rows, got = decoded_rows(name)
        for n in (2, 5):
            for want in whole(case, cut(rows, n), None, ("dense", "xla")):
                np.testing.assert_allclose(got[n - 1], want[:, -1], atol=1e-12, rtol=0)


@pytest.mark.full
def test_a_token_alone_is_rounded_as_attention_rounds_it():
    # In one bucket, each second token begins a chunk in all rounds. The weights of its
    # three copies do not add up to 1 then.
    case = Case(5, lsh.ChunkNeighbors(2, 0, 0), 3)
    rows = rows_of(case, np.float32)
    rows[2][:] = 0
    got = decoded(case, rows, rounding="transformers")
    [want] = by_prefixes(case, rows, ("xla",), rounding="transformers")
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    far = np.abs(got / rows[1].swapaxes(0, 1) - 1)
    assert far[[2, 4]].min() > 1e-3 and far[0].max() == 0


@pytest.mark.parametrize("name", ["lsh, once", "local"])
def test_prompts_of_any_length_go_on_as_if_step_by_step(name):
    case = CASES[name]
    lengths = np.array([case.n - 2, 3], np.int32)
    with jax.enable_x64(True):
        rows, every = decoded_rows(name)
        cache = filled(case, cut(rows, case.n - 1), jnp.asarray(lengths))
        for more in range(2):
            position = lengths + more
            newest = [
                np.concatenate([place(x[b : b + 1], position[b]) for b in (0, 1)])
                for x in rows
            ]
            out, cache = step(case, newest, cache, now_at(position))
            want = every[position, np.arange(BATCH)]
            np.testing.assert_allclose(out[:, 0], want, atol=1e-12, rtol=0)


def test_padding_after_the_newest_token_is_part_of_the_circle():
    # In an array of four chunks, of which two are padding, what lies before the first
    # chunk of a round is padding, not the end of another round.
    case = Case(8, lsh.ChunkNeighbors(4, 1, 1), 2)
    with jax.enable_x64(True):
        rows = rows_of(dataclasses.replace(case, n=16))
        ids = np.repeat(np.arange(16)[None] < 8, BATCH, axis=0).astype(np.int32)
        [want] = whole(case, rows, ids)
        cache = filled(case, cut(rows, 7), jnp.full((BATCH,), 7, jnp.int32))
        newest = [place(x, 7) for x in rows]
        now = now_at([7, 7])
        got, _ = step(case, newest, cache, now._replace(length=now.length + 8))
        np.testing.assert_allclose(got[:, 0], want[:, 7], atol=1e-12)
        other, _ = step(case, newest, cache, now)
        assert np.abs(other - got).max() > 1e-3


@pytest.mark.parametrize("name", ["lsh", "local"])
@pytest.mark.full(but=["local"])
def test_other_layers_of_the_cache_stay_as_they_are(name):
    case = CASES[name]
    rows = rows_of(case, np.float32)
    cache = filled(case, cut(rows, 6), jnp.full((BATCH,), 6, jnp.int32))
    _, after = step(case, [place(x, 6) for x in rows], cache, now_at([6, 6]))
    for old, new in zip(cache, after, strict=True):
        np.testing.assert_array_equal(old[0], new[0])
        assert (np.asarray(old[1]) != new[1]).any()


def test_of_local_attention_only_what_will_be_looked_at_is_kept():
    key = jnp.zeros((1, 20, 2, 3))
    lengths = jnp.asarray([20])

    def rows(*look):
        cache = lsh_decoding.local_cache(
            key, key, lengths, look=lsh.ChunkNeighbors(*look), length=100
        )
        return cache.key.shape[1]

    assert (rows(4, 1, 0), rows(4, 2, 0), rows(64, 1, 0)) == (8, 12, 100)
    assert rows(4, 1, 1) == 100  # the last chunk looks at the first one


def test_bfloat16_is_near_float32():
    case = CASES["lsh"]
    rows = rows_of(case, np.float32)
    short = [x if x.dtype == np.int32 else jnp.asarray(x, jnp.bfloat16) for x in rows]
    got = decoded(case, short)
    assert got.dtype == jnp.bfloat16
    near = [
        np.asarray(x, x.dtype if x.dtype == np.int32 else np.float32) for x in short
    ]
    want = decoded(case, near)
    np.testing.assert_allclose(got.astype(np.float32), want, atol=2e-2)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"duplicates": "twice"}, "duplicates 'twice' is not one of"),
        ({"rounding": "up"}, "rounding 'up' is not one of"),
        (
            {"value": jnp.ones((2, 2, 2, 3))},
            r"have shapes .*; expected one shape \[bat",
        ),
        (
            {"buckets": np.zeros((2, 2, 1, 1))},
            r"buckets have shape .*, expected \(2, 2",
        ),
    ],
)
def test_steps_that_do_not_fit_are_named(change, message):
    case = CASES["lsh"]
    first = cut(list(map(jnp.asarray, rows_of(case, np.float32))), 1)
    given = dict(zip(("query_key", "value", "buckets"), first, strict=True))
    given["cache"] = filled(case, first, jnp.ones((BATCH,), jnp.int32))
    given["now"] = now_at([1, 1])
    with pytest.raises(ValueError, match=message):
        lsh_decoding.lsh_step(**(given | {"look": case.look} | change))


def test_caches_that_do_not_fit_are_named():
    case = CASES["lsh"]
    query, value, buckets = rows_of(case, np.float32)
    lengths = jnp.zeros((BATCH,), jnp.int32)
    sizes = {"num_buckets": BUCKETS, "length": 4}
    with pytest.raises(ValueError, match=r"expected \(2, 2, 'rounds', 7\)"):
        lsh_decoding.lsh_cache(query[:, 1:], value[:, 1:], buckets, lengths, **sizes)
    sizes["num_buckets"] = 2**29
    with pytest.raises(ValueError, match="too large to be sorted by 32-bit numbers"):
        lsh_decoding.lsh_cache(query, value, buckets, lengths, **sizes)
