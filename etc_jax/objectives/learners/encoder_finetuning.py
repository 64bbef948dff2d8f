"""Fine-tuning encoders of one sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.base import registry
from etc_jax.base.rules import Problem, at_least, more_than, number
from etc_jax.config.sections import FinetuningConfig
from etc_jax.data.schema import Field, Schema
from etc_jax.formats import sequence
from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX, TOKENS, TYPES
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.coreference import SpanPairs
from etc_jax.models.encoder.answers import EncoderForAnswers
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.coreference import EncoderForCoreference
from etc_jax.models.encoder.heads import (
    EncoderForLabels,
    EncoderForSpans,
    EncoderForTokenLabels,
)
from etc_jax.objectives.learners.answer_learning import NaturalQuestions, Spans
from etc_jax.objectives.learners.finetuning import Finetuning, Sums
from etc_jax.objectives.learners.label_learning import LabelSets, OneLabel, TokenLabels
from etc_jax.objectives.losses.coreference import (
    in_common,
    marginal_loss,
    mention_loss,
    right_choices,
)
from etc_jax.objectives.r3f import Choice


class EncoderFinetuning(Finetuning):
    """A task of one sequence; of its global tokens, only a Longformer reads."""

    models: ClassVar[tuple[type, ...]] = (EncoderConfig,)
    schema: ClassVar[Schema] = sequence.SCHEMA

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return batch[TOKENS], batch[EXAMPLE_IDS]

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        named = {TYPES: batch[TYPES]}
        if self.model.has_globals:
            named[GLOBAL_INDEX] = batch[GLOBAL_INDEX]
        return named

    def flops_inputs(self, batch: Any) -> SequenceInputs | None:
        index = self.named_inputs(batch).get(GLOBAL_INDEX)
        return SequenceInputs(batch[EXAMPLE_IDS], index)


@registry.register("learner", "labels/sequence")
class SequenceLabels(OneLabel, EncoderFinetuning):
    """A class of the whole text: outputs are float32 `[b, classes]`."""

    def module(self, deterministic: bool) -> EncoderForLabels:
        return EncoderForLabels(self.model, deterministic, num_labels=len(self.classes))


@registry.register("learner", "label_sets/sequence")
class SequenceLabelSets(LabelSets, SequenceLabels):
    """Any number of classes of the whole text: outputs are float32 `[b, classes]`."""


@registry.register("learner", "token_labels/sequence")
class SequenceTokenLabels(TokenLabels, EncoderFinetuning):
    """A class of each token: outputs are float32 `[b, n, classes]`."""

    def module(self, deterministic: bool) -> EncoderForTokenLabels:
        return EncoderForTokenLabels(
            self.model, deterministic, num_labels=len(self.classes)
        )


@registry.register("learner", "spans/sequence")
class SequenceSpans(Spans, EncoderFinetuning):
    """Any of some places of the answer: outputs are `SpanLogits`."""

    def module(self, deterministic: bool) -> EncoderForSpans:
        return EncoderForSpans(self.model, deterministic)


@registry.register("learner", "natural_questions/sequence")
class SequenceNaturalQuestions(NaturalQuestions, EncoderFinetuning):
    """Answer type, short and long answer: outputs are `AnswerLogits`."""

    def module(self, deterministic: bool) -> EncoderForAnswers:
        return EncoderForAnswers(self.model, deterministic)


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
        yield from at_least(1).problems(self, "ffnn_dim", "max_antecedents")
        yield from number(0, 1, "[)").problems(self, "head_dropout_rate")
        yield from more_than(0).problems(self, "top_ratio")


@registry.register("learner", "coreference/sequence")
class SequenceCoreference(EncoderFinetuning):
    """An antecedent for each mention: outputs are `SpanPairs`.

    Options of the inputs are those of `tasks.coreference`: `span_tokens`, `part_length`
    and `singletons` shape the model too.
    """

    section = CoreferenceConfig
    schema = sequence.SCHEMA.extended(
        {"spans": Field(shape=(1, 2), padding=-1), "num_words": Field()},
        positions={"spans": "input"},
    )

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
        return self.schema.smallest(input=self.options.part_length or 1)

    def problems(self, batch: Any) -> list[str]:
        problems, length = super().problems(batch), self.options.part_length
        if not problems and length and (n := batch[TOKENS].shape[1]) % length:
            problems.append(
                f"texts have {n} tokens, which are no whole parts of "
                f"part_length = {length}; make data.input_length a multiple"
            )
        return problems

    def losses(self, outputs: SpanPairs, batch: Any) -> tuple[jax.Array, Sums]:
        clusters, weights = batch["labels"]["clusters"], batch["weights"]
        totals, num_spans = jax.vmap(marginal_loss)(outputs, clusters)
        if self.options.singletons:
            totals += jax.vmap(mention_loss)(outputs, clusters)
        right = jax.vmap(right_choices)(outputs, clusters)
        # [b, k, c] at [b, k, 1] -> [b, k]
        best = jnp.argmax(outputs.scores, axis=-1, keepdims=True)
        hits = jnp.take_along_axis(right, best, axis=-1)[..., 0] & outputs.top_mask
        recalled = jnp.take_along_axis(clusters, outputs.top_spans, axis=1) > 0
        recalled = jnp.sum(recalled & outputs.top_mask, axis=1)
        mentions = jnp.sum(clusters > 0, axis=1)
        return jnp.sum(totals * weights), {
            "antecedent_accuracy": (
                jnp.sum(jnp.sum(hits, axis=1) * weights),
                jnp.sum(num_spans * weights),
            ),
            "mention_recall": (
                jnp.sum(recalled * weights),
                jnp.sum(mentions * weights),
            ),
        }

    def comparable(self, clean: SpanPairs, noisy: SpanPairs):
        """Spans and antecedents that both passes have kept."""
        return jax.vmap(in_common)(clean, noisy)

    def distributions(self, outputs: SpanPairs, batch: Any) -> list[Choice]:
        antecedents = Choice(outputs.scores, outputs.top_mask)
        if not self.options.singletons:
            return [antecedents]
        is_mention = Choice(outputs.mention_scores, outputs.top_mask, binary=True)
        return [antecedents, is_mention]
