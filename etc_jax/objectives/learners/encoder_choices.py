"""Fine-tuning encoders of one sequence on questions with options: one for each."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from etc_jax.base import registry
from etc_jax.formats import sequence
from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.encoder.heads import EncoderForChoices
from etc_jax.objectives.learners.answer_learning import OneCandidate
from etc_jax.objectives.learners.encoder_finetuning import EncoderFinetuning


@registry.register("learner", "choices/sequence")
class SequenceChoices(OneCandidate, EncoderFinetuning):
    """One of the options: outputs are float32 `[b, o]`, a logit for each.

    The arrays of a batch have a last axis for the options, `tokens` int32 `[b, n, o]`.
    Those of options that a record has not are padding.
    """

    schema = dataclasses.replace(
        sequence.SCHEMA,
        fields={k: x._replace(shape=(1,)) for k, x in sequence.SCHEMA.fields.items()},
    )

    def module(self, deterministic: bool) -> EncoderForChoices:
        return EncoderForChoices(self.model, deterministic)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return tuple(x.swapaxes(1, 2) for x in super().inputs(batch))

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        return {k: x.swapaxes(1, 2) for k, x in super().named_inputs(batch).items()}

    def flops_inputs(self, batch: Any) -> SequenceInputs:
        named = self.named_inputs(batch)
        inputs = (batch[EXAMPLE_IDS].swapaxes(1, 2), named.get(GLOBAL_INDEX))
        # [b, o, length] -> [b * o, length]: a sequence for each option.
        flat = (None if x is None else x.reshape(-1, x.shape[-1]) for x in inputs)
        return SequenceInputs(*flat)

    def is_candidate(self, batch: Any) -> jax.Array:
        return batch[EXAMPLE_IDS][:, 0] > 0
