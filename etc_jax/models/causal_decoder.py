"""What decoders of causal models share."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["layers", "position"],
    meta_fields=["length"],
)
@dataclasses.dataclass(frozen=True)
class Cache:
    """What is kept of a batch of sequences.

    Attributes:
      layers: what each layer of a run that is repeated keeps, with a leading axis of
        repeats.
      position: int32 `[b]`, where the next token of each sequence stands.
      length: longest sequence that there is room for.
    """

    layers: tuple[Any, ...]
    position: jax.Array
    length: int

    @property
    def newest(self) -> jax.Array:
        """int32 `[b]`: the place of the next token, or the last one if it has none."""
        return jnp.minimum(self.position, self.length - 1)

    def with_token(
        self, layers: tuple[Any, ...], logits: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """(logits, the cache after it); not a number where there was no room."""
        # [b] -> [b, 1], beside logits [b, vocabulary].
        fits = (self.position < self.length)[:, None]
        cache = dataclasses.replace(self, layers=layers, position=self.position + 1)
        return jnp.where(fits, logits, jnp.nan), cache


@dataclasses.dataclass(frozen=True)
class CausalDecoder:
    """Of a model whose config has `causal` and `max_length`; see `decoding.Decoder`.

    Attributes:
      config: of the model.
    """

    config: Any

    def check(self, length: int) -> None:
        """Raises ValueError if the model is not causal, or not so long."""
        if not self.config.causal:
            raise ValueError(
                "the model has causal=False: its tokens see those after them, so that "
                "it cannot continue a text; take a language model"
            )
        if not 1 <= length <= self.config.max_length:
            raise ValueError(
                f"length is {length}, expected 1..{self.config.max_length}: the "
                "model's max_length is how many positions it has"
            )
