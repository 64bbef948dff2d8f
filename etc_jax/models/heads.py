"""Heads of the ETC paper's fine-tuning tasks: encoder outputs to logits, in float32."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.base.types import Rows
from etc_jax.layers.common import Dense, LayerNorm, Mlp
from etc_jax.layers.dropout import Dropout
from etc_jax.models.encoder.heads import SpanLogits
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.structure import Structure

HOTPOTQA_TYPES = 3
NATURAL_QUESTIONS_TYPES = 5


class AnswerLogits(NamedTuple):
    """Logits of an answer and of what supports it.

    Attributes:
      answer_type: `[b, types]`.
      span: `[b, n, ends]`.
      support: `[b, g]`; None if the task does not ask for it.
    """

    answer_type: jax.Array
    span: jax.Array
    support: jax.Array | None = None


def _logits(config: EtcConfig, features: int, name: str) -> Dense:
    return Dense((features,), config.initializer_range, jnp.float32, name=name)


class HotpotqaHead(nn.Module):
    """Supporting sentences, answer type and span (paper, appendix C).

    Attributes:
      config: of the encoder.
    """

    config: EtcConfig

    @nn.compact
    def __call__(self, x: Rows) -> AnswerLogits:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> logits.

        The type is read off the first global token; a support logit is there for each
        global token, and two span logits for each long token.
        """
        first = x.global_[:, 0]
        # [b, g, e] -> [b, g, 1]
        support = _logits(self.config, 1, "support")(x.global_)
        return AnswerLogits(
            # [b, e] -> [b, 3]
            answer_type=_logits(self.config, HOTPOTQA_TYPES, "answer_type")(first),
            # [b, n, e] -> [b, n, 2]
            span=_logits(self.config, 2, "answer_span")(x.long),
            support=support[..., 0],
        )


class NaturalQuestionsHead(nn.Module):
    """Answer type, and both ends of short and long answer (paper, appendix C).

    Attributes:
      config: of the encoder.
    """

    config: EtcConfig

    @nn.compact
    def __call__(self, x: Rows) -> AnswerLogits:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> logits.

        The type is read off the first long token. The four span logits are those of the
        short answer's begin and end, and the long answer's.
        """
        kinds = NATURAL_QUESTIONS_TYPES
        return AnswerLogits(
            # [b, e] -> [b, 5]
            answer_type=_logits(self.config, kinds, "answer_type")(x.long[:, 0]),
            # [b, n, e] -> [b, n, 4]
            span=_logits(self.config, 4, "answer_span")(x.long),
        )


class LabelsHead(nn.Module):
    """A logit for each class of the whole text, off the first global token.

    Attributes:
      config: of the encoder.
      classes: how many there are.
    """

    config: EtcConfig
    classes: int

    @nn.compact
    def __call__(self, x: Rows) -> jax.Array:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> float32 `[b, classes]`."""
        # [b, g, e] -> [b, e] -> [b, classes]
        return _logits(self.config, self.classes, "label_out")(x.global_[:, 0])


class TokenLabelsHead(nn.Module):
    """A logit for each class of each long token.

    Attributes:
      config: of the encoder.
      classes: how many there are.
    """

    config: EtcConfig
    classes: int

    @nn.compact
    def __call__(self, x: Rows) -> jax.Array:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> float32 `[b, n, classes]`."""
        # [b, n, e] -> [b, n, classes]
        return _logits(self.config, self.classes, "token_label_out")(x.long)


class SpanHead(nn.Module):
    """The logits of each long token to begin, and to end, an answer.

    Attributes:
      config: of the encoder.
    """

    config: EtcConfig

    @nn.compact
    def __call__(self, x: Rows) -> SpanLogits:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> float32 `[b, n]`, twice."""
        # [b, n, e] -> [b, n, 2]
        logits = _logits(self.config, 2, "answer_span")(x.long)
        return SpanLogits(logits[..., 0], logits[..., 1])


class CandidateHead(nn.Module):
    """A logit for each global token, those of candidates to be chosen from: WikiHop.

    Attributes:
      config: of the encoder.
      final_layer: one more feed-forward block before the logits.
      deterministic: no dropout.
    """

    config: EtcConfig
    final_layer: bool = True
    deterministic: bool = True

    @nn.compact
    def __call__(self, x: Rows) -> jax.Array:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> float32 `[b, g]`."""
        y = self._final(x.global_) if self.final_layer else x.global_
        # [b, g, e] -> [b, g, 1] -> [b, g]
        return _logits(self.config, 1, "candidate")(y)[..., 0]

    def _final(self, y: jax.Array) -> jax.Array:
        c = self.config
        mlp = Mlp(
            c.mlp_dim, c.activation, c.initializer_range, c.compute_dtype, name="mlp"
        )
        norm = LayerNorm(c.layer_norm_epsilon, c.compute_dtype, name="mlp_norm")
        dropout = Dropout(c.dropout_rate)
        # Post-norm whatever the encoder's layers have, as in the official code.
        return norm(y + dropout(mlp(y), deterministic=self.deterministic))


class EtcWithHead(nn.Module):
    """The encoder and a task's head, in one tree of parameters: `encoder`, `head`.

    Attributes:
      config: of the encoder.
      make_head: (config, deterministic) -> one of the heads above, named "head".
      deterministic: no dropout.
    """

    config: EtcConfig
    make_head: Callable[[EtcConfig, bool], nn.Module]
    deterministic: bool = True

    @nn.compact
    def __call__(self, tokens: Rows, structure: Structure, types: Rows):
        """Logits of the head; arguments as of `Etc`, in float32."""
        encoder = Etc(self.config, self.deterministic, name="encoder")
        # [b, n], [b, g] -> [b, n, e], [b, g, e]
        output = encoder(*tokens, structure, types=types)
        return self.make_head(self.config, self.deterministic)(output)
