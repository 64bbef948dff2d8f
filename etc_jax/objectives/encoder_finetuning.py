"""Fine-tuning encoders of one sequence: BERT, RoBERTa, Longformer, BigBird.

A batch has the sequence as its long tokens and nothing in the global ones, which are
those of ETC; where a Longformer's global tokens stand is `global_index`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.data.label_names import NUM_LABELS
from etc_jax.models.encoder_config import EncoderConfig, LongformerConfig
from etc_jax.models.encoder_heads import (
    EncoderForLabels,
    EncoderForSpans,
    SpanLogits,
)
from etc_jax.objectives.alias_spans import alias_spans
from etc_jax.objectives.batch_checks import missing_entries, wrong_ids
from etc_jax.objectives.finetuning import Finetuning, Sums
from etc_jax.objectives.label_loss import label_loss

GLOBAL_INDEX = "global_index"


class EncoderFinetuning(Finetuning):
    """A task of one sequence.

    A batch has `global_index` too, int32 `[b, g]`, -1 for none; only a Longformer reads
    it.
    """

    models: ClassVar[tuple[type, ...]] = (EncoderConfig,)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return batch["long_tokens"], batch["structure"].long_example_ids

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        named = {"types": batch["long_types"]}
        if isinstance(self.model, LongformerConfig):
            named[GLOBAL_INDEX] = batch[GLOBAL_INDEX]
        return named

    def smallest_batch(self) -> dict[str, Any]:
        none = jnp.full((1, 1), -1, jnp.int32)
        zeros = jnp.zeros((1, 1), jnp.int32)
        return {**super().smallest_batch(), "long_types": zeros, GLOBAL_INDEX: none}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        remedies = {
            "tokens": ("vocab_size", "tokenizer and config differ"),
            "types": ("num_types", "the vocabulary is of another family"),
        }
        for name, (field, remedy) in remedies.items():
            yield from wrong_ids(batch, [f"long_{name}"], self.model, field, remedy)
        if missing := missing_entries(batch, [GLOBAL_INDEX]):
            yield from missing
            return
        index, n = batch[GLOBAL_INDEX], batch["long_tokens"].shape[1]
        if index.min() < -1 or index.max() >= n:
            yield (
                f"{GLOBAL_INDEX} holds places {index.min()} to {index.max()}, expected "
                f"-1 for none, or 0 to {n - 1}; prepare the files again"
            )


@registry.register("finetuning", "hyperpartisan")
@registry.register("finetuning", "imdb")
class Labels(EncoderFinetuning):
    """A label of the whole text: outputs are float32 `[b, num_labels]`."""

    def module(self, deterministic: bool) -> EncoderForLabels:
        labels = NUM_LABELS[self.objective.name]
        return EncoderForLabels(self.model, labels, deterministic)

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        targets, weights = batch["labels"]["label"], batch["weights"]
        total, hits, examples = label_loss(outputs, targets, weights)
        return total, {"accuracy": (hits, examples)}


@registry.register("finetuning", "triviaqa")
class Triviaqa(EncoderFinetuning):
    """Any place that names the answer: outputs are `SpanLogits`."""

    def module(self, deterministic: bool) -> EncoderForSpans:
        return EncoderForSpans(self.model, deterministic)

    def losses(self, outputs: SpanLogits, batch: Any) -> tuple[jax.Array, Sums]:
        labels, weights = batch["labels"], batch["weights"]
        total, parts, hits, examples = alias_spans(
            outputs.start,
            outputs.end,
            starts=labels["starts"],
            ends=labels["ends"],
            is_token=batch["structure"].long_example_ids > 0,
            weights=weights,
        )
        figures = {f"{name}_loss": (part, examples) for name, part in parts.items()}
        return total, {**figures, "span_accuracy": (hits, examples)}
