"""Attention to all keys by tiles and by chunks of keys, against every pair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_options_test import check_equal, gradients, normal, packed

from etc_jax.ops.attention import full
from etc_jax.ops.attention.parts import tiled_rows

B, H, D = 2, 4, 4

pytestmark = pytest.mark.usefixtures("float64")


def of_form(form, options, *rows):
    return full.attend(*rows, implementation=form, **options)


@pytest.mark.parametrize("tiles", [True, False])
@pytest.mark.parametrize(
    "queries, keys, options",
    [
        (150, 150, {"example_ids": packed(150)}),
        (150, 150, {"example_ids": packed(150), "causal": True, "scale": 0.7}),
        (64, 97, {"query_ids": packed(64), "example_ids": packed(97, seed=3)}),
        (20, 70, {"causal": True, "query_start": 31}),
        (150, 150, {"example_ids": packed(150), "padding_sees": True}),
    ],
)
@pytest.mark.full(but=["*-True"])
def test_both_ways_are_the_oracle(queries, keys, options, tiles, monkeypatch):
    monkeypatch.setattr(tiled_rows, "is_faster", lambda queries, shards: tiles)
    # Tiles of two heads.
    monkeypatch.setattr(tiled_rows, "TILE_BYTES", 2 * 4 * tiled_rows.QUERIES * keys)
    rows = (normal(B, n, H, D, seed=i) for i, n in enumerate((queries, keys, keys)))
    rows = tuple(rows)
    forms = (functools.partial(of_form, form, options) for form in ("xla", "dense"))
    check_equal(*(gradients(form, *rows) for form in forms))


def loops(queries, shards=1):
    rows = jax.ShapeDtypeStruct((B, queries, H, D), jnp.float32)
    keys = jax.ShapeDtypeStruct((B, 128, H, D), jnp.float32)
    attend = functools.partial(full.attend, shards=shards)
    return str(jax.make_jaxpr(attend)(rows, keys, keys)).count("scan[")


def test_tiles_are_for_many_queries_on_one_cpu():
    by_tiles = loops(128)
    assert by_tiles > loops(128, shards=2)
    assert loops(tiled_rows.FEWEST) == by_tiles
    assert loops(tiled_rows.FEWEST - 1) < by_tiles


@pytest.mark.parametrize(
    "heads, keys, want", [(12, 64, 12), (12, 512, 4), (12, 1024, 2), (5, 1024, 1)]
)
def test_heads_of_a_tile_divide_all(heads, keys, want):
    assert tiled_rows._heads_of_a_tile(heads, keys) == want
    assert want == 1 or want * keys * 64 * 4 <= tiled_rows.TILE_BYTES


def test_memory_is_linear_in_the_length():
    def temporaries(n):
        rows = jax.ShapeDtypeStruct((1, n, H, 32), jnp.float32)

        def loss(*rows):
            return jnp.sum(full.attend(*rows) ** 2)

        compiled = jax.jit(jax.grad(loss, (0, 1, 2))).lower(rows, rows, rows).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    small, large = temporaries(2048), temporaries(8192)
    assert large < 4.5 * small
    np.testing.assert_array_less(large, 4 * H * 8192**2)
