"""Learning rates over time, by name.

Each is `(config, learning_rate=, num_steps=) -> schedule`, where `config.warmup_steps`
is no share but a whole number of updates.

All but `polynomial_bert` rise from 0 to the peak during `warmup_steps` updates and go
on from there.
"""

import dataclasses

import jax.numpy as jnp
import optax

from etc_jax.base import registry


def make_schedule(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """The schedule that `config` (a `ScheduleConfig`) names.

    Args:
      config: `name`, `warmup_steps`, and `power` and `end_value` of a polynomial.
      learning_rate: the peak.
      num_steps: updates of the whole run.

    Returns:
      A function of the number of updates done so far.
    """
    make = registry.lookup("schedule", config.name)
    config = dataclasses.replace(config, warmup_steps=config.warmup(num_steps))
    return make(config, learning_rate=learning_rate, num_steps=num_steps)


def _after_warmup(config, learning_rate: float, rest: optax.Schedule) -> optax.Schedule:
    """Linear warm-up, then `rest` as a function of the updates since its end."""
    if not config.warmup_steps:
        return rest
    warmup = optax.linear_schedule(0.0, learning_rate, config.warmup_steps)
    return optax.join_schedules([warmup, rest], [config.warmup_steps])


@registry.register("schedule", "linear")
def linear(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """Down to 0 at the last step (BERT; without the jump of the official code)."""
    steps = max(num_steps - config.warmup_steps, 1)
    rest = optax.linear_schedule(learning_rate, 0.0, steps)
    return _after_warmup(config, learning_rate, rest)


@registry.register("schedule", "constant")
def constant(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """The peak, for ever."""
    del num_steps
    rest = optax.constant_schedule(learning_rate)
    return _after_warmup(config, learning_rate, rest)


@registry.register("schedule", "inverse_sqrt")
def inverse_sqrt(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """Peak x sqrt(warmup / step), as in T5; a warm-up of 0 counts as 1."""
    del num_steps
    first = max(config.warmup_steps, 1)

    def rest(count):
        # join_schedules also asks for times before the boundary, and drops the answer.
        return learning_rate * jnp.sqrt(first / (jnp.maximum(count, 0) + first))

    return _after_warmup(config, learning_rate, rest)


@registry.register("schedule", "polynomial")
def polynomial(config, *, learning_rate: float, num_steps: int) -> optax.Schedule:
    """Down to `end_value` at the last step, (1 - share of the way)^power between."""
    steps = max(num_steps - config.warmup_steps, 1)
    rest = optax.polynomial_schedule(
        learning_rate, config.end_value, config.power, steps
    )
    return _after_warmup(config, learning_rate, rest)


@registry.register("schedule", "polynomial_bert")
def polynomial_bert(
    config, *, learning_rate: float, num_steps: int, start: int = 0
) -> optax.Schedule:
    """The polynomial of BERT and the official ETC code (models/optimization.py).

    The decay is computed from step 0, also while the warm-up stands in for it, so the
    rate jumps at the end of the warm-up: with power 1, from nearly the peak to
    peak x (1 - warmup_steps / num_steps).

    Args:
      config: `warmup_steps`, `power` and `end_value`.
      learning_rate: the peak.
      num_steps: updates of the whole run.
      start: the update at which the warm-up begins; the rate is negative before it.
    """
    decay = optax.polynomial_schedule(
        learning_rate, config.end_value, config.power, max(num_steps, 1)
    )
    if not config.warmup_steps:
        return decay

    def schedule(count):
        done = (count - start) / config.warmup_steps
        return jnp.where(done < 1, learning_rate * done, decay(count))

    return schedule
