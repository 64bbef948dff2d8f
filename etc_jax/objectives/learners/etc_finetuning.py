"""Fine-tuning of structured inputs: head and loss of each task (ETC paper, app. C)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.base import registry
from etc_jax.base.rules import Problem, number
from etc_jax.base.types import Rows
from etc_jax.config.sections import FinetuningConfig
from etc_jax.data.schema import Schema
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.formats import structured
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.heads import (
    AnswerLogits,
    CandidateHead,
    EtcWithHead,
    HotpotqaHead,
    LabelsHead,
    NaturalQuestionsHead,
    SpanHead,
    TokenLabelsHead,
)
from etc_jax.objectives.batch_checks import wrong_structure
from etc_jax.objectives.learners.answer_learning import (
    NaturalQuestions,
    OneCandidate,
    Spans,
)
from etc_jax.objectives.learners.finetuning import Finetuning
from etc_jax.objectives.learners.label_learning import LabelSets, OneLabel, TokenLabels
from etc_jax.objectives.losses import qa_span
from etc_jax.objectives.losses.answers import (
    SPAN,
    accuracy,
    answer_distributions,
    span_accuracy,
    support_f1,
)
from etc_jax.objectives.r3f import Choice
from etc_jax.training.job import Sums


class EtcFinetuning(Finetuning):
    """A task of structured inputs."""

    models: ClassVar[tuple[type, ...]] = (EtcConfig,)
    schema: ClassVar[Schema] = structured.SCHEMA

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (
            Rows(batch["long_tokens"], batch["global_tokens"]),
            batch["structure"],
            Rows(batch["long_types"], batch["global_types"]),
        )

    def flops_inputs(self, batch: Any) -> Any:
        return [batch["structure"]]

    def problems(self, batch: Any) -> list[str]:
        return super().problems(batch) or list(
            wrong_structure(batch, "structure", self.model)
        )


class HeadFinetuning(EtcFinetuning):
    """A task that is a head on the encoder: parameters `encoder`, `head`."""

    @abc.abstractmethod
    def head(self, config: EtcConfig, deterministic: bool) -> Any:
        """The Linen module on the encoder, named "head"; see `models.heads`."""

    def module(self, deterministic: bool) -> EtcWithHead:
        return EtcWithHead(self.model, self.head, deterministic)


@registry.register("learner", "hotpotqa/structured")
class StructuredHotpotqa(HeadFinetuning):
    """Supporting sentences, answer type and span: outputs are `AnswerLogits`."""

    hub_task = "question-answering"

    def head(self, config: EtcConfig, deterministic: bool) -> HotpotqaHead:
        return HotpotqaHead(config, name="head")

    def losses(self, outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
        labels, weights = batch["labels"], batch["weights"]
        total, parts, examples = qa_span.hotpotqa(
            outputs.support,
            outputs.answer_type,
            outputs.span,
            weights=weights,
            **labels,
        )
        metrics = {f"{name}_loss": (part, examples) for name, part in parts.items()}
        kind = labels["answer_type"]
        ends = jnp.stack([labels["begin"], labels["end"]], axis=-1)
        spans = weights * (kind == SPAN)
        return total, {
            **metrics,
            "answer_type_accuracy": accuracy(outputs.answer_type, kind, weights),
            "span_accuracy": span_accuracy(outputs.span, ends, spans),
            "support_f1": support_f1(outputs.support, labels["support"], weights),
        }

    def distributions(self, outputs: AnswerLogits, batch: Any) -> list[Choice]:
        return answer_distributions(outputs)


@registry.register("learner", "natural_questions/structured")
class StructuredNaturalQuestions(NaturalQuestions, HeadFinetuning):
    """Answer type, short and long answer: outputs are `AnswerLogits`."""

    def head(self, config: EtcConfig, deterministic: bool) -> NaturalQuestionsHead:
        return NaturalQuestionsHead(config, name="head")


@registry.register("learner", "labels/structured")
class StructuredLabels(OneLabel, HeadFinetuning):
    """A class of the whole text: outputs are float32 `[b, classes]`."""

    def head(self, config: EtcConfig, deterministic: bool) -> LabelsHead:
        return LabelsHead(config, len(self.classes), name="head")


@registry.register("learner", "label_sets/structured")
class StructuredLabelSets(LabelSets, StructuredLabels):
    """Any number of classes of the whole text: outputs are float32 `[b, classes]`."""


@registry.register("learner", "token_labels/structured")
class StructuredTokenLabels(TokenLabels, HeadFinetuning):
    """A class of each long token: outputs are float32 `[b, n, classes]`."""

    def head(self, config: EtcConfig, deterministic: bool) -> TokenLabelsHead:
        return TokenLabelsHead(config, len(self.classes), name="head")


@registry.register("learner", "spans/structured")
class StructuredSpans(Spans, HeadFinetuning):
    """Any of some places of the answer: outputs are `SpanLogits` of the long tokens."""

    def head(self, config: EtcConfig, deterministic: bool) -> SpanHead:
        return SpanHead(config, name="head")


@dataclasses.dataclass(frozen=True)
class WikihopConfig(FinetuningConfig):
    """Options of WikiHop.

    Attributes:
      final_layer: one more feed-forward block before the logits.
      label_smoothing: share of the target spread over all candidates.
    """

    final_layer: bool = True
    label_smoothing: float = 0.0

    def problems(self) -> Iterator[Problem]:
        yield from number(0, 1, "[)").problems(self, "label_smoothing")


@registry.register("learner", "wikihop/structured")
class StructuredWikihop(OneCandidate, HeadFinetuning):
    """One of the candidates: outputs are float32 `[b, g]`, a logit a global token."""

    section = WikihopConfig

    def head(self, config: EtcConfig, deterministic: bool) -> CandidateHead:
        final = self.objective.final_layer
        return CandidateHead(config, final, deterministic, name="head")

    @property
    def label_smoothing(self) -> float:
        return self.objective.label_smoothing

    def is_candidate(self, batch: Any) -> jax.Array:
        return batch["global_types"] == GLOBAL_CANDIDATE_TYPE
