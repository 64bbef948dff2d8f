"""The state of a run: step, parameters, optimizer state; one plain pytree."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from etc_jax.sharding import DEFAULT_RULES, Rules, tree_shardings
from etc_jax.training.preflight import compiling


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that a training step reads and writes.

    Attributes:
      step: int32 scalar; batches consumed so far, skipped updates included.
      params: nested dict of arrays.
      opt_state: of the optimizer.
    """

    step: jax.Array
    params: Any
    opt_state: Any


def _init_fn(init_params_fn, tx):
    def init(rng: jax.Array) -> TrainState:
        params = init_params_fn(rng)
        return TrainState(jnp.zeros((), jnp.int32), params, tx.init(params))

    return init


def abstract_state(
    init_params_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    mesh: jax.sharding.Mesh,
    rules: Rules = DEFAULT_RULES,
) -> TrainState:
    """Shapes, dtypes and shardings of the state; nothing is computed.

    Args:
      init_params_fn: PRNG key (a scalar) -> params.
      tx: the optimizer.
      mesh: of devices.
      rules: from the logical axes of parameters to those of the mesh.

    Raises:
      ValueError: if a parameter has no sharding rule or does not divide.
    """
    shapes = jax.eval_shape(_init_fn(init_params_fn, tx), jax.random.key(0))
    return jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        shapes,
        tree_shardings(shapes, mesh, rules),
    )


def init_state(
    init_params_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    layout: TrainState,
    rng: jax.Array,
) -> TrainState:
    """A fresh state, each device making its own shards.

    Args:
      init_params_fn: PRNG key (a scalar) -> params.
      tx: the optimizer.
      layout: of `abstract_state`, for these two.
      rng: PRNG key.
    """
    shardings = jax.tree.map(lambda a: a.sharding, layout)
    init = jax.jit(_init_fn(init_params_fn, tx), out_shardings=shardings)
    return compiling.compiled("the first parameters", init.lower(rng))(rng)
