"""Rows of one sequence, of text whose documents are packed side by side.

    tokens       int32   [b, n]  for masked tokens, masks applied
    example_ids  int32   [b, n]  1, 2, ... by piece of a document in the row; 0: padding

Documents of a row do not see each other. Batches of masked tokens have besides, for p
positions to be predicted,

    mlm_positions   int32   [b, p]  ascending
    mlm_targets     int32   [b, p]  what stood there
    mlm_weights     float32 [b, p]  1 real, 0 unused
    mlm_overflow    int32   [b]     tokens chosen that had no room, left as they are

and those of a language model

    targets         int32   [b, n]  what follows each token
    target_weights  float32 [b, n]  1 real; 0 for padding, and for the last of a piece,
                                    which nothing follows

Bytes, which have no documents, come without `example_ids` to a language model.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from etc_jax.data.pretraining import masking
from etc_jax.data.schema import Field, Schema
from etc_jax.data.text.packing import PackedWindow
from etc_jax.data.text.reader import Batch, Overflow
from etc_jax.data.tokenizers.tokenizer import TokenIds

# What a batch of masked tokens has in any case.
MLM_FIELDS = {
    "mlm_positions": Field("mlm"),
    "mlm_targets": Field("mlm"),
    "mlm_weights": Field("mlm", "float32"),
    "mlm_overflow": Field(),
}

MASKED = Schema(
    "masked_lm",
    fields={"tokens": Field("input"), "example_ids": Field("input"), **MLM_FIELDS},
    lengths={"input": "input_length", "mlm": "mlm_capacity"},
    text=("input",),
    marks={"input": "example_ids"},
    tables={"tokens": "vocab_size", "mlm_targets": "vocab_size"},
    positions={"mlm_positions": "input"},
)
CAUSAL = Schema(
    "causal_lm",
    fields={
        "tokens": Field("input"),
        "example_ids": Field("input"),
        "targets": Field("input"),
        "target_weights": Field("input", "float32"),
    },
    lengths={"input": "input_length"},
    text=("input",),
    marks={"input": "example_ids"},
    tables={"tokens": "vocab_size", "targets": "vocab_size"},
    optional=frozenset(["example_ids"]),
)


def mask_tokens(
    batch: dict[str, np.ndarray],
    row: int,
    name: str,
    candidates: np.ndarray,
    word_starts: np.ndarray,
    rng: np.random.Generator,
    *,
    shares: masking.MaskingShares,
    mask_id: int,
    random_ids: tuple[int, int],
) -> int:
    """Masks whole words in a row, and notes what stood there.

    Args:
      batch: with `MLM_FIELDS`.
      row: which row.
      name: of the tokens in the batch.
      candidates: int `[k]`, positions that may be masked, ascending.
      word_starts: bool `[k]`, which of them begin a word; the first does.
      rng: of the draws.
      shares: how much is masked.
      mask_id: the mask.
      random_ids: (first, one past the last) id of regular tokens.

    Returns:
      Tokens chosen that had no room.
    """
    capacity = batch["mlm_positions"].shape[1]
    chosen, overflow = masking.select_words(rng, word_starts, shares.mlm, capacity)
    positions = candidates[chosen]
    targets, count = batch[name][row, positions], len(positions)
    batch[name][row, positions] = masking.corrupt(
        rng, targets, shares, mask_id=mask_id, random_ids=random_ids
    )
    batch["mlm_positions"][row, :count] = positions
    batch["mlm_targets"][row, :count] = targets
    batch["mlm_weights"][row, :count] = 1.0
    batch["mlm_overflow"][row] = overflow
    return overflow


class _Rows:
    """What rows of packed text have in common.

    Attributes:
      schema: of the batch.
    """

    schema: ClassVar[Schema]

    def __init__(self, ids: TokenIds, **lengths: int):
        self._ids, self._lengths = ids, lengths

    def empty(self, rows: int) -> Batch:
        """See `text_reader.RowBuilder`."""
        batch = self.schema.empty(rows, self._lengths)
        batch["tokens"][:] = self._ids.pad
        return batch

    def _write(self, batch: dict[str, Any], row: int, window: PackedWindow) -> int:
        """Writes the tokens of a window; returns their number."""
        size = len(window.tokens)
        batch["tokens"][row, :size] = window.tokens
        batch["example_ids"][row, :size] = np.repeat(window.piece_ids, window.lengths)
        return size


class MaskedRows(_Rows):
    """Rows of masked words; see `text_reader.RowBuilder`."""

    schema = MASKED

    def __init__(
        self,
        ids: TokenIds,
        *,
        length: int,
        capacity: int,
        shares: masking.MaskingShares,
    ):
        """See the class.

        Args:
          ids: special ids, `Tokenizer.token_ids`.
          length: n.
          capacity: p, at most n.
          shares: how much is masked.

        Raises:
          ValueError: if a number is out of range.
        """
        if not 1 <= capacity <= length:
            raise ValueError(f"capacity is {capacity}, expected 1 to {length}")
        super().__init__(ids, input=length, mlm=capacity)
        self._shares = shares

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        """See `text_reader.RowBuilder`."""
        size = self._write(batch, row, window)
        overflow = mask_tokens(
            batch,
            row,
            "tokens",
            np.arange(size),
            window.word_starts,
            rng,
            shares=self._shares,
            mask_id=self._ids.mask,
            random_ids=self._ids.regular_ids,
        )
        return Overflow(mlm=overflow)


class CausalRows(_Rows):
    """Rows in which each token predicts the next one; see `text_reader.RowBuilder`."""

    schema = CAUSAL

    def __init__(self, ids: TokenIds, *, length: int):
        """See the class.

        Args:
          ids: special ids, `Tokenizer.token_ids`.
          length: n.
        """
        super().__init__(ids, input=length)

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        """See `text_reader.RowBuilder`."""
        del rng
        size = self._write(batch, row, window)
        batch["targets"][row, : size - 1] = window.tokens[1:]
        pieces = batch["example_ids"][row, :size]
        batch["target_weights"][row, : size - 1] = pieces[1:] == pieces[:-1]
        return Overflow()
