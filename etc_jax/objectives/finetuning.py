"""Fine-tuning ETC: encoder, head and loss of each task (ETC paper, appendix C)."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.config_sections import ObjectiveConfig
from etc_jax.data.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.models.etc_config import EtcConfig
from etc_jax.models.heads import (
    AnswerLogits,
    CandidateHead,
    EtcWithHead,
    HotpotqaHead,
)
from etc_jax.objectives import candidates, qa_span
from etc_jax.structure import Structure
from etc_jax.types import Rows

# Class of the answer type that has a span.
_SPAN = 0
# For the figures of a run; decoding searches the threshold (appendix C.2).
_SUPPORT_THRESHOLD = 0.4

Sums = dict[str, tuple[jax.Array, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Finetuning(abc.ABC):
    """Parameters, outputs and loss of one task.

    A batch is what `data.windows.WindowReader` makes; outputs need its tokens, types
    and structure alone.

    Attributes:
      model: config of the encoder.
      objective: choices of the head and the loss.
    """

    model: EtcConfig
    objective: ObjectiveConfig

    @abc.abstractmethod
    def head(self, config: EtcConfig, deterministic: bool):
        """The Linen module behind the encoder, named "head"."""

    @abc.abstractmethod
    def losses(self, outputs: Any, batch: Any) -> tuple[jax.Array, Sums]:
        """(sum of the examples' losses, figures as (sum, weight)), in float32."""

    def _apply(self, params, batch, rng):
        return EtcWithHead(self.model, self.head, rng is None).apply(
            {"params": params},
            *_inputs(batch),
            rngs=None if rng is None else {"dropout": rng},
        )

    def init(self, rng: jax.Array) -> Any:
        """{"encoder", "head"}: sizes do not depend on the input's lengths."""
        ids = jnp.ones((1, 1), jnp.int32)
        one = Structure(ids, ids, jnp.zeros((1, 1, 1), jnp.int16))
        rows = Rows(ids, ids)
        module = EtcWithHead(self.model, self.head)
        return module.init(rng, rows, one, rows)["params"]

    def outputs(self, params: Any, batch: Any) -> Any:
        """The head's logits without dropout, in float32; see `models.heads`."""
        return self._apply(params, batch, None)

    def loss(self, params, batch, rng, deterministic: bool) -> tuple[jax.Array, Sums]:
        """Mean loss over the examples of weight 1, and figures as (sum, weight)."""
        outputs = self._apply(params, batch, None if deterministic else rng)
        total, sums = self.losses(outputs, batch)
        examples = jnp.sum(batch["weights"])
        return total / jnp.maximum(examples, 1), {"loss": (total, examples), **sums}


def _inputs(batch: Any) -> tuple[Rows, Structure, Rows]:
    return (
        Rows(batch["long_tokens"], batch["global_tokens"]),
        batch["structure"],
        Rows(batch["long_types"], batch["global_types"]),
    )


@registry.register("finetuning", "hotpotqa")
class Hotpotqa(Finetuning):
    """Supporting sentences, answer type and span: outputs are `AnswerLogits`."""

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
        figures = {f"{name}_loss": (part, examples) for name, part in parts.items()}
        kind = labels["answer_type"]
        right_kind = jnp.argmax(outputs.answer_type, axis=-1) == kind
        places = jnp.stack([labels["begin"], labels["end"]], axis=-1)
        right_span = jnp.all(jnp.argmax(outputs.span, axis=1) == places, axis=-1)
        spans = weights * (kind == _SPAN)
        return total, {
            **figures,
            "answer_type_accuracy": (jnp.sum(right_kind * weights), examples),
            "span_accuracy": (jnp.sum(right_span * spans), jnp.sum(spans)),
            "support_f1": _support_f1(outputs.support, labels["support"], weights),
        }


def _support_f1(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(numerator, denominator) of F1 over the global tokens of a batch."""
    given = jax.nn.sigmoid(logits) >= _SUPPORT_THRESHOLD
    targets = targets > 0
    weights = weights[:, None]
    both = 2.0 * jnp.sum((given & targets) * weights)
    return both, jnp.sum((given * 1.0 + targets) * weights)


@registry.register("finetuning", "wikihop")
class Wikihop(Finetuning):
    """One of the candidates: outputs are float32 `[b, g]`, a logit a global token."""

    def head(self, config: EtcConfig, deterministic: bool) -> CandidateHead:
        final = self.objective.final_layer
        return CandidateHead(config, final, deterministic, name="head")

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        total, hits, examples = candidates.choice(
            outputs,
            batch["global_types"] == GLOBAL_CANDIDATE_TYPE,
            batch["labels"]["candidate"],
            batch["weights"],
            label_smoothing=self.objective.label_smoothing,
        )
        return total, {"accuracy": (hits, examples)}


def find(model: EtcConfig, objective: ObjectiveConfig) -> Finetuning:
    """The task that the objective names.

    Raises:
      KeyError: naming those there are.
    """
    return registry.lookup("finetuning", objective.name)(model, objective)
