"""What global-local attention is a special case of (Ainslie et al. 2020, section 3.2).

The other side of each comparison is numpy, written here from the other model.
"""

import jax
import numpy as np
import pytest

from etc_jax.base.types import Pieces, Rows
from etc_jax.layers.patterns.global_local import GlobalLocal
from etc_jax.ops.attention import global_local
from etc_jax.structure import Rules, Structure

HEADS, SIZE = 2, 4
attend = jax.jit(global_local.attend, static_argnames=("rules", "implementation"))
IMPLEMENTATIONS = pytest.mark.parametrize("implementation", ["xla", "dense"])


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def transformer(query, key, value, visible):
    """Scaled dot-product attention of `[b, l, h, d]` where `visible[q, k]`."""
    logits = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    p = softmax(np.where(visible, logits, -np.inf))
    return np.einsum("bhqk,bkhd->bqhd", p, value)


def one_example(n, g):
    return Structure(
        long_example_ids=np.ones((1, n), np.int32),
        global_example_ids=np.ones((1, g), np.int32),
        links=np.full((1, n, 1), -1, np.int16),
    )


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@IMPLEMENTATIONS
def test_all_tokens_global_is_a_transformer(implementation):
    q, k, v = (normal(i, 1, 9, HEADS, SIZE) for i in range(3))
    none = np.zeros((1, 0, HEADS, SIZE), np.float32)
    out = attend(
        Rows(none, q),
        Pieces(none, k, k, none),
        Pieces(none, v, v, none),
        None,
        one_example(0, 9),
        Rules(radius=1),
        implementation=implementation,
    )
    want = transformer(q, k, v, np.ones((9, 9), bool))
    np.testing.assert_allclose(out.global_, want, atol=1e-5)
    assert out.long.shape == none.shape


@IMPLEMENTATIONS
def test_one_global_token_and_radius_one_is_a_star_transformer(implementation):
    n = 10
    satellite, relay = normal(0, 1, n, HEADS, SIZE), normal(1, 1, 1, HEADS, SIZE)
    out = attend(
        Rows(satellite, relay),
        Pieces(satellite, relay, relay, satellite),
        Pieces(satellite, relay, relay, satellite),
        None,
        one_example(n, 1),
        Rules(radius=1),
        implementation=implementation,
    )
    for i in range(n):
        ring = satellite[:, max(i - 1, 0) : i + 2]
        seen = np.concatenate([ring, relay], axis=1)
        visible = np.ones((1, seen.shape[1]), bool)
        want = transformer(satellite[:, i : i + 1], seen, seen, visible)
        np.testing.assert_allclose(out.long[:, i : i + 1], want, atol=1e-5)
    everything = np.concatenate([relay, satellite], axis=1)
    want = transformer(relay, everything, everything, np.ones((1, n + 1), bool))
    np.testing.assert_allclose(out.global_, want, atol=1e-5)


@IMPLEMENTATIONS
def test_a_wide_radius_and_shared_projections_are_full_attention(implementation):
    n, g, width = 11, 3, 8
    x = Rows(normal(0, 1, n, width), normal(1, 1, g, width))
    layer = GlobalLocal(Rules(radius=n), None, share_qkv=True, share_out=True).module(
        name=None,
        num_heads=HEADS,
        head_dim=SIZE,
        stddev=0.5,
        implementation=implementation,
    )
    structure = one_example(n, g)
    params = jax.jit(layer.init)(jax.random.key(0), x, structure)["params"]
    out, _ = jax.jit(layer.apply)({"params": params}, x, structure)

    together = np.concatenate(x, axis=1)
    params = jax.tree.map(np.asarray, params)

    def project(name):
        p = params[name]
        return np.einsum("ble,ehd->blhd", together, p["kernel"]) + p["bias"]

    query, key, value = map(project, ("long_query", "l2l_key", "l2l_value"))
    y = transformer(query, key, value, np.ones((n + g, n + g), bool))
    want = np.einsum("blhd,hde->ble", y, params["long_out"]["kernel"])
    want = want + params["long_out"]["bias"]
    np.testing.assert_allclose(np.concatenate(out, axis=1), want, atol=1e-5)


@IMPLEMENTATIONS
def test_local_attention_alone_is_banded_attention(implementation):
    n, radius = 13, 2
    q, k, v = (normal(i, 1, n, HEADS, SIZE) for i in range(3))
    none = np.zeros((1, 0, HEADS, SIZE), np.float32)
    out = attend(
        Rows(q, none),
        Pieces(k, none, none, k),
        Pieces(v, none, none, v),
        None,
        one_example(n, 0),
        Rules(radius=radius),
        implementation=implementation,
    )
    place = np.arange(n)
    visible = np.abs(place[:, None] - place[None]) <= radius
    want = transformer(q, k, v, visible)
    np.testing.assert_allclose(out.long, want, atol=1e-5)
