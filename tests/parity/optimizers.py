"""Golden cases of the official optimizers with their schedule."""

import jax
import numpy as np
import optax

from etc_jax.config import OptimizerConfig, ScheduleConfig
from etc_jax.training.optimizers.optimizer import (
    adamw_bert,
    lamb_bert,
    learning_rate_of,
    mask_excluding,
)
from etc_jax.training.optimizers.schedule import polynomial_bert
from parity.cases import Case, group, largest_difference

OPTIMIZERS = {"adamw": adamw_bert, "lamb": lamb_bert}

# Of the official code: what weight decay and the trust ratio leave alone.
EXCLUDED = r"LayerNorm|layer_norm|bias"

# What describes the case and decides no value.
_NO_MATTER = {"case", "key_doc", "keys", "kind", "seed", "steps", "weight_decay_rate"}


def make_optimizer(sidecar: dict) -> optax.GradientTransformation:
    """Our optimizer for the arguments of the official `create_optimizer`.

    Raises:
      ValueError: if an argument is unknown.
    """
    left = {k: v for k, v in sidecar.items() if k not in _NO_MATTER}
    name, peak = left.pop("optimizer"), left.pop("init_lr")
    schedule = polynomial_bert(
        ScheduleConfig(
            name="polynomial_bert",
            warmup_steps=left.pop("num_warmup_steps", 0) or 0,
            power=left.pop("poly_power", 1.0),
        ),
        learning_rate=peak,
        num_steps=left.pop("num_train_steps"),
        start=left.pop("start_warmup_step", 0),
    )
    config = OptimizerConfig(
        name=f"{name}_bert",
        learning_rate=peak,
        b1=left.pop("beta_1", 0.9),
        b2=left.pop("beta_2", 0.999),
        eps=left.pop("epsilon", 1e-6),
        weight_decay=sidecar.get("weight_decay_rate", 0.01),
        clip_norm=1.0,
    )
    if left:
        raise ValueError(f"unknown arguments {left}")
    return OPTIMIZERS[name](config, schedule, mask=mask_excluding(EXCLUDED))


def run(case: Case) -> float:
    """Compares rates and parameters after each update."""
    arrays = case.arrays()
    params, gradients = group(arrays, "w"), group(arrays, "in/grads")
    outputs = group(arrays, "out")
    want, rates = group(outputs, "params"), outputs.pop("lr")
    assert set(outputs) == {f"params/{name}" for name in params}, sorted(outputs)
    tx = make_optimizer(case.description)
    state, worst = tx.init(params), 0.0
    for step in range(len(rates)):
        grads = {name: gradients[name][step] for name in params}
        updates, state = jax.jit(tx.update)(grads, state, params)
        params = optax.apply_updates(params, updates)
        # A rate is far below 1, where the difference is absolute.
        scale = max(float(np.abs(rates).max()), 1e-30)
        rate = float(learning_rate_of(state))
        differences = [largest_difference(rate / scale, rates[step] / scale)]
        differences += [
            largest_difference(params[name], want[name][step]) for name in params
        ]
        worst = max(worst, *differences)
    return worst
