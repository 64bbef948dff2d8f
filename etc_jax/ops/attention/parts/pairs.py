"""Masks and labels of blocks of pairs, from rules or from explicit tensors.

Both classes answer for the same four kinds of blocks, so the attention forms do not
know which one they read. Long vectors are padded by `radius` places before and after
(and to whole blocks), so window columns of a block of rows are a plain slice. Where
the sequence is split over devices, l2l keys have the neighbours' places there.

A block's answer is `(mask, labels)`, with keys as rows and queries as columns: the mask
broadcasts to `[batch, heads, ..., keys, q]`; `labels` is None, or has `logits(t)` and
`gradient(block, num_labels)`.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from etc_jax import structure as st
from etc_jax.ops import blocking, labels as label_ops, sequence

Array = jax.Array

_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ChosenLabels:
    """Labels that are `base` but for a few others (see `labels.choose`)."""

    masks: tuple[Array, ...] = ()
    values: tuple[int, ...] = dataclasses.field(default=(), metadata=_STATIC)
    base: label_ops.Distance | label_ops.Constant | None = dataclasses.field(
        default=None, metadata=_STATIC
    )

    @classmethod
    def make(cls, base, label: Array, others: tuple[int, ...]):
        """`label` is `[batch, ...]`; only the places of `others` are read from it."""
        return cls(tuple(_heads(label == v) for v in others), tuple(others), base)

    def logits(self, t: Array, witness: Array) -> Array:
        """`[..., labels, q]` -> `[..., keys, q]`; `witness` of `materialised`."""

        def rows(t):
            # [..., keys or 1, q], and [..., 1, q] for each chosen label.
            return self.base.logits(t), [t[..., v, None, :] for v in self.values]

        logits, chosen = blocking.materialised(rows, witness, t)
        return label_ops.choose(logits, chosen, self.masks)

    def gradient(self, block: Array, num_labels: int) -> Array:
        """`[..., keys, q]` -> `[..., labels, q]`: the transpose of `logits`."""
        return label_ops.choose_gradient(
            block, self.base, self.values, self.masks, num_labels
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GivenLabels:
    """Labels given one by one (see `labels.gather`)."""

    label: Array

    def logits(self, t: Array, witness: Array) -> Array:
        """`[..., labels, q]` -> `[..., keys, q]`."""
        del witness  # a gather is not fused anyway
        return label_ops.gather(t, self.label)

    def gradient(self, block: Array, num_labels: int) -> Array:
        """`[..., keys, q]` -> `[..., labels, q]`: the transpose of `logits`."""
        return label_ops.gather_gradient(block, self.label, num_labels)


def _heads(x: Array) -> Array:
    """`[batch, ...]` -> `[batch, 1, ...]`."""
    return jnp.expand_dims(x, 1)


@dataclasses.dataclass(frozen=True)
class SequenceShard:
    """Where the long tokens at hand stand in the whole sequence.

    Attributes:
      axis_name: mesh axis that the sequence is split over; None: it is all here.
      length: of the whole sequence; needed if it is split.
    """

    axis_name: str | None = None
    length: int | None = None

    def first(self, n: int) -> Array | int:
        """int scalar, the index of the first of the `n` tokens here."""
        if self.axis_name is None:
            return 0
        return jax.lax.axis_index(self.axis_name) * n

    def total(self, n: int) -> int:
        """Length of the whole sequence, of which `n` tokens are here."""
        return n if self.axis_name is None else self.length

    def around(self, arrays, radius: int, axis: int) -> tuple[Array, ...]:
        """Arrays `[..., n, ...]` with `radius` places more on each side of `axis`.

        They are those of neighbours, or zeros where there is none.
        """
        if self.axis_name is None:
            return tuple(blocking.pad_axis(x, axis, radius, radius) for x in arrays)
        return sequence.halo(arrays, radius, axis, self.axis_name)

    def once(self, mask: Array) -> Array:
        """The mask, of its shape, on the first device; False on all others.

        What all devices have must count once.
        """
        if self.axis_name is None:
            return mask
        return mask & (jax.lax.axis_index(self.axis_name) == 0)


def tokens_around(
    structure: st.Structure,
    padded: st.LongTokens,
    radius: int,
    shard: SequenceShard,
    tail: int = 0,
) -> st.LongTokens:
    """What windows read of their keys, with the neighbours' places around.

    Args:
      structure: of the `n` long tokens here.
      padded: these, `[batch, radius + n + radius + tail]`.
      radius: places of the neighbours on each side.
      shard: of these tokens in the whole sequence.
      tail: padding after the places of the last neighbour.

    Returns:
      `padded` with the neighbours' tokens in place of padding.
    """
    if shard.axis_name is None:
        return padded
    ids = [structure.long_example_ids, structure.long_segment_ids]
    around = shard.around([x for x in ids if x is not None], radius, -1)
    around = [blocking.pad_axis(x, -1, 0, tail) for x in around]
    segments = None if ids[1] is None else around[1]
    return padded._replace(example_ids=around[0], segment_ids=segments)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RulePairs:
    """Pairs of a `Structure` under `Rules`.

    Attributes:
      long: padded long vectors, `[batch, radius + blocks + radius]`.
      keys: the same for l2l keys, with what lies around.
      global_: global vectors, `[batch, g]`.
      radius: padding on each side; what the rules allow, or less for short inputs.
      rules: the rules.
      shard: of these long tokens in the whole sequence.
    """

    long: st.LongTokens
    keys: st.LongTokens
    global_: st.GlobalTokens
    shard: SequenceShard = dataclasses.field(metadata=_STATIC)
    radius: int = dataclasses.field(metadata=_STATIC)
    rules: st.Rules = dataclasses.field(metadata=_STATIC)

    @classmethod
    def make(
        cls,
        structure: st.Structure,
        rules: st.Rules,
        radius: int,
        padded: int,
        shard: SequenceShard,
    ):
        """Pads the long vectors to `radius + padded + radius` places."""
        n = structure.long_length

        def pad(x):
            return blocking.pad_axis(x, -1, radius, padded - n + radius)

        # Each vector: [b, radius + padded + radius].
        long = jax.tree.map(pad, structure.long_tokens())
        # Places of padding have indices as well: distances are j - i everywhere.
        index = jnp.arange(-radius, padded + radius, dtype=jnp.int32)[None]
        long = long._replace(index=index)
        return cls(
            long=long,
            keys=tokens_around(structure, long, radius, shard, padded - n),
            global_=structure.global_tokens(),
            shard=shard,
            radius=radius,
            rules=rules,
        )

    def _queries(self, start, num_blocks: int, block_size: int) -> st.LongTokens:
        size = num_blocks * block_size

        def cut(x):
            part = blocking.slice_axis(x, start + self.radius, size, -1)
            return blocking.blocks(part, num_blocks, -1)

        # [b, C * q] -> [b, C, 1, q].
        return st.as_columns(jax.tree.map(cut, self.long))

    def l2l(self, start, num_blocks: int, block_size: int):
        """Windows of the blocks from `start` and their rows: `[b, 1, C, q + 2r, q]`."""
        size = num_blocks * block_size + 2 * self.radius

        def cut(x):
            part = blocking.slice_axis(x, start, size, -1)
            return blocking.windows(part, num_blocks, block_size, -1)

        # Keys as rows: [b, C, w, 1]. Pair functions broadcast, so either side may be.
        keys = st.as_rows(jax.tree.map(cut, self.keys))
        queries = self._queries(start, num_blocks, block_size)
        mask, label = st.l2l(self.rules, queries, keys)
        # The pair function's label is a function of j - i: no array of it is needed.
        labels = None
        if label is not None:
            # Slot 0 of a window is r places before the block's first query.
            base = label_ops.Distance(
                self.rules.max_distance, -self.radius, block_size + 2 * self.radius
            )
            labels = ChosenLabels.make(base, label, ())
        return _heads(mask), labels

    def l2g(self, start, num_blocks: int, block_size: int):
        """All globals and the rows of the blocks from `start`: `[b, 1, C, g, q]`."""
        # [b, 1, g, 1]: the same for all blocks.
        keys = st.as_rows(jax.tree.map(lambda x: x[:, None], self.global_))
        queries = self._queries(start, num_blocks, block_size)
        mask, label = st.l2g(self.rules, queries, keys)
        return _heads(mask), self._side(label)

    def g2g(self):
        """All globals and all globals: `[b, 1, g, g]`."""
        mask, label = st.g2g(
            self.rules, st.as_columns(self.global_), st.as_rows(self.global_)
        )
        # All devices have the global keys: in the joint softmax they count once.
        mask = self.shard.once(mask)
        if label is None:
            return _heads(mask), None
        others = ()
        if self.global_.order_ids is not None:
            others += (self.rules.other_order_label,)
        if self.rules.parent_labels is not None and self.global_.parent is not None:
            others += tuple(dict.fromkeys(self.rules.parent_labels))
        base = label_ops.Distance(self.rules.max_distance, 0, mask.shape[-1])
        return _heads(mask), ChosenLabels.make(base, label, others)

    def g2l(self, start, size: int):
        """Long tokens from `start` and all globals: `[b, 1, size, g]`."""

        def cut(x):
            return blocking.slice_axis(x, start + self.radius, size, -1)

        keys = st.as_rows(jax.tree.map(cut, self.long))
        mask, label = st.g2l(self.rules, st.as_columns(self.global_), keys)
        return _heads(mask), self._side(label)

    def _side(self, label):
        if label is None:
            return None
        unlinked, *linked = self.rules.side_labels[: len(self.long.links) + 1]
        return ChosenLabels.make(label_ops.Constant(unlinked), label, tuple(linked))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ExplicitPairs:
    """Pairs of an `ExplicitStructure`; long rows and columns padded to whole blocks.

    Attributes:
      tensors: the structure, cut to `radius` and padded.
      real: `[1, radius + padded + radius]` bool, places that exist.
      local: `[1, radius + padded + radius]` bool, places that are not a neighbour's.
      shard: of these long tokens in the whole sequence.
      radius: as `RulePairs.radius`.
    """

    tensors: st.ExplicitStructure
    real: Array
    local: Array
    shard: SequenceShard = dataclasses.field(metadata=_STATIC)
    radius: int = dataclasses.field(metadata=_STATIC)

    @classmethod
    def make(
        cls,
        structure: st.ExplicitStructure,
        n: int,
        radius: int,
        padded: int,
        shard: SequenceShard,
    ):
        """Cuts l2l tensors to `radius` and pads the long axes to `padded`."""
        after = padded - n

        def prepare(name, x):
            if x is None:
                return None
            if name.startswith("l2l"):
                middle = x.shape[-1] // 2
                # [b, n, width] -> [b, n, 2r + 1], of the radius at hand.
                x = x[..., middle - radius : middle + radius + 1]
            if name.startswith("l2"):
                return blocking.pad_axis(x, -2, 0, after)
            return blocking.pad_axis(x, -1, 0, after) if "g2l" in name else x

        tensors = {
            f.name: prepare(f.name, getattr(structure, f.name))
            for f in dataclasses.fields(structure)
        }
        index = jnp.arange(-radius, padded + radius)[None]
        # Place in the whole sequence, [1, radius + padded + radius].
        whole = shard.first(n) + index
        real = (whole >= 0) & (whole < shard.total(n))
        local = real & (index >= 0) & (index < n)
        return cls(st.ExplicitStructure(**tensors), real, local, shard, radius)

    def _piece(self, name: str, cut):
        """(mask, labels) of one piece; `cut` makes `[..., q, keys]` of a tensor."""

        def prepare(x):
            # [b, ..., q, keys] -> [b, 1, ..., keys, q].
            return None if x is None else jnp.swapaxes(_heads(cut(x)), -1, -2)

        mask = prepare(getattr(self.tensors, f"{name}_mask"))
        label = prepare(getattr(self.tensors, f"{name}_labels"))
        return (
            None if mask is None else mask > 0,
            None if label is None else GivenLabels(label),
        )

    def _row_cut(self, start, num_blocks: int, block_size: int):
        def cut(x):
            part = blocking.slice_axis(x, start, num_blocks * block_size, -2)
            return blocking.blocks(part, num_blocks, -2)

        return cut

    def l2l(self, start, num_blocks: int, block_size: int):
        """See `RulePairs.l2l`."""
        cut = self._row_cut(start, num_blocks, block_size)
        # Band to window: [b, C, q, 2r + 1] -> [b, C, q, w] -> [b, 1, C, w, q].
        mask, labels = self._piece("l2l", lambda x: label_ops.shear(cut(x)))
        if mask is None:
            band = jnp.ones((block_size, 2 * self.radius + 1), jnp.int32)
            mask = label_ops.shear(band).T[None, None, None] > 0
        size = num_blocks * block_size + 2 * self.radius
        real = blocking.slice_axis(self.real, start, size, -1)
        real = blocking.windows(real, num_blocks, block_size, -1)
        # Zeros around the sequence are no keys: [1, 1, C, w, 1].
        return mask & real[:, None, :, :, None], labels

    def l2g(self, start, num_blocks: int, block_size: int):
        """See `RulePairs.l2g`."""
        return self._piece("l2g", self._row_cut(start, num_blocks, block_size))

    def g2g(self):
        """See `RulePairs.g2g`."""
        mask, labels = self._piece("g2g", lambda x: x)
        if mask is None and self.shard.axis_name is not None:
            mask = jnp.ones((1, 1, 1, 1), bool)
        return None if mask is None else self.shard.once(mask), labels

    def g2l(self, start, size: int):
        """See `RulePairs.g2l`."""
        mask, labels = self._piece(
            "g2l", lambda x: blocking.slice_axis(x, start, size, -1)
        )
        # A neighbour's places are read by the global queries on the neighbour's device.
        local = blocking.slice_axis(self.local, start + self.radius, size, -1)
        local = local[:, None, :, None]
        return local if mask is None else mask & local, labels
