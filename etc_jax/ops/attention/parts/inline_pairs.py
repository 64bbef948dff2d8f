"""Who sees whom in one sequence, some of whose tokens are global (Longformer).

The same four kinds of blocks as `attention.pairs`; labels are offsets in the window, if
there are any. Global tokens stand in the sequence themselves, so a key that is global
is left out of the windows, and all that a global query sees are the tokens of the
sequence.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking, labels as label_ops
from etc_jax.ops.attention.parts.pairs import ChosenLabels, SequenceShard

Array = jax.Array

_STATIC = {"static": True}


class Tokens(NamedTuple):
    """What a pair is judged by.

    Attributes:
      example: int `[b, n]`; 0 is padding, packed examples do not see each other.
      position: int `[b, n]`, place in the sequence; read for causal attention.
      is_global: bool `[b, n]`.
    """

    example: Array
    position: Array
    is_global: Array


def of_examples(ids: Array) -> Tokens:
    """Tokens of which only examples are read: nothing is causal, there are no windows.

    Args:
      ids: int `[b, n]`; 0 is padding.
    """
    nothing = jnp.zeros_like(ids)
    return Tokens(ids, nothing, nothing > 0)


def same_example(query: Tokens, key: Tokens, causal: bool) -> Array:
    """bool, of the shape that both broadcast to: whether a query sees a key.

    They are of one example, and if `causal` the key is not after the query.
    """
    seen = (query.example == key.example) & (key.example > 0)
    return seen & (key.position <= query.position) if causal else seen


def as_rows(x: Tokens) -> Tokens:
    """Keys: `[..., keys]` -> `[..., keys, 1]`."""
    return jax.tree.map(lambda a: a[..., :, None], x)


def as_columns(x: Tokens) -> Tokens:
    """Queries: `[..., q]` -> `[..., 1, q]`."""
    return jax.tree.map(lambda a: a[..., None, :], x)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class InlinePairs:
    """Pairs of a sequence under the rules of this module.

    Attributes:
      keys: of the sequence, `[b, radius + blocks + radius]`, with what lies around.
      queries: of the sequence, `[b, blocks]`.
      side: of the global tokens, `[b, g]`; example 0 where there is none.
      radius: how far a window reaches to each side.
      causal: no key after the query.
      labelled: whether each offset has a label: 0, 1, ... of the query's own place and
        those after it, then those before it, the nearest first.
    """

    keys: Tokens
    queries: Tokens
    side: Tokens
    radius: int = dataclasses.field(metadata=_STATIC)
    causal: bool = dataclasses.field(metadata=_STATIC)
    labelled: bool = dataclasses.field(default=False, metadata=_STATIC)

    @classmethod
    def make(
        cls,
        tokens: Tokens,
        side: Tokens,
        radius: int,
        padded: int,
        causal: bool,
        shard: SequenceShard,
        labelled: bool = False,
    ) -> InlinePairs:
        """Pads the vectors of the sequence to `radius + padded + radius` places."""
        tail = padded - tokens.example.shape[-1]

        def with_tail(x):
            return blocking.pad_axis(x, -1, 0, tail)

        # What neighbours exchange travels as one type.
        ints = [x.astype(jnp.int32) for x in tokens]
        example, position, is_global = map(with_tail, shard.around(ints, radius, -1))
        return cls(
            keys=Tokens(example, position, is_global > 0),
            queries=jax.tree.map(with_tail, tokens),
            side=side,
            radius=radius,
            causal=causal,
            labelled=labelled,
        )

    def _queries(self, start, num_blocks: int, block_size: int) -> Tokens:
        def cut(x):
            part = blocking.slice_axis(x, start, num_blocks * block_size, -1)
            return blocking.blocks(part, num_blocks, -1)

        return as_columns(jax.tree.map(cut, self.queries))

    def l2l(self, start, num_blocks: int, block_size: int):
        """Windows of the blocks from `start` and their rows: `[b, 1, C, q + 2r, q]`."""
        size = num_blocks * block_size + 2 * self.radius

        def cut(x):
            part = blocking.slice_axis(x, start, size, -1)
            return blocking.windows(part, num_blocks, block_size, -1)

        # Keys [b, C, w, 1], queries [b, C, 1, q]; w = q + 2r.
        keys = as_rows(jax.tree.map(cut, self.keys))
        queries = self._queries(start, num_blocks, block_size)
        width = block_size + 2 * self.radius
        slot, row = (
            jax.lax.broadcasted_iota(jnp.int32, (width, block_size), axis)
            for axis in (0, 1)
        )
        # [w, q]: slot s of row i is s - r - i places away, at most r.
        near = (slot >= row) & (slot <= row + 2 * self.radius)
        # Global keys stand beside the window: in it too they would count twice.
        mask = same_example(queries, keys, self.causal) & ~keys.is_global
        labels = None
        if self.labelled:
            # Slot 0 is r places before query 0.
            base = label_ops.Distance(self.radius, -self.radius, width)
            labels = ChosenLabels(base=base)
        return (near[None, None] & mask)[:, None], labels

    def l2g(self, start, num_blocks: int, block_size: int):
        """Global keys and the rows of the blocks from `start`: `[b, 1, C, g, q]`."""
        # Keys [b, 1, g, 1], queries [b, C, 1, q].
        keys = as_rows(jax.tree.map(lambda x: x[:, None], self.side))
        queries = self._queries(start, num_blocks, block_size)
        return same_example(queries, keys, self.causal)[:, None], None

    def g2g(self):
        """Nothing: global tokens are keys where they stand."""
        return jnp.zeros((1, 1, 1, 1), bool), None

    def g2l(self, start, size: int):
        """Tokens from `start` and all global queries: `[b, 1, size, g]`."""

        def cut(x):
            return blocking.slice_axis(x, start, size, -1)

        keys = as_rows(jax.tree.map(cut, self.queries))
        # Queries [b, 1, g], keys [b, size, 1].
        mask = same_example(as_columns(self.side), keys, self.causal)
        return mask[:, None], None
