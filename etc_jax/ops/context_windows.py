"""Overlapping windows of a document: each token is kept by one of them.

Ivgi et al. 2022 (SLED), section 3 and appendix A. A window has `size` tokens, of which
it keeps those in the middle; `margin` tokens on each side are context. The first window
keeps its left side too. The last one ends with the document, has `size` tokens like the
others, and keeps all that is not kept yet. A document that is no longer than a window
is one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class Windows(NamedTuple):
    """How documents are cut.

    Attributes:
      size: tokens of a window.
      margin: tokens of context on each side of what an inner window keeps.
    """

    size: int
    margin: int

    @property
    def stride(self) -> int:
        """Tokens that an inner window keeps: from one window to the next."""
        return self.size - 2 * self.margin

    def count(self, length: int) -> int:
        """Windows of a document of so many tokens, at least 1."""
        return 1 + -(-max(length - self.size, 0) // self.stride)

    def last(self, lengths: Array) -> Array:
        """int, of the shape of `lengths`: the number of the last window, from 0."""
        return -(-jnp.maximum(lengths - self.size, 0) // self.stride)

    def start(self, lengths: Array, number: Array) -> Array:
        """int, of the shape that both broadcast to: the first token of a window.

        The last window, and any after it, end with the text.
        """
        return jnp.minimum(number * self.stride, jnp.maximum(lengths - self.size, 0))

    def keeper(self, lengths: Array, token: Array) -> Array:
        """The number of the window that keeps a token; int, of the broadcast shape."""
        number = (token - self.margin) // self.stride
        return jnp.clip(number, 0, self.last(lengths))

    def cut(self, x: Array, lengths: Array, number: Array) -> Array:
        """Some windows of each document.

        Args:
          x: int `[b, n]` of tokens, or of marks of them; 0 stands for what is not.
          lengths: int `[b]`.
          number: int `[k]`, of windows.

        Returns:
          int `[b, k, size]`; 0 in windows that a document does not have, and after its
          end.
        """
        # [1, k] and [b, 1] -> [b, k].
        start = self.start(lengths[:, None], number[None])
        position = start[..., None] + jnp.arange(self.size, dtype=jnp.int32)[None, None]
        exists = (number[None] >= 0) & (number[None] <= self.last(lengths[:, None]))
        exists = exists[..., None] & (position < lengths[:, None, None])
        flat = jnp.minimum(position, x.shape[1] - 1).reshape(len(x), -1)
        values = jnp.take_along_axis(x, flat, axis=1).reshape(position.shape)
        return jnp.where(exists, values, 0)


class CollectedRows(NamedTuple):
    """Rows that windows keep, collected some windows at a time.

    Attributes:
      head: `[b, margin, e]`, the left side of the first window.
      tail: `[b, size, e]`, the last window.
    """

    head: Array
    tail: Array

    @classmethod
    def none(cls, windows: Windows, b: int, width: int, dtype) -> "CollectedRows":
        """Before any window."""
        sizes = windows.margin, windows.size
        return cls(*(jnp.zeros((b, size, width), dtype) for size in sizes))

    def with_rows(
        self, windows: Windows, lengths: Array, number: Array, rows: Array
    ) -> tuple["CollectedRows", Array]:
        """These, and what inner windows keep.

        Args:
          windows: how documents were cut.
          lengths: int `[b]`.
          number: int `[k]`.
          rows: `[b, k, size, e]`.

        Returns:
          (rows kept at the ends, `[b, k, stride, e]` of all as if they were inner).
        """
        zero = jnp.zeros_like(lengths)
        head = picked(number, zero, rows[:, :, : windows.margin], self.head)
        tail = picked(number, windows.last(lengths), rows, self.tail)
        inner = rows[:, :, windows.margin : windows.margin + windows.stride]
        return CollectedRows(head, tail), inner

    def joined(
        self, windows: Windows, lengths: Array, inner: Array, length: int
    ) -> Array:
        """The row of each token.

        Args:
          windows: how documents were cut.
          lengths: int `[b]`.
          inner: `[b, windows * stride, e]`, of all windows in order.
          length: n, places of a document.

        Returns:
          `[b, n, e]`; after the end of a document any row.
        """
        position = jnp.arange(length, dtype=jnp.int32)[None]
        lengths = lengths[:, None]
        last = windows.last(lengths)
        in_tail = windows.keeper(lengths, position) == last
        # Places in head, inner rows and tail, side by side: [b, n].
        count = windows.margin + inner.shape[1]
        at = jnp.where(
            in_tail, count + position - windows.start(lengths, last), position
        )
        rows = jnp.concatenate([self.head, inner, self.tail], axis=1)
        at = jnp.clip(at, 0, rows.shape[1] - 1)
        # Mapped over the batch, so that it stays split over devices.
        return jax.vmap(lambda rows, at: rows[at])(rows, at)


def picked(number: Array, wanted: Array, rows: Array, before: Array) -> Array:
    """The window of one number, if it is among these.

    Args:
      number: int `[k]`.
      wanted: int `[b]`, the number for each document.
      rows: `[b, k, ...]` of the windows.
      before: `[b, ...]`, what is given where it is not among them.
    """
    same = number[None] == wanted[:, None]
    # [b, k, ...] -> [b, ...].
    window = jax.vmap(lambda rows, i: rows[i])(rows, jnp.argmax(same, axis=1))
    is_among = jnp.any(same, axis=1).reshape(-1, *[1] * (before.ndim - 1))
    return jnp.where(is_among, window, before)
