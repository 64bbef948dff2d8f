"""Relative-position label logits and their gradients, without a scatter.

A query's label logits `t[..., v, q] = query . embedding[v] + bias[v]` are few; the
logit of a pair is one of them, chosen by the pair's label. Autodiff would turn that
choice into a scatter-add. Here the choice and its transpose are written by hand:

* distance labels are a function of j - i, so a block of them is the band of unclipped
  distances, sheared, with the two clipped labels above and below it. Padding and
  reshaping shear; the inverse unshears; no index is involved.
* the few other labels are selected by comparison, and their transposes are masked
  sums.
* labels given as tensors are gathered, and their transpose is a masked sum a label.

Throughout, `t` is `[..., labels, q]`, a block of logits is `[..., keys, q]` (keys as
rows, as the attention forms have it), and label arrays broadcast against the block.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


def shear(rows: jax.Array) -> jax.Array:
    """Moves row i by i places: `[..., q, w]` -> `[..., q, w + q - 1]`, zeros around."""
    q, w = rows.shape[-2:]
    lead = rows.shape[:-2]
    padded = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, q)])
    # [..., q, w + q] read again in rows one place shorter: each row then begins one
    # place further to the right than the row above it.
    flat = padded.reshape(*lead, q * (w + q))[..., : q * (w + q - 1)]
    return flat.reshape(*lead, q, w + q - 1)


def unshear(block: jax.Array) -> jax.Array:
    """The transpose of `shear`: `[..., q, w + q - 1]` -> `[..., q, w]`."""
    q, wide = block.shape[-2:]
    lead = block.shape[:-2]
    flat = block.reshape(*lead, q * wide)
    flat = jnp.pad(flat, [(0, 0)] * len(lead) + [(0, q)])
    # Rows one place longer take that back: w = wide - q + 1 places of each are real.
    return flat.reshape(*lead, q, wide + 1)[..., : wide - q + 1]


def _flip(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -1, -2)


@dataclasses.dataclass(frozen=True)
class Distance:
    """Distance labels of a block: key row j is `j + offset - i` places from query i.

    Attributes:
      max_distance: k.
      offset: distance of key row 0 from query 0.
      keys: rows of the block.
    """

    max_distance: int
    offset: int
    keys: int

    def _rows(self, queries: int) -> tuple[int, int, int]:
        """(first row, one past the last row, sheared row of the first) of the band.

        Rows before the band are clipped on the left for every query, rows after it on
        the right.
        """
        k = self.max_distance
        # Clipped for all queries: on the left if even query 0 is more than k places
        # after the key, on the right if even the last one is more than k before it.
        first = min(max(0, -self.offset - k), self.keys)
        stop = max(first, min(self.keys, k + queries - self.offset))
        return first, stop, first + self.offset + k if stop > first else 0

    def _sides(self, queries: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of the band's rows beyond distance k: (left, right), `[rows, q]`."""
        first, stop, _ = self._rows(queries)
        distance = np.arange(first, stop)[:, None] + self.offset - np.arange(queries)
        return distance < -self.max_distance, distance > self.max_distance

    def _spread(self, x: np.ndarray, ndim: int) -> np.ndarray:
        return x.reshape((1,) * (ndim - 2) + x.shape)

    def logits(self, t: jax.Array) -> jax.Array:
        """`[..., labels, q]` -> `[..., keys, q]`."""
        q, ndim = t.shape[-1], t.ndim
        first, stop, start = self._rows(q)
        k = self.max_distance
        # Labels 0..k are distances 0..k, labels k + 1..2k are distances -1..-k. By
        # distance, from -k to k: [..., 2k + 1, q].
        near = [jnp.flip(t[..., k + 1 : 2 * k + 1, :], axis=-2), t[..., : k + 1, :]]
        near = jnp.concatenate(near, axis=-2)
        # Logits of the two clipped labels, [..., 1, q].
        far_left, far_right = near[..., :1, :], near[..., -1:, :]
        # [..., q, 2k + 1] -> [..., q, 2k + q], of which the band -> [..., rows, q].
        band = _flip(shear(_flip(near))[..., start : start + stop - first])
        left, right = (self._spread(side, ndim) for side in self._sides(q))
        band = jnp.where(left, far_left, jnp.where(right, far_right, band))

        def repeat(row, rows):
            return jnp.broadcast_to(row, (*t.shape[:-2], rows, q))

        parts = [repeat(far_left, first), band, repeat(far_right, self.keys - stop)]
        return jnp.concatenate(parts, axis=-2)

    def gradient(self, block: jax.Array, num_labels: int) -> jax.Array:
        """`[..., keys, q]` -> `[..., labels, q]`: the transpose of `logits`."""
        q, ndim = block.shape[-1], block.ndim
        first, stop, start = self._rows(q)
        band = block[..., first:stop, :]
        left, right = (self._spread(side, ndim) for side in self._sides(q))

        def total(side, rest):
            inside = jnp.sum(jnp.where(side, band, 0), axis=-2, keepdims=True)
            return inside + jnp.sum(rest, axis=-2, keepdims=True)

        far_left = total(left, block[..., :first, :])
        far_right = total(right, block[..., stop:, :])
        wide = 2 * self.max_distance + q
        # [..., q, rows] -> [..., q, 2k + q], as `shear` gives it.
        sheared = jnp.pad(
            _flip(band),
            [(0, 0)] * (ndim - 1) + [(start, wide - start - (stop - first))],
        )
        # Pairs of the band beyond distance k fall off here; `total` has them. By
        # distance: [..., 2k + 1, q].
        near = _flip(unshear(sheared))
        inner = near.shape[-2] - 2
        ends = [(0, 0)] * (ndim - 2)
        near = (
            near
            + jnp.pad(far_left, [*ends, (0, inner + 1), (0, 0)])
            + jnp.pad(far_right, [*ends, (inner + 1, 0), (0, 0)])
        )
        k = self.max_distance
        # By label again: 0..k, k + 1..2k, then those that no distance has.
        dt = [near[..., k:, :], jnp.flip(near[..., :k, :], axis=-2)]
        unused = jnp.zeros((*near.shape[:-2], num_labels - 2 * k - 1, q), near.dtype)
        return jnp.concatenate([*dt, unused], axis=-2)


@dataclasses.dataclass(frozen=True)
class Constant:
    """One label for every pair."""

    label: int

    def logits(self, t: jax.Array) -> jax.Array:
        """`[..., labels, q]` -> `[..., 1, q]`."""
        return t[..., self.label, None, :]

    def gradient(self, block: jax.Array, num_labels: int) -> jax.Array:
        """The transpose of `logits`, for a block `[..., keys, q]`."""
        row = jnp.sum(block, axis=-2, keepdims=True)
        after = num_labels - self.label - 1
        widths = [(0, 0)] * (block.ndim - 2) + [(self.label, after), (0, 0)]
        return jnp.pad(row, widths)


def choose(logits: jax.Array, rows, masks) -> jax.Array:
    """The given logits, but one of the `rows` where its place is true.

    Args:
      logits: `[..., keys or 1, q]`.
      rows: label logits `[..., 1, q]`, the later ones first in rank.
      masks: bool for each row, broadcastable to the block.
    """
    for row, mask in zip(rows, masks, strict=True):
        logits = jnp.where(mask, row, logits)
    return logits


def choose_gradient(block: jax.Array, base, values, masks, num_labels: int):
    """`[..., keys, q]` -> `[..., labels, q]`: the transpose of `choose`.

    Of base logits and the rows of labels `values`.
    """
    # The last row wins in `choose`, so it takes its places first.
    rest, parts = block, []
    for value, mask in zip(reversed(values), reversed(masks), strict=True):
        parts.append(Constant(value).gradient(jnp.where(mask, rest, 0), num_labels))
        rest = jnp.where(mask, 0, rest)
    return sum(parts, base.gradient(rest, num_labels))


def gather(t: jax.Array, label: jax.Array) -> jax.Array:
    """Logits of labels given one by one; `label` broadcasts to `[..., keys, q]`."""
    lead = jnp.broadcast_shapes(t.shape[:-2], label.shape[:-2])
    t = jnp.broadcast_to(t, (*lead, *t.shape[-2:]))
    label = jnp.broadcast_to(label, (*lead, *label.shape[-2:]))
    # [..., labels, q] at [..., keys, q] -> [..., keys, q].
    return jnp.take_along_axis(t, label, axis=-2)


def gather_gradient(block: jax.Array, label: jax.Array, num_labels: int) -> jax.Array:
    """`[..., keys, q]` -> `[..., labels, q]`: the transpose of `gather`."""

    def one(v):
        return jnp.sum(jnp.where(label == v, block, 0), axis=-2)

    # [labels, ..., q] -> [..., labels, q].
    return jnp.moveaxis(jax.lax.map(one, jnp.arange(num_labels)), 0, -2)
