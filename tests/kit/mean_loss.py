"""The loss that a task is trained with as one number, and its metrics."""

from etc_jax.training.accumulation import mean_loss
from etc_jax.training.job import Job


def loss_of(task):
    """`(params, batch, rng, deterministic) -> (loss, {name: (sum, weight)})`.

    Args:
      task: with `loss` and `loss_weights`, or a `Job`.
    """
    loss_fn = task.loss_fn if isinstance(task, Job) else task.loss

    def loss(params, batch, rng, deterministic):
        sums = loss_fn(params, batch, rng, deterministic)
        names = [name for name in task.loss_weights if name in sums]
        return mean_loss(sums, {name: task.loss_weights[name] for name in names}), sums

    return loss
