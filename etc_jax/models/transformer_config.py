"""What follows from the fields that every config of a transformer has."""

from typing import Any

import jax.numpy as jnp

from etc_jax.layers.self_attention import Pattern


class TransformerConfig:
    """Base of the frozen dataclasses of all families; it has no fields.

    Attributes:
      patterns: what tokens see in each layer of a run that is repeated; of an
        encoder-decoder those of its encoder.
    """

    embed_dim: Any
    num_heads: Any
    head_dim: Any
    dtype: Any
    patterns: tuple[Pattern, ...]

    @property
    def attention_head_dim(self) -> int:
        """Size of one head; of an encoder-decoder in its encoder."""
        return self.head_dim or self.embed_dim // self.num_heads

    @property
    def compute_dtype(self) -> jnp.dtype:
        return jnp.dtype(self.dtype)

    @property
    def token_scale(self) -> float:
        """What the rows of the token table are multiplied by."""
        return 1.0

    @property
    def has_globals(self) -> bool:
        """Whether tokens of an input may be global."""
        return any("global_index" in pattern.reads for pattern in self.patterns)
