"""Lengths of their own, bias, scale and places of queries, against every pair."""

import functools

import attention_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax import sharding
from etc_jax.base.types import LabelTable, Pieces, Rows
from etc_jax.ops import blocking
from etc_jax.ops.attention import block_sparse, full, global_local, lsh, sliding_window
from etc_jax.ops.attention.bias import BucketBias, bucket
from etc_jax.ops.attention.sliding_window import Globals
from etc_jax.structure import Rules

B, H, D = 2, 3, 4
BUCKETS, FAR = 8, 12


pytestmark = pytest.mark.usefixtures("float64")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def rows(q, k, seed=0):
    sizes = ((2.0, q), (1.0, k), (1.0, k))
    return tuple(
        scale * normal(B, n, H, D, seed=seed + i) for i, (scale, n) in enumerate(sizes)
    )


def packed(n, seed=1):
    """Two examples and padding in each row."""
    ids = np.random.default_rng(seed).integers(0, 3, (B, n))
    return np.sort(ids, axis=-1)[:, ::-1].astype(np.int32)


def of_buckets(table, causal=False):
    return BucketBias(table, FAR, causal=causal)


def of_slopes(slopes, causal=False):
    """As ALiBi has it (Press et al. 2022), to both sides."""
    del causal
    return lambda offset: slopes.reshape(-1, *(1,) * offset.ndim) * -abs(offset)[None]


def gradients(fn, *arrays):
    """(value, gradients of a weighted sum of it)."""

    @jax.jit
    def run(*arrays):
        def loss(*arrays):
            out = fn(*arrays)
            return jnp.sum(out * normal(*out.shape, seed=9)), out

        argnums = tuple(range(len(arrays)))
        found, out = jax.grad(loss, argnums, has_aux=True)(*arrays)
        return out, found

    return jax.device_get(run(*arrays))


def check_equal(got, want, tolerance=1e-10):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def compare(attend, *arrays):
    """The blocked form equals the oracle, with gradients."""
    forms = [functools.partial(attend, form) for form in ("xla", "dense")]
    check_equal(*(gradients(form, *arrays) for form in forms))


INDEX = [[0, 5, -1], [2, -1, 11]]
KINDS = {
    "buckets": (of_buckets, normal(BUCKETS, H, seed=5)),
    "slopes": (of_slopes, np.array([0.5, 0.25, 0.125])),
    "slopes of all heads": (of_slopes, np.array([0.3])),
}


@pytest.mark.parametrize(
    "kind, q, k, causal",
    [
        ("slopes", 1, 9, False),
        ("buckets", 5, 130, False),
        ("slopes of all heads", 67, 3, False),
        ("buckets", 70, 70, True),
        ("slopes", 70, 70, True),
    ],
)
def test_full_attention_with_a_function_of_offsets(kind, q, k, causal, monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: 1)  # a block of keys a step
    bias_of, values = KINDS[kind]
    ids = {"query_ids": packed(q), "example_ids": packed(k, seed=2)}

    def attend(form, query, key, value, values):
        bias = bias_of(values, causal)
        options = {"causal": causal, "implementation": form, **ids}
        return full.attend(query, key, value, bias=bias, scale=0.7, **options)

    compare(attend, *rows(q, k), values)


@pytest.mark.parametrize("b, h", [(B, H), (1, H), (B, 1), (1, 1)])
def test_full_attention_with_a_bias_of_all_pairs(b, h, monkeypatch):
    monkeypatch.setattr(blocking, "step_bytes", lambda: 1)
    q, k = 7, 131

    def attend(form, query, key, value, bias):
        return full.attend(query, key, value, bias=bias, implementation=form)

    compare(attend, *rows(q, k), normal(b, h, q, k, seed=6))


@pytest.mark.parametrize(
    "kind, n, radius, dilation, causal, index",
    [
        ("buckets", 1, 2, 1, False, [[0], [-1]]),
        ("buckets", 19, 3, 1, True, None),
        ("slopes of all heads", 19, 0, 1, True, INDEX),
        ("buckets", 23, 2, (1, 3, 3), False, INDEX),
        ("slopes", 17, 40, (5, 1, 2), True, INDEX),
        ("slopes of all heads", 17, 40, (5, 1, 2), False, None),
    ],
)
@pytest.mark.full(
    but=[
        "buckets-1-2-1-False-index0",
        "buckets-23-2-dilation3-False-index3",
        "slopes of all heads-17-40*",
    ]
)
def test_windows_with_a_function_of_offsets(kind, n, radius, dilation, causal, index):
    bias_of, values = KINDS[kind]
    more = ()
    if index is not None:
        index = np.asarray(index, np.int32)
        more = (normal(B, index.shape[1], H, D, seed=7), *rows(n, n, seed=20)[1:])

    def attend(form, query, key, value, values, *more):
        return sliding_window.attend(
            *(query, key, value),
            radius=radius,
            dilation=dilation,
            causal=causal,
            example_ids=packed(n),
            globals_=Globals(index, *more) if more else None,
            bias=bias_of(values, causal),
            scale=0.7,
            implementation=form,
            block_size=4,
            chunk_blocks=2,
        )

    compare(attend, *rows(n, n), values, *more)


def test_the_oracle_adds_the_bias_to_the_scaled_products():
    query, key, value = rows(2, 3)
    bias = normal(1, H, 2, 3, seed=8)
    got = full.attend(query, key, value, bias=bias, scale=0.3, implementation="dense")
    for b, h in np.ndindex(B, H):
        logits = query[b, :, h] @ key[b, :, h].T * 0.3 + bias[0, h]
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(got[b, :, h], weights @ value[b, :, h], atol=1e-12)


@pytest.mark.parametrize("form", ["xla", "dense"])
@pytest.mark.full(but=["dense"])
def test_queries_may_begin_anywhere(form):
    """As those after a cache do: each row of the batch at a place of its own."""
    n, count, starts = 21, 4, np.array([3, 17])
    query, key, value = rows(n, n)
    table = normal(BUCKETS, H, seed=5)
    options = {"causal": True, "implementation": form, "bias": of_buckets(table, True)}
    whole = full.attend(query, key, value, example_ids=packed(n), **options)
    places = starts[:, None] + np.arange(count)
    batch = np.arange(B)[:, None]
    got = full.attend(
        *(query[batch, places], key, value),
        example_ids=packed(n),
        query_ids=packed(n)[batch, places],
        query_start=starts,
        **options,
    )
    np.testing.assert_allclose(got, np.asarray(whole)[batch, places], atol=1e-12)


SCALED = {
    "full": lambda form, *x, **more: full.attend(*x, implementation=form, **more),
    "windows": lambda form, *x, **more: sliding_window.attend(
        *x, radius=2, implementation=form, **more
    ),
    "blocks": lambda form, *x, **more: block_sparse.attend(
        *x, block_size=4, implementation=form, **more
    ),
    "chunks": lambda form, *x, **more: lsh.local(
        *x, look=lsh.ChunkNeighbors(4), implementation=form, **more
    ),
    "global-local": lambda form, query, key, value, **more: (
        global_local.attend(
            Rows(query, query[:, :3]),
            Pieces(key, key[:, :3], key[:, :3], key),
            Pieces(value, value[:, :3], value[:, :3], value),
            None,
            attention_cases.random_structure(23, 3),
            Rules(radius=3),
            implementation=form,
            **more,
        ).long
    ),
}


# The oracle is one function for all.
@pytest.mark.parametrize(
    "op, form", [("full", "dense"), *((op, "xla") for op in SCALED)]
)
def test_a_scale_is_that_of_the_queries(op, form):
    query, key, value = rows(23, 23)
    attend = functools.partial(SCALED[op], form)
    got = gradients(functools.partial(attend, scale=0.9), query, key, value)

    def by_hand(query, key, value):
        return attend(query * (0.9 * D**0.5), key, value)

    check_equal(got, gradients(by_hand, query, key, value))


# Other meshes: `test_windows_with_products_of_offsets`, and those of the windows alone.
@pytest.mark.parametrize(
    "axes",
    [
        {"sequence": 8},
        {"data": 2, "sequence": 4},
        {"data": 2, "fsdp": 2, "sequence": 2},
    ],
    ids=str,
)
@pytest.mark.full
def test_windows_with_a_bias_on_a_split_sequence(axes):
    n, index = 37, np.array([[0, 5, -1], [2, -1, 30]], np.int32)
    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1, **axes}))

    def attend(axis, query, key, value, table, *more):
        return sliding_window.attend(
            *(query, key, value),
            radius=3,
            dilation=(1, 2, 1),
            example_ids=packed(n),
            globals_=Globals(index, *more),
            bias=of_buckets(table),
            block_size=4,
            sequence_axis=axis,
        )

    more = (normal(B, 3, H, D, seed=7), *rows(n, n, seed=20)[1:])
    arrays = (*rows(n, n), normal(BUCKETS, H, seed=5), *more)
    want = gradients(functools.partial(attend, None), *arrays)
    with jax.set_mesh(mesh):
        got = gradients(functools.partial(attend, "sequence"), *arrays)
    check_equal(got, want)


def test_buckets_by_hand():
    # 8 to each side: 4 of one distance each, then from 4 to 12 in steps of 3^(1/4).
    offsets = np.arange(-14, 15)
    got = bucket(offsets, 16, 12, causal=False)
    before = [7, 7, 7, 7, 7, 6, 6, 6, 5, 4, 4, 3, 2, 1, 0]
    assert list(got[:15]) == before
    assert list(got[15:]) == [8 + x for x in reversed(before[:-1])]
    got = bucket(offsets, 8, 12, causal=True)
    assert list(got[:15]) == before
    assert not got[15:].any()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"bias": np.zeros((1, 2, 5, 7))}, "expected .* 3 or 1, 5, 7"),
        ({"example_ids": np.ones((2, 7), np.int32)}, "not query_ids for 5 queries"),
        ({"query_ids": np.ones((2, 7), np.int32)}, r"query_ids have shape \(2, 7\)"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        full.attend(*rows(5, 7), **change)


@pytest.mark.parametrize("op", ["windows", "blocks", "chunks"])
def test_attention_of_a_sequence_to_itself_refuses_two_lengths(op):
    with pytest.raises(ValueError, match="5 queries and 7 keys"):
        SCALED[op]("xla", *rows(5, 7))


@pytest.mark.parametrize(
    "n, radius, dilation, causal, axes",
    [
        (1, 2, 1, False, None),
        (19, 0, 1, False, None),
        (19, 3, 1, True, None),
        (23, 2, (1, 3, 3), False, None),
        (17, 40, (5, 1, 2), True, None),
        (37, 3, (1, 2, 1), True, {"data": 2, "fsdp": 2, "sequence": 2}),
    ],
)
@pytest.mark.full(but=["1-2-1-False-None", "23-2-dilation3-False-None"])
def test_windows_with_products_of_offsets(n, radius, dilation, causal, axes):
    count = 2 * radius + 1
    table = (normal(count, H, D, seed=5), normal(count, H, seed=6))

    def attend(form, query, key, value, *table, axis=None):
        return sliding_window.attend(
            *(query, key, value),
            radius=radius,
            dilation=dilation,
            causal=causal,
            example_ids=packed(n),
            offsets=LabelTable(*table),
            bias=of_slopes(np.array([0.5, 0.25, 0.125])),
            implementation=form,
            block_size=4,
            sequence_axis=axis,
        )

    arrays = (*rows(n, n), *table)
    if axes is None:
        compare(attend, *arrays)
        return
    want = gradients(functools.partial(attend, "dense"), *arrays)
    with jax.set_mesh(sharding.make_mesh(sharding.MeshConfig(**axes))):
        split = functools.partial(attend, "xla", axis="sequence")
        got = gradients(split, *arrays)
    check_equal(got, want)


def test_products_of_offsets_by_hand():
    n, radius = 5, 2
    query, key, value = rows(n, n)
    embedding, bias = normal(5, H, D, seed=5), normal(5, H, seed=6)
    got = sliding_window.attend(
        query, key, value, radius=radius, offsets=LabelTable(embedding, bias)
    )
    for b, h, i in np.ndindex(B, H, n):
        near = np.arange(max(0, i - radius), min(n, i + radius + 1))
        label = near - i + radius
        logits = query[b, i, h] @ (key[b, near, h] + embedding[label, h]).T
        weights = np.exp((logits + bias[label, h]) / D**0.5)
        weights /= weights.sum()
        np.testing.assert_allclose(
            got[b, i, h], weights @ value[b, near, h], atol=1e-12
        )
