"""Optimizers by name: `(config, schedule) -> optax.GradientTransformation`.

Each is wrapped in `optax.inject_hyperparams`, so that the learning rate of an update
can be read from the optimizer state: `learning_rate_of(opt_state)`. All of them clip
the gradients to a global norm first.

adamw, lamb             as optax has them, with bias correction
adamw_bert, lamb_bert   as BERT and the official ETC code have them, without
adafactor               second moments of matrices as rows and columns; see adafactor.py

An optimizer computes in float32, whatever the parameters are stored in.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from etc_jax.base import registry
from etc_jax.sharding import path_of
from etc_jax.training.optimizers.adafactor import (
    clip_by_layer_rms,
    scale_by_factored_rms,
    scale_by_layer_rms_of_parameter,
    stacked_axes,
)
from etc_jax.training.optimizers.groups import with_groups

Mask = Callable[[Any], Any]


def mask_excluding(pattern: str) -> Mask:
    """params -> a tree that is False where `pattern` is found in the path."""
    compiled = re.compile(pattern)

    def mask(params: Any) -> Any:
        return jax.tree_util.tree_map_with_path(
            lambda key_path, _: compiled.search(path_of(key_path)) is None, params
        )

    return mask


# Norms and biases, the biases of labels and of the vocabulary among them; temperatures.
_NO_DECAY = (
    r"(^|/)([^/]*norm[^/]*/(scale|bias)|bias|[^/]*_bias|scale|[^/]*log_temperature)$"
)


def decay_mask(params: Any) -> Any:
    """True for the parameters that weight decay pulls to zero.

    Matrices and embeddings are decayed, norms and biases are not (BERT; official
    optimization.py excludes the same by name).
    """
    return mask_excluding(_NO_DECAY)(params)


def make_optimizer(config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """The optimizer that `config` (an `OptimizerConfig`) names, in float32.

    Its `init` raises UserError where `config.groups` does not fit the parameters.
    """
    tx = in_float32(registry.lookup("optimizer", config.name)(config, schedule))
    return with_groups(tx, config.groups)


def in_float32(tx: optax.GradientTransformation) -> optax.GradientTransformation:
    """`tx` on float32 copies of parameters and gradients of fewer digits.

    In bfloat16 a mean of squares stands still: what a step adds with b2 = 0.999 is less
    than its last digit. `optax.apply_updates` rounds each new parameter once.
    """

    def wide(tree: Any) -> Any:
        return jax.tree.map(
            lambda x: x.astype(jnp.float32) if x.dtype.itemsize < 4 else x, tree
        )

    def init(params: Any) -> Any:
        return tx.init(wide(params))

    def update(updates, state, params=None):
        return tx.update(
            wide(updates), state, params if params is None else wide(params)
        )

    return optax.GradientTransformation(init, update)


def learning_rate_of(opt_state: Any) -> jax.Array:
    """The learning rate of the update that made this state."""
    return opt_state.hyperparams["learning_rate"]


def _scheduled(config, schedule, *transformations) -> optax.GradientTransformation:
    """Clipping, then the transformations, then minus the learning rate."""

    def make(learning_rate):
        return optax.chain(
            optax.clip_by_global_norm(config.clip_norm),
            *transformations,
            optax.scale_by_learning_rate(learning_rate),
        )

    return optax.inject_hyperparams(make)(learning_rate=schedule)


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


@registry.register("optimizer", "lamb")
def lamb(config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """LAMB (You et al. 2020, algorithm 2): `optax.lamb`, layer by layer.

    The difference from `optax.lamb` is in scanned layers alone, which it would take
    for one layer.
    """
    return _scheduled(
        config,
        schedule,
        optax.scale_by_adam(b1=config.b1, b2=config.b2, eps=config.eps),
        optax.add_decayed_weights(config.weight_decay, mask=decay_mask),
        scale_by_layer_trust_ratio(),
    )


def _bert_update(config, mask: Mask) -> tuple[optax.GradientTransformation, ...]:
    """Uncorrected Adam and weight decay, which both forms of BERT begin with."""
    return (
        scale_by_uncorrected_adam(b1=config.b1, b2=config.b2, eps=config.eps),
        optax.add_decayed_weights(config.weight_decay, mask=mask),
    )


@registry.register("optimizer", "adamw_bert")
def adamw_bert(
    config, schedule: optax.Schedule, *, mask: Mask = decay_mask
) -> optax.GradientTransformation:
    """AdamW as in BERT and the official ETC code (models/optimization.py).

    Args:
      config: an `OptimizerConfig`.
      schedule: of the learning rate.
      mask: params -> True where weight decay acts.
    """
    return _scheduled(config, schedule, *_bert_update(config, mask))


@registry.register("optimizer", "lamb_bert")
def lamb_bert(
    config, schedule: optax.Schedule, *, mask: Mask = decay_mask
) -> optax.GradientTransformation:
    """LAMB as in the official ETC code (models/lamb_optimizer.py).

    Args:
      config: an `OptimizerConfig`.
      schedule: of the learning rate.
      mask: params -> True where weight decay and the trust ratio act.
    """
    return _scheduled(
        config,
        schedule,
        *_bert_update(config, mask),
        scale_by_layer_trust_ratio(mask),
    )


@registry.register("optimizer", "adafactor")
def adafactor(config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), as T5-like models use it.

    With `multiply_by_parameter_scale`, the rule of T5, the learning rate is relative to
    the size of a parameter: peaks are near 1e-2, not 1e-3. Weight decay is multiplied
    by the learning rate, as in AdamW.
    """
    c = config.adafactor
    steps = [
        scale_by_factored_rms(
            decay_rate=c.decay_rate,
            eps=c.eps,
            min_dim_size_to_factor=c.min_dim_size_to_factor,
        ),
        clip_by_layer_rms(c.clipping_threshold),
    ]
    if c.multiply_by_parameter_scale:
        steps.append(scale_by_layer_rms_of_parameter(c.min_parameter_scale))
    if c.momentum:
        steps.append(optax.ema(c.momentum, debias=False))
    decay = optax.add_decayed_weights(config.weight_decay, mask=decay_mask)
    return _scheduled(config, schedule, *steps, decay)


class MomentsState(NamedTuple):
    """Running means of the gradient and of its square."""

    mu: Any
    nu: Any


def scale_by_uncorrected_adam(
    *, b1: float, b2: float, eps: float
) -> optax.GradientTransformation:
    """Adam without bias correction, `eps` outside the root: m / (sqrt(v) + eps).

    The first updates are (1 - b1) / sqrt(1 - b2) times those of Adam, about 3.2 times
    by default; the official learning rates are for that.
    """

    def init(params: Any) -> MomentsState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return MomentsState(mu=zeros, nu=zeros)

    def update(updates, state, params=None):
        del params
        mu = jax.tree.map(lambda g, m: b1 * m + (1 - b1) * g, updates, state.mu)
        nu = jax.tree.map(
            lambda g, v: b2 * v + (1 - b2) * jnp.square(g), updates, state.nu
        )
        scaled = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu, nu)
        return scaled, MomentsState(mu, nu)

    return optax.GradientTransformation(init, update)


def _layer_norm(x: jax.Array, stacked: int) -> jax.Array:
    axes = tuple(range(stacked, x.ndim))
    squares = jnp.square(x.astype(jnp.float32))
    return jnp.sqrt(jnp.sum(squares, axis=axes, keepdims=True))


def scale_by_layer_trust_ratio(
    mask: Mask | None = None,
) -> optax.GradientTransformation:
    """Scales each update by |parameter| / |update|, or by 1 if either norm is 0.

    A parameter of scanned layers, `[layers, ...]`, has one norm and one ratio for each
    layer, as if the layers were apart; one over the whole array would tie them.

    Args:
      mask: params -> False where updates are left as they are; None: nowhere.
    """

    def scaled(key_path, update, param, adapted):
        if not adapted:
            return update
        stacked = stacked_axes(path_of(key_path))
        param_norm = _layer_norm(param, stacked)
        update_norm = _layer_norm(update, stacked)
        usable = (param_norm > 0) & (update_norm > 0)
        ratio = param_norm / jnp.where(usable, update_norm, 1.0)
        return update * jnp.where(usable, ratio, 1.0).astype(update.dtype)

    def update(updates, state, params=None):
        if params is None:
            raise ValueError("the trust ratio needs the parameters; pass params")
        adapted = jax.tree.map(lambda _: True, params) if mask is None else mask(params)
        updates = jax.tree_util.tree_map_with_path(scaled, updates, params, adapted)
        return updates, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
