"""Words to be tagged, as inputs.

In one sequence, of which the first token is global, for a Longformer:

    RoBERTa's vocabulary:  <s> words </s>
    BERT's vocabulary:     [CLS] words [SEP]

As structured inputs, where sentences that have no global token of their own share the
last:

    long:    [CLS] words
    global:  [CLS], then one a sentence

The tag of a word is read off its first piece.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import SENTENCE_TYPE
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, parts_of
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
)
from etc_jax.tasks.token_classification.windows import (
    NO_LABEL,
    TaggedWindow,
    WordWindow,
    num_pieces,
    runs_of,
    tagged_fields,
    windows_of,
)

# As much as BERT reads.
SIZES = SequenceSizes(input_length=512, global_length=1)
STRUCTURED_SIZES = StructuredSizes(long_length=4096, global_length=256)


@dataclasses.dataclass(frozen=True)
class TaggedSequence(TaggedWindow, SequenceWindow):
    """Some words of a record in one sequence."""

    axes: ClassVar = {"tags": Placed("input", NO_LABEL)}


@dataclasses.dataclass(frozen=True)
class TaggedStructure(TaggedWindow, StructuredWindow):
    """Some words of a record as long and global tokens."""

    axes: ClassVar = {"tags": Placed("long", NO_LABEL)}


@without_quirks("words to be tagged")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: InputSizes = SIZES,
    *,
    options: TokenClassificationOptions = OPTIONS,
) -> list[TaggedWindow]:
    """The windows of a record, in order.

    Args:
      record: with words.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator; of
        structured inputs one with the special tokens of official ETC.
      sizes: lengths of the input, which say its format.
      options: how words become inputs.

    Raises:
      BadRecordError, ValueError: as for `windows.windows_of`; ValueError if there is no
        global token for a sentence, or the tokenizer lacks a special token.
    """
    n, is_sequence = sizes.text_length, isinstance(sizes, SequenceSizes)
    if not is_sequence and sizes.global_length < 2:
        raise ValueError(f"{sizes} leave no global token for a sentence; expected 2")
    cls, fields_of = (
        (TaggedSequence, _sequence) if is_sequence else (TaggedStructure, _structured)
    )
    room = n - (2 if is_sequence else 1)
    return [
        cls(
            **tagged_fields(record, window, n, options.all_pieces),
            **fields_of(record, window, tokenizer, sizes),
        )
        for window in windows_of(record, tokenizer, room, options.context)
    ]


def _sequence(
    record: Record, window: WordWindow, tokenizer: Tokenizer, sizes: SequenceSizes
) -> dict[str, Any]:
    del record
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    ids = [cls, *(i for word in window.pieces for i in word), sep]
    return parts_of(sizes, ids, range(1))


def _structured(
    record: Record, window: WordWindow, tokenizer: Tokenizer, sizes: StructuredSizes
) -> dict[str, Any]:
    layout, cls = Layout(sizes), tokenizer.special_id("cls")
    layout.add_global(cls)
    layout.add_long([cls], SENTENCE_TYPE)
    read = range(window.first, window.first + len(window.pieces))
    for number, run in enumerate(runs_of(record, read)):
        if not number or layout.fits(0):
            layout.add_global(tokenizer.special_id("sentence"))
        words = window.pieces[run.start - window.first : run.stop - window.first]
        ids = [i for word in words for i in word]
        layout.add_long(ids, SENTENCE_TYPE, sentence=layout.num_global - 1)
    return layout.fields()


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if it is one sequence, special tokens included."""
    return 2 + num_pieces(record, tokenizer)


def structured_length(record: Record, tokenizer: Tokenizer) -> int:
    """Long tokens of a record if it is one input, special tokens included."""
    return 1 + num_pieces(record, tokenizer)
