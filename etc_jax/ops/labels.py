"""Relative-position label logits and their gradients, without a scatter.

A query's label logits `t[..., q, v] = query . embedding[v] + bias[v]` are few; the
logit of a pair is one of them, chosen by the pair's label. Autodiff would turn that
choice into a scatter-add. Here the choice and its transpose are written by hand:

* distance labels are a function of j - i, so a block of them is the row of label
  logits by distance, sheared: each query row moved one key to the right of the row
  above. Padding and reshaping shear; the inverse unshears; no index is involved.
* the few other labels are selected by comparison, and their transposes are masked
  sums.
* labels given as tensors are gathered, and their transpose is a masked sum a label.

Throughout, `t` is `[..., q, labels]`, a block of logits is `[..., q, keys]`, and label
arrays broadcast against the block.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


def distance_order(max_distance: int) -> np.ndarray:
    """Distance labels from the far left to the far right: 2k .. k+1, 0, 1 .. k."""
    k = max_distance
    return np.concatenate([np.arange(2 * k, k, -1), np.arange(k + 1)])


def shear(rows: jax.Array) -> jax.Array:
    """Moves row i by i places: `[..., q, w]` -> `[..., q, w + q - 1]`, zeros around."""
    q, w = rows.shape[-2:]
    lead = rows.shape[:-2]
    padded = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, q)])
    flat = padded.reshape(*lead, q * (w + q))[..., : q * (w + q - 1)]
    return flat.reshape(*lead, q, w + q - 1)


def unshear(block: jax.Array) -> jax.Array:
    """The transpose of `shear`: `[..., q, w + q - 1]` -> `[..., q, w]`."""
    q, wide = block.shape[-2:]
    lead = block.shape[:-2]
    flat = block.reshape(*lead, q * wide)
    flat = jnp.pad(flat, [(0, 0)] * len(lead) + [(0, q)])
    return flat.reshape(*lead, q, wide + 1)[..., : wide - q + 1]


def _spread(t: jax.Array, max_distance: int, radius: int) -> jax.Array:
    """`[..., 2k+1]` in distance order -> `[..., 2r+1]`: clipped ends repeated."""
    k, r = max_distance, radius
    if r <= k:
        return t[..., k - r : k + r + 1]
    far = r - k
    left = jnp.broadcast_to(t[..., :1], (*t.shape[:-1], far))
    right = jnp.broadcast_to(t[..., -1:], (*t.shape[:-1], far))
    return jnp.concatenate([left, t, right], axis=-1)


def _gather_up(x: jax.Array, max_distance: int, radius: int) -> jax.Array:
    """The transpose of `_spread`: the columns of one label are summed."""
    k, r = max_distance, radius
    if r <= k:
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(k - r, k - r)])
    far = r - k
    left = jnp.sum(x[..., : far + 1], axis=-1, keepdims=True)
    right = jnp.sum(x[..., -far - 1 :], axis=-1, keepdims=True)
    if k == 0:
        return jnp.sum(x, axis=-1, keepdims=True)
    return jnp.concatenate([left, x[..., far + 1 : -far - 1], right], axis=-1)


@dataclasses.dataclass(frozen=True)
class Band:
    """Distance labels of a block of queries and its window of keys.

    Column j of the window is `radius` places to the left of row 0, plus j.

    Attributes:
      max_distance: k.
      radius: distances beyond it need no logits (they are masked).
    """

    max_distance: int
    radius: int

    def logits(self, t: jax.Array) -> jax.Array:
        """`[..., q, labels]` -> `[..., q, q + 2 * radius]`."""
        ordered = jnp.take(t, distance_order(self.max_distance), axis=-1)
        return shear(_spread(ordered, self.max_distance, self.radius))

    def gradient(self, block: jax.Array, num_labels: int) -> jax.Array:
        """The transpose of `logits`."""
        ordered = _gather_up(unshear(block), self.max_distance, self.radius)
        inverse = np.argsort(distance_order(self.max_distance))
        dt = jnp.take(ordered, inverse, axis=-1)
        unused = num_labels - dt.shape[-1]
        return jnp.pad(dt, [(0, 0)] * (dt.ndim - 1) + [(0, unused)])


@dataclasses.dataclass(frozen=True)
class Square:
    """Distance labels of q queries and the same q keys."""

    max_distance: int
    length: int

    def _band(self) -> Band:
        return Band(self.max_distance, max(self.length - 1, 1))

    def logits(self, t: jax.Array) -> jax.Array:
        """`[..., q, labels]` -> `[..., q, q]`."""
        band = self._band()
        return band.logits(t)[..., band.radius : band.radius + self.length]

    def gradient(self, block: jax.Array, num_labels: int) -> jax.Array:
        """The transpose of `logits`."""
        band = self._band()
        widths = [(0, 0)] * (block.ndim - 1) + [(band.radius, band.radius)]
        return band.gradient(jnp.pad(block, widths), num_labels)


@dataclasses.dataclass(frozen=True)
class Constant:
    """One label for every pair."""

    label: int

    def logits(self, t: jax.Array) -> jax.Array:
        """`[..., q, labels]` -> `[..., q, 1]`."""
        return t[..., self.label, None]

    def gradient(self, block: jax.Array, num_labels: int) -> jax.Array:
        """The transpose of `logits`, for a block `[..., q, keys]`."""
        column = jnp.sum(block, axis=-1, keepdims=True)
        after = num_labels - self.label - 1
        return jnp.pad(column, [(0, 0)] * (block.ndim - 1) + [(self.label, after)])


def choose(t: jax.Array, base, label, others: tuple[int, ...]) -> jax.Array:
    """Logits of `base`, except where `label` is one of `others`."""
    logits = base.logits(t)
    for other in others:
        logits = jnp.where(label == other, t[..., other, None], logits)
    return logits


def choose_gradient(block, base, label, others: tuple[int, ...], num_labels: int):
    """The transpose of `choose`."""
    rest, columns = block, []
    for other in others:
        chosen = label == other
        columns.append(jnp.sum(jnp.where(chosen, block, 0), axis=-1))
        rest = jnp.where(chosen, 0, rest)
    dt = base.gradient(rest, num_labels)
    for other, column in zip(others, columns, strict=True):
        onehot = np.eye(num_labels, dtype=np.float32)[other]
        dt = dt + column[..., None] * onehot.reshape((1,) * column.ndim + (-1,))
    return dt


def gather(t: jax.Array, label: jax.Array) -> jax.Array:
    """Logits of labels given one by one; `label` broadcasts to `[..., q, keys]`."""
    shape = jnp.broadcast_shapes(t.shape[:-1], label.shape[:-1])
    t = jnp.broadcast_to(t, (*shape, t.shape[-1]))
    return jnp.take_along_axis(
        t, jnp.broadcast_to(label, (*shape, label.shape[-1])), axis=-1
    )


def gather_gradient(block: jax.Array, label: jax.Array, num_labels: int) -> jax.Array:
    """The transpose of `gather`."""

    def one(v):
        return jnp.sum(jnp.where(label == v, block, 0), axis=-1)

    columns = jax.lax.map(one, jnp.arange(num_labels))
    return jnp.moveaxis(columns, 0, -1)
