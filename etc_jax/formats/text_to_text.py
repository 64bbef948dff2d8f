"""Inputs of models that read a text and write another one.

A separator ends both texts, also one that was cut. A data set is given the text that
was written, without the separator: outputs are an array of str `[b]`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from etc_jax import registry
from etc_jax.data.schema import ID_DTYPE, Field, Schema
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes, Window

SCHEMA = Schema(
    "text_to_text",
    fields={
        "input_tokens": Field("input", stored=ID_DTYPE),
        "input_example_ids": Field("input", stored="int16", by_run=True),
        "target_tokens": Field("target", stored=ID_DTYPE),
        "target_weights": Field("target", "float32", stored="bool", by_run=True),
    },
    lengths={"input": "input_length", "target": "target_length"},
    text=("input", "target"),
    marks={"input": "input_example_ids", "target": "target_weights"},
    tables={"input_tokens": "vocab_size", "target_tokens": "vocab_size"},
)
registry.register("format", SCHEMA.name)(SCHEMA)


@dataclasses.dataclass(frozen=True)
class TextToTextSizes(InputSizes):
    """Lengths of an input and its target, separators and padding included.

    Attributes:
      input_length: n, tokens that are read.
      target_length: m, tokens that are written.
    """

    text_field: ClassVar = "input_length"

    input_length: int
    target_length: int


@dataclasses.dataclass(frozen=True)
class TextToTextWindow(Window):
    """A text to read and one to write.

    Attributes:
      input_tokens: ids, int32 `[n]`; 0 in padding.
      input_example_ids: int32 `[n]`, 1 for a token, 0 for padding.
      target_tokens: ids, int32 `[m]`; 0 in padding, and everywhere without a target.
      target_weights: float32 `[m]`, 1 for a token to learn, 0 for padding.
    """

    schema: ClassVar = SCHEMA

    input_tokens: np.ndarray
    input_example_ids: np.ndarray
    target_tokens: np.ndarray
    target_weights: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in SCHEMA.fields}


def parts_of(
    sizes: TextToTextSizes,
    ids: list[int],
    target: list[int] | None,
    tokenizer: Tokenizer,
) -> dict[str, np.ndarray]:
    """The arrays of a window; of texts that do not fit, the beginnings are kept.

    Args:
      sizes: of the window.
      ids: of the text to read, without separator.
      target: of the text to write; None: there is none to learn.
      tokenizer: with a separator.

    Raises:
      ValueError: if the tokenizer has none.
    """
    sep = tokenizer.special_id("sep")
    tokens, used = _ended(sizes.input_length, ids, sep)
    if target is None:
        wanted = np.zeros(sizes.target_length, np.int32)
        weights = np.zeros(sizes.target_length, np.float32)
    else:
        wanted, length = _ended(sizes.target_length, target, sep)
        weights = np.float32(np.arange(sizes.target_length) < length)
    return {
        "input_tokens": tokens,
        "input_example_ids": np.int32(np.arange(sizes.input_length) < used),
        "target_tokens": wanted,
        "target_weights": weights,
    }


def _ended(length: int, ids: list[int], end: int) -> tuple[np.ndarray, int]:
    """(ids with one at their end then padding, how many are no padding)."""
    kept = [*ids[: length - 1], end]
    tokens = np.zeros(length, np.int32)
    tokens[: len(kept)] = kept
    return tokens, len(kept)


def written_text(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """The text before the first separator; special tokens in it are spelled out."""
    [ends] = np.nonzero(ids == tokenizer.special_id("sep"))
    return tokenizer.decode(ids[: ends[0] if len(ends) else None].tolist())
