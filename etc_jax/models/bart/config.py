"""Sizes and choices of BART."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import at_least
from etc_jax.config.model_fields import free, of_vocabulary, sized
from etc_jax.models.encoder_decoder.config import (
    EncoderDecoderConfig,
    Side,
    sizes,
)
from etc_jax.ops.attention.parts.checks import dropout_rate_problem


@dataclasses.dataclass(frozen=True)
class BartConfig(EncoderDecoderConfig):
    """A BART (Lewis et al. 2020); by its switches an mBART or what is between.

    Attributes:
      num_decoder_heads: heads of the decoder; None: as many as the encoder's.
      decoder_mlp_dim: hidden width of the decoder; None: as the encoder's.
      attention_dropout_rate: of attention probabilities.
      activation_dropout_rate: of the hidden layer of the feed-forward blocks.
      layer_norm_epsilon: added to variances.
      scale_embedding: rows of the token table are multiplied by sqrt(embed_dim).
      embed_norm: a norm of the embeddings.
      pre_norm: norms before the branches of a layer, not after them.
      final_norm: a norm after the last layer.
      bos_id, forced_bos_id, forced_eos_id: for generation; None: there is none.
    """

    position_offset: ClassVar[int] = 2
    logits_bias: ClassVar[bool] = True
    begin_token: ClassVar[bool] = True

    num_decoder_heads: int | None = sized(None)
    decoder_mlp_dim: int | None = sized(None)
    attention_dropout_rate: float = free(0.0)
    activation_dropout_rate: float = free(0.0)
    layer_norm_epsilon: float = 1e-5
    scale_embedding: bool = False
    embed_norm: bool = sized(True)
    pre_norm: bool = False
    final_norm: bool = sized(False)
    bos_id: int | None = of_vocabulary(0)
    forced_bos_id: int | None = of_vocabulary(None)
    forced_eos_id: int | None = of_vocabulary(2)

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.scale_embedding else 1.0

    @property
    def decoder_side(self) -> Side:
        return super().decoder_side._replace(
            num_heads=self.num_decoder_heads or self.num_heads,
            mlp_dim=self.decoder_mlp_dim or self.mlp_dim,
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        of_decoder = "num_decoder_heads", "decoder_mlp_dim"
        yield from at_least(1).problems(self, *of_decoder)
        if problem := dropout_rate_problem(self.activation_dropout_rate):
            yield "activation_dropout_rate", problem
        heads = self.num_decoder_heads
        divides = self.head_dim or not heads or heads < 0 or not self.embed_dim % heads
        if not divides:
            yield (
                "num_decoder_heads",
                f"{heads} does not divide embed_dim {self.embed_dim}; change one",
            )


# Lewis et al. 2020, section 2; Beltagy et al. 2020, section 7.
SIZES = {"base": sizes(768, 3072, 6, 12), "large": sizes(1024, 4096, 12, 16)}
