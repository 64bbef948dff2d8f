"""What the kernels know of pairs of tokens: integers of each, and rules for pairs.

A softmax has one or two pieces, each a set of keys. In a kernel the integers of some
rows and of some keys are loaded, and the very functions that the other forms call say
of each pair whether the key is seen, and under which label.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax import structure as st
from etc_jax.ops.attention.parts.inline_pairs import Tokens, same_example

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class RulePiece:
    """A piece of a `Structure` under `Rules`.

    Attributes:
      rules: the rules.
      name: "l2l", "l2g", "g2g" or "g2l".
      others: labels of pairs that are none of their distance, or all that there are.
    """

    rules: st.Rules
    name: str
    others: tuple[int, ...] = ()
    causal_in_order: ClassVar[bool] = False

    @property
    def radius(self) -> int | None:
        """How far from a row its keys are at most; None: they may be anywhere."""
        return self.rules.radius if self.name == "l2l" else None

    @property
    def max_distance(self) -> int:
        """k, if pairs have labels by their distance; else 0."""
        return self.rules.max_distance if self.name in ("l2l", "g2g") else 0

    def __call__(self, rows, keys):
        """(mask, label or None) of tokens that broadcast."""
        return getattr(st, self.name)(self.rules, rows, keys)


class Placed(NamedTuple):
    """Tokens of a sequence, some of which are global, and where they stand here."""

    index: Array
    tokens: Tokens


def placed(tokens: Tokens) -> Placed:
    """Tokens `[b, n]` in their order."""
    index = jnp.arange(tokens.example.shape[1], dtype=jnp.int32)[None]
    return Placed(index, tokens)


@dataclasses.dataclass(frozen=True)
class InlinePiece:
    """A piece of a sequence with global tokens in it, which has no labels.

    Attributes:
      radius: of the window; None: the keys are the global tokens.
      causal: no key after the row.
      in_order: whether row i stands at place i of the keys, and so does key i.
    """

    radius: int | None
    causal: bool
    in_order: bool = False
    others: tuple[int, ...] = ()
    max_distance: int = 0

    @property
    def causal_in_order(self) -> bool:
        """Whether no row sees a key of a higher number."""
        return self.causal and self.in_order

    def __call__(self, rows: Placed, keys: Placed):
        """(mask, None) of tokens that broadcast."""
        mask = same_example(rows.tokens, keys.tokens, self.causal)
        if self.radius is not None:
            far = jnp.abs(keys.index - rows.index) > self.radius
            # Global keys are a piece of their own.
            mask = mask & ~(far | keys.tokens.is_global)
        return mask, None


class Keys(NamedTuple):
    """Of one piece.

    Attributes:
      key, value: `[b, k, h, d]`.
      tokens: what the piece's rules read, each `[b or 1, k]`.
    """

    key: Array
    value: Array
    tokens: tuple


class OffsetBias(NamedTuple):
    """A bias of the offsets of the first piece, from key minus query.

    Attributes:
      values: `[h or 1, offsets]`; pairs of offsets that it does not have are masked.
      before: how many of the offsets are below 0.
    """

    values: Array
    before: int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Vectors:
    """Integers of tokens as arrays that kernels cut.

    Attributes:
      ints: int32 `[b, n]` each.
      shape: how they make what the rules read.
      bools: which of them are true or false.
    """

    ints: tuple[Array, ...]
    shape: Any = dataclasses.field(metadata={"static": True})
    bools: tuple[bool, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def make(cls, tokens: Any, batch: int, length: int) -> Vectors:
        """Of a tree with `index`, each leaf `[b or 1, n]`, padded to `length`.

        Padding is of no example. Its indices go on: a distance is one of two places.
        """
        leaves, _ = jax.tree.flatten(tokens)
        n = leaves[0].shape[-1]

        def padded(x):
            x = jnp.broadcast_to(x, (batch, n)).astype(jnp.int32)
            return jnp.pad(x, ((0, 0), (0, length - n)))

        bools = tuple(x.dtype == jnp.bool_ for x in leaves)
        index = jnp.broadcast_to(jnp.arange(length, dtype=jnp.int32), (batch, length))
        padded_tokens = jax.tree.map(padded, tokens)._replace(index=index)
        leaves, shape = jax.tree.flatten(padded_tokens)
        return cls(tuple(leaves), shape, bools)

    def without_ints(self) -> Vectors:
        """What a kernel needs besides a ref."""
        return dataclasses.replace(self, ints=())

    def of(self, fields):
        """What the rules read, of integers of the same shape, one array for each."""
        fields = [
            x > 0 if is_bool else x
            for x, is_bool in zip(fields, self.bools, strict=True)
        ]
        return jax.tree.unflatten(self.shape, fields)

    def read(self, refs, cut, axis: int):
        """In a kernel: the tokens at a slice, with a new axis before or after."""
        return self.of([jnp.expand_dims(ref[cut], axis) for ref in refs])
