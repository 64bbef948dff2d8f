"""Inputs of models that read a text and write another one.

An end token ends both texts, also one that was cut: see `end_id`. A data set is given
the text that was written, without it: outputs are an array of str `[b]`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from etc_jax.base import registry
from etc_jax.data.schema import ID_DTYPE, Field, Schema
from etc_jax.data.text.pairs import cut_to
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.tokenizers.special_in_text import ids_outside_texts
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
    """Lengths of an input and its target, end tokens and padding included.

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


def end_id(tokenizer: Tokenizer) -> int:
    """The token that ends a text: the separator.

    Vocabularies of T5's kind have none: there it is `</s>`, which is called "sentence".

    Raises:
      ValueError: if the vocabulary lacks it.
    """
    has_separator = tokenizer.special.sep is not None
    return tokenizer.special_id("sep" if has_separator else "sentence")


def parts_of(
    sizes: TextToTextSizes,
    ids: Sequence[int],
    marks: Sequence[int],
    target: Sequence[int] | None,
) -> dict[str, np.ndarray]:
    """The arrays of a window, `[n]` and `[m]`, of texts that are cut where too long.

    Args:
      sizes: of the window.
      ids: of the text to read, with its end token.
      marks: 1 for each of its tokens, 0 for padding among them.
      target: of the text to write, with its end token; None: there is none to learn.
    """
    tokens, _ = _padded(sizes.input_length, ids)
    marks, _ = _padded(sizes.input_length, marks)
    wanted, length = _padded(sizes.target_length, target or ())
    return {
        "input_tokens": tokens,
        "input_example_ids": marks,
        "target_tokens": wanted,
        "target_weights": np.float32(np.arange(sizes.target_length) < length),
    }


def whole_window(
    record: Any, ids: Sequence[int], marks: Sequence[int], target: Sequence[int]
) -> TextToTextWindow:
    """A window as long as its texts.

    Args:
      record: with an `id`.
      ids: of the text to read, with its end token.
      marks: 1 for each of its tokens, 0 for padding among them.
      target: of the text to write, with its end token.
    """
    return TextToTextWindow(
        record=record,
        labels={},
        unusable=None,
        input_tokens=np.int32(ids),
        input_example_ids=np.int32(marks),
        target_tokens=np.int32(target),
        target_weights=np.ones(len(target), np.float32),
    )


def _padded(length: int, ids: Sequence[int]) -> tuple[np.ndarray, int]:
    """(ids, cut off or padded, how many are no padding)."""
    fitting = cut_to(np.int32(ids), length)
    return np.pad(fitting, (0, length - len(fitting))), len(fitting)


def written_text(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """The text of ids `[m]` up to the first end token, as transformers decodes it.

    Special tokens are left out, the unknown one too, unless the tokenizer finds them in
    texts (`special_in_text.with_special_tokens`). A model may have rows after those of
    the tokenizer's ids, such as the 28 of T5: what they write is no text either.
    """
    [ends] = np.nonzero(ids == end_id(tokenizer))
    # A text that was cut off by its length has no end token.
    ids = ids[: ends[0] if len(ends) else None]
    ids = ids[ids < tokenizer.vocab_size].tolist()
    left_out = ids_outside_texts(tokenizer)
    return tokenizer.decode([i for i in ids if i not in left_out])
