"""Fine-tuning encoders of one sequence on questions over several documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.models.encoder_multihop import (
    EncoderForCandidates,
    EncoderForEvidence,
    EvidenceLogits,
)
from etc_jax.objectives import candidates, qa_span
from etc_jax.objectives.batch_checks import missing_entries, wrong_padded_places
from etc_jax.objectives.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.finetuning import Sums, accuracy, span_losses, support_f1

CANDIDATES, PARAGRAPHS, SENTENCES = "candidates", "paragraphs", "sentences"
# Of places that have no token: probability and loss are 0 in float32.
_NOWHERE = -1e4


class MarkedFinetuning(EncoderFinetuning):
    """A task that reads the rows of some tokens.

    Attributes:
      places: entries of a batch with the places of these tokens, int32 `[b, m]`, -1 for
        none.
    """

    places: ClassVar[tuple[str, ...]]

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), *(batch[name] for name in self.places))

    def smallest_batch(self) -> dict[str, Any]:
        first = dict.fromkeys(self.places, jnp.zeros((1, 1), jnp.int32))
        return {**super().smallest_batch(), **first}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        yield from super().wrong_inputs(batch)
        if missing := missing_entries(batch, self.places):
            yield from missing
            return
        for name in self.places:
            yield from wrong_padded_places(batch, name, "long_tokens")


@registry.register("learner", "wikihop/sequence")
class WikihopLongformer(MarkedFinetuning):
    """One of the candidates: outputs are float32 `[b, m]`, a logit for each."""

    places = (CANDIDATES,)

    def module(self, deterministic: bool) -> EncoderForCandidates:
        return EncoderForCandidates(self.model, deterministic)

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        total, hits, examples = candidates.choice(
            outputs,
            batch[CANDIDATES] >= 0,
            batch["labels"]["candidate"],
            batch["weights"],
        )
        return total, {"accuracy": (hits, examples)}


@registry.register("learner", "hotpotqa/sequence")
class HotpotqaLongformer(MarkedFinetuning):
    """Paragraphs, sentences, answer type and span: outputs are `EvidenceLogits`."""

    places = (PARAGRAPHS, SENTENCES)

    def module(self, deterministic: bool) -> EncoderForEvidence:
        return EncoderForEvidence(self.model, deterministic)

    def losses(self, outputs: EvidenceLogits, batch: Any) -> tuple[jax.Array, Sums]:
        """The sum of five parts, of which the two ends of the span weigh a half each.

        Those of paragraphs and of sentences are means over what an example has of them,
        so that no part outgrows the others in long inputs.
        """
        labels, weights = batch["labels"], batch["weights"]
        given = {
            "paragraph": (outputs.paragraph, batch[PARAGRAPHS], labels["relevant"]),
            "support": (outputs.sentence, batch[SENTENCES], labels["support"]),
        }
        logits = {
            name: jnp.where(places >= 0, x, _NOWHERE)
            for name, (x, places, _) in given.items()
        }
        parts = {
            name: qa_span.support_loss(logits[name], targets)
            / jnp.maximum(jnp.sum(places >= 0, axis=-1), 1)
            for name, (_, places, targets) in given.items()
        }
        kind = labels["answer_type"]
        parts["answer_type"] = qa_span.cross_entropy(outputs.answer_type, kind)
        sums = {name: jnp.sum(loss * weights) for name, loss in parts.items()}
        span, of_span = span_losses(outputs, batch)
        examples = jnp.sum(weights)
        figures = {f"{name}_loss": (part, examples) for name, part in sums.items()}
        return sum(sums.values()) + span, {
            **figures,
            **of_span,
            "answer_type_accuracy": accuracy(outputs.answer_type, kind, weights),
            "support_f1": support_f1(logits["support"], labels["support"], weights),
        }
