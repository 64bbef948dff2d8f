"""Collectives in the compiled forward and backward pass of each attention op.

Batch and heads are split over devices, and no row of either needs another: there are
none. Only the gradients of label tables and of a bias, which all rows of the batch
share, are summed over the batch. `-s` prints the table.
"""

import functools
from typing import NamedTuple

import attention_cases
import jax
import jax.numpy as jnp
import pytest

from etc_jax import sharding
from etc_jax.ops import sequence, span_choice
from etc_jax.ops.attention import (
    block_sparse,
    full,
    global_local,
    lsh,
    pooled_block,
    sliding_window,
)
from etc_jax.ops.attention.bias import BucketBias
from etc_jax.ops.attention.parts.lsh_hashing import hash_vectors
from etc_jax.ops.attention.pooled_block import Blocks, Pool
from etc_jax.ops.attention.sliding_window import Globals
from etc_jax.structure import Rules
from etc_jax.training.preflight.collectives import count

B, H, D, N, G, BLOCK = 8, 8, 4, 42, 3, 4
LABELS = 8
MESHES = {
    "data": {"data": 8},
    "tensor": {"data": 1, "tensor": 8},
    "data x tensor": {"data": 2, "tensor": 4},
}
SHARDS = 8
DROPOUT = {"dropout_rate": 0.25, "dropout_rng": jax.random.key(0)}


class Split(NamedTuple):
    """An array that an op is given: its shape and the mesh axes of its dimensions."""

    shape: tuple[int, ...]
    axes: tuple[str | None, ...]
    dtype: type = jnp.float32


def rows(length=N, width=D):
    return Split((B, length, H, width), ("data", None, "tensor", None))


def ids(*shape):
    return Split((B, *shape), ("data", *(None for _ in shape)), jnp.int32)


def of_rows(attend, **options):
    """A case: query, key and value, and ids of examples."""

    def run(floats, example_ids):
        return attend(*floats, example_ids=example_ids, **options, **DROPOUT)

    return run, (rows(),) * 3, ids(N)


def cross_attention(length):
    """Of `length` keys, with a bias by buckets of offsets."""

    def run(floats, example_ids):
        *floats, table = floats
        return full.attend(
            *floats,
            example_ids=example_ids,
            query_ids=jnp.ones((B, N), jnp.int32),
            bias=BucketBias(table, 16, causal=False),
            shards=SHARDS,
            **DROPOUT,
        )

    table = Split((LABELS, H), (None, "tensor"))
    return run, (rows(), rows(length), rows(length), table), ids(length)


def windows_with_bias():
    def run(floats, example_ids):
        *floats, table = floats
        return sliding_window.attend(
            *floats,
            radius=3,
            example_ids=example_ids,
            bias=BucketBias(table, 16, causal=False),
            block_size=BLOCK,
            shards=SHARDS,
            **DROPOUT,
        )

    table = Split((LABELS, H), (None, "tensor"))
    return run, (*(rows(),) * 3, table), ids(N)


def windows(dilation=1, num_globals=0):
    def run(floats, ints):
        example_ids, index = ints
        globals_ = Globals(index, *floats[3:]) if num_globals else None
        return sliding_window.attend(
            *floats[:3],
            radius=3,
            dilation=dilation,
            example_ids=example_ids,
            globals_=globals_,
            block_size=BLOCK,
            shards=SHARDS,
            **DROPOUT,
        )

    floats = (rows(),) * 3
    if num_globals:
        floats += (rows(num_globals), rows(), rows())
    return run, floats, (ids(N), ids(num_globals))


def global_local_case(labels):
    structure = attention_cases.random_structure(N, G, batch=B)
    leaves, tree = jax.tree.flatten(structure)

    def run(floats, ints):
        structure = jax.tree.unflatten(tree, ints)
        rules = Rules(radius=3, max_distance=2 if labels else 0, hard_g2l=True)
        sizes = {"block_size": BLOCK, "shards": SHARDS}
        return global_local.attend(*floats, structure, rules, **sizes, **DROPOUT)

    def split(x):
        if x.ndim == 4:
            return rows(x.shape[1])
        # Of label tables, by heads.
        return Split(x.shape, (None, "tensor", None)[: x.ndim])

    inputs = attention_cases.random_inputs(
        N, G, LABELS if labels else None, batch=B, heads=H, size=D
    )
    floats = jax.tree.map(split, inputs.differentiable())
    return run, floats, [ids(*x.shape[1:]) for x in leaves]


def lsh_case(**options):
    def run(floats, ints):
        query_key, value = floats
        example_ids, rotations = ints
        return lsh.attend(
            query_key,
            value,
            hash_vectors(query_key, rotations, (2, 4)),
            num_buckets=8,
            look=lsh.ChunkNeighbors(BLOCK),
            example_ids=example_ids,
            shards=SHARDS,
            **options,
            **DROPOUT,
        )

    rotations = Split((H, D, 2, 3), ("tensor", None, None, None))
    return run, (rows(), rows()), (ids(N), rotations)


def sparse(num_globals=0, per_head=False):
    drawing = block_sparse.drawing_blocks(N, BLOCK, num_globals)

    def run(floats, ints):
        example_ids, drawn = ints
        return block_sparse.attend(
            *floats,
            block_size=BLOCK,
            num_globals=num_globals,
            random_blocks=drawn % drawing,
            example_ids=example_ids,
            shards=SHARDS,
            **DROPOUT,
        )

    drawn = Split((H if per_head else 1, drawing, 2), (None,) * 3, jnp.int32)
    return run, (rows(),) * 3, (ids(N), drawn)


def taken_rows():
    def run(x, positions):
        return sequence.take_rows(x, positions)

    return run, Split((B, N, D), ("data", None, None)), ids(5)


CASES = {
    "global-local": functools.partial(global_local_case, False),
    "global-local, labels": functools.partial(global_local_case, True),
    "windows": windows,
    "windows, globals": functools.partial(windows, num_globals=G),
    "windows, dilated by heads, globals": functools.partial(
        windows, (1,) * (H // 2) + (2,) * (H // 2), G
    ),
    "windows, bias": windows_with_bias,
    "cross-attention, bias": functools.partial(cross_attention, 2 * N),
    "full": functools.partial(of_rows, full.attend, shards=SHARDS),
    "blocks": sparse,
    "blocks, drawn by heads": functools.partial(sparse, per_head=True),
    "blocks after globals": functools.partial(sparse, G, True),
    "blocks that overlap, with globals": functools.partial(
        of_rows,
        pooled_block.attend,
        blocks=Blocks(BLOCK, overlap=True, num_globals=1),
        shards=SHARDS,
    ),
    "averages": functools.partial(
        of_rows, pooled_block.attend_pooled, pool=Pool(6, 4, 3), shards=SHARDS
    ),
    "lsh": lsh_case,
    "lsh, once": functools.partial(lsh_case, duplicates="once", causal=True),
    "local chunks": functools.partial(
        of_rows, lsh.local, look=lsh.ChunkNeighbors(BLOCK), shards=SHARDS
    ),
    "rows taken": taken_rows,
}


# The gradients of both label tables, which all rows of the batch share: 8 labels of 8
# heads of 4 numbers and a bias, in float32.
TABLES = {"all-reduce": 2 * LABELS * H * (D + 1) * 4}
# Heads of one dilation are computed together, over all devices, so half of the heads
# move there and back. At most so many bytes.
DILATED = {
    "tensor": {"all-to-all": 17_000, "collective-permute": 40_000},
    "data x tensor": {"all-to-all": 11_000, "collective-permute": 110_000},
}


# The gradient of a bias by offset: of windows of 7, of 84 keys in one padded block and
# 42 queries; 8 heads in float32.
BIASES = {"windows, bias": 7 * H * 4, "cross-attention, bias": (128 + N - 1) * H * 4}


def expected(case, mesh):
    """Most bytes of results on one device, by kind; nothing else may be there."""
    if case == "global-local, labels" and mesh != "tensor":
        return {"all-reduce": TABLES["all-reduce"] // MESHES[mesh].get("tensor", 1)}
    if case in BIASES and mesh != "tensor":
        return {"all-reduce": BIASES[case] // MESHES[mesh].get("tensor", 1)}
    if case == "windows, dilated by heads, globals":
        return DILATED.get(mesh, {})
    return {}


def compiled(case, mesh):
    """The text of an op's compiled forward and backward pass."""
    run, floats, ints = CASES[case]()

    def abstract(x):
        layout = jax.NamedSharding(mesh, jax.P(*x.axes))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)

    floats, ints = jax.tree.map(
        abstract, (floats, ints), is_leaf=lambda x: isinstance(x, Split)
    )

    def both(floats, ints, cotangent):
        out, back = jax.vjp(lambda x: run(x, ints), floats)
        return out, back(cotangent)[0]

    def like_rows(x):
        axes = ("data", None, "tensor", None) if x.ndim == 4 else ("data", None, None)
        return abstract(Split(x.shape, axes, x.dtype))

    out = jax.tree.map(like_rows, jax.eval_shape(run, floats, ints))
    layouts = jax.tree.map(lambda x: x.sharding, (out, floats))
    with jax.set_mesh(mesh):
        made = jax.jit(both, out_shardings=layouts).lower(floats, ints, out)
        return made.compile().as_text()


# Of these the others do all that they do, and more.
WITHIN_OTHERS = ("global-local", "windows", "blocks", "lsh")


# A collective over one axis is there in the mesh of both too.
@pytest.mark.parametrize(
    "mesh",
    [
        pytest.param("data", marks=pytest.mark.full),
        pytest.param("tensor", marks=pytest.mark.full),
        "data x tensor",
    ],
)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(x, marks=pytest.mark.full if x in WITHIN_OTHERS else ())
        for x in CASES
    ],
)
@pytest.mark.full(
    but=[
        "global-local, labels-data x tensor",
        "windows, globals-data x tensor",
        "blocks that overlap, with globals-data x tensor",
        "averages-*",
        "lsh, once-*",
        "full-*",
        "rows taken-*",
        "local chunks-*",
        "windows, bias-*",
        "cross-attention*",
    ]
)
def test_batch_and_heads_stay_split_over_devices(case, mesh):
    devices = sharding.make_mesh(sharding.MeshConfig(**MESHES[mesh]))
    found = count(compiled(case, devices))
    shown = [f"{k}: {x.runs}, {x.result_bytes:,} bytes" for k, x in found.items()]
    print(f"\n| {case} | {mesh} | {'; '.join(shown) or 'none'} |", end="")
    most = expected(case, mesh)
    assert set(found) == set(most)
    assert all(found[kind].result_bytes <= most[kind] for kind in most)


def test_a_scatter_with_indices_into_the_batch_gathers_it():
    # The counter finds what the ops must not do.
    mesh = sharding.make_mesh(sharding.MeshConfig(data=8))
    layout = jax.NamedSharding(mesh, jax.P("data"))
    order = jax.ShapeDtypeStruct((B, N), jnp.int32, sharding=layout)

    def by_index(order):
        place = jax.lax.broadcasted_iota(jnp.int32, order.shape, 1)
        return jnp.put_along_axis(jnp.zeros_like(order), order, place, 1, inplace=False)

    with jax.set_mesh(mesh):
        found = [
            count(jax.jit(f, out_shardings=layout).lower(order).compile().as_text())
            for f in (by_index, lsh.inverse)
        ]
    assert found[0]["all-gather"].result_bytes >= B * N * 4
    assert found[1] == {}


def test_the_choice_of_spans_leaves_the_batch_split():
    mesh = sharding.make_mesh(sharding.MeshConfig(data=8))
    layout = jax.NamedSharding(mesh, jax.P("data"))

    def choose(losses, tokens, ids, spans, counts):
        places, numbers = span_choice.positions_of(spans, 2 * G)
        taken = jnp.take_along_axis(losses, places, axis=1)
        means = span_choice.span_means(taken, numbers, G)
        missing = span_choice.hardest(means, counts)
        sentinels = jnp.arange(G)
        return span_choice.corrupt(
            tokens, ids, spans, missing, sentinels, spans < 0, BLOCK
        )

    def rows(dtype, *shape):
        return jax.ShapeDtypeStruct((B, *shape), dtype, sharding=layout)

    ints = rows(jnp.int32, N)
    with jax.set_mesh(mesh):
        made = jax.jit(choose, out_shardings=layout).lower(
            rows(jnp.float32, N), ints, ints, ints, rows(jnp.int32)
        )
        assert count(made.compile().as_text()) == {}
