"""Text to text with a causal language model: the target continues the input."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.objectives.learners.finetuning import Sums
from etc_jax.objectives.learners.text_to_text import TextToText


@registry.register("learner", "text/text_to_text")
@dataclasses.dataclass(frozen=True)
class CausalTextToText(TextToText):
    """The cross entropy of targets; outputs are the likeliest tokens, int32 `[b, m]`.

    Parameters are those of objective causal_lm, which a run can start from.
    """

    module_kind: ClassVar[str] = "causal_lm_model"

    def __post_init__(self):
        self.decoder.check(1)

    @property
    def _language_model(self) -> CausalLm:
        module = registry.lookup(self.module_kind, self.family)
        return CausalLm(self.model, module, self.objective.r3f)

    def init(self, rng: jax.Array) -> Any:
        """Parameters of the language model, from a scalar key."""
        return self._language_model.init(rng)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Of the tokens of targets; as of `CausalLm.loss`."""
        return self._language_model.loss(params, joined(batch), rng, deterministic)

    def flops_inputs(self, batch: Any) -> SequenceInputs:
        ids = [batch["input_example_ids"] > 0, batch["target_weights"] > 0]
        return SequenceInputs(np.concatenate(ids, axis=1).astype(np.int32))

    def problems(self, batch: Any) -> list[str]:
        if problems := super().problems(batch):
            return problems
        sizes = [self.schema.length(batch, axis) for axis in ("input", "target")]
        field, longest = self.model.input_limit
        if longest is not None and sum(sizes) > longest:
            return [
                f"inputs of {sizes[0]} tokens and targets of {sizes[1]} stand in one "
                f"sequence, but model.{field} is {longest}; raise it, or lower "
                "data.input_length or data.target_length"
            ]
        return []


def joined(batch: Any) -> dict[str, jax.Array]:
    """Each target right after its input, as a batch of `CausalLm`.

    Args:
      batch: of the schema `text_to_text`; inputs have their padding at the end.

    Returns:
      {"tokens", "targets", "example_ids": int32 `[b, n + m]`, "target_weights":
      float32 `[b, n + m]`}. Place i has the weight of the token at i + 1.
    """
    both = jnp.concatenate([batch["input_tokens"], batch["target_tokens"]], axis=1)
    marks = jnp.concatenate(
        [batch["input_example_ids"] > 0, batch["target_weights"] > 0], axis=1
    )
    learnt = batch["target_weights"]
    weights = jnp.concatenate(
        [jnp.zeros(batch["input_tokens"].shape, learnt.dtype), learnt], 1
    )
    # Tokens first, padding last, both in order.
    order = jnp.argsort(~marks, axis=1, stable=True)
    tokens, is_token, weights = (
        jnp.take_along_axis(x, order, axis=1) for x in (both, marks, weights)
    )
    return {
        "tokens": tokens,
        "targets": jnp.roll(tokens, -1, axis=1),
        "example_ids": is_token.astype(jnp.int32),
        # Nothing rolls in from the front: the first token is one of the input.
        "target_weights": jnp.roll(weights, -1, axis=1),
    }
