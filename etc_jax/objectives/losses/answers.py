"""Losses and metrics of answers that are a type and a span, as several learners use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.data.windows.label_names import NATURAL_QUESTIONS_PLACES
from etc_jax.models.heads import AnswerLogits
from etc_jax.objectives.losses import qa_span
from etc_jax.objectives.losses.alias_spans import NOWHERE, alias_spans
from etc_jax.objectives.r3f import Choice
from etc_jax.training.job import Sums

# Class of the answer type that has a span.
SPAN = 0
# For the metrics of a run; decoding searches the threshold (appendix C.2).
_SUPPORT_THRESHOLD = 0.4


def accuracy(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(right, all) of classes: `[b, c]`, `[b]`, `[b]`."""
    right = jnp.argmax(logits, axis=-1) == targets
    return jnp.sum(right * weights), jnp.sum(weights)


def span_accuracy(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(right, all) of spans, both ends of them: `[b, n, 2]`, `[b, 2]`, `[b]`."""
    right = jnp.all(jnp.argmax(logits, axis=1) == targets, axis=-1)
    return jnp.sum(right * weights), jnp.sum(weights)


def support_f1(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(numerator, denominator) of F1 over global tokens: `[b, g]`, `[b, g]`, `[b]`."""
    predicted = jax.nn.sigmoid(logits) >= _SUPPORT_THRESHOLD
    targets = targets > 0
    weights = weights[:, None]
    both = 2.0 * jnp.sum((predicted & targets) * weights)
    return both, jnp.sum((predicted * 1.0 + targets) * weights)


def answer_losses(outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
    """The losses of Natural Questions; see `Finetuning.losses`.

    Accuracies of spans are over the windows that hold the whole answer.
    """
    labels, weights = batch["labels"], batch["weights"]
    kind = labels["answer_type"]
    positions = jnp.stack([labels[name] for name in NATURAL_QUESTIONS_PLACES], axis=-1)
    total, parts, examples = qa_span.natural_questions(
        outputs.answer_type,
        outputs.span,
        answer_type=kind,
        positions=positions,
        weights=weights,
    )
    metrics = {f"{name}_loss": (part, examples) for name, part in parts.items()}
    metrics["answer_type_accuracy"] = accuracy(outputs.answer_type, kind, weights)
    for name, ends in (("short", slice(0, 2)), ("long", slice(2, 4))):
        whole = weights * jnp.all(positions[:, ends] > 0, axis=-1)
        metrics[f"{name}_accuracy"] = span_accuracy(
            outputs.span[..., ends], positions[:, ends], whole
        )
    return total, metrics


def answer_distributions(outputs: AnswerLogits) -> list[Choice]:
    """Those of a loss that is the mean of its parts; see `Finetuning.distributions`."""
    share = 1 / (1 + outputs.span.shape[-1] + (outputs.support is not None))
    choices = [
        Choice(outputs.answer_type, share),
        # [b, n, ends] -> [b, ends, n]
        Choice(jnp.swapaxes(outputs.span, 1, 2), share),
    ]
    if outputs.support is not None:
        choices.append(Choice(outputs.support, share, binary=True))
    return choices


def span_losses(
    outputs: Any, batch: Any, is_token: jax.Array
) -> tuple[jax.Array, Sums]:
    """See `Finetuning.losses`; of answers that several places may give.

    Args:
      outputs: with `start` and `end`, logits of the tokens of the text, `[b, n]`.
      batch: with the labels `starts` and `ends`; see `alias_spans`.
      is_token: see `Finetuning.is_token`.
    """
    labels, weights = batch["labels"], batch["weights"]
    total, parts, hits, examples = alias_spans(
        outputs.start,
        outputs.end,
        starts=labels["starts"],
        ends=labels["ends"],
        is_token=is_token,
        weights=weights,
    )
    metrics = {f"{name}_loss": (part, examples) for name, part in parts.items()}
    return total, {**metrics, "span_accuracy": (hits, examples)}


def span_distributions(outputs: Any, batch: Any, is_token: jax.Array) -> list[Choice]:
    """Those of `span_losses`, over `[b, n]` tokens; see `Finetuning.distributions`."""
    answered = jnp.any(batch["labels"]["starts"] >= 0, axis=-1) / 2
    ends = (outputs.start, outputs.end)
    return [Choice(jnp.where(is_token, x, NOWHERE), answered) for x in ends]
