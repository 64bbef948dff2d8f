"""Global-local attention (Ainslie et al. 2020, section 3.2): the public function.

Four pieces, two softmaxes: long rows see their neighbourhood and all global tokens
(l2l + l2g), global rows see all global and all long tokens (g2g + g2l).
"""

import functools

import jax
import jax.numpy as jnp

from etc_jax import structure as st
from etc_jax.base.types import WHOLE, LabelTable, MeshAxes, Pieces, Rows
from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention.kernels import choice, global_local as by_kernels
from etc_jax.ops.attention.parts import global_local_dense
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.global_rows import global_rows
from etc_jax.ops.attention.parts.long_rows import long_rows
from etc_jax.ops.attention.parts.pairs import ExplicitPairs, RulePairs, SequenceShard
from etc_jax.ops.attention.parts.sizes import block_sizes
from etc_jax.ops.attention.parts.softmax import SoftmaxOptions


def attend(
    query: Rows,
    key: Pieces,
    value: Pieces,
    tables: Rows | None,
    structure: st.Structure | st.ExplicitStructure,
    rules: st.Rules,
    *,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: jax.Array | None = None,
    block_size: int | None = None,
    chunk_blocks: int | None = None,
    sequence_axis: str | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Rows:
    """Global-local attention of a long and a global input.

    Logits are (query . key + query . label embedding + label bias) * scale, softmax is
    in float32 (float64 for float64 inputs). Rows that may see nothing are exactly zero,
    where the official code averages over masked keys.

    Args:
      query: `Rows` of `[b, n, h, d]` and `[b, g, h, d]`; n or g may be 0.
      key: `Pieces`: l2l and g2l `[b, n, h, d]`, l2g and g2g `[b, g, h, d]`.
      value: `Pieces`: l2l and g2l `[b, n, h, d]`, l2g and g2g `[b, g, h, d]`.
      tables: `Rows` of `LabelTable` for the two softmaxes, or None without labels.
      structure: of the batch: vectors read by `rules`, or explicit tensors.
      rules: radius, clipping distance and hard masks.
      scale: None: 1 / sqrt(d).
      implementation: "xla" (linear in n), "pallas" or "mosaic" (the same as kernels
        for NVIDIA GPUs or TPUs), "dense" (quadratic, the oracle), "auto": see
        `kernels.choice`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      block_size: long rows a block, default near the radius.
      chunk_blocks: blocks at once; default by the size of their logits.
      sequence_axis: mesh axis (of the mesh in `jax.set_mesh`) that long rows are split
        over; None: they are not. Dropout draws the same in both if each device has
        whole blocks.
      shards: devices that batch and heads are split over: the default chunk depends on
        the rows of one device.
      mesh_axes: mesh axes that batch and heads are split over: kernels need to know.

    Returns:
      `Rows` like `query`.

    Raises:
      ValueError: if shapes, structure, labels or options do not fit together.
    """
    _check(query, key, value, tables, structure, rules)
    if scale is None:
        scale = query.long.shape[-1] ** -0.5
    is_split = sequence_axis is not None
    problems = by_kernels.problems(query, structure, rules, scale, is_split)
    split = {"sequence_axis": None, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query.long, problems, **split)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    if implementation == "dense":
        n, g = query.long.shape[1], query.global_.shape[1]
        pairs = global_local_dense.pair_matrices(structure, rules, n, g)
        dropouts = Rows(*dropout.split())
        arrays = (query, key, value, tables, pairs)
        return global_local_dense.attend(*arrays, scale=scale, dropouts=dropouts)
    inputs = (query, key, value, tables, structure, rules, scale)
    if kernels:
        of_shard = functools.partial(by_kernels.attend, kernels, mesh_axes)
    else:
        sizes = (block_size, chunk_blocks, shards)
        of_shard = functools.partial(_blocked, sizes)
    if sequence_axis is None or not query.long.shape[1]:
        return of_shard(*inputs, dropout, SequenceShard())
    return _split(of_shard, sequence_axis, *inputs, dropout)


def _blocked(
    sizes, query, key, value, tables, structure, rules, scale, dropout, shard
) -> Rows:
    b, n, h, _ = query.long.shape
    g = query.global_.shape[1]
    # No key is farther than that: a longer window would be padding.
    radius = max(1, min(rules.radius, shard.total(n) - 1))
    block_size, chunk_blocks = block_sizes(n, g, radius, b * h, *sizes)
    options = SoftmaxOptions(scale, block_size, chunk_blocks, dropout.rate)
    # Dropout has a key a block, numbered over the whole sequence: devices that have
    # whole blocks draw what one device would.
    first_block = shard.first(-(-n // block_size))
    draws = Rows(*(x.draws(first_block) for x in dropout.split()))
    # Chunks are of one size, so long rows are padded to whole chunks.
    chunk = block_size * chunk_blocks
    padded = max(1, -(-n // chunk)) * chunk
    if isinstance(structure, st.ExplicitStructure):
        make_pairs = functools.partial(ExplicitPairs.make, structure, n)
    else:
        make_pairs = functools.partial(RulePairs.make, structure, rules)
    pairs = make_pairs(radius, padded, shard)
    long_table, global_table = _used_tables(tables, structure)

    def heads(x):
        return jnp.swapaxes(x, 1, 2)  # [b, length, h, d] <-> [b, h, length, d]

    # [b, n, h, d] -> [b, h, padded, d]; with what is around, [b, r + n + r, h, d] ->
    # [b, h, r + padded + r, d].
    def blocks_of(x):
        return heads(blocking.pad_axis(x, 1, 0, padded - n))

    local = Rows(key.l2l, value.l2l)
    if n:
        # The places of neighbouring devices, or zeros where there are none.
        local = shard.around(local, radius, 1)
    to_long = [blocks_of(x) for x in local]

    long, glob = jnp.zeros_like(query.long), jnp.zeros_like(query.global_)
    if n:
        # l2l + l2g: [b, h, padded, d], each row over its window and g global keys.
        long = long_rows(
            options,
            blocks_of(query.long),
            *to_long,
            heads(key.l2g),
            heads(value.l2g),
            long_table,
            None,
            pairs,
            draws.long,
        )
        long = heads(long)[:, :n]
    if g:
        # What is around the own tokens is masked for global queries.
        # `pairs` are laid out for keys of r + padded + r places, so these are as well.
        global_keys = [
            blocking.pad_axis(x, 1, radius, radius) for x in (key.g2l, value.g2l)
        ]
        # g2g + g2l: [b, h, g, d], and the log-sum-exp of each row, [b, h, g].
        glob, lse = global_rows(
            options,
            heads(query.global_),
            heads(key.g2g),
            heads(value.g2g),
            *(blocks_of(x) for x in global_keys),
            global_table,
            None,
            pairs,
            draws.global_,
        )
        if shard.axis_name is not None:
            # Each device has part of the long keys; the first alone counts global ones.
            glob = sequence.join_softmax(glob, lse, shard.axis_name)
        glob = heads(glob)
    return Rows(long, glob)


def _split(
    of_shard,
    axis_name,
    query,
    key,
    value,
    tables,
    structure,
    rules,
    scale,
    dropout,
):
    """`of_shard` on each device's part of the long sequence."""
    n = query.long.shape[1]
    ways = sequence.size(axis_name)
    # The length without padding: places from n on do not exist.
    shard = SequenceShard(axis_name, n)
    arrays = (query, key, value, structure)
    long_rows_axis = Rows(1, st.NO_AXIS)
    # l2l and g2l keys are long; global ones are few, so each device has them all.
    long_keys_axis = Pieces(1, st.NO_AXIS, st.NO_AXIS, 1)
    axes = (long_rows_axis, long_keys_axis, long_keys_axis, st.long_axes(structure))

    def pad(axis, x):
        return x if axis == st.NO_AXIS else sequence.pad_to_multiple(x, axis, ways)

    def spec(axis):
        return jax.P() if axis == st.NO_AXIS else jax.P(*(None,) * axis, axis_name)

    arrays = jax.tree.map(pad, axes, arrays)
    specs = jax.tree.map(spec, axes)

    def body(query, key, value, structure, tables, rng):
        drop = dropout._replace(rng=rng)
        inputs = (query, key, value, tables, structure, rules, scale)
        return of_shard(*inputs, drop, shard)

    # Global rows come out of the joint softmax the same on every device.
    out = jax.tree.map(spec, long_rows_axis)
    body = sequence.split(body, axis_name, (*specs, jax.P(), jax.P()), out)
    long, glob = body(*arrays, tables, dropout.rng)
    return Rows(long[:, :n], glob)


def _used_tables(tables, structure) -> Rows:
    """Tables of the softmaxes that have labels; explicit structures may have none."""
    if tables is None:
        return Rows(None, None)
    if isinstance(structure, st.ExplicitStructure):
        return Rows(
            None if structure.l2l_labels is None else tables.long,
            None if structure.g2g_labels is None else tables.global_,
        )
    return tables


def _check(query, key, value, tables, structure, rules) -> None:
    for name, x in (("query.long", query.long), ("query.global_", query.global_)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {x.shape}, expected [batch, length, heads, head_dim]"
            )
    (b, n, h, d), g = query.long.shape, query.global_.shape[1]
    problems = []
    if query.global_.shape != (b, g, h, d):
        problems.append(
            f"query.global_ has shape {query.global_.shape}, expected {(b, g, h, d)}"
        )
    want = Pieces((b, n, h, d), (b, g, h, d), (b, g, h, d), (b, n, h, d))
    for what, pieces in (("key", key), ("value", value)):
        for piece, x, shape in zip(Pieces._fields, pieces, want, strict=True):
            if x.shape != shape:
                problems.append(f"{what}.{piece} has shape {x.shape}, expected {shape}")
    num_labels = None
    if tables is not None:
        for name, table in zip(Rows._fields, tables, strict=True):
            problems += _table_problems(name, table, h, d)
        num_labels = tables.long.bias.shape[0]
    problems += _structure_problems(structure, rules, tables, b, n, g)
    if problems:
        raise ValueError("global-local attention:\n  " + "\n  ".join(problems))
    st.validate(structure, rules, num_labels)


def _table_problems(name: str, table: LabelTable, h: int, d: int):
    v = table.bias.shape[0]
    if table.embedding.shape != (v, h, d) or table.bias.shape != (v, h):
        yield (
            f"tables.{name} has shapes {table.embedding.shape} and {table.bias.shape}, "
            f"expected [labels, {h}, {d}] and [labels, {h}]"
        )


def _structure_problems(structure, rules, tables, b, n, g):
    if isinstance(structure, st.ExplicitStructure):
        has_labels = [
            p for p in ("l2l", "g2g") if getattr(structure, f"{p}_labels") is not None
        ]
        if has_labels and tables is None:
            yield f"{has_labels[0]} labels are given, but there are no label tables"
        # l2l has a column for each offset of the window, the others one for each key.
        shapes = {"l2l": (n, 2 * rules.radius + 1), "l2g": (n, g)}
        shapes |= {"g2g": (g, g), "g2l": (g, n)}
        for piece, shape in shapes.items():
            for kind in ("mask", "labels"):
                x = getattr(structure, f"{piece}_{kind}")
                if x is not None and x.shape not in ((b, *shape), (1, *shape)):
                    yield f"{piece}_{kind} has shape {x.shape}, expected {(b, *shape)}"
        return
    if structure.long_example_ids.shape != (b, n):
        yield (
            f"long_example_ids has shape {structure.long_example_ids.shape}, "
            f"expected {(b, n)} as the long queries have"
        )
    if structure.global_example_ids.shape != (b, g):
        yield (
            f"global_example_ids has shape {structure.global_example_ids.shape}, "
            f"expected {(b, g)} as the global queries have"
        )
    if (tables is not None) != (rules.max_distance > 0):
        yield (
            f"max_distance is {rules.max_distance}, so label tables must be "
            f"{'given' if rules.max_distance else 'None'}"
        )
    elif tables is not None:
        rules.check_vocabulary(tables.long.bias.shape[0])
