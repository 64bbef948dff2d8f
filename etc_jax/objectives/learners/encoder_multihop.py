"""Fine-tuning encoders of one sequence on questions over several documents."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.base import registry
from etc_jax.data.schema import Field, Schema
from etc_jax.formats import sequence
from etc_jax.models.encoder.multihop import (
    EncoderForCandidates,
    EncoderForEvidence,
    EvidenceLogits,
)
from etc_jax.objectives.learners.answer_learning import OneCandidate
from etc_jax.objectives.learners.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.learners.finetuning import Sums
from etc_jax.objectives.losses import qa_span
from etc_jax.objectives.losses.answers import (
    accuracy,
    span_distributions,
    span_losses,
    support_f1,
)
from etc_jax.objectives.r3f import Choice

CANDIDATES, PARAGRAPHS, SENTENCES = "candidates", "paragraphs", "sentences"
# Of places that have no token: probability and loss are 0 in float32.
_NOWHERE = -1e4


def _marked(*names: str) -> Schema:
    """With the places of some tokens, int32 `[b, m]`, -1 for none."""
    fields = dict.fromkeys(names, Field(shape=(1,), padding=-1))
    return sequence.SCHEMA.extended(fields, positions=dict.fromkeys(names, "input"))


class MarkedFinetuning(EncoderFinetuning):
    """A task that reads the rows of some tokens.

    Attributes:
      marked: names of the places of these tokens; see `_marked`.
    """

    marked: ClassVar[tuple[str, ...]]

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), *(batch[name] for name in self.marked))


@registry.register("learner", "wikihop/sequence")
class WikihopLongformer(OneCandidate, MarkedFinetuning):
    """One of the candidates: outputs are float32 `[b, m]`, a logit for each."""

    marked = (CANDIDATES,)
    schema = _marked(*marked)

    def module(self, deterministic: bool) -> EncoderForCandidates:
        return EncoderForCandidates(self.model, deterministic)

    def is_candidate(self, batch: Any) -> jax.Array:
        return batch[CANDIDATES] >= 0


@registry.register("learner", "hotpotqa/sequence")
class HotpotqaLongformer(MarkedFinetuning):
    """Paragraphs, sentences, answer type and span: outputs are `EvidenceLogits`."""

    hub_task = "question-answering"
    marked = (PARAGRAPHS, SENTENCES)
    schema = _marked(*marked)

    def module(self, deterministic: bool) -> EncoderForEvidence:
        return EncoderForEvidence(self.model, deterministic)

    def losses(self, outputs: EvidenceLogits, batch: Any) -> tuple[jax.Array, Sums]:
        """The sum of five parts, of which the two ends of the span weigh a half each.

        Those of paragraphs and of sentences are means over what an example has of them,
        so that no part outgrows the others in long inputs.
        """
        labels, weights = batch["labels"], batch["weights"]
        evidence = {
            "paragraph": (outputs.paragraph, batch[PARAGRAPHS], labels["relevant"]),
            "support": (outputs.sentence, batch[SENTENCES], labels["support"]),
        }
        logits = {
            name: jnp.where(positions >= 0, x, _NOWHERE)
            for name, (x, positions, _) in evidence.items()
        }
        parts = {
            name: qa_span.support_loss(logits[name], targets)
            / jnp.maximum(jnp.sum(positions >= 0, axis=-1), 1)
            for name, (_, positions, targets) in evidence.items()
        }
        kind = labels["answer_type"]
        parts["answer_type"] = qa_span.cross_entropy(outputs.answer_type, kind)
        sums = {name: jnp.sum(loss * weights) for name, loss in parts.items()}
        span, of_span = span_losses(outputs, batch, self.is_token(batch))
        examples = jnp.sum(weights)
        metrics = {f"{name}_loss": (part, examples) for name, part in sums.items()}
        return sum(sums.values()) + span, {
            **metrics,
            **of_span,
            "answer_type_accuracy": accuracy(outputs.answer_type, kind, weights),
            "support_f1": support_f1(logits["support"], labels["support"], weights),
        }

    def distributions(self, outputs: EvidenceLogits, batch: Any) -> list[Choice]:
        def evidence(logits, positions):
            exists = positions >= 0
            share = exists / jnp.maximum(jnp.sum(exists, axis=-1, keepdims=True), 1)
            return Choice(logits, share, binary=True)

        return [
            evidence(outputs.paragraph, batch[PARAGRAPHS]),
            evidence(outputs.sentence, batch[SENTENCES]),
            Choice(outputs.answer_type),
            *span_distributions(outputs, batch, self.is_token(batch)),
        ]
