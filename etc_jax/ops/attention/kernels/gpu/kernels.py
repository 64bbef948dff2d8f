"""The bodies of the kernels: tiles of logits in registers, none of them in memory.

Pallas with Triton. Each program has a block of rows and goes over tiles of their keys,
or has a block of keys and goes over tiles of the rows that may see them. Masks and
labels of a tile come from the integers of its tokens (`pieces`). A label's logit is
read from the rows' few label logits. Its gradient goes back there: a distance that is
not clipped belongs to one key of a row, which stores it; the others are summed.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from etc_jax.ops.attention.parts.softmax import MASKED, finish
from etc_jax.ops.dropout import counted_factors

Array = jax.Array


class TileOptions(NamedTuple):
    """Static choices.

    Attributes:
      scale: of the logits.
      dropout_rate: of probabilities.
      rows, keys: of a tile, powers of two.
    """

    scale: float
    dropout_rate: float
    rows: int
    keys: int


def dot(a: Array, b: Array) -> Array:
    """`[m, k]` x `[k, n]`, with sums in float32."""
    wide = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    return jax.lax.dot(a, b, precision=wide, preferred_element_type=jnp.float32)


def _larger(a, b):
    return max(a, b) if isinstance(a, int) else jnp.maximum(a, b)


def _smaller(a, b):
    return min(a, b) if isinstance(a, int) else jnp.minimum(a, b)


def tiles(piece, block, size: int, other: int, length: int):
    """(first, end) of the tiles of one side that a block of the other side may meet.

    Args:
      piece: rules of the pairs.
      block: number of the block: a scalar in a kernel, or an int.
      size: of the block.
      other: size of the tiles.
      length: of their side, in whole tiles.
    """
    if piece.radius is None:
        return 0, length // other
    start = block * size
    end = start + size + piece.radius
    first = _larger(start - piece.radius, 0) // other
    return first, _smaller((end + other - 1) // other, length // other)


class _Labels(NamedTuple):
    """Where the label logits of a tile's rows stand.

    Attributes:
      t_ref: label logits `[rows, labels]`.
      cut: slice of the tile's rows there.
      numbers: int32, these rows, one axis of the tile.
      axis: of the tile that they have not.
    """

    t_ref: Any
    cut: Any
    numbers: Array
    axis: int

    def column(self, label: int) -> Array:
        """The logits of one label, as they stand in the tile."""
        return jnp.expand_dims(self.t_ref[self.cut, label], self.axis)

    def row(self, shape: tuple[int, int]) -> Array:
        """The rows' numbers at each pair."""
        return jnp.broadcast_to(jnp.expand_dims(self.numbers, self.axis), shape)


def _with_labels(piece, scores: Array, label: Array, labels: _Labels) -> Array:
    """Scores with the logits of their labels.

    Args:
      piece: of the pairs.
      scores: `[rows, keys]` or `[keys, rows]`.
      label: int32, broadcasts to it.
      labels: of the tile.
    """
    label = jnp.broadcast_to(label, scores.shape)
    if piece.max_distance:
        # Reading beats choosing among 2k + 1, also where all are clipped: a branch for
        # such tiles made the forward pass 1.6 times as slow on an H100.
        return scores + plgpu.load(labels.t_ref.at[labels.row(scores.shape), label])
    first, *others = piece.others
    label_logits = labels.column(first)
    for value in others:
        label_logits = jnp.where(label == value, labels.column(value), label_logits)
    return scores + label_logits


def forward(inputs, outputs, *, options: TileOptions, pieces, vectors):
    """A block of rows over all of its keys.

    Args:
      inputs: refs, a dictionary as `joint_rows` makes it.
      outputs: refs of the output `[rows, d]` and of the log-sum-exp `[rows]`.
      options: static choices.
      pieces: rules of the pieces.
      vectors: `Vectors` of rows and of the keys of each piece.
    """
    block = pl.program_id(0)
    start = block * options.rows
    cut = pl.ds(start, options.rows)
    query = inputs["query"][...]
    rows = vectors["rows"].read(inputs["rows"], cut, 1)
    local = jnp.arange(options.rows, dtype=jnp.int32)

    def add(i, piece, tile, state):
        top, total, acc = state
        part = inputs["pieces"][i]
        keys = pl.ds(tile * options.keys, options.keys)
        logits = dot(query, part["key"][keys, :].T)
        columns = vectors["pieces"][i].read(part["tokens"], keys, 0)
        mask, label = piece(rows, columns)
        if label is not None:
            labels = _Labels(inputs["t"], slice(None), local, 1)
            logits = _with_labels(piece, logits, label, labels)
        logits = jnp.where(mask, logits * options.scale, MASKED)
        new = jnp.maximum(top, jnp.max(logits, axis=1))
        shrink = jnp.exp(top - new)
        weights = jnp.exp(logits - new[:, None])
        total = total * shrink + jnp.sum(weights, axis=1)
        if options.dropout_rate:
            seed, row = inputs["seeds"][i], start + local
            key = tile * options.keys + jnp.arange(options.keys, dtype=jnp.int32)
            drawn = counted_factors(options.dropout_rate, seed, row[:, None], key[None])
            weights = weights * drawn
        value = part["value"][keys, :]
        acc = acc * shrink[:, None] + dot(weights.astype(value.dtype), value)
        return new, total, acc

    state = (
        jnp.full((options.rows,), MASKED, jnp.float32),
        jnp.zeros((options.rows,), jnp.float32),
        jnp.zeros(query.shape, jnp.float32),
    )
    for i, piece in enumerate(pieces):
        num_keys = inputs["pieces"][i]["key"].shape[0]
        of_keys = tiles(piece, block, options.rows, options.keys, num_keys)
        state = jax.lax.fori_loop(*of_keys, functools.partial(add, i, piece), state)
    top, total, acc = state
    output, lse = finish(acc, total, top)
    outputs["output"][...] = output.astype(outputs["output"].dtype)
    outputs["lse"][...] = lse


def _again(piece, options, scores, mask, label, labels: _Labels, lse) -> Array:
    """Probabilities of a tile, worked out again from the log-sum-exp of its rows."""
    if label is not None:
        scores = _with_labels(piece, scores, label, labels)
    logits = jnp.where(mask, scores * options.scale, MASKED)
    return jnp.exp(logits - lse)


def row_gradients(inputs, outputs, *, options: TileOptions, pieces, vectors):
    """Gradients of a block of rows: of the queries, and of their label logits."""
    block = pl.program_id(0)
    start = block * options.rows
    cut = pl.ds(start, options.rows)
    query, d_output = inputs["query"][...], inputs["d_output"][...]
    lse, delta = inputs["lse"][...][:, None], inputs["delta"][...][:, None]
    rows = vectors["rows"].read(inputs["rows"], cut, 1)
    local = jnp.arange(options.rows, dtype=jnp.int32)
    # Labels whose gradients are summed, over all pieces.
    summed = tuple(dict.fromkeys(v for piece in pieces for v in _summed(piece)))

    def add(i, piece, tile, state):
        dq, sums = state
        part = inputs["pieces"][i]
        keys = pl.ds(tile * options.keys, options.keys)
        key = part["key"][keys, :]
        columns = vectors["pieces"][i].read(part["tokens"], keys, 0)
        mask, label = piece(rows, columns)
        labels = _Labels(inputs.get("t"), slice(None), local, 1)
        p = _again(piece, options, dot(query, key.T), mask, label, labels, lse)
        dp = dot(d_output, part["value"][keys, :].T)
        if options.dropout_rate:
            seed, row = inputs["seeds"][i], start + local
            number = tile * options.keys + jnp.arange(options.keys, dtype=jnp.int32)
            dp = dp * counted_factors(
                options.dropout_rate, seed, row[:, None], number[None]
            )
        ds = p * (dp - delta) * options.scale
        dq = dq + dot(ds.astype(key.dtype), key)
        if label is None:
            return dq, sums
        label = jnp.broadcast_to(label, ds.shape)
        if k := piece.max_distance:
            # Of these a row has one key each.
            near = (label < 2 * k) & (label != k)
            at = outputs["t"].at[labels.row(ds.shape), label]
            plgpu.store(at, ds, mask=near)
        sums = tuple(
            total + jnp.sum(jnp.where(label == v, ds, 0.0), axis=1)
            if v in _summed(piece)
            else total
            for v, total in zip(summed, sums, strict=True)
        )
        return dq, sums

    zeros = tuple(jnp.zeros((options.rows,), jnp.float32) for _ in summed)
    state = (jnp.zeros(query.shape, jnp.float32), zeros)
    for i, piece in enumerate(pieces):
        num_keys = inputs["pieces"][i]["key"].shape[0]
        of_keys = tiles(piece, block, options.rows, options.keys, num_keys)
        state = jax.lax.fori_loop(*of_keys, functools.partial(add, i, piece), state)
    dq, sums = state
    outputs["query"][...] = dq.astype(outputs["query"].dtype)
    for v, total in zip(summed, sums, strict=True):
        outputs["t"][:, v] = total


def _summed(piece) -> tuple[int, ...]:
    """Labels that several keys of a row may have."""
    k = piece.max_distance
    return (k, 2 * k, *piece.others) if k else piece.others


def key_gradients(inputs, outputs, *, options, piece, vectors, splits: int):
    """Gradients of a block of the keys and values of one piece, by some of the rows.

    Args:
      inputs: refs, of which those of the piece are "key", "value" and "tokens".
      outputs: refs of the gradients of keys and values, `[keys, d]`.
      options: static choices.
      piece: its rules.
      vectors: `Vectors` of rows and of these keys.
      splits: parts of the rows, each with a program of its own.
    """
    block, split = pl.program_id(0) // splits, pl.program_id(0) % splits
    keys = pl.ds(block * options.keys, options.keys)
    key, value = inputs["key"][...], inputs["value"][...]
    columns = vectors["keys"].read(inputs["tokens"], keys, 1)
    position = block * options.keys + jnp.arange(options.keys, dtype=jnp.int32)

    def add(tile, state):
        dk, dv = state
        cut = pl.ds(tile * options.rows, options.rows)
        query, d_output = inputs["query"][cut, :], inputs["d_output"][cut, :]
        rows = vectors["rows"].read(inputs["rows"], cut, 0)
        row = tile * options.rows + jnp.arange(options.rows, dtype=jnp.int32)
        lse, delta = inputs["lse"][cut][None], inputs["delta"][cut][None]
        # Keys are rows here: what is summed over queries needs no transpose.
        labels = _Labels(inputs.get("t"), cut, row, 0)
        mask, label = piece(rows, columns)
        p = _again(piece, options, dot(key, query.T), mask, label, labels, lse)
        dp = dot(value, d_output.T)
        dropped = p
        if options.dropout_rate:
            seed = inputs["seed"][0]
            drawn = counted_factors(
                options.dropout_rate, seed, row[None], position[:, None]
            )
            dropped, dp = p * drawn, dp * drawn
        ds = p * (dp - delta) * options.scale
        dv = dv + dot(dropped.astype(d_output.dtype), d_output)
        dk = dk + dot(ds.astype(query.dtype), query)
        return dk, dv

    num_rows = inputs["query"].shape[0]
    first, end = tiles(piece, block, options.keys, options.rows, num_rows)
    if splits > 1:
        size = (end - first + splits - 1) // splits
        first = first + split * size
        end = jnp.minimum(first + size, end)
    zeros = jnp.zeros(key.shape, jnp.float32)
    dk, dv = jax.lax.fori_loop(first, end, add, (zeros, zeros))
    outputs["key"][...] = dk.astype(outputs["key"].dtype)
    outputs["value"][...] = dv.astype(outputs["value"].dtype)
