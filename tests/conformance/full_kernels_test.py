"""Full attention and biases of offsets by kernels for TPUs, against every pair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tpu_process
from jax.experimental.pallas import tpu as pltpu
from pair_options_test import FAR, KINDS, B, D, H, normal, packed, rows
from pooled_block_test import of_averages, of_blocks

from etc_jax import sharding
from etc_jax.base.types import MeshAxes
from etc_jax.ops.attention import block_sparse, full, pooled_block, sliding_window
from etc_jax.ops.attention.bias import BucketBias
from etc_jax.ops.attention.kernels.tpu import all_keys
from etc_jax.ops.attention.pooled_block import Blocks, Pool
from etc_jax.ops.attention.sliding_window import SideKeys
from etc_jax.ops.attention.transient_blocks import block_sums, blocks_of, side_bias


def gradients(fn, arrays, dtype):
    """(value, gradients of a weighted sum of it), of arrays in a dtype."""
    arrays = jax.tree.map(lambda x: np.asarray(x, dtype), arrays)

    @jax.jit
    def run(*arrays):
        def loss(*arrays):
            out = fn(*arrays)
            return jnp.sum(out * normal(*out.shape, seed=9).astype(dtype)), out

        grads, out = jax.grad(loss, range(len(arrays)), has_aux=True)(*arrays)
        return out, grads

    return run(*arrays)


def compare(attend, *arrays):
    """`attend` of ("mosaic", *arrays) in float32 beside ("dense", ...) in float64."""
    with jax.enable_x64(True):
        want = gradients(functools.partial(attend, "dense"), arrays, np.float64)
    # Numbers of 32 bits on a GPU would be rounded to fewer in its own products.
    with jax.default_matmul_precision("highest"):
        got = gradients(functools.partial(attend, "mosaic"), arrays, np.float32)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == np.float32
        scale = np.abs(b).max()
        np.testing.assert_allclose(a, b, atol=1e-5 * scale, rtol=0)
    return got


@pytest.mark.parametrize("kind", [None, "buckets", "slopes of all heads"])
@pytest.mark.parametrize(
    "q, k, causal",
    [
        (1, 9, False),
        (130, 70, False),
        (129, 129, True),
        # Several tiles of rows and keys.
        (700, 1100, True),
        (1100, 700, True),
    ],
)
@pytest.mark.full(but=["129-129-True-buckets", "130-70-False-None"])
def test_full_attention_equals_every_pair(kind, q, k, causal):
    ids = {"query_ids": packed(q), "example_ids": packed(k, seed=2)}
    values = KINDS[kind][1] if kind else np.zeros(1)

    def attend(form, query, key, value, values):
        bias = KINDS[kind][0](values, causal) if kind else None
        options = {"causal": causal, "implementation": form, **ids}
        return full.attend(query, key, value, bias=bias, scale=0.7, **options)

    out, grads = compare(attend, *rows(q, k), values)
    blind = ids["query_ids"] == 0
    assert not np.asarray(out)[blind].any() and not np.asarray(grads[0])[blind].any()


@pytest.mark.parametrize("kind", ["buckets", "slopes of all heads"])
@pytest.mark.parametrize(
    "n, radius, dilation, causal",
    [
        (3, 5, 1, False),
        (150, 40, 1, False),
        (300, 140, 1, True),
        (70, 5, (1, 3, 3), False),
    ],
)
@pytest.mark.full(but=["150-40-1-False-buckets"])
def test_windows_with_a_bias_equal_every_pair(kind, n, radius, dilation, causal):
    def attend(form, query, key, value, values):
        return sliding_window.attend(
            *(query, key, value),
            radius=radius,
            dilation=dilation,
            causal=causal,
            example_ids=packed(n),
            bias=KINDS[kind][0](values, causal),
            scale=0.7,
            implementation=form,
        )

    compare(attend, *rows(n, n), KINDS[kind][1])


def with_blocks(form, query, key, value, sums, table, of_blocks, *, ids, size, **how):
    """LongT5's windows, and keys of sums over blocks of so many tokens."""
    blocks = blocks_of(ids, size)
    b, n, h, d = query.shape
    found = block_sums(sums.reshape(b, n, h * d), blocks).reshape(b, -1, h, d)
    found = found.astype(query.dtype)
    table, of_blocks = (BucketBias(x, FAR, causal=False) for x in (table, of_blocks))
    sides = side_bias(of_blocks, blocks)
    return sliding_window.attend(
        *(query, key, value),
        example_ids=ids,
        side_keys=SideKeys(found, jnp.tanh(found), blocks.example, sides),
        bias=table,
        implementation=form,
        **how,
    )


@pytest.mark.parametrize(
    "n, radius, size", [(40, 50, 16), (400, 40, 16), (1300, 127, 8), (300, 20, 60)]
)
@pytest.mark.full(but=["40-50-16"])
def test_keys_of_blocks_equal_every_pair(n, radius, size):
    more = (normal(B, n, H, D, seed=7), *(normal(8, H, seed=x) for x in (5, 6)))
    how = {"ids": packed(n), "radius": radius, "size": size, "scale": 0.7}
    compare(functools.partial(with_blocks, **how), *rows(n, n), *more)


@pytest.mark.parametrize(
    "n, blocks",
    [
        (3, Blocks(5)),
        (150, Blocks(40)),
        (150, Blocks(40, overlap=True)),
        (150, Blocks(40, num_globals=3)),
        (150, Blocks(41, overlap=True, num_globals=3)),
        # Several tiles of rows and keys.
        (1300, Blocks(600, overlap=True, num_globals=5)),
    ],
    ids=str,
)
@pytest.mark.full(but=["150-*overlap=True, num_globals=3*"])
def test_blocks_equal_every_pair(n, blocks):
    ids = packed(n)
    ids[1] = 0  # padding alone
    out, grads = compare(
        lambda form, *arrays: of_blocks(form, blocks, ids, scale=0.7)(*arrays),
        *rows(n, n),
    )
    assert not np.asarray(out)[ids == 0].any()
    assert not np.asarray(grads[0])[ids == 0].any()


@pytest.mark.parametrize("n, lengths", [(37, (37, 12)), (700, (600, 0))])
@pytest.mark.full(but=["37-*"])
def test_averages_equal_every_pair(n, lengths):
    ids = np.int32(np.arange(n) < np.array(lengths)[:, None])
    pool = Pool(18, 12, 9, multiple=50)
    compare(lambda form, *arrays: of_averages(form, pool, ids)(*arrays), *rows(n, n))


def test_each_block_draws_its_own_dropout():
    size, count = 8, 3
    # The same in all blocks.
    arrays = [np.tile(x, (1, count, 1, 1)).astype(np.float32) for x in rows(size, size)]
    dropped = {"dropout_rate": 0.5, "dropout_rng": jax.random.key(3)}
    attend = of_blocks("mosaic", Blocks(size), None, **dropped)
    out, back = jax.vjp(attend, *arrays)
    np.testing.assert_array_equal(attend(*arrays), out)
    of_block = np.split(np.asarray(out), count, axis=1)
    assert all(np.abs(of_block[0] - x).max() > 0.1 for x in of_block[1:])
    # Linear in the values, if both passes leave out the same.
    weight = normal(*out.shape, seed=9).astype(np.float32)
    np.testing.assert_allclose(
        (back(weight)[2] * arrays[2]).sum(), (out * weight).sum(), rtol=1e-4
    )


@pytest.mark.full
def test_sums_that_do_not_fit_together_are_of_one_group_at_a_time(monkeypatch):
    monkeypatch.setattr(all_keys, "_SUMS_BYTES", 0)

    def attend(form, query, key, value):
        ids = {"query_ids": packed(600), "example_ids": packed(1100, seed=2)}
        return full.attend(query, key, value, implementation=form, **ids)

    compare(attend, *rows(600, 1100))


@pytest.mark.parametrize("n", [130, 600])
@pytest.mark.full(but=["130"])
def test_dropout_is_of_probabilities_and_the_same_in_both_passes(n):
    rate, rng = 0.3, np.random.default_rng(0)
    query, key, _ = (x[:1].astype(np.float32) for x in rows(n, n))
    attend = functools.partial(full.attend, implementation="mosaic", causal=True)
    dropped = {"dropout_rate": rate, "dropout_rng": jax.random.key(3)}
    # Values that tell which key they are of: the outputs are the probabilities.
    eye = np.eye(n, dtype=np.float32)[None, :, None]
    width = np.zeros((1, n, H, n - query.shape[-1]), np.float32)
    wide = [np.concatenate([x, width], axis=-1) for x in (query, key)]
    scale = query.shape[-1] ** -0.5
    eye = np.broadcast_to(eye, (1, n, H, n))
    plain = np.asarray(attend(*wide, eye, scale=scale))
    factors = np.asarray(attend(*wide, eye, scale=scale, **dropped))
    factors = np.where(plain > 1e-6, factors / np.maximum(plain, 1e-6), 0)
    seen = plain > 1e-5
    left = factors[seen] > 0.5
    np.testing.assert_allclose(factors[seen], left / (1 - rate), rtol=1e-3, atol=1e-3)
    # Within four standard deviations of a share of 1 - rate.
    assert abs(left.mean() - (1 - rate)) < 4 * (rate * (1 - rate) / left.size) ** 0.5

    value = rng.normal(size=query.shape).astype(np.float32)
    weight = rng.normal(size=query.shape).astype(np.float32)

    def by_the_factors(query, key, value):
        logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) * scale
        logits = jnp.where(np.tri(n, dtype=bool), logits, -np.inf)
        p = jax.nn.softmax(logits) * np.moveaxis(factors, 2, 1)
        return jnp.einsum("bhqk,bkhd->bqhd", p, value)

    def gradients(fn):
        return jax.grad(lambda *x: (fn(*x) * weight).sum(), (0, 1, 2))(
            query, key, value
        )

    got = gradients(functools.partial(attend, **dropped))
    for a, b in zip(got, gradients(by_the_factors), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4 * np.abs(b).max(), rtol=0)


def test_what_kernels_cannot_do_is_an_error_that_says_so():
    x = np.ones((2, 5, H, 4), np.float32)
    pairs = np.ones((1, H, 5, 5), np.float32)
    for name, options, problem in (
        ("pallas", {}, "all keys are seen"),
        ("mosaic", {"bias": pairs}, "the bias is an array of all pairs"),
        ("mosaic", {"query_start": 3}, "the queries are some of a cache"),
        ("mosaic", {"query_start": np.zeros(2, int)}, "are some of a cache"),
        ("mosaic", {"scale": 0.0}, "the scale is 0.0, not above 0"),
    ):
        with pytest.raises(ValueError, match=f'"{name}": .*{problem}'):
            full.attend(x, x, x, implementation=name, **options)
    for size, problem in ((2, "128 tokens have"), (16, "dilated windows have keys")):
        how = {"ids": packed(400), "size": size, "radius": 3, "dilation": 2}
        x = np.ones((B, 400, H, D), np.float32)
        with pytest.raises(ValueError, match=problem):
            with_blocks("mosaic", x, x, x, x, *[np.ones((8, H))] * 2, **how)
    long = jax.ShapeDtypeStruct((1, 5000, 1, 4), np.float32)
    attend = functools.partial(full.attend, bias=KINDS["slopes"][0](np.ones(1)))
    with pytest.raises(ValueError, match="9999 offsets of a bias, more than 8192"):
        jax.eval_shape(
            functools.partial(attend, implementation="mosaic"), long, long, long
        )


def pass_of(attend):
    """A function of (arrays, ids, table, key): gradients of a sum of the outputs."""

    def loss(arrays, table, ids, rng):
        out = attend(arrays, table, ids, dropout_rate=0.1, dropout_rng=rng)
        return (out.astype(jnp.float32) ** 2).sum()

    return jax.jit(jax.grad(loss, (0, 1)))


def compiled(chip: str, attend, shapes, buckets: int = 32):
    """`pass_of` for a chip, of bfloat16 `[b, n, h, d]` and int32 `[b, n]`."""
    like = jax.ShapeDtypeStruct
    arrays = [like(shape, jnp.bfloat16) for shape in shapes]
    ids = [like(shape[:2], jnp.int32) for shape in shapes[:2]]
    table = like((buckets, shapes[0][2]), jnp.float32)
    rng = jax.eval_shape(lambda: jax.random.key(0))
    return tpu_process.compiled(chip, pass_of(attend), arrays, table, ids, rng)


def full_pass(arrays, table, ids, *, biased, **options):
    """BERT's, or T5's with a bias."""
    bias = BucketBias(table, 128, causal=False) if biased else None
    query_ids, example_ids = ids
    ids = {"query_ids": query_ids, "example_ids": example_ids}
    return full.attend(*arrays, bias=bias, **ids, **options)


def compile_full_attention():
    """What "auto" takes, for a chip of each kind."""
    shape = (16, 512, 12, 64)
    for chip in tpu_process.CHIPS:
        for biased in (False, True):
            attend = functools.partial(full_pass, biased=biased)
            # XLA's form on v5e: 2.9 GB, and 577 MiB.
            program = compiled(chip, attend, [shape] * 3)
            tpu_process.check_kernels(program, 2, 1, 80)
    # Seeds of so many rows are more than a core's memory of scalars.
    attend = functools.partial(full_pass, biased=False)
    program = compiled(tpu_process.CHIPS[0], attend, [(4096, 128, 12, 64)] * 3)
    tpu_process.check_kernels(program, 2, 24, 5200)


@pytest.mark.tpu_aot
def test_full_attention_compiles_for_tpus_and_leaves_no_logits_in_memory():
    print(tpu_process.in_a_process(__name__, compile_full_attention))


def block_pass(arrays, table, ids, *, form="auto", **options):
    """LongT5's."""
    how = {"ids": ids[0], "radius": 127, "size": 16, **options}
    return with_blocks(form, *arrays, table, table, **how)


def compile_windows_and_blocks():
    """What "auto" takes, for a chip of each kind."""
    for chip in tpu_process.CHIPS:
        # XLA's form on v5e: 23.1 GB, and 2,376 MiB.
        program = compiled(chip, block_pass, [(1, 16384, 12, 64)] * 4)
        tpu_process.check_kernels(program, 2, 4, 160)


@pytest.mark.tpu_aot
def test_windows_and_keys_of_blocks_compile_for_tpus():
    print(tpu_process.in_a_process(__name__, compile_windows_and_blocks))


def bart_ls_pass(arrays, table, ids, *, heads, blocks, form="auto", **options):
    """BART-LS's: of blocks, and where there are more arrays to averages."""
    # Cut and put together as maps write them, [b, n, h * d].
    arrays = [x.reshape(*x.shape[:2], heads, -1) for x in arrays]
    options |= {"example_ids": ids[0], "implementation": form}
    out = pooled_block.attend(*arrays[:3], blocks=blocks, **options)
    if arrays[3:]:
        pool = Pool(18, 12, 9, multiple=blocks.size)
        out = out + pooled_block.attend_pooled(*arrays[3:], pool=pool, **options)
    return out


def compile_blocks_and_averages():
    """What "auto" takes, of the large model and of two rows of its paper's table 1.

    For one chip, as the kernels are those of full attention.
    """
    size, base = 1024, (1, 16384, 768)
    attend = functools.partial(bart_ls_pass, heads=16, blocks=Blocks(size))
    program = compiled(tpu_process.CHIPS[0], attend, [(1, 16384, 1024)] * 6)
    tpu_process.check_kernels(program, 4, 4.5, 200)
    for blocks, kernels, *most in (
        # XLA's forms: 3.3 GB and 579 MiB, 6.0 GB and 628 MiB.
        (Blocks(size, overlap=True), 2, 2.4, 180),
        (Blocks(size, num_globals=64), 4, 3.8, 240),
    ):
        attend = functools.partial(bart_ls_pass, heads=12, blocks=blocks)
        program = compiled(tpu_process.CHIPS[0], attend, [base] * 3)
        tpu_process.check_kernels(program, kernels, *most)


@pytest.mark.tpu_aot
def test_blocks_and_averages_compile_for_tpus():
    print(tpu_process.in_a_process(__name__, compile_blocks_and_averages))


@pytest.mark.full
def test_memories_of_a_tpu_are_simulated_too(capfd):
    """Catches a block that is read before it came, or is never written."""
    ids = {"query_ids": packed(600), "example_ids": packed(1100, seed=2)}
    more = (normal(B, 140, H, D, seed=7), *(normal(8, H, seed=x) for x in (5, 6)))
    how = {"ids": packed(140), "radius": 20, "size": 16}

    def attend(form, query, key, value, values):
        bias = KINDS["buckets"][0](values)
        options = {"causal": True, "implementation": form, **ids}
        plain = full.attend(query, key, value, **options)
        return full.attend(query, key, value, bias=bias, **options) + plain

    def sparse(form, *rows):
        draws = np.int32(np.arange(28).reshape(1, 7, 4) % 9)
        options = {"random_blocks": draws, "block_size": 16, "implementation": form}
        return block_sparse.attend(*rows, example_ids=how["ids"], **options)

    params = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2)
    with pltpu.force_tpu_interpret_mode(params):
        compare(attend, *rows(600, 1100), KINDS["buckets"][1])
        compare(functools.partial(with_blocks, **how), *rows(140, 140), *more)
        compare(sparse, *rows(140, 140))
    assert "RACE DETECTED" not in capfd.readouterr().out


@pytest.mark.parametrize(
    "op", ["full", "blocks", "blocks and averages", "sparse blocks"]
)
@pytest.mark.full
def test_eight_devices_equal_one(op):
    if jax.device_count() < 8:
        pytest.skip(f"needs eight devices, there are {jax.device_count()}")
    n = 40
    arrays = [*rows(n, n), normal(B, n, H, D, seed=7)]
    arrays = [np.repeat(x, 4, axis=0).astype(np.float32) for x in arrays]
    arrays = [np.concatenate([x, x[:, :, :1]], axis=2) for x in arrays]
    table = normal(8, H + 1).astype(np.float32)
    ids = np.repeat(packed(n), 4, axis=0)

    def loss(arrays, table, mesh_axes):
        options = {
            "dropout_rate": 0.2,
            "dropout_rng": jax.random.key(1),
            "mesh_axes": mesh_axes,
        }
        if op == "blocks":
            how = {"ids": ids, "radius": 5, "size": 16, **options}
            out = with_blocks("mosaic", *arrays, table, table, **how)
        elif op == "blocks and averages":
            blocks, pool = Blocks(12, overlap=True, num_globals=2), Pool(6, 4, 3)
            out = of_blocks("mosaic", blocks, ids, **options)(*arrays[:3])
            out += of_averages("mosaic", pool, np.minimum(ids, 1), **options)(
                *arrays[1:]
            )
        elif op == "sparse blocks":
            draws = np.int32([[[0, 2]], [[1, 1]], [[2, 0]], [[0, 1]]])
            options |= {"implementation": "mosaic", "example_ids": ids}
            options |= {"random_blocks": draws, "block_size": 16}
            out = block_sparse.attend(*arrays[:3], **options)
        else:
            bias = BucketBias(table, FAR, causal=False)
            options |= {"implementation": "mosaic", "example_ids": ids}
            out = full.attend(*arrays[:3], bias=bias, **options)
        return (out**2).sum(), out

    gradient = jax.grad(loss, (0, 1), has_aux=True)
    want = jax.jit(functools.partial(gradient, mesh_axes=MeshAxes()))(arrays, table)
    mesh = sharding.make_mesh(sharding.MeshConfig(data=4, tensor=2))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        axes = sharding.mesh_axes()
        got = jax.jit(functools.partial(gradient, mesh_axes=axes))(arrays, table)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max(), rtol=0)
