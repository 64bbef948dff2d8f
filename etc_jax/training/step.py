"""One training step and one evaluation step: pure functions, compiled by the loop."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from etc_jax.training.accumulation import loss_and_gradient
from etc_jax.training.job import MEAN_LOSS, Batch, LossFn, Params, Sums
from etc_jax.training.optimizers.optimizer import learning_rate_of
from etc_jax.training.state import TrainState


def make_train_step(
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    *,
    loss_weights: Mapping[str, float] = MEAN_LOSS,
    accumulation_steps: int = 1,
    dtype: str = "float32",
    trained_only: Callable[[Params], Params] = lambda params: params,
) -> Callable:
    """`(state, batch, rng) -> (state, metrics)`.

    The randomness of a step is `fold_in(rng, state.step)`, so a resumed run draws what
    an uninterrupted one draws. An update that is not finite is left out: parameters
    and optimizer state stay, the step counts on.

    Args:
      loss_fn: see `Job.loss_fn`; called with `deterministic=False`.
      tx: the optimizer, clipping included.
      loss_weights: see `Job.loss_weights`.
      accumulation_steps: microbatches of a step; see `loss_and_gradient`.
      dtype: of the products of the layers; see `loss_and_gradient`.
      trained_only: leaves frozen parameters out of a tree. No other gradients are
        read, so that XLA computes no others.

    Returns:
      The step. Its metrics are scalars `loss`, `learning_rate`, `grad_norm` (before
      clipping), `param_norm`, `skipped` (0 or 1) and `sums`, the loss function's.
    """

    def train_step(state: TrainState, batch: Batch, rng: jax.Array):
        rng = jax.random.fold_in(rng, state.step)
        loss, sums, grads = loss_and_gradient(
            loss_fn,
            state.params,
            batch,
            rng,
            loss_weights=loss_weights,
            steps=accumulation_steps,
            dtype=dtype,
        )
        updates, opt_state = tx.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        grad_norm = optax.tree.norm(trained_only(grads))
        param_norm = optax.tree.norm(params)
        # On the device, so that the host need not wait before the next step.
        good = jnp.isfinite(loss) & jnp.isfinite(grad_norm) & jnp.isfinite(param_norm)
        keep = lambda new, old: jnp.where(good, new, old)  # noqa: E731
        new_state = TrainState(
            step=state.step + 1,
            params=jax.tree.map(keep, params, state.params),
            opt_state=jax.tree.map(keep, opt_state, state.opt_state),
        )
        metrics = {
            "loss": loss,
            "learning_rate": learning_rate_of(opt_state),
            "grad_norm": grad_norm,
            "param_norm": param_norm,
            "skipped": 1 - good.astype(jnp.int32),
            "sums": sums,
        }
        return new_state, metrics

    return train_step


def make_eval_step(loss_fn: LossFn) -> Callable:
    """`(params, batch) -> {name: (sum, weight)}`, with `deterministic=True`."""

    def eval_step(params: Any, batch: Batch) -> Sums:
        return loss_fn(params, batch, jax.random.key(0), True)

    return eval_step
