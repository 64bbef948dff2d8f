"""Blocks and averages, against every pair, and on split sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_options_test import B, D, H, check_equal, gradients, normal, packed, rows

from etc_jax import sharding
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.parts import block_maps
from etc_jax.ops.attention.pooled_block import Blocks, Pool

pytestmark = pytest.mark.usefixtures("float64")

MIXED = {"data": 2, "tensor": 2, "sequence": 2}
SPLIT = {"data": 1, "sequence": 8}
KINDS = {
    "blocks": Blocks(4),
    "odd blocks that overlap": Blocks(5, overlap=True),
    "globals": Blocks(4, num_globals=2),
    "all three": Blocks(6, overlap=True, num_globals=1),
    "all are global": Blocks(2, num_globals=2),
    "one token a block": Blocks(1, overlap=True),
}
POOLS = {
    "as published": Pool(18, 12, 9),
    "pieces of one": Pool(5, 3, 2),
    "without padding": Pool(4, 4, 0),
    "gaps": Pool(2, 5, 1),
    "longer than a text": Pool(40, 4, 0),
}


def loop_mask(kind, ids):
    """Who sees whom, pair by pair."""
    b, n = ids.shape
    found = np.zeros((b, n, n), bool)
    for row, i, j in np.ndindex(b, n, n):
        start = i // kind.size * kind.size
        left, right = start - kind.reach, start + kind.size + kind.reach
        sees = left <= j < right
        sees |= i % kind.size < kind.num_globals or j % kind.size < kind.num_globals
        found[row, i, j] = sees and ids[row, i] == ids[row, j] > 0
    return found


@pytest.mark.parametrize("name", KINDS)
def test_the_oracle_sees_what_a_loop_sees(name):
    ids = packed(13)
    got = pooled_block.seen(KINDS[name], jnp.asarray(ids))
    np.testing.assert_array_equal(got, loop_mask(KINDS[name], ids))


def of_blocks(form, kind, ids, **options):
    def attend(*arrays):
        return pooled_block.attend(
            *arrays, blocks=kind, example_ids=ids, implementation=form, **options
        )

    return attend


def of_averages(form, pool, ids, **options):
    def attend(*arrays):
        return pooled_block.attend_pooled(
            *arrays, pool=pool, example_ids=ids, implementation=form, **options
        )

    return attend


def padded_ids(n):
    """One example a row, of which the second ends early."""
    return np.int32(np.arange(n)[None] < np.array([[n], [max(1, n // 3)]]))


@pytest.mark.parametrize("n", [1, 5, 23])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.full(but=["*-5"])
def test_blocks_equal_the_oracle(name, n):
    kind, ids = KINDS[name], packed(n)
    want = gradients(of_blocks("dense", kind, ids, scale=0.7), *rows(n, n))
    check_equal(gradients(of_blocks("xla", kind, ids, scale=0.7), *rows(n, n)), want)


@pytest.mark.parametrize("n", [1, 12, 37])
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.full(but=["*-37"])
def test_averages_equal_the_oracle(name, n, monkeypatch):
    monkeypatch.setattr(block_maps, "QUERIES", 8)
    monkeypatch.setattr(pooled_block, "QUERIES", 8)
    pool, ids = POOLS[name], padded_ids(n)
    want = gradients(of_averages("dense", pool, ids), *rows(n, n))
    check_equal(gradients(of_averages("xla", pool, ids), *rows(n, n)), want)


@pytest.mark.parametrize("name", POOLS)
def test_averages_are_those_of_a_loop(name):
    pool, n = POOLS[name], 31
    x = normal(1, n, 2)
    beyond = np.pad(x, ((0, 0), (pool.padding, pool.kernel), (0, 0)))
    want = [
        beyond[:, i * pool.stride : i * pool.stride + pool.kernel].mean(axis=1)
        for i in range(pool.count(n))
    ]
    got = pooled_block.pooled(pool, jnp.asarray(x))
    np.testing.assert_allclose(got, np.stack(want, axis=1), atol=1e-12)


def test_padding_after_a_text_changes_nothing():
    arrays, n = rows(9, 9), 9
    longer = [np.concatenate([x, normal(B, 17, H, D, seed=3)], axis=1) for x in arrays]
    ids = np.int32(np.arange(n + 17) < n) * np.ones((B, 1), np.int32)
    for make, kind in (
        (of_blocks, KINDS["all three"]),
        # A text ends with its own block, whatever follows.
        (of_averages, Pool(6, 4, 3, multiple=5)),
        # One that is shorter than an average has one, of its places and zeros.
        (of_averages, Pool(20, 4, 3)),
    ):
        want = jax.jit(make("xla", kind, None))(*arrays)
        got = np.asarray(jax.jit(make("xla", kind, ids))(*longer))
        np.testing.assert_allclose(got[:, :n], want, atol=1e-12)
        assert not got[:, n:].any()


@pytest.mark.parametrize("axes", [MIXED, SPLIT], ids=str)
@pytest.mark.parametrize("n", [16, 41])
@pytest.mark.full
def test_a_split_sequence_gives_what_a_whole_one_gives(axes, n):
    mesh = sharding.make_mesh(sharding.MeshConfig(**axes))
    kind, pool = Blocks(2, overlap=True, num_globals=1), Pool(6, 4, 3)
    for make, what, ids in (
        (of_blocks, kind, packed(n)),
        (of_averages, pool, padded_ids(n)),
    ):
        want = gradients(make("dense", what, ids), *rows(n, n))
        with jax.set_mesh(mesh):
            split = make("xla", what, ids, sequence_axis="sequence")
            check_equal(gradients(split, *rows(n, n)), want)


def test_dropout_does_not_depend_on_how_many_blocks_are_computed_at_once(monkeypatch):
    n, rng = 24, jax.random.key(0)
    found = []
    for step_bytes in (1, 10**9):
        monkeypatch.setattr(
            block_maps.blocking, "step_bytes", lambda size=step_bytes: size
        )
        more = {"dropout_rate": 0.5, "dropout_rng": rng}
        attend = of_blocks("xla", Blocks(4), None, **more)
        found.append(jax.jit(attend)(*rows(n, n)))
    np.testing.assert_allclose(*found, atol=1e-12)
    none = jax.jit(of_blocks("xla", Blocks(4), None))(*rows(n, n))
    assert np.abs(found[0] - none).max() > 0.1


@pytest.mark.parametrize(
    "make, what, message",
    [
        (of_blocks, Blocks(0), "size=0.*expected a size of 1"),
        (of_blocks, Blocks(4, num_globals=5), "num_globals=5.*0 to that many"),
        (of_averages, Pool(4, 0, 0), "stride=0.*expected kernel and stride of 1"),
        (of_averages, Pool(4, 2, 3), "padding=3.*half the kernel at most"),
    ],
)
def test_what_cannot_be_is_refused(make, what, message):
    with pytest.raises(ValueError, match=message):
        make("xla", what, None)(*rows(8, 8))
