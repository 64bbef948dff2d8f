"""Labels of texts and tokens: losses and options that all formats of inputs share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.base.rules import Problem
from etc_jax.config.sections import FinetuningConfig
from etc_jax.objectives.learners.finetuning import Finetuning
from etc_jax.objectives.losses.labels import (
    label_loss,
    label_set_loss,
    token_label_loss,
    token_shares,
)
from etc_jax.objectives.r3f import Choice
from etc_jax.training.job import Sums


@dataclasses.dataclass(frozen=True)
class LabelsConfig(FinetuningConfig):
    """Options of labels.

    Attributes:
      class_weights: what the loss of a text or token with each label is multiplied
        with, in the order of the labels; of several labels a text, that of each
        yes-or-no. (): all count alike. Losses are means over texts, and in a text over
        tokens, whatever the weights.
    """

    class_weights: tuple[float, ...] = ()

    def problems(self) -> Iterator[Problem]:
        if any(not 0 <= x < float("inf") for x in self.class_weights):
            yield "class_weights", f"is {self.class_weights}; expected 0 or more each"


class Labels(Finetuning):
    """Labels of a text or its tokens: outputs are float32 `[b, ..., classes]`."""

    section = LabelsConfig
    hub_task = "text-classification"

    @property
    def problem(self) -> str | None:
        weights = self.objective.class_weights
        if len(weights) in (0, len(self.classes)):
            return None
        return (
            f"objective.class_weights has {len(weights)} values; expected one for each "
            f"of the {len(self.classes)} labels: {', '.join(self.classes)}"
        )

    def class_weights(self) -> jax.Array:
        """float32 `[classes]`."""
        weights = self.objective.class_weights or (1.0,) * len(self.classes)
        return jnp.array(weights, jnp.float32)


class OneLabel(Labels):
    """One label of a text, by a softmax over all."""

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        """See `Finetuning.losses`; of outputs `[b, classes]`."""
        targets, weights = batch["labels"]["label"], batch["weights"]
        total, hits, texts = label_loss(outputs, targets, weights, self.class_weights())
        return total, {"accuracy": (hits, texts)}

    def distributions(self, outputs: jax.Array, batch: Any) -> list[Choice]:
        """See `Finetuning.distributions`; of outputs `[b, classes]`."""
        targets = jnp.maximum(batch["labels"]["label"], 0)  # padding has none
        return [Choice(outputs, self.class_weights()[targets])]


class LabelSets(Labels):
    """Any number of labels of a text, each by a sigmoid of its own."""

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        """See `Finetuning.losses`; of outputs `[b, classes]`."""
        targets, weights = batch["labels"]["label"], batch["weights"]
        total, f1 = label_set_loss(outputs, targets, weights, self.class_weights())
        return total, {"micro_f1": f1}

    def distributions(self, outputs: jax.Array, batch: Any) -> list[Choice]:
        """See `Finetuning.distributions`; of outputs `[b, classes]`."""
        del batch
        share = self.class_weights() / len(self.classes)
        return [Choice(outputs, jnp.broadcast_to(share, outputs.shape), binary=True)]


class TokenLabels(Labels):
    """A label of each token that has one, by a softmax over all.

    Outputs are float32 `[b, n, classes]`. Each text counts alike: its loss is the mean
    over its tokens with a label.
    """

    hub_task = "token-classification"

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        """See `Finetuning.losses`; of outputs `[b, n, classes]`."""
        targets, weights = batch["labels"]["tags"], batch["weights"]
        total, hits = token_label_loss(outputs, targets, weights, self.class_weights())
        return total, {"accuracy": hits}

    def distributions(self, outputs: jax.Array, batch: Any) -> list[Choice]:
        """See `Finetuning.distributions`; of outputs `[b, n, classes]`."""
        number, weights = len(self.classes), self.class_weights()
        shares = token_shares(batch["labels"]["tags"], weights, number)
        return [Choice(outputs, shares)]
