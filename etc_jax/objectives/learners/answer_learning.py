"""Answers that are a candidate, a span or of several kinds, in any format of inputs."""

from __future__ import annotations

import abc
from typing import Any

import jax

from etc_jax.models.encoder.heads import SpanLogits
from etc_jax.models.heads import AnswerLogits
from etc_jax.objectives.learners.finetuning import Finetuning
from etc_jax.objectives.losses import candidates
from etc_jax.objectives.losses.answers import (
    answer_distributions,
    answer_losses,
    span_distributions,
    span_losses,
)
from etc_jax.objectives.r3f import Choice
from etc_jax.training.job import Sums


class OneCandidate(Finetuning):
    """One of some candidates: outputs are float32 `[b, m]`, a logit for each place.

    Attributes:
      label_smoothing: share of the target spread over all candidates.
    """

    hub_task = "multiple-choice"

    @property
    def label_smoothing(self) -> float:
        return 0.0

    @abc.abstractmethod
    def is_candidate(self, batch: Any) -> jax.Array:
        """bool `[b, m]`, where there is one."""

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        """See `Finetuning.losses`; of outputs `[b, m]`."""
        total, hits, examples = candidates.choice(
            outputs,
            self.is_candidate(batch),
            batch["labels"]["candidate"],
            batch["weights"],
            label_smoothing=self.label_smoothing,
        )
        return total, {"accuracy": (hits, examples)}

    def distributions(self, outputs: jax.Array, batch: Any) -> list[Choice]:
        """See `Finetuning.distributions`; of outputs `[b, m]`."""
        is_candidate = self.is_candidate(batch)
        return [Choice(candidates.candidate_logits(outputs, is_candidate))]


class Spans(Finetuning):
    """Any of some places of the answer: outputs are `SpanLogits` of the text."""

    hub_task = "question-answering"

    def losses(self, outputs: SpanLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return span_losses(outputs, batch, self.is_token(batch))

    def distributions(self, outputs: SpanLogits, batch: Any) -> list[Choice]:
        return span_distributions(outputs, batch, self.is_token(batch))


class NaturalQuestions(Finetuning):
    """Answer type, short and long answer: outputs are `AnswerLogits`."""

    hub_task = "question-answering"

    def losses(self, outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return answer_losses(outputs, batch)

    def distributions(self, outputs: AnswerLogits, batch: Any) -> list[Choice]:
        return answer_distributions(outputs)
