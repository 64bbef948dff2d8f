"""Inputs of models that read one sequence, some of whose tokens may be global."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from etc_jax.base import registry
from etc_jax.data.schema import ID_DTYPE, Field, Schema
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes, Window

TOKENS, TYPES, EXAMPLE_IDS = "tokens", "types", "example_ids"
GLOBAL_INDEX = "global_index"

SCHEMA = Schema(
    "sequence",
    fields={
        TOKENS: Field("input", stored=ID_DTYPE),
        TYPES: Field("input", stored="uint8", by_run=True),
        EXAMPLE_IDS: Field("input", stored="int16", by_run=True),
        GLOBAL_INDEX: Field("global", padding=-1),
    },
    lengths={"input": "input_length", "global": "global_length"},
    text=("input",),
    marks={"input": EXAMPLE_IDS, "global": GLOBAL_INDEX},
    tables={TOKENS: "vocab_size", TYPES: "num_types"},
    positions={GLOBAL_INDEX: "input"},
)
registry.register("format", SCHEMA.name)(SCHEMA)


@dataclasses.dataclass(frozen=True)
class SequenceSizes(InputSizes):
    """Lengths of an input, padding included.

    Attributes:
      input_length: n, tokens of the sequence.
      global_length: g, positions for those of them that are global.
    """

    text_field: ClassVar = "input_length"

    input_length: int
    global_length: int


@dataclasses.dataclass(frozen=True)
class SequenceWindow(Window):
    """One sequence.

    Attributes:
      tokens: ids, int32 `[n]`; 0 in padding.
      types: token types, int32 `[n]`; 0 in padding.
      example_ids: int32 `[n]`, 1 for a token, 0 for padding.
      global_index: int32 `[g]`, positions of the global tokens, ascending, then -1.
    """

    schema: ClassVar = SCHEMA

    tokens: np.ndarray
    types: np.ndarray
    example_ids: np.ndarray
    global_index: np.ndarray


def parts_of(
    sizes: SequenceSizes,
    ids: Sequence[int],
    global_positions: Sequence[int],
    types: np.ndarray | None = None,
) -> dict[str, Any]:
    """The arrays of a window.

    Args:
      sizes: tokens of the sequence, and positions for those of them that are global.
      ids: of the sequence, at most `sizes.input_length`.
      global_positions: of the tokens that are global, ascending.
      types: int32 `[sizes.input_length]`; None: 0.
    """
    n = sizes.input_length
    return {
        TOKENS: filled(n, 0, ids),
        TYPES: np.zeros(n, np.int32) if types is None else types,
        EXAMPLE_IDS: filled(n, 0, [1] * len(ids)),
        GLOBAL_INDEX: filled(sizes.global_length, -1, global_positions),
    }


def pair_parts(
    sizes: SequenceSizes,
    first: Sequence[int],
    second: Sequence[int],
    num_global: int,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """The arrays of a window of two texts with separators between them.

    Args:
      sizes: see `parts_of`.
      first: ids of the first text, the token before it included.
      second: ids of the second text, the separator after it included.
      num_global: tokens that are global, the first ones.
      tokenizer: whose separators they are.

    Raises:
      ValueError: if the tokenizer has no separator.
    """
    separators = [tokenizer.special_id("sep")] * tokenizer.special.pair_separators
    before = [*first, *separators]
    # BERT tells texts apart by their types, RoBERTa by the separators alone.
    second_types = [int(len(separators) == 1)] * len(second)
    types = filled(sizes.input_length, 0, second_types, len(before))
    return parts_of(sizes, [*before, *second], range(num_global), types)


def filled(
    shape: int | tuple[int, ...], fill: int, values: Sequence, start: int = 0
) -> np.ndarray:
    """int32 `[*shape]` of `fill`, with `values` along its first axis from `start`."""
    array = np.full(shape, fill, np.int32)
    array[start : start + len(values)] = values
    return array
