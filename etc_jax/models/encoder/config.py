"""Sizes and choices of encoders with one sequence: BERT and what grew from it."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.full import Full
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import REMAT_POLICIES
from etc_jax.models.config_problems import transformer_problems
from etc_jax.models.transformer_config import TransformerConfig


@dataclasses.dataclass(frozen=True)
class EncoderConfig(TransformerConfig):
    """What all of them have; the defaults are those of BERT base.

    Attributes:
      vocab_size: rows of the token table.
      num_types: rows of the token-type table.
      embed_dim: width.
      num_layers: layers.
      num_heads: of each layer.
      head_dim: of each head; None: embed_dim / num_heads.
      mlp_dim: hidden width of the feed-forward block.
      max_length: longest sequence that has positions.
      activation: of feed-forward and MLM head.
      dropout_rate: of embeddings and residual branches.
      attention_dropout_rate: of attention probabilities.
      initializer_range: standard deviation of kernels and tables.
      layer_norm_epsilon: added to variances.
      logits_chunk_length: tokens whose logits are computed at once in the loss; 0: all.
      scan_layers: whether layers are compiled once; otherwise one by one.
      remat_policy: what a layer keeps for its backward pass, of `stack.REMAT_POLICIES`.
      dtype: of the computation; parameters are float32.
      attention: "auto", "xla", "pallas" (kernels for NVIDIA GPUs), "mosaic" (kernels
        for TPUs) or "dense".
    """

    formats: ClassVar[tuple[str, ...]] = ("sequence",)

    # Row of position 0 in its table; the rows before it are those of padding.
    position_offset: ClassVar[int] = 0
    # How positions are encoded: by a table, unless a family has a choice of kinds.
    positions: ClassVar[str] = "learnt"
    position_kinds: ClassVar[tuple[str, ...]] = ("learnt",)

    # `sized` fields show in shapes or paths of parameters, `free` ones change nothing
    # that was learnt, and all others must agree at `init_from`.
    vocab_size: int = sized(30522)
    num_types: int = sized(2)
    embed_dim: int = sized(768)
    num_layers: int = sized(12)
    num_heads: int = sized(12)
    head_dim: int | None = sized(None)
    mlp_dim: int = sized(3072)
    max_length: int = sized(512)
    # BERT's is the gelu of the error function, not its tanh approximation.
    activation: str = "gelu_exact"
    dropout_rate: float = free(0.1)
    attention_dropout_rate: float = free(0.1)
    initializer_range: float = free(0.02)
    layer_norm_epsilon: float = 1e-12
    logits_chunk_length: int = free(0)
    scan_layers: bool = sized(True)
    remat_policy: str = free("none")
    dtype: str = free("float32")
    attention: str = free("auto")

    # Dropout before the norm of the embeddings.
    dropout_first: ClassVar[bool] = False
    answer_mlp: ClassVar[bool] = False
    # Whether queries, keys and values have one.
    projection_bias: ClassVar[bool] = True
    pre_norm: ClassVar[bool] = False

    @property
    def label_activation(self) -> str | None:
        """Of the layer before the labels of a sequence; None: the pooler is there."""
        return None

    @property
    def num_positions(self) -> int:
        """Rows of the position table."""
        return self.max_length + self.position_offset

    @property
    def position_limit(self) -> int | None:
        """Tokens that there are positions for; None: any number."""
        return self.max_length if self.positions == "learnt" else None

    @property
    def input_limit(self) -> tuple[str, int | None]:
        """(field that limits an input, tokens); without a table of positions None."""
        return "max_length", self.position_limit

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What tokens see in each layer of a run that is repeated."""
        return (Full(),)

    @property
    def text_globals(self) -> int:
        """First tokens of a plain text that are global."""
        return 0

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong."""
        positive = (
            "vocab_size num_types embed_dim num_layers num_heads head_dim mlp_dim "
            "max_length"
        )
        yield from at_least(1).problems(self, *positive.split())
        yield from at_least(0, "all").problems(self, "logits_chunk_length")
        yield from transformer_problems(self)
        yield from choice(REMAT_POLICIES).problems(self, "remat_policy")
        yield from choice(self.position_kinds).problems(self, "positions")
