"""Gradients of a batch, at once or microbatch by microbatch."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.sharding import constrain
from etc_jax.sharding.weight_gathering import as_split, collected
from etc_jax.training.job import MEAN_LOSS, Batch, LossFn, Params, Sums


def mean_loss(
    sums: Sums,
    loss_weights: Mapping[str, float] = MEAN_LOSS,
    counts: Mapping[str, jax.Array] | None = None,
) -> jax.Array:
    """The sum over the terms of a loss of factor * sum / weight.

    Args:
      sums: {name: (sum, weight)}, scalars, of the terms, and of metrics, which are no
        part of it.
      loss_weights: see `Job.loss_weights`; all its terms are in `sums`.
      counts: weights that divide instead, such as those of a batch that `sums` is a
        part of. None: those of `sums`.

    Returns:
      Scalar in the dtype of the sums. A term of weight 0 is 0.

    Raises:
      TypeError: if there are no names.
      ValueError: if a term is missing.
    """
    if not isinstance(sums, Mapping):
        raise TypeError(
            "the loss function is to give {name: (sum, weight)}, which the step "
            f"divides; got a {type(sums).__name__}"
        )
    if missing := [name for name in loss_weights if name not in sums]:
        raise ValueError(
            f"the loss function gives no sum and weight of {', '.join(missing)}, which "
            f"Job.loss_weights makes a term of the loss; it gives {', '.join(sums)}"
        )
    if counts is None:
        counts = {name: sums[name][1] for name in loss_weights}
    terms = [
        # A term without weight is 0 / 1, not NaN.
        factor * (sums[name][0] / jnp.maximum(counts[name], 1))
        for name, factor in loss_weights.items()
    ]
    return sum(terms[1:], start=terms[0])


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


def _added_up(
    fn: Callable[[Any], Any],
    inputs: Any,
    pinned: Callable[[Any], Any] = lambda values: values,
) -> Any:
    """The sum of `fn` over the first axis of `inputs`, in float32 or wider.

    Args:
      fn: one of `inputs` -> arrays.
      inputs: `[steps, ...]` arrays.
      pinned: puts arrays as those of `fn` into a layout.
    """

    # One trace of the model for its shapes and for the loop.
    fn = jax.jit(fn, inline=True)

    def add(total, one):
        return jax.tree.map(jnp.add, total, pinned(fn(one))), None

    shapes = jax.eval_shape(fn, jax.tree.map(lambda x: x[0], inputs))
    # Sums of many small terms would stall in bfloat16.
    zeros = jax.tree.map(
        lambda a: jnp.zeros(a.shape, jnp.promote_types(a.dtype, jnp.float32)), shapes
    )
    return jax.lax.scan(add, pinned(zeros), inputs)[0]


def loss_and_gradient(
    loss_fn: LossFn,
    params: Params,
    batch: Batch,
    rng: jax.Array,
    *,
    loss_weights: Mapping[str, float] = MEAN_LOSS,
    steps: int = 1,
    dtype: jnp.dtype | str = jnp.float32,
) -> tuple[jax.Array, Sums, Params]:
    """Loss, metrics and gradient of a batch, computed in `steps` microbatches.

    However many these are, loss and gradient are those of the whole batch: each term is
    a sum over rows, and the weights of the whole batch divide it. They are added up
    first, in a pass over the microbatches of which XLA keeps what the weights depend
    on: arrays of the batch, as a rule, and in `objectives.model_denoising` the forward
    pass of the generator, which chooses what is to be written.

    What compares the rows of a batch with each other, such as in-batch negatives, sees
    one microbatch alone, and dropout, hashing and noise are drawn for each.

    With more than one, parameters that lie over fsdp are collected once, before the
    first, and held whole until the last: 2 bytes a parameter of the layers in bfloat16.
    Their gradients are reduced, and added up in float32, each on the device that keeps
    the parameter, after each microbatch: to do that once would need 4 bytes a parameter
    on every device.

    Args:
      loss_fn: see `Job.loss_fn`; called with `deterministic=False`.
      params: what to derive by.
      batch: `[b, ...]` arrays; `steps` must divide b.
      rng: key; with several microbatches, each has its own, folded in by its number.
      loss_weights: see `Job.loss_weights`.
      steps: microbatches, one after the other.
      dtype: of the products of the layers, in which their parameters are collected.

    Returns:
      (float32 scalar, {name: (sum, weight)}, gradient in the dtypes of `params`).

    Raises:
      ValueError: if the rows do not divide, or a term of the loss is missing.
    """

    def of_rows(params, rows, rng, counts=None):
        sums = loss_fn(params, rows, rng, False)
        return mean_loss(sums, loss_weights, counts), sums

    gradient_fn = jax.value_and_grad(of_rows, has_aux=True)
    if steps == 1:
        (loss, sums), gradient = gradient_fn(params, batch, rng)
        return loss, sums, gradient

    whole = collected(params, dtype, layers_only=True)
    microbatches = (jnp.arange(steps), split_rows(batch, steps))

    def weights_of(inputs):
        number, rows = inputs
        _, sums = of_rows(whole, rows, jax.random.fold_in(rng, number))
        return {name: sums[name][1] for name in loss_weights}

    counts = _added_up(weights_of, microbatches)

    def microbatch(inputs):
        number, rows = inputs
        (_, sums), gradient = gradient_fn(
            whole, rows, jax.random.fold_in(rng, number), counts
        )
        return sums, gradient

    sums, gradient = _added_up(
        microbatch, microbatches, lambda pair: (pair[0], as_split(pair[1]))
    )
    gradient = jax.tree.map(lambda g, p: g.astype(p.dtype), gradient, params)
    return mean_loss(sums, loss_weights), sums, gradient
