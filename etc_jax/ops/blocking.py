"""Cutting a sequence into blocks with windows of neighbours, and back.

All functions work along one axis, use slices only, and have static shapes.
"""

import functools

import jax
import jax.numpy as jnp

# Branches that call one function share its trace.
_TRACED_ONCE = functools.partial(jax.jit, inline=True)


def materialised(fn, witness: jax.Array, *args):
    """`fn(*args)`, kept out of the loops that use it where that is faster: on CPU.

    XLA's CPU compiler fuses integer masks into the loop over heads and then runs it
    element by element: measured 14 times slower than reading the finished mask. The
    branch of a conditional is a boundary it does not fuse across.

    Args:
      fn: function of arrays that returns a pytree of arrays.
      witness: int scalar below 2**31 - 1 that the compiler does not know, so that it
        cannot drop the conditional.
      *args: of `fn`.
    """
    fn = _TRACED_ONCE(fn)

    def empty(*args):
        # The branch that never runs must give the same shapes and dtypes.
        shapes = jax.eval_shape(fn, *args)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def on_cpu(witness, *args):
        return jax.lax.cond(witness < 2**31 - 1, fn, empty, *args)

    def elsewhere(witness, *args):
        del witness
        return fn(*args)

    return jax.lax.platform_dependent(witness, *args, cpu=on_cpu, default=elsewhere)


def like(x: jax.Array) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def pad_axis(x: jax.Array, axis: int, before: int, after: int, value=0) -> jax.Array:
    """`[..., n, ...]` -> `[..., before + n + after, ...]`, with `value` around."""
    if not before and not after:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (before, after)
    return jnp.pad(x, widths, constant_values=value)


def slice_axis(x: jax.Array, start, size: int, axis: int) -> jax.Array:
    """`[..., n, ...]` -> `[..., size, ...]` from a (possibly traced) `start`."""
    return jax.lax.dynamic_slice_in_dim(x, start, size, axis)


def blocks(x: jax.Array, num_blocks: int, axis: int) -> jax.Array:
    """`[..., num_blocks * size, ...]` -> `[..., num_blocks, size, ...]`."""
    axis %= x.ndim
    shape = (*x.shape[:axis], num_blocks, -1, *x.shape[axis + 1 :])
    size = x.shape[axis] // num_blocks
    return x.reshape(*shape[: axis + 1], size, *shape[axis + 2 :])


def unblock(x: jax.Array, axis: int) -> jax.Array:
    """`[..., C, size, ...]` -> `[..., C * size, ...]`; the inverse of `blocks`."""
    axis %= x.ndim
    merged = x.shape[axis] * x.shape[axis + 1]
    return x.reshape(*x.shape[:axis], merged, *x.shape[axis + 2 :])


def windows(x: jax.Array, num_blocks: int, block_size: int, axis: int) -> jax.Array:
    """`[..., C * block_size + 2r, ...]` -> windows `[..., C, block_size + 2r, ...]`.

    Window i starts at place `i * block_size`, `block_size + 2r` wide, so with r
    places of padding before the first block it reaches r to each side of block i.
    """
    axis %= x.ndim
    if num_blocks == 1:
        return jnp.expand_dims(x, axis)
    # w = block_size + 2r. Padded so that the last block of the last window is whole:
    # [..., (C + ceil(w / block_size) - 1) * block_size, ...].
    width = x.shape[axis] - (num_blocks - 1) * block_size
    x = pad_axis(x, axis, 0, -width % block_size)
    # The first blocks of all windows, then the second ones, ...: a window is few
    # blocks, while there may be hundreds of windows, each an operation of its own.
    parts = []
    for start in range(0, width, block_size):
        end = start + num_blocks * block_size
        part = jax.lax.slice_in_dim(x, start, end, axis=axis)
        # One block of every window: [..., C * block, ...] -> [..., C, block, ...].
        part = blocks(part, num_blocks, axis)
        size = min(block_size, width - start)
        parts.append(jax.lax.slice_in_dim(part, 0, size, axis=axis + 1))
    # [..., C, block, ...] of each part -> [..., C, w, ...].
    return jnp.concatenate(parts, axis=axis + 1)


def overlap_add(x: jax.Array, block_size: int, axis: int) -> jax.Array:
    """`[..., C, w, ...]` -> `[..., (C - 1) * block_size + w, ...]`, summed.

    The transpose of `windows`.
    """
    axis %= x.ndim
    num_blocks, width = x.shape[axis], x.shape[axis + 1]
    if num_blocks == 1:
        return jnp.squeeze(x, axis)
    # [..., C, w, ...] -> [..., C, whole blocks, ...].
    x = pad_axis(x, axis + 1, 0, -width % block_size)
    after = x.shape[axis + 1] - block_size
    out = jnp.zeros((), x.dtype)
    for start in reversed(range(0, width, block_size)):
        part = jax.lax.slice_in_dim(x, start, start + block_size, axis=axis + 1)
        # [..., C * block, ...], at the places that these blocks were cut from.
        out = out + pad_axis(unblock(part, axis), axis, start, after - start)
    total = (num_blocks - 1) * block_size + width
    return jax.lax.slice_in_dim(out, 0, total, axis=axis)


def add_windows(
    total: jax.Array, x: jax.Array, block_size: int, start, axis: int
) -> jax.Array:
    """`total` with windows `[..., C, w, ...]` added where they came from.

    The first one is from `start` on. In the shape of `total`.
    """
    part = overlap_add(x, block_size, axis)
    old = slice_axis(total, start, part.shape[axis], axis)
    return jax.lax.dynamic_update_slice_in_dim(total, old + part, start, axis)


# Bytes of logits that one step works on.
_STEP_BYTES = {"cpu": 2**22, "other": 2**28}


def step_bytes() -> int:
    """Bytes of logits that one step should have, on the device compiled for."""
    return _STEP_BYTES["cpu" if for_cpu() else "other"]


def for_cpu() -> bool:
    """Whether the device compiled for is a CPU."""
    return _platform() == "cpu"


def for_gpu() -> bool:
    """Whether the device compiled for is a GPU."""
    return _platform() in ("cuda", "gpu")


def for_tpu() -> bool:
    """Whether the device compiled for is a TPU."""
    return _platform() == "tpu"


def _platform() -> str:
    # The mesh may be of devices that are not here, to compile for.
    device = jax.sharding.get_abstract_mesh().abstract_device
    return device.platform if device else jax.default_backend()


def each_step(body, carry, count: int):
    """`jax.lax.scan` over the numbers of `count` steps; one step needs no loop."""
    if count == 1:
        carry, out = body(carry, jnp.zeros((), jnp.int32))
        return carry, jax.tree.map(lambda x: x[None], out)
    return jax.lax.scan(body, carry, jnp.arange(count, dtype=jnp.int32))


def join_steps(x: jax.Array, axis: int) -> jax.Array:
    """Steps of blocks `[steps, ..., C, q, ...]` -> `[..., steps * C * q, ...]`."""
    # [steps, ..., C, q, ...] -> [..., steps, C, q, ...].
    x = jnp.moveaxis(x, 0, axis)
    return unblock(unblock(x, axis), axis)


def join_heads(x: jax.Array) -> jax.Array:
    """`[b, n, h, d]` -> `[b, n, h * d]`.

    What is cut and put together is so: a TPU's tiles are of the last two axes, and
    h and d are no multiples of theirs.
    """
    return x.reshape(*x.shape[:2], -1)


def split_heads(x: jax.Array, h: int) -> jax.Array:
    """`[b, n, h * d]` -> `[b, n, h, d]`."""
    return x.reshape(*x.shape[:2], h, -1)
