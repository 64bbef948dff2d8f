"""Words to be tagged, as inputs of one sequence.

    RoBERTa's vocabulary:  <s> words </s>
    BERT's vocabulary:     [CLS] words [SEP]

The first token is global, for a Longformer. The tag of a word is read off its first
piece.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.formats.sequence import (
    SequenceSizes,
    SequenceWindow,
    parts_of,
    refuse_quirks,
)
from etc_jax.tasks.token_classification import windows as words_lib
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
)

# As much as BERT reads.
SIZES = SequenceSizes(input_length=512, global_length=1)

# What stands around the words.
_NUM_SPECIAL = 2


@dataclasses.dataclass(frozen=True)
class TaggedSequence(words_lib.TaggedWindow, SequenceWindow):
    """Some words of a record in one sequence."""

    axes: ClassVar = {"tags": Placed("input", words_lib.NO_LABEL)}


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    options: TokenClassificationOptions = OPTIONS,
    official_quirks: bool = False,
) -> list[TaggedSequence]:
    """The windows of a record, in order.

    Args:
      record: with words.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator.
      sizes: tokens of the sequence, and places for those of them that are global.
      options: how words become inputs.
      official_quirks: not for words to be tagged.

    Raises:
      BadRecordError, ValueError: as for `windows.windows_of`; ValueError if the
        tokenizer lacks a special token, or quirks are asked for.
    """
    refuse_quirks("words to be tagged", official_quirks)
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    n, o = sizes.input_length, options
    windows = []
    for window in words_lib.windows_of(record, tokenizer, n - _NUM_SPECIAL, o.context):
        ids = [cls, *(i for word in window.pieces for i in word), sep]
        fields = words_lib.tagged_fields(record, window, n, o.all_pieces)
        windows.append(TaggedSequence(**fields, **parts_of(sizes, ids, range(1))))
    return windows


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if it is one window, special tokens included."""
    return _NUM_SPECIAL + words_lib.num_pieces(record, tokenizer)
