"""ETC: the long tokens of a text, and a global token for each of its sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from etc_jax.base import registry
from etc_jax.base.types import Rows
from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.text.sources import paragraphs_of
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.formats.sequence import filled
from etc_jax.loading.batches import padded_length
from etc_jax.loading.text_encoder import KIND, Batch, Input, Marked
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.structure import builders

# Without tables of positions nothing limits the length; the paper has 8,192 at most.
_UNLIMITED = 16384
# Long tokens for a global one, unless sentences are shorter, so that shapes are few.
_SENTENCE = 8


@registry.register(KIND, "structured")
@dataclasses.dataclass(frozen=True)
class EtcEncoder:
    """ETC as in pre-training: no special long tokens; sentences have global tokens.

    Sentences are those of nupunkt; they end at blank lines, too.
    """

    config: EtcConfig

    poolings = ("mean", "global")

    @property
    def max_length(self) -> int:
        """See `TextEncoder`: long tokens."""
        return self.config.max_positions or _UNLIMITED

    def inputs_of(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[Input]:
        """See `TextEncoder`."""
        sentence_id = tokenizer.special_id("sentence")
        inputs = [_input(text, tokenizer, sentence_id) for text in texts]
        for i, one in enumerate(inputs):
            for ids in (one.ids, one.global_ids):
                check_rows(ids, self.config.vocab_size, tokenizer, f"texts[{i}]")
        return inputs

    def input_of_ids(self, ids: np.ndarray) -> Input:
        """See `TextEncoder`: ids do not say where sentences end."""
        raise ValueError("an ETC reads the sentences of a text; give texts, not ids")

    def cut(self, given: Input, length: int) -> Input:
        """See `TextEncoder`: the first tokens, with the global ones of their sentences.

        A sentence may be cut.
        """
        sentences = given.sentences[:length]
        last = given.global_ids[: sentences[-1] + 1]
        return Input(given.ids[:length], sentences, last)

    def padding_limit(self, length: int) -> int:
        """See `TextEncoder`: padding changes nothing.

        Raises:
          ValueError: of LSH attention, whose buckets depend on it.
        """
        del length
        if "lsh" in self.config.pattern:
            raise ValueError(
                f"model.pattern is {self.config.pattern}: buckets of LSH attention "
                "depend on the padding; expected global_local alone to encode texts"
            )
        return self.max_length

    def batch(self, inputs: Sequence[Input], length: int) -> Batch:
        """See `TextEncoder`.

        Returns:
          int32 `long_tokens` `[b, n]` and `global_tokens` `[b, g]`, and `structure`.
        """
        most = max(len(one.global_ids) for one in inputs)
        num_globals = padded_length(max(most, length // _SENTENCE))
        structures = [
            builders.plain_text(
                np.bincount(one.sentences, minlength=len(one.global_ids)),
                long_length=length,
                global_length=num_globals,
            )
            for one in inputs
        ]
        return {
            "long_tokens": np.stack([filled(length, 0, x.ids) for x in inputs]),
            "global_tokens": np.stack(
                [filled(num_globals, 0, x.global_ids) for x in inputs]
            ),
            "structure": jax.tree.map(lambda *x: np.stack(x), *structures),
        }

    def apply(self, params: Any, batch: Batch) -> Rows:
        """See `TextEncoder`: `[b, n, e]` and `[b, g, e]`."""
        return Etc(self.config).apply({"params": params["encoder"]}, **batch)

    def tokens(self, output: Rows, batch: Batch) -> Marked:
        """See `TextEncoder`: the long tokens."""
        return Marked(output.long, batch["structure"].long_example_ids > 0)

    def global_tokens(self, output: Rows, batch: Batch) -> Marked:
        """See `TextEncoder`."""
        return Marked(output.global_, batch["structure"].global_example_ids > 0)


def _input(text: str, tokenizer: Tokenizer, sentence_id: int) -> Input:
    sentences = split_sentences(paragraphs_of(text.splitlines()))
    ids = [row for row, _ in tokenizer.encode_batch(sentences)] if sentences else []
    numbers = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
    return Input(
        np.concatenate([np.zeros(0, np.int32), *ids]).astype(np.int32),
        numbers.astype(np.int32),
        # A text of nothing is one sentence without a token.
        np.full(max(len(ids), 1), sentence_id, np.int32),
    )
