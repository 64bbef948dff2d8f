"""Models that read a text as one sequence, whose first tokens may be global."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX, TOKENS, TYPES, filled
from etc_jax.formats.text_to_text import end_id
from etc_jax.loading.text_encoder import KIND, Batch, Input, Marked
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.family import make_body


@dataclasses.dataclass(frozen=True)
class FlatEncoder:
    """What they share; methods as of `TextEncoder`."""

    config: Any

    @property
    def num_globals(self) -> int:
        """First tokens that are global."""
        return self.config.text_globals

    @property
    def max_length(self) -> int | None:
        """See `TextEncoder`."""
        return self.config.input_limit[1]

    @property
    def poolings(self) -> tuple[str, ...]:
        """See `TextEncoder`."""
        return ("mean", "cls", "global") if self.num_globals else ("mean", "cls")

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """(ids before a text, ids after it)."""
        raise NotImplementedError

    def inputs_of(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[Input]:
        """See `TextEncoder`."""
        before, after = self.ends(tokenizer)
        rows = [
            np.array([*before, *ids, *after], np.int32)
            for ids, _ in tokenizer.encode_batch(texts)
        ]
        for i, ids in enumerate(rows):
            check_rows(ids, self.config.vocab_size, tokenizer, f"texts[{i}]")
        return list(map(self.input_of_ids, rows))

    def input_of_ids(self, ids: np.ndarray) -> Input:
        """See `TextEncoder`."""
        return Input(ids, np.zeros_like(ids), np.zeros(0, np.int32))

    def cut(self, given: Input, length: int) -> Input:
        """See `TextEncoder`: the first tokens and the last one, which ends texts."""
        return self.input_of_ids(cut_to(given.ids, length))

    def padding_limit(self, length: int) -> int | None:
        """See `TextEncoder`."""
        limits = [pattern.padding_limit(length) for pattern in self.config.patterns]
        limits = [limit for limit in (*limits, self.max_length) if limit is not None]
        return min(limits, default=None)

    def batch(self, inputs: Sequence[Input], length: int) -> Batch:
        """See `TextEncoder`.

        Returns:
          int32 `tokens`, `types` and `example_ids`, `[b, n]`, the last 1 for a token
          and 0 for padding; `global_index`, `[b, g]`, -1 where there is no such token.
        """
        tokens = np.stack([filled(length, 0, one.ids) for one in inputs])
        lengths = np.array([[len(one.ids)] for one in inputs], np.int32)
        first = np.arange(self.num_globals, dtype=np.int32)[None]
        return {
            TOKENS: tokens,
            TYPES: np.zeros_like(tokens),
            # [1, n] and [b, 1] -> [b, n]
            EXAMPLE_IDS: (np.arange(length)[None] < lengths).astype(np.int32),
            GLOBAL_INDEX: np.where(first < lengths, first, -1).astype(np.int32),
        }

    def tokens(self, output: jax.Array, batch: Batch) -> Marked:
        """See `TextEncoder`."""
        return Marked(output, batch[EXAMPLE_IDS] > 0)

    def global_tokens(self, output: jax.Array, batch: Batch) -> Marked:
        """See `TextEncoder`."""
        index = batch[GLOBAL_INDEX]
        # [b, n, e] -> [b, g, e]
        states = jnp.take_along_axis(output, jnp.maximum(index, 0)[..., None], axis=1)
        return Marked(states, index >= 0)


@registry.register(KIND, "sequence")
@dataclasses.dataclass(frozen=True)
class SequenceEncoder(FlatEncoder):
    """An encoder of one sequence: [CLS] text [SEP]."""

    config: EncoderConfig

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """See `FlatEncoder`."""
        return [tokenizer.special_id("cls")], [tokenizer.special_id("sep")]

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """See `TextEncoder`: `[b, n, e]`."""
        variables, inputs = {"params": params["encoder"]}, {}
        tokens = batch[TOKENS]
        if self.num_globals and self.config.has_globals:
            inputs["global_index"] = batch[GLOBAL_INDEX]
        # A text begins its row: the search for where examples begin is left out, which
        # is a sixth of what there is to compile.
        inputs["positions"] = jnp.broadcast_to(
            jnp.arange(tokens.shape[1]), tokens.shape
        )
        inputs["types"] = batch[TYPES]
        return make_body(self.config).apply(
            variables, tokens, batch[EXAMPLE_IDS], **inputs
        )


@registry.register(KIND, "text_to_text")
@dataclasses.dataclass(frozen=True)
class Seq2SeqEncoder(FlatEncoder):
    """The encoder of an encoder-decoder: text, end; <s> first where it has one."""

    def ends(self, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
        """See `FlatEncoder`."""
        first = [tokenizer.special_id("cls")] if self.config.begin_token else []
        return first, [end_id(tokenizer)]

    def apply(self, params: Any, batch: Batch) -> jax.Array:
        """See `TextEncoder`: `[b, n, e]`.

        Raises:
          ValueError: if the windows of SLED need a prefix, which plain texts have not.
        """
        if length := self.config.sled.prefix_length:
            raise ValueError(
                f"sled.prefix_length is {length}: the model reads a prefix before each "
                "text; expected 0 to encode plain texts"
            )
        index = batch[GLOBAL_INDEX] if self.num_globals else None
        inputs = batch[TOKENS], batch[EXAMPLE_IDS], index
        model = EncoderDecoder(self.config)
        return model.apply({"params": params}, *inputs, method="encode").rows
