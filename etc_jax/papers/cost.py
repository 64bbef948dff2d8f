"""What a run would take, from its config alone: FLOPs, hours and disk.

Inputs are taken to be full, so that padding and short records make a real run cheaper,
or the same where its devices compute what is masked.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from etc_jax.config import Config
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.models.grow import new_params_fn
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.structure import Structure
from etc_jax.training.preflight.hardware import data_sheet

# Share of a device's peak that a run reaches: a round figure, to be measured.
EFFICIENCY = 0.4
# Parameters, and two moments, of 4 bytes each.
_STATE_BYTES = 12


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one training run.

    Attributes:
      parameters: of the model, and of the head of its language model.
      steps: of training.
      flops: useful ones of all steps; see `models.useful_flops`.
      bytes: of the checkpoints that are kept, with the optimizer's state.
    """

    parameters: int
    steps: int
    flops: float
    bytes: float

    def hours(self, device: str, count: int, efficiency: float) -> float:
        """On some devices.

        Args:
          device: kind, of `preflight.hardware`.
          count: of them.
          efficiency: share of their peak.
        """
        peak = data_sheet(device).bf16_flops * count
        return self.flops / (peak * efficiency) / 3600


def cost_of(config: Config) -> Cost:
    """Of the run of a config."""
    steps, parameters = config.train.num_steps, _parameters(config.family, config.model)
    kept_bytes = config.checkpoint.most_kept(steps) * _STATE_BYTES * parameters
    return Cost(parameters, steps, step_flops(config) * steps, float(kept_bytes))


@functools.cache  # tracing a model takes a second
def _parameters(family: str, model: Any) -> int:
    """Of a model, with the heads that it is pre-trained with."""
    if family == "etc":
        init = Pretraining(model, MlmCpcConfig()).init
        shapes = jax.eval_shape(init, jax.random.key(0))
    else:
        shapes = jax.eval_shape(new_params_fn(model))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def step_flops(config: Config) -> float:
    """Useful FLOPs of one step on full inputs."""
    model, data, name = config.model, config.data, config.objective.name
    # Of one input, and as many times of all.
    if config.family == "etc":
        length = data.long_length
        inputs = [_structure(length, data.global_length)]
        if getattr(config.objective, "cpc_weight", 0):
            # What CPC masks is read once more, each sentence alone.
            lengths = length, data.global_length
            masked = [round(data.cpc_share * x) for x in lengths]
            inputs.append(_structure(*masked, apart=True))
            length -= masked[0]  # MLM masks of what CPC leaves
    elif hasattr(model, "decoder_side"):
        length = data.target_length
        sides = np.ones((1, data.input_length), int), np.ones((1, length), int)
        inputs = tuple(map(SequenceInputs, sides))
    else:
        length = data.input_length
        inputs = SequenceInputs(np.ones((1, length), int))
    # Tokens whose logits over the vocabulary the loss needs.
    logits = {}
    if name in ("mlm_cpc", "masked_lm"):
        logits["masked_logits"] = round(data.mlm_share * length)
    elif name == "causal_lm" or hasattr(model, "decoder_side"):
        logits["causal_logits"] = length
    reads = getattr(getattr(config.objective, "r3f", None), "reads", 1)
    one = useful_flops.of_step(model, config.family, inputs, reads=reads, **logits)
    return config.train.batch_size * one


def _structure(long: int, global_: int, *, apart: bool = False) -> Structure:
    """A full input, whose global tokens have equal shares of its long ones.

    `apart`: each global token and its share are an example of their own.
    """
    shares = np.arange(long) * global_ // long
    # Numbers of examples, from 1: [1, long] and [1, global_].
    ids = [apart * x[None] + 1 for x in (shares, np.arange(global_))]
    return Structure(*ids, shares.astype("int16")[None, :, None])
