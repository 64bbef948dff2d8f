"""Learning rates over time, by name."""

import jax.numpy as jnp
import optax

from etc_jax import registry


def make_schedule(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """The schedule that `config` (a `ScheduleConfig`) names.

    Args:
      config: `name` and `warmup_steps`.
      learning_rate: the peak.
      num_steps: updates of the whole run.

    Returns:
      A function of the number of updates done so far.
    """
    rest = registry.lookup("schedule", config.name)(
        learning_rate, config.warmup_steps, num_steps
    )
    if not config.warmup_steps:
        return rest
    warmup = optax.linear_schedule(0.0, learning_rate, config.warmup_steps)
    return optax.join_schedules([warmup, rest], [config.warmup_steps])


# Each is what follows the warm-up, as a function of the updates since its end.


@registry.register("schedule", "linear")
def linear(learning_rate: float, warmup_steps: int, num_steps: int) -> optax.Schedule:
    """Down to 0 at the last step (BERT; without the jump of the official code)."""
    return optax.linear_schedule(learning_rate, 0.0, max(num_steps - warmup_steps, 1))


@registry.register("schedule", "constant")
def constant(learning_rate: float, warmup_steps: int, num_steps: int) -> optax.Schedule:
    """The peak, for ever."""
    del warmup_steps, num_steps
    return optax.constant_schedule(learning_rate)


@registry.register("schedule", "inverse_sqrt")
def inverse_sqrt(
    learning_rate: float, warmup_steps: int, num_steps: int
) -> optax.Schedule:
    """Peak x sqrt(warmup / step), as in T5; a warm-up of 0 counts as 1."""
    del num_steps
    first = max(warmup_steps, 1)
    # join_schedules also asks for times before the boundary, and drops the answer.
    return lambda count: (
        learning_rate * jnp.sqrt(first / (jnp.maximum(count, 0) + first))
    )
