"""Sliding windows with global tokens inside the sequence (Beltagy et al. 2020).

    output = attend(query, key, value, radius=256, globals_=Globals(index, q, k, v))

A token sees its neighbours and all global tokens, each once; a global token sees the
whole sequence, by projections of its own. Windows may be dilated, by heads, and causal.
"""

# One file: folding, splitting over devices and joining are inverses of each other.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.types import WHOLE, LabelTable, MeshAxes
from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention import full
from etc_jax.ops.attention.bias import BiasFn, RowBias, SideBias
from etc_jax.ops.attention.kernels import choice, sliding_window as by_kernels
from etc_jax.ops.attention.parts import inline_dense
from etc_jax.ops.attention.parts.checks import (
    check_one_length,
    check_rows,
)
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import InlinePairs, Tokens
from etc_jax.ops.attention.parts.long_rows import long_rows
from etc_jax.ops.attention.parts.pairs import SequenceShard
from etc_jax.ops.attention.parts.sizes import block_sizes
from etc_jax.ops.attention.parts.softmax import SoftmaxOptions

Array = jax.Array


class Globals(NamedTuple):
    """Tokens of the sequence that see everything and are seen by everyone.

    Attributes:
      index: int `[b, g]`, where they stand, no place twice; -1: none.
      query: `[b, g, h, d]` of these tokens.
      key: `[b, n, h, d]` of all tokens, which `query` reads.
      value: `[b, n, h, d]` of all tokens, which `query` reads.
    """

    index: Array
    query: Array
    key: Array
    value: Array


class SideKeys(NamedTuple):
    """Keys beside the sequence, which all tokens of their example see.

    Attributes:
      key: `[b, g, h, d]`.
      value: `[b, g, h, d]`.
      example_ids: int `[b, g]`; 0: none.
      bias: added to the logits of each token.
    """

    key: Array
    value: Array
    example_ids: Array
    bias: SideBias


class _Biases(NamedTuple):
    """What a bias gives to each kind of pair.

    Attributes:
      windows: `[h or 1, 2 * reach + 1]` for each dilation, by offset in steps.
      to_globals: tokens that look at global ones; None: none.
      of_globals: `[b, n, h or 1, g]`, tokens that global ones look at; None: none.
    """

    windows: tuple[Array, ...]
    to_globals: SideBias | None
    of_globals: Array | None

    @classmethod
    def make(
        cls, bias: BiasFn, reach: int, dilation, n: int, globals_, side_keys
    ) -> _Biases:
        """Of `n` tokens and what stands in or beside them; see `attend`."""
        steps = jnp.arange(-reach, reach + 1, dtype=jnp.int32)
        windows = tuple(bias(steps * step) for step in dict.fromkeys(dilation))
        if side_keys is not None:
            return cls(windows, side_keys.bias, None)
        if globals_ is None:
            return cls(windows, None, None)
        index = globals_.index
        position = jnp.arange(n, dtype=jnp.int32)
        # [b, 1, g] - [1, n, 1] -> [b, n, g]: global key minus query in the sequence.
        offset = index[:, None].astype(jnp.int32) - position[None, :, None]
        # [h or 1, b, n, g] -> [b, n, h or 1, g].
        to, of = (jnp.moveaxis(bias(x), 0, 2) for x in (offset, -offset))
        return cls(windows, SideBias.of_tokens(to), of)


class _Sizes(NamedTuple):
    block_size: int | None
    chunk_blocks: int | None
    shards: int


class _Arrays(NamedTuple):
    """What is attended to, of the sequence or of a device's part of it.

    Attributes:
      query, key, value: `[b, n, h, d]`.
      globals_: see `attend`.
      tokens, side: of the sequence, and of the keys that all tokens see.
      side_rows: keys and values of these, `[b, g, h, d]`; () if there are none.
      offsets: see `attend`.
      biases: None: there are none.
    """

    query: Array
    key: Array
    value: Array
    globals_: Globals | None
    tokens: Tokens
    side: Tokens | None
    side_rows: tuple[Array, ...]
    offsets: LabelTable | None
    biases: _Biases | None


class _Choices(NamedTuple):
    """What was asked for, the same on every device; see `attend`."""

    radius: int
    dilation: tuple[int, ...]
    causal: bool
    scale: float
    dropout: Dropout
    sizes: _Sizes
    kernels: tuple[str, MeshAxes] | None


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    radius: int,
    dilation: int | Sequence[int] = 1,
    causal: bool = False,
    example_ids: Array | None = None,
    globals_: Globals | None = None,
    side_keys: SideKeys | None = None,
    offsets: LabelTable | None = None,
    bias: BiasFn | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    block_size: int | None = None,
    chunk_blocks: int | None = None,
    sequence_axis: str | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Array:
    """Attention over windows and global tokens (section 3.1), in one softmax.

    Softmax is in float32 (float64 for float64 inputs). Padding, which sees nothing, is
    exactly zero.

    Args:
      query: `[b, n, h, d]`, any n.
      key: `[b, n, h, d]`, any n.
      value: `[b, n, h, d]`, any n.
      radius: keys to each side of a query, without itself: half of the window that
        Hugging Face's Longformer counts.
      dilation: places from one key of a window to the next, of all heads or of each.
      causal: no key after the query, global ones neither.
      example_ids: int `[b, n]`; 0 is padding, and packed examples do not see each
        other; None: one example.
      globals_: global tokens; a padding token is never one.
      side_keys: keys beside the sequence, in the softmax of every token; with `bias`
        and without `globals_`.
      offsets: of `[2 * radius + 1, h, d]` and `[2 * radius + 1, h]`, by offset in
        steps from -radius on: query . embedding + bias is added to the product of query
        and key, before it is scaled (Shaw et al. 2018; Dai et al. 2019, section 3.3).
        Not with `globals_`, which are at any offset.
      bias: function of offsets, see `bias.BiasFn`, added to every logit as it is.
      scale: of the products; None: 1 / sqrt(head_dim).
      implementation: "xla" (linear in n), "pallas" or "mosaic" (the windows as kernels
        for NVIDIA GPUs, or all of it for TPUs), "dense" (quadratic, the oracle),
        "auto": see `kernels.choice`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      block_size: rows of a block; default near the radius.
      chunk_blocks: blocks at once; default by the size of their logits.
      sequence_axis: mesh axis (of the mesh in `jax.set_mesh`) that the sequence is
        split over; None: it is not.
      shards: devices that batch and heads are split over.
      mesh_axes: mesh axes that they are split over: kernels need to know.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    dilation = (dilation,) * query.shape[2] if isinstance(dilation, int) else dilation
    dilation = tuple(dilation)
    check_rows(query, key, value, example_ids)
    check_one_length(query, key)
    _check(query.shape, radius, dilation, globals_, offsets)
    if globals_ is not None and not globals_.index.shape[1]:
        globals_ = None
    if side_keys is not None:
        _check_side_keys(side_keys, query.shape, globals_, bias)
        side_keys = side_keys if side_keys.key.shape[1] else None
    dropout = Dropout.make(dropout_rate, dropout_rng)
    scale = query.shape[3] ** -0.5 if scale is None else scale
    problems = by_kernels.problems(
        query,
        radius=radius,
        dilation=dilation,
        globals_=globals_,
        side_keys=side_keys,
        offsets=offsets,
        bias=bias,
        scale=scale,
        mesh_axes=mesh_axes,
    )
    split = {"sequence_axis": sequence_axis, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query, problems, **split)
    b, n, _, _ = query.shape
    if not n:
        return query
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    if implementation == "dense":
        return inline_dense.attend(
            query,
            key,
            value,
            radius=radius,
            dilation=dilation,
            causal=causal,
            example_ids=example_ids,
            globals_=globals_,
            side_keys=side_keys,
            offsets=offsets,
            bias=bias,
            scale=scale,
            dropout=dropout,
        )
    tokens, side = _tokens(example_ids, globals_)
    # Keys and values that all tokens see beside their windows: [b, g, h, d], twice.
    side_rows = ()
    if side_keys is not None:
        side_rows, side = side_keys[:2], _all_see(side_keys.example_ids)
    if globals_ is not None:
        index = globals_.index
        side_rows = tuple(_rows_at(x, index, sequence_axis) for x in (key, value))
    biases = None
    if bias is not None:
        reach = min(radius, n - 1)
        biases = _Biases.make(bias, reach, dilation, n, globals_, side_keys)
    sizes = _Sizes(block_size, chunk_blocks, shards)
    by = None if kernels is None else (kernels, mesh_axes)
    choices = _Choices(radius, dilation, causal, scale, dropout, sizes, by)
    inputs = (query, key, value, globals_, tokens, side, side_rows, offsets, biases)
    if sequence_axis is None:
        return _attend(_Arrays(*inputs), choices, SequenceShard())
    return _split(sequence_axis, _Arrays(*inputs), choices)


def _tokens(example_ids: Array, globals_: Globals | None) -> tuple[Tokens, Tokens]:
    """Of the sequence, and of its global tokens."""
    b, n = example_ids.shape
    position = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (b, n))
    if globals_ is None:
        return Tokens(example_ids, position, jnp.zeros((b, n), bool)), _no_tokens(b)
    index = globals_.index.astype(jnp.int32)
    # [b, g]; an index of -1 has example 0, which nothing sees.
    example = jnp.take_along_axis(example_ids, jnp.maximum(index, 0), axis=1)
    example = jnp.where(index >= 0, example, 0)
    # After the last place, where nothing is set: -1 would be that place.
    at = jnp.where(index >= 0, index, n)
    is_global = _with_rows(jnp.zeros((b, n), bool), at, jnp.ones_like(at, bool))
    is_global &= example_ids > 0
    return (
        Tokens(example_ids, position, is_global),
        Tokens(example, index, jnp.ones_like(index, bool)),
    )


def _all_see(example_ids: Array) -> Tokens:
    """Of keys beside the sequence, int `[b, g]`: as if before its first token."""
    before = jnp.full(example_ids.shape, -1, jnp.int32)
    return Tokens(example_ids, before, jnp.ones(example_ids.shape, bool))


def _no_tokens(b: int) -> Tokens:
    return _all_see(jnp.zeros((b, 0), jnp.int32))


def _rows_at(x: Array, index: Array, axis_name: str | None) -> Array:
    """`[b, n, h, d]` -> `[b, g, h, d]`; anything where the index is -1."""
    flat = x.reshape(*x.shape[:2], -1)
    rows = sequence.take_rows(flat, jnp.maximum(index, 0), axis_name)
    return rows.reshape(*rows.shape[:2], *x.shape[2:])


def _attend(x: _Arrays, choices: _Choices, shard: SequenceShard) -> Array:
    """The tokens here, which are all or a device's part."""
    out = _all_windows(x, choices, shard)
    if x.globals_ is None:
        return out
    bias = None
    if x.biases is not None:
        # [b, n, h or 1, g] -> [b, h or 1, g, n].
        bias = jnp.transpose(x.biases.of_globals, (0, 2, 3, 1))
    # Those for GPUs are of windows alone.
    on_tpu = choices.kernels is not None and choices.kernels[0] == "mosaic"
    # [b, g, h, d], over the whole sequence. The windows gave global tokens a row too,
    # which this one replaces.
    global_rows = full.some_rows(
        *x.globals_[1:],
        x.side,
        x.tokens,
        causal=choices.causal,
        bias=bias,
        scale=choices.scale,
        dropout=choices.dropout,
        shards=choices.sizes.shards,
        shard=shard,
        kernels=choices.kernels if on_tpu else None,
    )
    n = x.query.shape[1]
    index = x.side.position - shard.first(n)
    # Not real, or of another device: after the last place, where nothing is set.
    is_local = (index >= 0) & (index < n) & (x.side.example > 0)
    return _with_rows(out, jnp.where(is_local, index, n), global_rows)


def _all_windows(x: _Arrays, choices: _Choices, shard: SequenceShard) -> Array:
    """`[b, n, h, d]`: the windows of all heads, by their dilations."""
    dilation = choices.dilation
    # Heads side by side with windows of one dilation: (dilation, first, end).
    runs, start = [], 0
    for step, same in itertools.groupby(dilation):
        stop = start + len(list(same))
        runs.append((step, start, stop))
        start = stop
    parts: dict[int, Array] = {}
    for stream, step in enumerate(dict.fromkeys(dilation)):
        of_step = [(start, stop) for of, start, stop in runs if of == step]

        def of_heads(a, of_step=of_step):
            if a.shape[2] == 1 < len(dilation):
                return a  # of all heads
            # Slices, not a gather, which XLA cannot split over heads beside two other
            # axes.
            return _joined([a[:, :, start:stop] for start, stop in of_step])

        # [2r + 1, h, ...]: with one axis in front, heads are axis 2 here too.
        table = jax.tree.map(lambda a, f=of_heads: f(a[None])[0], x.offsets)
        bias = None
        if x.biases is not None:
            # [1, 1, h or 1, 2 * reach + 1], and rows are [b or 1, m, h or 1, g].
            bias = RowBias(of_heads(x.biases.windows[stream][None, None]), None)
            if (to_globals := x.biases.to_globals) is not None:
                rows, index, values = to_globals
                if values is not None:
                    values = of_heads(values[None, None])[0, 0]
                to_globals = SideBias(of_heads(rows), index, values)
                bias = bias._replace(side=to_globals)
        dropout = choices.dropout.stream(stream + 1)
        query, key, value, *side_rows = map(of_heads, (*x[:3], *x.side_rows))
        part = x._replace(query=query, key=key, value=value, offsets=table)
        part = part._replace(side_rows=tuple(side_rows))
        out = _windows(part, bias, step, choices._replace(dropout=dropout), shard)
        # Their runs are side by side in `out`; each goes back to its place.
        done = 0
        for start, stop in of_step:
            parts[start] = out[:, :, done : done + stop - start]
            done += stop - start
    return _joined([parts[start] for _, start, _ in runs])


def _joined(heads: list[Array]) -> Array:
    """`[b, n, some heads, d]` side by side."""
    return heads[0] if len(heads) == 1 else jnp.concatenate(heads, axis=2)


def _with_rows(x: Array, index: Array, rows: Array) -> Array:
    """`[b, n, ...]` with `rows` `[b, g, ...]` at int `[b, g]`; n is nowhere."""
    # Mapped over the batch, not indexed by it: so it stays split over devices.
    return jax.vmap(lambda x, i, rows: x.at[i].set(rows, mode="drop"))(x, index, rows)


def _fold(x: Array, step: int) -> Array:
    """`[b, n, ...]` -> `[b * step, n / step, ...]`: places that are `step` apart."""
    if step == 1:
        return x
    b, n = x.shape[:2]
    # [b, n, ...] -> [b, n / step, step, ...] -> [b, step, n / step, ...], then merged.
    x = blocking.pad_axis(x, 1, 0, -n % step)
    x = x.reshape(b, -1, step, *x.shape[2:])
    return blocking.unblock(jnp.moveaxis(x, 2, 1), 0)


def _unfold(x: Array, step: int, n: int) -> Array:
    """The inverse of `_fold`."""
    if step == 1:
        return x
    # [b, step, n / step, ...] -> [b, n / step, step, ...] -> [b, n, ...].
    x = x.reshape(-1, step, *x.shape[1:])
    return blocking.unblock(jnp.moveaxis(x, 1, 2), 1)[:, :n]


def _windows(
    x: _Arrays,
    bias: RowBias | None,
    step: int,
    choices: _Choices,
    shard: SequenceShard,
) -> Array:
    """Windows of one dilation and the global keys, of the heads that have it."""
    query, key, value, _, tokens, side, side_rows, table, _ = x
    dropout = choices.dropout
    whole = query.shape[1]
    total = -(-shard.total(whole) // step)
    # Folded, windows are dense: [b, n, h, d] -> [b * step, n / step, h, d], which are
    # b and n below. Padding has example 0.
    query, key, value = (_fold(x, step) for x in (query, key, value))
    tokens = jax.tree.map(lambda x: _fold(x, step), tokens)
    # Each fold sees all global tokens: [b / step, g, ...] -> [b, g, ...].
    side, side_rows = jax.tree.map(
        lambda x: jnp.repeat(x, step, axis=0), (side, side_rows)
    )
    b, n, h, d = query.shape
    radius = min(choices.radius, total - 1)
    if bias is not None:
        # [h or 1, 2 * reach + 1] -> [h or 1, 2r + 1].
        bias = bias._replace(window=_near(bias.window[0, 0].T, radius).T)
    if choices.kernels is not None:
        name, mesh_axes = choices.kernels
        out = by_kernels.windows(
            name,
            query,
            key,
            value,
            side_rows,
            tokens,
            side,
            radius=radius,
            causal=choices.causal,
            scale=choices.scale,
            dropout=dropout,
            mesh_axes=mesh_axes,
            bias=bias,
        )
        return _unfold(out, step, whole)
    g = side.example.shape[1]
    block_size, chunk_blocks = block_sizes(n, g, radius, b * h, *choices.sizes)
    options = SoftmaxOptions(choices.scale, block_size, chunk_blocks, dropout.rate)
    draws = dropout.draws(shard.first(-(-n // block_size)))
    # Chunks are of one size: rows are padded to a whole number of them.
    padded = -(-n // (block_size * chunk_blocks)) * block_size * chunk_blocks
    labelled = table is not None
    pairs = InlinePairs.make(
        tokens, side, radius, padded, choices.causal, shard, labelled
    )
    # Offsets that a short sequence does not have are left out: [2r + 1, h, ...].
    table = jax.tree.map(lambda x: _by_label(_near(x, radius), radius), table)

    def blocks_of(x):
        return jnp.swapaxes(blocking.pad_axis(x, 1, 0, padded - n), 1, 2)

    # [b, n, h, d] -> [b, r + n + r, h, d] -> [b, h, r + padded + r, d].
    around = map(blocks_of, shard.around((key, value), radius, 1))
    if not side_rows:
        side_rows = (jnp.zeros((b, 0, h, d), query.dtype),) * 2
    sides = (jnp.swapaxes(x, 1, 2) for x in side_rows)
    if bias is not None and bias.side is not None:
        # Folded and padded as queries are; each fold reads the rows of its batch.
        index = blocking.pad_axis(_fold(bias.side.index, step), 1, 0, padded - n)
        rows = bias.side.rows
        if rows.shape[0] > 1:
            rows = jnp.repeat(rows, step, axis=0)
        bias = bias._replace(side=SideBias(rows, index))
    out = long_rows(
        options, blocks_of(query), *around, *sides, table, bias, pairs, draws
    )
    # [b, h, padded, d] -> [b, n, h, d] -> unfolded [b / step, whole, h, d].
    return _unfold(jnp.swapaxes(out, 1, 2)[:, :n], step, whole)


def _near(x: Array, radius: int) -> Array:
    """`[2 * reach + 1, ...]` by offset -> `[2 * radius + 1, ...]`, the middle."""
    reach = x.shape[0] // 2
    return x[reach - radius : reach + radius + 1]


def _by_label(x: Array, radius: int) -> Array:
    """`[2 * radius + 1, ...]` by offset -> by label; see `InlinePairs.labelled`."""
    # Offsets -r..r -> 0, 1, ..., r, -1, ..., -r.
    return jnp.concatenate([x[radius:], x[:radius][::-1]])


def _split(axis_name: str, x: _Arrays, choices: _Choices) -> Array:
    """`_attend` on each device's part of the sequence."""
    n = x.query.shape[1]
    shard = SequenceShard(axis_name, n)
    long, everywhere = jax.P(None, axis_name), jax.P()
    global_specs = bias_specs = None
    if x.globals_ is not None:
        # Global queries are few, so each device has them all; of their keys, a part.
        global_specs = Globals(everywhere, everywhere, long, long)
    if x.biases is not None:
        # Rows are read by number, so that each device has all of them.
        rows = (
            None
            if x.biases.to_globals is None
            else SideBias(everywhere, long, everywhere)
        )
        bias_specs = _Biases(everywhere, rows, long)
    in_parts = (long, long, long, global_specs, long)
    specs = _Arrays(*in_parts, everywhere, everywhere, everywhere, bias_specs)
    # Each device has whole steps, so that places a step apart stay so.
    multiple = sequence.size(axis_name) * math.prod(set(choices.dilation))

    def pad(spec, part):
        if spec != long:
            return part
        return jax.tree.map(lambda a: sequence.pad_to_multiple(a, 1, multiple), part)

    x = jax.tree.map(pad, specs, x, is_leaf=lambda spec: isinstance(spec, jax.P))
    if not x.side_rows:
        # Made inside: XLA of jax 0.11 ends the process at arrays without elements here.
        x = x._replace(side=None)

    def body(x, rng):
        if x.side is None:
            x = x._replace(side=_no_tokens(len(x.query)))
        dropout = choices.dropout._replace(rng=rng)
        return _attend(x, choices._replace(dropout=dropout), shard)

    body = sequence.split(body, axis_name, (specs, everywhere), long)
    return body(x, choices.dropout.rng)[:, :n]


def _check_side_keys(side_keys: SideKeys, shape, globals_, bias) -> None:
    b, n, h, d = shape
    g = side_keys.key.shape[1]
    want = {"key": (b, g, h, d), "value": (b, g, h, d), "example_ids": (b, g)}
    for name, full_shape in want.items():
        if (got := getattr(side_keys, name).shape) != full_shape:
            raise ValueError(f"side_keys.{name} has shape {got}, expected {full_shape}")
    rows, index, _ = side_keys.bias
    fits = rows.shape[0] in (1, b) and rows.shape[2:] in ((h, g), (1, g))
    if index.shape != (b, n) or not fits:
        raise ValueError(
            f"side_keys.bias has rows {rows.shape} and index {index.shape}, expected "
            f"({b} or 1, m, {h} or 1, {g}) and {(b, n)}"
        )
    if globals_ is not None or bias is None:
        raise ValueError("side_keys goes with bias and without globals_; change one")


def _check(shape, radius, dilation, globals_, offsets):
    b, n, h, d = shape
    if radius < 0:
        raise ValueError(f"radius is {radius}; expected 0 or more")
    if len(dilation) != h or any(step < 1 for step in dilation):
        raise ValueError(
            f"dilation is {dilation}; expected a number of 1 or more, or one for each "
            f"of the {h} heads"
        )
    if offsets is not None:
        want = ((2 * radius + 1, h, d), (2 * radius + 1, h))
        if tuple(x.shape for x in offsets) != want or globals_ is not None:
            raise ValueError(
                f"offsets have shapes {offsets.embedding.shape} and "
                f"{offsets.bias.shape}, expected {want[0]} and {want[1]}, and no "
                "globals_ with them"
            )
    if globals_ is None:
        return
    g = globals_.index.shape[-1]
    want = Globals((b, g), (b, g, h, d), (b, n, h, d), (b, n, h, d))
    for name, x, shape in zip(Globals._fields, globals_, want, strict=True):
        if x.shape != shape:
            raise ValueError(f"globals_.{name} has shape {x.shape}, expected {shape}")
