"""Optimizers of a few parameters, for tests of their updates."""

import jax
import numpy as np
import optax
import toy_job

from etc_jax.training.optimizers.optimizer import make_optimizer

NAMES = ("adamw", "lamb", "adamw_bert", "lamb_bert", "adafactor")
RATE = 0.1


def config(name, adafactor=None, **changes):
    """The section of an optimizer; changes and those of `adafactor` are of it."""
    changes["name"] = name
    if name == "adafactor":
        options = {"min_dim_size_to_factor": 2, **(adafactor or {})}
        changes |= {f"adafactor__{k}": x for k, x in options.items()}
    return toy_job.config(
        **{f"optimizer__{k}": x for k, x in changes.items()}
    ).optimizer


def make(name, **changes):
    return make_optimizer(config(name, **changes), optax.constant_schedule(RATE))


def run(tx, params, gradients):
    """[(parameters, state)] after each update."""
    state, seen = tx.init(params), []
    update = jax.jit(tx.update)
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        params = optax.apply_updates(params, updates)
        seen.append((params, state))
    return seen


def like(params, seed, count):
    """`count` random trees of the shapes of `params`."""
    leaves, treedef = jax.tree.flatten(params)
    rng = np.random.default_rng(seed)
    return [
        treedef.unflatten([rng.normal(size=x.shape).astype(np.float32) for x in leaves])
        for _ in range(count)
    ]


def flat_params():
    rng = np.random.default_rng(0)
    return {
        "mlp": {
            "wi": {
                "kernel": rng.normal(size=(3, 4)).astype(np.float32),
                "bias": np.zeros(4, np.float32),
            }
        },
        "final_norm": {"scale": np.ones(3, np.float32)},
        "token_embedder": {"embedding": rng.normal(size=(6, 3)).astype(np.float32)},
    }
