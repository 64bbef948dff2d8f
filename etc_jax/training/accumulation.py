"""Gradients of a batch, at once or microbatch by microbatch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from etc_jax.sharding import constrain
from etc_jax.training.job import Batch, Params, Sums
from etc_jax.weight_gathering import as_split, collected

LossFn = Callable[[Params, Batch, jax.Array, bool], tuple[jax.Array, Sums]]


def split_rows(batch: Batch, steps: int) -> Batch:
    """Cuts each `[b, ...]` into microbatches `[steps, b / steps, ...]`.

    Row `j * steps + i` goes to microbatch i: every device then finds its part of every
    microbatch among its own rows, where contiguous pieces would have to travel.
    Scalars are repeated.

    Raises:
      ValueError: if the rows do not divide.
    """

    def one(x):
        if not jnp.ndim(x):
            return jnp.broadcast_to(x, (steps,))
        if x.shape[0] % steps:
            raise ValueError(
                f"a batch of {x.shape[0]} rows is not divisible into {steps} "
                "microbatches; change train.batch_size or train.accumulation_steps"
            )
        x = x.reshape(x.shape[0] // steps, steps, *x.shape[1:])
        x = jnp.swapaxes(x, 0, 1)
        return constrain(x, None, "batch", *[None] * (x.ndim - 2))

    return jax.tree.map(one, batch)


def loss_and_gradient(
    loss_fn: LossFn,
    params: Params,
    batch: Batch,
    rng: jax.Array,
    *,
    steps: int = 1,
    dtype: jnp.dtype | str = jnp.float32,
) -> tuple[jax.Array, Sums, Params]:
    """Loss, metrics and gradient of a batch, computed in `steps` microbatches.

    With more than one, parameters that lie over fsdp are collected once, before the
    first, and held whole until the last: 2 bytes a parameter of the layers in bfloat16.
    Their gradients are reduced, and added up in float32, each on the device that keeps
    the parameter, after each microbatch: to do that once would need 4 bytes a parameter
    on every device.

    With more than one, loss and gradient are the means over the microbatches of theirs,
    and the metrics' sums and weights are added up. For a loss that is a mean over rows
    this is what the whole batch gives. A mean over something else, such as masked
    tokens, weighs each microbatch alike, however many it has; what compares the rows
    of a batch with each other, such as in-batch negatives, sees one microbatch alone.

    Args:
      loss_fn: see `Job.loss_fn`; called with `deterministic=False`.
      params: what to derive by.
      batch: `[b, ...]` arrays; `steps` must divide b.
      rng: key; with several microbatches, each has its own, folded in by its number.
      steps: microbatches, one after the other.
      dtype: of the products of the layers, in which their parameters are collected.

    Returns:
      (float32 scalar, {name: (sum, weight)}, gradient in the dtypes of `params`).
    """
    gradient_fn = jax.value_and_grad(loss_fn, has_aux=True)
    if steps == 1:
        (loss, sums), gradient = gradient_fn(params, batch, rng, False)
        return loss, sums, gradient

    whole = collected(params, dtype, layers_only=True)

    def microbatch(inputs):
        number, rows = inputs
        (loss, sums), gradient = gradient_fn(
            whole, rows, jax.random.fold_in(rng, number), False
        )
        return loss, sums, as_split(gradient)

    def add(total, inputs):
        return jax.tree.map(jnp.add, total, microbatch(inputs)), None

    microbatches = (jnp.arange(steps), split_rows(batch, steps))
    shapes = jax.eval_shape(microbatch, jax.tree.map(lambda x: x[0], microbatches))
    # Sums of many small terms would stall in bfloat16.
    zeros = jax.tree.map(
        lambda a: jnp.zeros(a.shape, jnp.promote_types(a.dtype, jnp.float32)), shapes
    )
    zeros = (*zeros[:2], as_split(zeros[2]))
    (loss, sums, gradient), _ = jax.lax.scan(add, zeros, microbatches)
    gradient = jax.tree.map(lambda g, p: (g / steps).astype(p.dtype), gradient, params)
    return loss / steps, sums, gradient
