"""Attention of every query to every key, without all logits at once.

    output = attend(query, key, value, example_ids=example_ids)

Queries may be of another sequence than the keys (cross-attention), or some of the same
(of a cache). Keys come some at a time, with one running softmax (as the global rows of
`global_rows`); the backward pass works the logits out again.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from etc_jax.base.types import WHOLE, MeshAxes
from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention import dense
from etc_jax.ops.attention.bias import BiasFn, OffsetBias, PairBias
from etc_jax.ops.attention.kernels import choice, full as by_kernels
from etc_jax.ops.attention.parts import inline_dense, tiled_rows
from etc_jax.ops.attention.parts.checks import check_rows
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.global_rows import global_rows
from etc_jax.ops.attention.parts.inline_pairs import InlinePairs, Tokens
from etc_jax.ops.attention.parts.pairs import SequenceShard
from etc_jax.ops.attention.parts.sizes import block_sizes
from etc_jax.ops.attention.parts.softmax import SoftmaxOptions

Array = jax.Array


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    causal: bool = False,
    example_ids: Array | None = None,
    query_ids: Array | None = None,
    query_start: Array | int = 0,
    padding_sees: bool = False,
    bias: Array | BiasFn | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Array:
    """Softmax attention over all keys: softmax(query . key * scale + bias) . value.

    Args:
      query: `[b, q, h, d]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      causal: no key after the query.
      example_ids: int `[b, k]`, of the keys; 0 is padding, which nothing sees, and
        packed examples do not see each other; None: one example.
      query_ids: int `[b, q]`, of the queries; None: those of the keys, or one example
        if there are none of the keys.
      query_start: int, or int `[b]`: place of the first query among the keys, which
        `causal` and a bias of offsets read.
      padding_sees: whether the rows of padding see the example of the highest number,
        as with a mask of keys alone; otherwise they are zero.
      bias: float `[b or 1, h or 1, q, k]`, or a function of offsets (see `BiasFn`),
        whose pairs never exist at once; it is not scaled.
      scale: of the products; None: 1 / sqrt(d).
      implementation: "xla" (memory linear in k), "mosaic" (kernels for TPUs), "dense"
        (the oracle), "auto": see `kernels.choice`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      shards: devices that batch and heads are split over.
      mesh_axes: mesh axes that they are split over: kernels need to know.

    Returns:
      `[b, q, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_rows(query, key, value, example_ids, query_ids)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    b, count, h, d = query.shape
    n = key.shape[1]
    scale = d**-0.5 if scale is None else scale
    # `OffsetBias` has static offsets, of queries 0, 1, ...; with any other start (of a
    # cache) and for the oracle the function gives all pairs.
    in_order = isinstance(query_start, int) and query_start == 0
    problems = by_kernels.problems(count, n, scale, bias, in_order)
    split = {"sequence_axis": None, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query, problems, **split)
    if not count:
        return query
    if query_ids is None:
        query_ids = example_ids
        if query_ids is None:
            query_ids = jnp.ones((b, count), jnp.int32)
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    if padding_sees:
        last = jnp.max(example_ids, axis=1, keepdims=True)
        query_ids = jnp.where(query_ids > 0, query_ids, last)
    start = jnp.reshape(jnp.asarray(query_start, jnp.int32), (-1, 1))
    # [1 or b, q] places of the queries among those of the keys, [1, k].
    position = start + jnp.arange(count, dtype=jnp.int32)[None]
    key_position = jnp.arange(n, dtype=jnp.int32)[None]
    if callable(bias) and (implementation == "dense" or not in_order):
        # Offsets [b or 1, q, k] -> [h or 1, b or 1, q, k] -> [b or 1, h or 1, q, k].
        bias = jnp.moveaxis(bias(key_position[:, None] - position[..., None]), 0, 1)
    if bias is not None and not callable(bias):
        _check_bias(bias, (b, h, count, n))
    position = jnp.broadcast_to(position, (b, count))
    if implementation == "dense":
        mask = inline_dense.seen(query_ids, example_ids, position, causal=causal)
        rows = (query, key, value, mask[:, None], bias)
        return dense.attend(*rows, scale=scale, dropout=dropout.dense())
    return some_rows(
        query,
        key,
        value,
        Tokens(query_ids, position, jnp.zeros((b, count), bool)),
        Tokens(
            example_ids, jnp.broadcast_to(key_position, (b, n)), jnp.zeros((b, n), bool)
        ),
        causal=causal,
        bias=bias,
        scale=scale,
        dropout=dropout,
        shards=shards,
        shard=SequenceShard(),
        kernels=None if kernels is None else (kernels, mesh_axes),
        in_order=in_order,
    )


def some_rows(
    query: Array,
    key: Array,
    value: Array,
    query_tokens: Tokens,
    tokens: Tokens,
    *,
    causal: bool,
    bias: Array | BiasFn | None = None,
    scale: float,
    dropout: Dropout,
    shards: int,
    shard: SequenceShard,
    kernels: tuple[str, MeshAxes] | None = None,
    in_order: bool = False,
) -> Array:
    """Attention of some queries over the whole sequence.

    Args:
      query: `[b, g, h, d]`.
      key: `[b, n, h, d]`.
      value: `[b, n, h, d]`.
      query_tokens: of the queries, `[b, g]`.
      tokens: of the sequence, `[b, n]`.
      causal: no key after the query.
      bias: `[b or 1, h or 1, g, n]`, or a function of offsets, if the queries are the
        first of the sequence; or None.
      scale: of the products.
      dropout: of probabilities.
      shards: devices that batch and heads are split over.
      shard: of these n tokens in the whole sequence.
      kernels: that do it, and the mesh axes that batch and heads are split over.
      in_order: whether query i stands at place i of the sequence.

    Returns:
      `[b, g, h, d]`.
    """
    b, g, h, d = query.shape
    n = key.shape[1]
    rows = query, key, value, query_tokens, tokens
    if kernels is not None:
        name, mesh_axes = kernels
        return by_kernels.attend(
            name,
            *rows,
            causal=causal,
            bias=bias,
            scale=scale,
            dropout=dropout,
            mesh_axes=mesh_axes,
            in_order=in_order,
        )
    plain = bias is None and dropout.rng is None and shard.axis_name is None
    if plain and tiled_rows.is_faster(g, shards):
        return tiled_rows.attend(*rows, causal=causal, scale=scale)
    # Blocks of keys here, and all queries in one row of each.
    # A step's logits are [b, h, chunks * size, g]: 64 queries count as one row.
    size, chunks = block_sizes(n, 0, 0, b * h * -(-g // 64), shards=shards)
    options = SoftmaxOptions(scale, size, chunks, dropout.rate)
    # Steps of the scan have one shape: keys are padded to whole chunks, with id 0.
    padded = max(1, -(-n // (size * chunks))) * size * chunks
    # Without a window (radius 0) nothing is read from neighbours.
    pairs = InlinePairs.make(tokens, query_tokens, 0, padded, causal, SequenceShard())
    if callable(bias):
        bias = OffsetBias.make(bias, g, padded)
    elif bias is not None:
        bias = PairBias.make(bias, padded)
    # [b, n, h, d] -> [b, padded, h, d] -> [b, h, padded, d].
    keys = [
        jnp.swapaxes(blocking.pad_axis(x, 1, 0, padded - n), 1, 2) for x in (key, value)
    ]
    # Keys that stand beside the sequence: none, in the least that a softmax takes.
    none = jnp.zeros((b, h, 1, d), query.dtype)
    # [b, h, g, d], and the log-sum-exp of each row, [b, h, g].
    out, lse = global_rows(
        options,
        jnp.swapaxes(query, 1, 2),
        none,
        none,
        *keys,
        None,
        bias,
        pairs,
        dropout.draws(shard.first(-(-n // size))),
    )
    if shard.axis_name is not None:
        # Each device has some of the keys; by their lse the parts are one softmax.
        out = sequence.join_softmax(out, lse, shard.axis_name)
    return jnp.swapaxes(out, 1, 2)


def _check_bias(bias: Array, shape: tuple[int, ...]) -> None:
    fits = bias.ndim == 4 and bias.shape[2:] == shape[2:]
    if not fits or any(bias.shape[i] not in (1, shape[i]) for i in (0, 1)):
        b, h, q, k = shape
        raise ValueError(
            f"bias has shape {bias.shape}, expected ({b} or 1, {h} or 1, {q}, {k}); of "
            "a function of offsets: (heads or 1, ...) for offsets of shape (...)"
        )
