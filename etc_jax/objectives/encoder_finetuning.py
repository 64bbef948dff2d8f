"""Fine-tuning encoders of one sequence: BERT, RoBERTa, Longformer, BigBird.

A batch has the sequence as its long tokens and nothing in the global ones, which are
those of ETC; where a Longformer's global tokens stand is `global_index`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.config_fields import Problem, at_least
from etc_jax.config_sections import FinetuningConfig
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.coreference import SpanPairs
from etc_jax.models.encoder_answers import EncoderForAnswers
from etc_jax.models.encoder_config import EncoderConfig, LongformerConfig
from etc_jax.models.encoder_coreference import EncoderForCoreference
from etc_jax.models.encoder_heads import (
    EncoderForLabels,
    EncoderForSpans,
    SpanLogits,
)
from etc_jax.models.heads import AnswerLogits
from etc_jax.objectives.batch_checks import (
    missing_entries,
    wrong_ids,
    wrong_padded_places,
)
from etc_jax.objectives.coreference_loss import (
    marginal_loss,
    mention_loss,
    right_choices,
)
from etc_jax.objectives.finetuning import Finetuning, Sums, answer_losses, span_losses
from etc_jax.objectives.label_loss import label_loss
from etc_jax.structure import Structure

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

    def flops_inputs(self, batch: Any) -> SequenceInputs | None:
        index = self.named_inputs(batch).get(GLOBAL_INDEX)
        return SequenceInputs(batch["structure"].long_example_ids, index)

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
        yield from wrong_padded_places(batch, GLOBAL_INDEX, "long_tokens")


@registry.register("learner", "labels/sequence")
class Labels(EncoderFinetuning):
    """A class of the whole text: outputs are float32 `[b, classes]`."""

    def module(self, deterministic: bool) -> EncoderForLabels:
        return EncoderForLabels(self.model, len(self.classes), deterministic)

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        targets, weights = batch["labels"]["label"], batch["weights"]
        total, hits, examples = label_loss(outputs, targets, weights)
        return total, {"accuracy": (hits, examples)}


@registry.register("learner", "triviaqa/sequence")
class Triviaqa(EncoderFinetuning):
    """Any place that names the answer: outputs are `SpanLogits`."""

    def module(self, deterministic: bool) -> EncoderForSpans:
        return EncoderForSpans(self.model, deterministic)

    def losses(self, outputs: SpanLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return span_losses(outputs, batch)


@registry.register("learner", "natural_questions/sequence")
class NaturalQuestions(EncoderFinetuning):
    """Answer type, short and long answer: outputs are `AnswerLogits`."""

    def module(self, deterministic: bool) -> EncoderForAnswers:
        return EncoderForAnswers(self.model, deterministic)

    def losses(self, outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return answer_losses(outputs, batch)


@dataclasses.dataclass(frozen=True)
class CoreferenceConfig(FinetuningConfig):
    """Options of coreference; the defaults are those of Joshi et al. 2019.

    Attributes:
      ffnn_dim: hidden width of the scores of spans and pairs.
      head_dropout_rate: dropout there.
      top_ratio: spans that are kept for each word.
      max_antecedents: of a kept span that get the full score.
    """

    ffnn_dim: int = 3000
    head_dropout_rate: float = 0.3
    top_ratio: float = 0.4
    max_antecedents: int = 50

    def problems(self) -> Iterator[Problem]:
        yield from at_least(self, 1, "ffnn_dim", "max_antecedents")
        if not 0 <= self.head_dropout_rate < 1:
            yield "head_dropout_rate", f"is {self.head_dropout_rate}; expected 0 to 1"
        if self.top_ratio <= 0:
            yield "top_ratio", f"is {self.top_ratio}; expected more than 0"


@registry.register("learner", "coreference/sequence")
class Coreference(EncoderFinetuning):
    """An antecedent for each mention: outputs are `SpanPairs`.

    Options of the inputs are those of `tasks.coreference`: `span_tokens`, `part_length`
    and `singletons` shape the model too.
    """

    section = CoreferenceConfig

    def module(self, deterministic: bool) -> EncoderForCoreference:
        o = self.objective
        return EncoderForCoreference(
            self.model,
            part_length=self.options.part_length,
            span_tokens=self.options.span_tokens,
            ffnn_dim=o.ffnn_dim,
            head_dropout_rate=o.head_dropout_rate,
            top_ratio=o.top_ratio,
            max_antecedents=o.max_antecedents,
            deterministic=deterministic,
        )

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), batch["spans"], batch["num_words"])

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        del batch
        return {}

    def flops_inputs(self, batch: Any) -> None:
        del batch  # most of the work is that of scoring spans

    def smallest_batch(self) -> dict[str, Any]:
        tokens = jnp.ones((1, self.options.part_length or 1), jnp.int32)
        none = tokens[:, :0]
        spans = {"spans": jnp.zeros((1, 1, 2), jnp.int32)}
        spans["num_words"] = jnp.ones(1, jnp.int32)
        structure = Structure(tokens, none, jnp.zeros((*tokens.shape, 0), jnp.int16))
        return {"long_tokens": tokens, "structure": structure, **spans}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        yield from super().wrong_inputs(batch)
        if missing := missing_entries(batch, ["spans", "num_words"]):
            yield from missing
            return
        n, length = batch["long_tokens"].shape[1], self.options.part_length
        if length and n % length:
            yield (
                f"texts have {n} tokens, which are no whole parts of "
                f"part_length = {length}; make data.long_length a multiple"
            )
        yield from wrong_padded_places(batch, "spans", "long_tokens")

    def losses(self, outputs: SpanPairs, batch: Any) -> tuple[jax.Array, Sums]:
        clusters, weights = batch["labels"]["clusters"], batch["weights"]
        totals, kept = jax.vmap(marginal_loss)(outputs, clusters)
        if self.options.singletons:
            totals += jax.vmap(mention_loss)(outputs, clusters)
        right = jax.vmap(right_choices)(outputs, clusters)
        hits = _taken(right, jnp.argmax(outputs.scores, axis=-1)) & outputs.top_mask
        found = jnp.take_along_axis(clusters, outputs.top_spans, axis=1) > 0
        found = jnp.sum(found & outputs.top_mask, axis=1)
        mentions = jnp.sum(clusters > 0, axis=1)
        return jnp.sum(totals * weights), {
            "antecedent_accuracy": (
                jnp.sum(jnp.sum(hits, axis=1) * weights),
                jnp.sum(kept * weights),
            ),
            "mention_recall": (jnp.sum(found * weights), jnp.sum(mentions * weights)),
        }


def _taken(values: jax.Array, choices: jax.Array) -> jax.Array:
    """`[b, k, c]`, `[b, k]` -> `[b, k]`."""
    return jnp.take_along_axis(values, choices[..., None], axis=-1)[..., 0]
