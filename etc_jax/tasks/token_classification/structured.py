"""Words to be tagged, as structured inputs.

    long:    [CLS] words
    global:  [CLS], then one a sentence

The tag of a word is read off the first of its long tokens. Sentences that have no
global token of their own share the last.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import SENTENCE_TYPE
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from etc_jax.tasks.token_classification import windows as words_lib
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
)
from etc_jax.tasks.token_classification.windows import WordWindow

SIZES = StructuredSizes(long_length=4096, global_length=256)


@dataclasses.dataclass(frozen=True)
class TaggedStructure(words_lib.TaggedWindow, StructuredWindow):
    """Some words of a record as long and global tokens."""

    axes: ClassVar = {"tags": Placed("long", words_lib.NO_LABEL)}


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    options: TokenClassificationOptions = OPTIONS,
    official_quirks: bool = False,
) -> list[TaggedStructure]:
    """The windows of a record, in order.

    Args:
      record: with words.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      options: how words become inputs.
      official_quirks: not for words to be tagged.

    Raises:
      BadRecordError, ValueError: as for `windows.windows_of`; ValueError if there is no
        global token for a sentence, the tokenizer lacks a special token, or quirks are
        asked for.
    """
    refuse_quirks("words to be tagged", official_quirks)
    if sizes.global_length < 2:
        raise ValueError(f"{sizes} leave no global token for a sentence; expected 2")
    n, o, windows = sizes.long_length, options, []
    for window in words_lib.windows_of(record, tokenizer, n - 1, o.context):
        layout = _layout(record, window, tokenizer, sizes)
        fields = words_lib.tagged_fields(record, window, n, o.all_pieces)
        windows.append(TaggedStructure(**fields, **layout.fields()))
    return windows


def _layout(
    record: Record, window: WordWindow, tokenizer: Tokenizer, sizes: StructuredSizes
) -> Layout:
    layout, cls = Layout(sizes), tokenizer.special_id("cls")
    layout.add_global(cls)
    layout.add_long([cls], SENTENCE_TYPE)
    read = range(window.first, window.first + len(window.pieces))
    for number, run in enumerate(words_lib.runs_of(record, read)):
        if not number or layout.fits(0):
            layout.add_global(tokenizer.special_id("sentence"))
        words = window.pieces[run.start - window.first : run.stop - window.first]
        ids = [i for word in words for i in word]
        layout.add_long(ids, SENTENCE_TYPE, sentence=layout.num_global - 1)
    return layout


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if it is one window, special tokens included."""
    return 1 + words_lib.num_pieces(record, tokenizer)
