"""Sliding windows with inline globals, and full attention, against every pair."""

import functools

import attention_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax import sharding
from etc_jax.ops.attention import full, sliding_window
from etc_jax.ops.attention.sliding_window import Globals

HEADS, SIZE = 3, 4


def inputs(n, *, batch=2, index=None, seed=0, dtype=np.float64):
    """(rows, globals or None, weight of each output)."""
    rng = np.random.default_rng(seed)

    def normal(length):
        return rng.normal(size=(batch, length, HEADS, SIZE)).astype(dtype)

    rows = (2 * normal(n), normal(n), normal(n))
    globals_ = None
    if index is not None:
        index = np.asarray(index, np.int32)
        globals_ = Globals(index, 2 * normal(index.shape[1]), normal(n), normal(n))
    return rows, globals_, normal(n)


def packed(n, batch=2, seed=1):
    """Two examples and padding in each row, in any order."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(0, 3, (batch, n)), axis=-1)[:, ::-1].astype(np.int32)


def results(attend, rows, globals_, weight, **options):
    """Outputs and gradients of everything that is differentiable."""

    @jax.jit
    def run(rows, floats):
        def loss(rows, floats):
            g = None if globals_ is None else Globals(globals_.index, *floats)
            more = {} if globals_ is None else {"globals_": g}
            out = attend(*rows, **more, **options)
            return jnp.sum(out * weight), out

        grads, out = jax.grad(loss, argnums=(0, 1), has_aux=True)(rows, floats)
        return out, grads

    return run(rows, () if globals_ is None else globals_[1:])


def compare(attend, rows, globals_, weight, tolerance=1e-10, **options):
    blocked = options.pop("blocked", {})
    got = results(attend, rows, globals_, weight, **options, **blocked)
    want = results(attend, rows, globals_, weight, **options, implementation="dense")
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
    return got


INDEX = [[0, 5, -1], [2, -1, 11]]


@pytest.mark.parametrize(
    "n, causal", [(1, False), (3, True), (4, False), (5, True), (19, False)]
)
def test_windows_equal_every_pair(n, causal):
    with jax.enable_x64(True):
        rows, _, weight = inputs(n)
        compare(
            sliding_window.attend,
            rows,
            None,
            weight,
            radius=3,
            causal=causal,
            example_ids=packed(n),
            blocked={"block_size": 4, "chunk_blocks": 2},
        )


@pytest.mark.parametrize(
    "radius, dilation, causal",
    [
        (0, 1, False),
        (1, (5, 1, 2), True),
        (2, 2, False),
        (40, (5, 1, 2), True),  # farther than the sequence
    ],
)
@pytest.mark.full(but=["0-1-False", "40-dilation3-True"])
def test_globals_and_dilation_equal_every_pair(radius, dilation, causal):
    n = 17
    with jax.enable_x64(True):
        rows, globals_, weight = inputs(n, index=INDEX)
        compare(
            sliding_window.attend,
            rows,
            globals_,
            weight,
            radius=radius,
            dilation=dilation,
            causal=causal,
            example_ids=packed(n),
            blocked={"block_size": 4, "chunk_blocks": 1},
        )


@pytest.mark.parametrize("n, causal", [(1, True), (5, True), (130, False)])
@pytest.mark.full(but=["5-True"])
def test_full_attention_equals_every_pair(n, causal):
    with jax.enable_x64(True):
        rows, _, weight = inputs(n)
        options = {"causal": causal, "example_ids": packed(n)}
        out, _ = compare(full.attend, rows, None, weight, **options)
        padding = options["example_ids"] == 0
        assert not np.any(out[padding])
        out, _ = compare(full.attend, rows, None, weight, padding_sees=True, **options)
        assert n == 1 or np.all(out[padding])


def test_padding_sees_the_last_example_as_with_a_mask_of_keys():
    (query, key, value), _, _ = inputs(6, dtype=np.float32)
    ids = np.int32([[1, 1, 2, 2, 0, 0], [0, 0, 0, 0, 0, 0]])
    out = full.attend(query, key, value, example_ids=ids, padding_sees=True)
    scores = np.einsum("hd,khd->hk", query[0, 5], key[0, 2:4]) / SIZE**0.5
    share = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    want = np.einsum("hk,khd->hd", share, value[0, 2:4])
    np.testing.assert_allclose(out[0, 5], want, rtol=1e-5, atol=1e-6)
    assert not np.any(out[1])


def test_default_blocks_equal_every_pair():
    with jax.enable_x64(True):
        rows, globals_, weight = inputs(300, index=INDEX)
        compare(sliding_window.attend, rows, globals_, weight, radius=16)


SPLITS = [
    (12, 1, 1, True),
    (41, 13, 1, False),  # farther than a device's part
    (41, 3, (1, 2, 1), False),
    (29, 2, (3, 1, 2), True),
]
MESHES = ({"data": 2, "tensor": 2, "sequence": 2}, {"sequence": 8})


@pytest.mark.parametrize(
    "mesh, n, radius, dilation, causal",
    attention_cases.pairwise(MESHES, SPLITS),
    ids=str,
)
@pytest.mark.full(but=["{'sequence': 8}-29-2-(3, 1, 2)-True"])
def test_a_split_sequence_gives_what_a_whole_one_gives(
    mesh, n, radius, dilation, causal
):
    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1} | mesh))
    with jax.enable_x64(True):
        rows, globals_, weight = inputs(n, index=INDEX)
        options = {"radius": radius, "dilation": dilation, "causal": causal}
        options["example_ids"] = packed(n)
        want = results(
            sliding_window.attend,
            rows,
            globals_,
            weight,
            **options,
            implementation="dense",
        )
        with jax.set_mesh(mesh):
            got = results(
                sliding_window.attend,
                rows,
                globals_,
                weight,
                **options,
                block_size=3,
                sequence_axis="sequence",
            )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.full
def test_no_places_for_global_tokens_are_as_none():
    rows, globals_, _ = inputs(9, index=np.zeros((2, 0)), dtype=np.float32)
    want = sliding_window.attend(*rows, radius=2)
    got = sliding_window.attend(*rows, radius=2, globals_=globals_)
    np.testing.assert_array_equal(got, want)


@pytest.mark.full
def test_a_global_key_counts_once_and_is_seen_from_afar():
    """By hand: all scores are 0, so a row is the mean of what it sees."""
    n, index = 8, np.array([[1]], np.int32)
    zero = np.zeros((1, n, 1, 1), np.float32)
    value = np.arange(n, dtype=np.float32).reshape(zero.shape)
    globals_ = Globals(index, zero[:, :1], zero, 10 * value)
    got = sliding_window.attend(zero, zero, value, radius=1, globals_=globals_)
    # Token 0 sees 0 and 1; token 1 sees all, by its own values; token 2 sees 1, 2, 3;
    # token 6 sees 5, 6, 7 and 1.
    np.testing.assert_allclose(got[0, [0, 2, 6], 0, 0], [0.5, 2.0, 19 / 4], rtol=1e-6)
    np.testing.assert_allclose(got[0, 1, 0, 0], 10 * 28 / 8, rtol=1e-6)


@pytest.mark.full
def test_dilated_heads_see_every_other_place():
    n = 9
    zero = np.zeros((1, n, 2, 1), np.float32)
    value = np.broadcast_to(
        np.arange(n, dtype=np.float32)[None, :, None, None], zero.shape
    )
    got = sliding_window.attend(
        zero, zero, value, radius=1, dilation=(1, 3), causal=True
    )
    np.testing.assert_allclose(got[0, 7, :, 0], [6.5, 5.5], rtol=1e-6)


def test_padding_changes_nothing_and_is_zero():
    n, more = 11, 6
    with jax.enable_x64(True):
        rows, globals_, weight = inputs(n, index=INDEX[:1], batch=1)
        options = {"radius": 2, "blocked": {}}
        want = compare(sliding_window.attend, rows, globals_, weight, **options)

        def pad(x):
            return np.pad(x, ((0, 0), (0, more), (0, 0), (0, 0)))

        rng = np.random.default_rng(3)
        rows = [
            pad(x)
            + np.pad(
                rng.normal(size=(1, more, HEADS, SIZE)),
                ((0, 0), (n, 0), (0, 0), (0, 0)),
            )
            for x in rows
        ]
        globals_ = globals_._replace(key=pad(globals_.key), value=pad(globals_.value))
        ids = np.array([[1] * n + [0] * more], np.int32)
        # A token of padding is never global.
        globals_ = globals_._replace(
            index=np.where(globals_.index < 0, n + 1, globals_.index)
        )
        attend = jax.jit(functools.partial(sliding_window.attend, radius=2))
        got = attend(*rows, globals_=globals_, example_ids=ids)
        np.testing.assert_allclose(got[:, :n], want[0], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(got[:, n:], 0)


def test_causal_windows_leak_nothing():
    n = 12
    rows, globals_, _ = inputs(n, index=INDEX, dtype=np.float32)

    @jax.jit
    @jax.grad
    def gradient_of(value, place):
        out = sliding_window.attend(
            *rows[:2],
            value,
            radius=3,
            dilation=(1, 2, 2),
            causal=True,
            globals_=globals_,
        )
        return jnp.sum(out[:, place])

    for place in (0, 4, 8):
        gradient = gradient_of(rows[2], place)
        np.testing.assert_array_equal(gradient[:, place + 1 :], 0)
        assert np.any(gradient[:, place])


@pytest.mark.parametrize(
    "attend",
    [
        functools.partial(sliding_window.attend, radius=3, dilation=(1, 2, 2)),
        full.attend,
    ],
)
def test_bfloat16_is_near_float32(attend):
    rows, _, _ = inputs(40, dtype=np.float32)
    attend = jax.jit(attend)
    want = attend(*rows)
    got = attend(*(jnp.asarray(x, jnp.bfloat16) for x in rows))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(np.float32), want, atol=0.1)


@pytest.mark.full
def test_dropout_keeps_the_mean_and_is_the_same_in_both_passes():
    n, rate = 24, 0.25
    rows, globals_, weight = inputs(n, index=INDEX, dtype=np.float32)
    rows = (rows[0], rows[1], np.ones_like(rows[2]))
    globals_ = globals_._replace(value=np.ones_like(globals_.value))

    @jax.jit
    def out(value, global_value, seed):
        return sliding_window.attend(
            *rows[:2],
            value,
            radius=4,
            dilation=(1, 1, 2),
            globals_=globals_._replace(value=global_value),
            dropout_rate=rate,
            dropout_rng=jax.random.key(seed),
        )

    draws = jax.jit(jax.vmap(lambda s: out(rows[2], globals_.value, s)))(
        jnp.arange(400)
    )
    np.testing.assert_allclose(draws.mean(0), 1, atol=0.2)
    assert np.std(draws) > 0.05

    # Linear in the values, so that the gradient must give the output back.
    values = (rows[2], globals_.value)
    got, pull = jax.vjp(lambda *v: out(*v, 0), *values)
    back = jax.jit(pull)(weight)
    same = sum(jnp.vdot(v, g) for v, g in zip(values, back, strict=True))
    np.testing.assert_allclose(same, jnp.vdot(got, weight), rtol=1e-4)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"radius": -1}, "radius is -1"),
        ({"dilation": (1, 2)}, "one for each of the 3 heads"),
        ({"dilation": 0}, "1 or more"),
        ({"dropout_rate": 1.0}, "dropout_rate must be in"),
        ({"implementation": "fast"}, "'fast' is not one of"),
        ({"example_ids": np.ones((2, 4), np.int32)}, "expected \\(2, 5\\)"),
        ({"block_size": 0}, "block_size is 0; expected 1 or more"),
    ],
)
def test_what_does_not_fit_is_told(change, message):
    rows, _, _ = inputs(5)
    with pytest.raises(ValueError, match=message):
        sliding_window.attend(*rows, **{"radius": 2} | change)


def test_globals_of_another_shape_are_told():
    rows, globals_, _ = inputs(12, index=INDEX)
    globals_ = globals_._replace(query=globals_.query[:, :2])
    with pytest.raises(ValueError, match="globals_.query has shape"):
        sliding_window.attend(*rows, radius=2, globals_=globals_)
