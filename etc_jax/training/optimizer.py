"""Optimizers by name: `(config, schedule) -> optax.GradientTransformation`.

Each is wrapped in `optax.inject_hyperparams`, so that the learning rate of an update
can be read from the optimizer state: `learning_rate_of(opt_state)`.
"""

import re
from typing import Any

import jax
import optax

from etc_jax import registry
from etc_jax.sharding import path_of

# Norms and biases, the biases of labels and of the vocabulary among them; temperatures.
_NO_DECAY = re.compile(
    r"(^|/)([^/]*norm[^/]*/(scale|bias)|bias|[^/]*_bias|scale|[^/]*log_temperature)$"
)


def decay_mask(params: Any) -> Any:
    """True for the parameters that weight decay pulls to zero.

    Matrices and embeddings are decayed, norms and biases are not (BERT; official
    optimization.py excludes the same by name).
    """
    return jax.tree_util.tree_map_with_path(
        lambda key_path, _: _NO_DECAY.search(path_of(key_path)) is None, params
    )


def make_optimizer(config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """The optimizer that `config` (an `OptimizerConfig`) names."""
    return registry.lookup("optimizer", config.name)(config, schedule)


def learning_rate_of(opt_state: Any) -> jax.Array:
    """The learning rate of the update that made this state."""
    return opt_state.hyperparams["learning_rate"]


@registry.register("optimizer", "adamw")
def adamw(config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Gradients clipped to a global norm, then AdamW (Loshchilov & Hutter 2019)."""

    def make(learning_rate):
        return optax.chain(
            optax.clip_by_global_norm(config.clip_norm),
            optax.adamw(
                learning_rate,
                b1=config.b1,
                b2=config.b2,
                eps=config.eps,
                weight_decay=config.weight_decay,
                mask=decay_mask,
            ),
        )

    return optax.inject_hyperparams(make)(learning_rate=schedule)
