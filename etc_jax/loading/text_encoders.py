"""What an encoder of each kind needs to read texts.

A kind is a frozen dataclass of the model's config, registered as "text_encoder" under
the names of its families.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import numpy as np

from etc_jax import registry
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX, TOKENS, TYPES, filled
from etc_jax.formats.text_to_text import end_id
from etc_jax.models.encoder import Encoder
from etc_jax.models.encoder_config import (
    BigBirdConfig,
    EncoderConfig,
    LongformerConfig,
)
from etc_jax.models.encoder_decoder import EncoderDecoder
from etc_jax.models.encoder_decoder_config import EncoderDecoderConfig

KIND = "text_encoder"
Batch = dict[str, np.ndarray]


class TextEncoder(Protocol):
    """How an encoder reads texts.

    Attributes:
      config: of the model.
      max_length: tokens of the longest input.
      num_globals: first tokens of an input that are global.
    """

    config: Any
    max_length: int
    num_globals: int

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """(ids before a text, ids after it)."""

    def padding_limit(self, length: int) -> int:
        """The longest padded length with the same hidden states.

        Args:
          length: tokens of an input.
        """

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """Hidden states after the last layer, `[b, n, embed_dim]`; pure.

        Args:
          params: of the model, with or without heads.
          batch: see `batch_of`.
        """


def text_encoder_of(family: str, config: Any) -> TextEncoder:
    """How the models of a family read texts.

    Raises:
      ValueError: if texts cannot be encoded with them.
    """
    known = list(registry.names(KIND))
    if family not in known:
        raise ValueError(
            f"the model is of family {family!r}, which does not encode plain texts "
            f"here; {', '.join(known)} do. Give inputs that you make yourself to its "
            "module of etc_jax.models"
        )
    return registry.lookup(KIND, family)(config)


def batch_of(ids: list[np.ndarray], length: int, num_globals: int) -> Batch:
    """Inputs of one padded length.

    Args:
      ids: of each input, int `[at most length]`.
      length: with padding.
      num_globals: first tokens that are global.

    Returns:
      int32 `tokens`, `types` and `example_ids`, `[b, n]`, the last 1 for a token and 0
      for padding; `global_index`, `[b, num_globals]`, -1 where there is no such token.
    """
    rows = np.stack([filled(length, 0, row) for row in ids])
    # [b, 1] and [1, n] -> [b, n]
    lengths = np.array([[len(row)] for row in ids], np.int32)
    places = np.arange(num_globals, dtype=np.int32)[None]
    return {
        TOKENS: rows,
        TYPES: np.zeros_like(rows),
        EXAMPLE_IDS: (np.arange(length)[None] < lengths).astype(np.int32),
        GLOBAL_INDEX: np.where(places < lengths, places, -1).astype(np.int32),
    }


@registry.register(KIND, "bert")
@registry.register(KIND, "roberta")
@dataclasses.dataclass(frozen=True)
class SequenceEncoder:
    """BERT and RoBERTa: [CLS] text [SEP]."""

    config: EncoderConfig

    @property
    def max_length(self) -> int:
        """See `TextEncoder`."""
        return self.config.max_length

    @property
    def num_globals(self) -> int:
        """See `TextEncoder`."""
        return 0

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """See `TextEncoder`."""
        return [tokenizer.special_id("cls")], [tokenizer.special_id("sep")]

    def padding_limit(self, length: int) -> int:
        """See `TextEncoder`: padding changes nothing."""
        del length
        return self.max_length

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """See `TextEncoder`."""
        return self._encoded(params, batch)

    def _encoded(self, params: Any, batch: Batch, **inputs: Any) -> jax.Array:
        own = {"params": params["encoder"]}
        given = batch[TOKENS], batch[EXAMPLE_IDS]
        return Encoder(self.config).apply(own, *given, types=batch[TYPES], **inputs)


@registry.register(KIND, "longformer")
@dataclasses.dataclass(frozen=True)
class LongformerEncoder(SequenceEncoder):
    """Longformer, whose first token is global unless the model is causal."""

    config: LongformerConfig

    @property
    def num_globals(self) -> int:
        """See `TextEncoder`."""
        return 0 if self.config.causal else 1

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """See `TextEncoder`."""
        if not self.num_globals:
            return self._encoded(params, batch)
        return self._encoded(params, batch, global_index=batch[GLOBAL_INDEX])


@registry.register(KIND, "big_bird")
@dataclasses.dataclass(frozen=True)
class BigBirdEncoder(SequenceEncoder):
    """BigBird, whose last block is global: the number of blocks must stay."""

    config: BigBirdConfig

    @property
    def num_globals(self) -> int:
        """See `TextEncoder`."""
        return self.config.num_globals

    def padding_limit(self, length: int) -> int:
        """See `TextEncoder`."""
        c = self.config
        [sparse] = c.patterns
        if sparse is None:
            return self.max_length
        if length <= sparse.whole_length:
            return min(sparse.whole_length, self.max_length)
        blocks = -(-(length - c.num_globals) // c.block_size)
        return min(c.num_globals + blocks * c.block_size, self.max_length)


@registry.register(KIND, "bart")
@registry.register(KIND, "t5")
@registry.register(KIND, "led")
@registry.register(KIND, "long_t5")
@registry.register(KIND, "bart_ls")
@dataclasses.dataclass(frozen=True)
class Seq2SeqEncoder:
    """The encoder of an encoder-decoder: text, end token; <s> first where it has one.

    The first token of a LED is global.
    """

    config: EncoderDecoderConfig

    @property
    def max_length(self) -> int:
        """See `TextEncoder`."""
        return self.config.longest_input

    @property
    def num_globals(self) -> int:
        """See `TextEncoder`."""
        return int(self.config.has_globals)

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """See `TextEncoder`."""
        first = [tokenizer.special_id("cls")] if self.config.begin_token else []
        return first, [end_id(tokenizer)]

    def padding_limit(self, length: int) -> int:
        """See `TextEncoder`: padding changes nothing."""
        del length
        return self.max_length

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """See `TextEncoder`.

        Raises:
          ValueError: if the windows of SLED need a prefix, which plain texts have not.
        """
        if self.config.sled.prefix_length:
            raise ValueError(
                f"sled.prefix_length is {self.config.sled.prefix_length}: the model "
                "reads a prefix before each text; expected 0 to encode plain texts"
            )
        index = batch[GLOBAL_INDEX] if self.num_globals else None
        return (
            EncoderDecoder(self.config)
            .apply(
                {"params": params},
                batch[TOKENS],
                batch[EXAMPLE_IDS],
                index,
                method="encode",
            )
            .rows
        )
