"""What the kernels do with a tile: some keys of a piece on sublanes, queries on lanes.

The heads of a group, 128 features in all, lie side by side: lane w * q + i is query i
of head w. Masks and labels of pairs are those of the pair functions (`kernels.pieces`),
worked out once for all heads. A mask is added: 0 or `MASKED`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops.attention.kernels.pieces import InlinePiece, RulePiece, Vectors
from etc_jax.ops.attention.kernels.tpu import bands
from etc_jax.ops.attention.kernels.tpu.registers import (
    LANES,
    head_products,
    heads_apart,
    iota,
    product,
    side_by_side,
)
from etc_jax.ops.attention.kernels.tpu.strips import BlockStrip, Strip
from etc_jax.ops.attention.parts.softmax import MASKED, normalisation
from etc_jax.ops.dropout import counted_factors

Array = jax.Array

LOG2_E = math.log2(math.e)


@dataclasses.dataclass(frozen=True)
class Softmax:
    """Static choices of one softmax; hashable.

    Attributes:
      scale: of the logits, above 0.
      dropout_rate: of probabilities.
      pieces: rules of one or two sets of keys.
      ways: heads of a group.
      width: features of a group.
      others: labels whose logits are read by themselves, in their order in the table.
      row_vectors: how the integers of rows make what the rules read.
      key_vectors: the same for the keys of each piece.
      interpret: run as plain operations, on any device.
    """

    scale: float
    dropout_rate: float
    pieces: tuple[RulePiece | InlinePiece, ...]
    ways: int
    width: int
    others: tuple[int, ...]
    row_vectors: Vectors
    key_vectors: tuple[Vectors, ...]
    interpret: bool

    @property
    def max_distance(self) -> int:
        """k of the labels by distance, or 0."""
        return max(piece.max_distance for piece in self.pieces)

    @property
    def table_rows(self) -> list[int]:
        """The label of each row of the table of a kernel."""
        k = self.max_distance
        return [*(bands.labels(k) if k else ()), *self.others]

    def row_of(self, label: int) -> int:
        """The row of one of the `others` in that table."""
        return len(self.table_rows) - len(self.others) + self.others.index(label)

    def to_base_2(self) -> float:
        """What scores are multiplied by to be exponents of 2."""
        return self.scale * LOG2_E


def chosen(piece: RulePiece | InlinePiece) -> tuple[int, ...]:
    """Labels that are looked for: the first of those of no distance needs no look."""
    return piece.others if piece.max_distance else piece.others[1:]


def row(x: Array) -> Array:
    """`[ways, q]` -> `[1, ways * q]`."""
    return jnp.concatenate([x[w : w + 1] for w in range(x.shape[0])], axis=1)


def heads(x: Array, ways: int) -> Array:
    """`[1, ways * q]` -> `[ways, q]`."""
    q = x.shape[1] // ways
    return jnp.concatenate([x[:, w * q : (w + 1) * q] for w in range(ways)])


def columns(vectors: Vectors, ints: Array):
    """What the rules read of keys, `[keys, 1]` each, of int32 `[keys, 8 or more]`."""
    return vectors.of([ints[:, i : i + 1] for i in range(len(vectors.bools))])


def rows(vectors: Vectors, ints: Array):
    """What the rules read of queries, `[1, q]` each, of int32 `[8 or more, q]`."""
    return vectors.of([ints[i : i + 1] for i in range(len(vectors.bools))])


class Pairs(NamedTuple):
    """Refs of what is known of the pairs of a tile.

    Attributes:
      mask: float32 `[keys, q]`.
      label: int32 `[keys, q]`, or None where no label is looked for.
    """

    mask: Any
    label: Any

    def fill(self, piece, of_rows, of_keys) -> None:
        """Asks the rules."""
        mask, label = piece(of_rows, of_keys)
        self.mask[...] = jnp.where(mask, 0.0, MASKED)
        if self.label is not None:
            self.label[...] = jnp.broadcast_to(label, self.label.shape)


class Tile(NamedTuple):
    """Keys of a piece under some queries.

    Attributes:
      number: of the piece.
      key, value: `[keys, ways * d]`.
      pairs: refs of the pairs.
      first: distance of key 0 from query 0; read if labels go by distance.
      start: index of key 0 among the keys of the piece, for dropout.
      bias: of offsets, or None.
    """

    number: int
    key: Array
    value: Array
    pairs: Pairs
    first: int
    start: Any
    bias: Strip | BlockStrip | None = None

    def scores(self, softmax: Softmax, query: Array, column: Array | None) -> Array:
        """Products of keys and queries, label logits, bias and mask, before the scale.

        Args:
          softmax: static choices.
          query: `heads_apart`, `[ways * q, ways * d]`.
          column: label logits `[labels, ways * q]`, or None.

        Returns:
          float32 `[keys, ways * q]`.
        """
        scores = product(self.key, query, (1, 1))
        if column is not None:
            scores = scores + self._label_logits(softmax, column)
        if self.bias is not None:
            keys, q = self.pairs.mask.shape
            scores = scores + self.bias.read(keys, softmax.ways, q)
        return scores + side_by_side(self.pairs.mask[...], softmax.ways)

    def _label_logits(self, softmax: Softmax, column: Array) -> Array:
        """`[labels, ways * q]` -> `[keys or 1, ways * q]`."""
        piece = softmax.pieces[self.number]
        if piece.max_distance:
            logits = [
                bands.logits(
                    piece.max_distance, column[:, lanes], first, self.key.shape[0]
                )
                for lanes, first in self._lanes(softmax, column.shape[1])
            ]
            logits = jnp.concatenate(logits, axis=1)
        else:
            base = softmax.row_of(piece.others[0])
            logits = column[base : base + 1]
        for label in chosen(piece):
            at = softmax.row_of(label)
            logits = jnp.where(self._has(softmax, label), column[at : at + 1], logits)
        return logits

    def _lanes(self, softmax: Softmax, count: int):
        """(slice of 128 lanes, distance of key 0 from their first query) of all."""
        per_head = count // softmax.ways
        for start in range(0, count, LANES):
            yield slice(start, start + LANES), self.first - start % per_head

    def _has(self, softmax: Softmax, label: int) -> Array:
        return side_by_side(self.pairs.label[...], softmax.ways) == label

    def add_label_gradient(self, softmax: Softmax, total, ds: Array) -> None:
        """Adds the transpose of the label logits to a ref `[labels, ways * q]`."""
        piece = softmax.pieces[self.number]
        # The last one wins in the choice, so it takes its pairs first.
        for label in reversed(chosen(piece)):
            at, has = softmax.row_of(label), self._has(softmax, label)
            total[at : at + 1] += jnp.sum(jnp.where(has, ds, 0), 0, keepdims=True)
            ds = jnp.where(has, 0, ds)
        if not piece.max_distance:
            at = softmax.row_of(piece.others[0])
            total[at : at + 1] += jnp.sum(ds, axis=0, keepdims=True)
            return
        for lanes, first in self._lanes(softmax, ds.shape[1]):
            gradient = bands.gradient(piece.max_distance, ds[:, lanes], first)
            total[: gradient.shape[0], lanes] += gradient

    def add_bias_gradient(self, softmax: Softmax, total, ds: Array) -> None:
        """Adds the transpose of the bias of `[keys, ways * q]` to a ref."""
        self.bias.add_gradient(total, softmax.ways, ds, self.key.dtype)

    def factors(self, softmax: Softmax, seeds, first_query) -> Array | None:
        """Of dropout, `[keys, ways * q]`, or None.

        Args:
          softmax: static choices.
          seeds: see `head_seeds`.
          first_query: index of query 0.
        """
        if not softmax.dropout_rate:
            return None
        keys, q = self.pairs.mask.shape
        query = first_query + iota((1, q), 1)
        key = self.start + iota((keys, 1), 0)
        number, pieces = self.number, len(softmax.pieces)
        key = key + seeds(0, pieces + number).astype(jnp.int32)
        return jnp.concatenate(
            [
                counted_factors(softmax.dropout_rate, seeds(w, number), query, key)
                for w in range(softmax.ways)
            ],
            axis=1,
        )


class OfRows(NamedTuple):
    """What a backward pass knows of some queries of a group.

    Attributes:
      query, d_output: `heads_apart`, `[ways * q, ways * d]`.
      column: label logits `[labels, ways * q]`, or None.
      lse: of base 2, `[1, ways * q]`.
      delta: of `row_deltas`, `[1, ways * q]`.
    """

    query: Array
    d_output: Array
    column: Array | None
    lse: Array
    delta: Array


class Gradients(NamedTuple):
    """Of a tile, before the scale where it is not of values.

    Attributes:
      scores: `[keys, ways * q]`.
      query: `[ways * d, q]`.
      key, value: `[keys, ways * d]`.
    """

    scores: Array
    query: Array
    key: Array
    value: Array


def gradients(
    softmax: Softmax, tile: Tile, of_rows: OfRows, factors: Array | None
) -> Gradients:
    """Of the scores of a tile, and what follows for its queries, keys and values.

    Args:
      softmax: static choices.
      tile: the keys.
      of_rows: the queries.
      factors: of dropout, `[keys, ways * q]`, or None.
    """
    ways = softmax.ways
    scores = tile.scores(softmax, of_rows.query, of_rows.column)
    p = jnp.exp2(scores * softmax.to_base_2() - of_rows.lse)
    dp = product(tile.value, of_rows.d_output, (1, 1))
    dropped = p
    if factors is not None:
        dropped, dp = p * factors, dp * factors
    ds = p * (dp - of_rows.delta)
    narrow = ds.astype(tile.key.dtype)
    return Gradients(
        scores=ds,
        query=head_products(tile.key.T, narrow, ways),
        key=product(narrow, of_rows.query),
        value=product(dropped.astype(tile.value.dtype), of_rows.d_output),
    )


def label_column(inputs, query: Array, ways: int) -> Array | None:
    """Label logits of a group.

    Args:
      inputs: refs, of which "embedding" is `[labels, ways * d]` and "label_bias"
        `[labels, ways]`, if there are labels.
      query: `heads_apart`, `[ways * q, ways * d]`.
      ways: heads of a group.

    Returns:
      float32 `[labels, ways * q]`, or None.
    """
    if "embedding" not in inputs:
        return None
    logits = product(inputs["embedding"][...], query, (1, 1))
    bias, q = inputs["label_bias"][...], query.shape[0] // ways
    wide = [
        jnp.broadcast_to(bias[:, w : w + 1], (bias.shape[0], q)) for w in range(ways)
    ]
    return logits + jnp.concatenate(wide, axis=1)


def head_seeds(inputs, group, ways: int):
    """A function of (head of the group, column of `Inputs.seeds`), to a scalar."""

    def seeds(head: int, column: int):
        return inputs["seeds"][group * ways + head, column]

    return seeds


def times_rows(x: Array, factor: Array, ways: int) -> Array:
    """`[ways * d, q]` times `[1, ways * q]`: of each head, all features."""
    d, q = x.shape[0] // ways, x.shape[1]
    return jnp.concatenate(
        [x[w * d : (w + 1) * d] * factor[:, w * q : (w + 1) * q] for w in range(ways)]
    )


def normalised(scale: float, total: Array, top: Array) -> tuple[Array, Array]:
    """See `normalisation`, of maxima before the scale: all four `[1, queries]`."""
    # A small scale must not bring the maximum of a row that sees nothing near others.
    return normalisation(total, jnp.where(top > MASKED / 2, top * scale, MASKED))


def write_rows(softmax: Softmax, outputs, acc: Array, total: Array, top: Array) -> None:
    """Writes output and log-sum-exp.

    Args:
      softmax: static choices.
      outputs: refs of "output" `[q, ways * d]` and "lse" `[ways, q]`.
      acc: sums of weighted values, `[ways * d, q]`.
      total: sums of weights, `[1, ways * q]`.
      top: maxima before the scale, `[1, ways * q]`.
    """
    ways = softmax.ways
    factor, lse = normalised(softmax.scale, total, top)
    output = times_rows(acc, factor, ways)
    outputs["output"][...] = output.astype(outputs["output"].dtype).T
    outputs["lse"][...] = heads(lse, ways)


def read_rows(softmax: Softmax, inputs) -> OfRows:
    """Of refs "query", "d_output" `[q, ways * d]` and "lse", "delta" `[ways, q]`."""
    ways = softmax.ways
    query = heads_apart(inputs["query"][...], ways)
    return OfRows(
        query=query,
        d_output=heads_apart(inputs["d_output"][...], ways),
        column=label_column(inputs, query, ways),
        lse=row(inputs["lse"][...]) * LOG2_E,
        delta=row(inputs["delta"][...]),
    )


def add_table_gradients(softmax, inputs, outputs, group, column: Array, query: Array):
    """Adds the gradients of a group's table; that of the query, `[ways * d, q]`.

    Args:
      softmax: static choices.
      inputs: refs.
      outputs: refs of "embedding" `[groups, labels, ways * d]` and "label_bias"
        `[groups, labels, lanes]`, which is summed later.
      group: index of the group.
      column: gradient of the label logits, `[labels, ways * q]`.
      query: `heads_apart`, `[ways * q, ways * d]`.
    """
    embedding = inputs["embedding"][...]
    narrow = column.astype(embedding.dtype)
    outputs["embedding"][group] += product(narrow, query)
    outputs["label_bias"][group] += column
    return head_products(embedding.T, narrow, softmax.ways)


def write_query_gradient(softmax: Softmax, outputs, d_query: Array) -> None:
    """Of float32 `[ways * d, q]`, before the scale, to a ref `[q, ways * d]`."""
    ref = outputs["query"]
    ref[...] = (d_query * softmax.scale).astype(ref.dtype).T
