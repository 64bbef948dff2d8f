"""A long sequence split over a mesh axis: what its devices exchange.

Local attention needs the radius's worth of tokens from each neighbour (a halo), and
the few global rows one softmax over all devices. Everything else is a matter of the
token alone. The functions are for the inside of `split`, but for `take_rows`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.softmax import MASKED

Array = jax.Array


def split(fn: Callable, axis_name: str, in_specs: Any, out_specs: Any) -> Callable:
    """`fn` on each device's part of the sequence; other mesh axes stay as they are.

    Args:
      fn: function of arrays.
      axis_name: mesh axis of the sequence, of the mesh in `jax.set_mesh`.
      in_specs: `jax.P`s for the arguments, naming that axis alone.
      out_specs: `jax.P`s for the results, naming that axis alone.
    """
    return jax.shard_map(
        fn,
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names={axis_name},
        # What is the same everywhere is so by `psum`, which the check cannot follow
        # through custom gradients.
        check_vma=False,
    )


def size(axis_name: str) -> int:
    """Devices along a mesh axis of the mesh in `jax.set_mesh`."""
    return jax.sharding.get_abstract_mesh().shape[axis_name]


def _shift(x: Array, hops: int, axis_name: str) -> Array:
    """What stands `hops` devices before this one; zeros where there is none."""
    count = jax.lax.axis_size(axis_name)
    pairs = [(i, i + hops) for i in range(count) if 0 <= i + hops < count]
    if not pairs:
        return jnp.zeros_like(x)
    return jax.lax.ppermute(x, axis_name, pairs)


def halo(
    arrays: Sequence[Array], radius: int, axis: int, axis_name: str
) -> tuple[Array, ...]:
    """Each array with `radius` places of its neighbours on either side.

    The neighbours' places travel together, in one message each way and, where the
    radius is more than a device's part, one more for each further device.

    Args:
      arrays: of one shape and dtype, a part of the sequence along `axis`.
      radius: places; zeros stand for those before the first and after the last device.
      axis: of the sequence.
      axis_name: mesh axis.

    Returns:
      The arrays, `2 * radius` longer along `axis`.
    """
    length = arrays[0].shape[axis]
    axis %= arrays[0].ndim

    def edges(start: int, stop: int) -> Array:
        # One message for all arrays: [arrays, ..., places, ...].
        return jnp.stack(
            [jax.lax.slice_in_dim(x, start, stop, axis=axis) for x in arrays]
        )

    before, after = [], []
    for hop in range(1, -(-radius // length) + 1):
        width = min(length, radius - (hop - 1) * length)
        # From the device so many hops away: of the one before its last places, of the
        # one after its first. Only the furthest one may give fewer than all.
        before.insert(0, _shift(edges(length - width, length), hop, axis_name))
        after.append(_shift(edges(0, width), -hop, axis_name))
    return tuple(
        # [..., radius + length + radius, ...].
        jnp.concatenate([*(b[i] for b in before), x, *(a[i] for a in after)], axis)
        for i, x in enumerate(arrays)
    )


def join_softmax(output: Array, lse: Array, axis_name: str) -> Array:
    """One softmax over the keys of all devices, from the softmax of each one's keys.

    Args:
      output: `[..., q, d]` over this device's keys.
      lse: `[..., q]` log-sum-exp of the logits; -MASKED where the row saw none.
      axis_name: mesh axis.

    Returns:
      `[..., q, d]`; zeros in rows that see nothing anywhere.
    """
    # A row that saw none has +1e30, which must not be the maximum over devices.
    seen = lse < -MASKED / 2
    lse = jnp.where(seen, lse, MASKED)
    # [..., q]. The maximum cancels in the result, so it needs no gradient.
    top = jax.lax.pmax(jax.lax.stop_gradient(lse), axis_name)
    weight = jnp.where(seen, jnp.exp(lse - top), 0)[..., None]
    # [..., q, d + 1]: weighted outputs and weights in one psum.
    parts = jnp.concatenate([weight * output.astype(weight.dtype), weight], axis=-1)
    total = jax.lax.psum(parts, axis_name)
    acc, weight = total[..., :-1], total[..., -1:]
    # The inner `where` keeps 0 / 0 out of the values and of their gradients.
    return jnp.where(weight > 0, acc / jnp.where(weight > 0, weight, 1), 0).astype(
        output.dtype
    )


def pad_to_multiple(x: Array, axis: int, ways: int) -> Array:
    """`[..., n, ...]` with zeros at the end, so that `ways` divides the axis."""
    return blocking.pad_axis(x, axis, 0, -x.shape[axis] % ways)


def take_rows(x: Array, positions: Array, axis_name: str | None = None) -> Array:
    """The rows of `x` at `positions`, for each example of the batch.

    With a split sequence each device picks what it has, and one reduction leaves each
    with its share of the rows, so that what is done to them is split as well.

    Args:
      x: `[b, n, e]`.
      positions: int `[b, p]`, in 0..n - 1.
      axis_name: mesh axis that n is split over; None: it is whole.

    Returns:
      `[b, p, e]`.
    """
    if axis_name is None:
        return jnp.take_along_axis(x, positions[..., None], axis=1)
    ways, count = size(axis_name), positions.shape[1]
    x = pad_to_multiple(x, 1, ways)
    positions = pad_to_multiple(positions, 1, ways)

    def pick(x, positions):
        index = positions - jax.lax.axis_index(axis_name) * x.shape[1]
        is_local = (index >= 0) & (index < x.shape[1])
        # [b, n / ways, e] -> [b, p, e], zeros where another device has the row.
        rows = jnp.take_along_axis(x, jnp.where(is_local, index, 0)[..., None], axis=1)
        rows = jnp.where(is_local[..., None], rows, 0)
        # Summed over devices, of which each keeps its part: [b, p / ways, e].
        return jax.lax.psum_scatter(rows, axis_name, scatter_dimension=1, tiled=True)

    long = jax.P(None, axis_name)
    rows = split(pick, axis_name, (long, jax.P()), long)(x, positions)
    return rows[:, :count]
