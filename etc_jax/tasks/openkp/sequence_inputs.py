"""OpenKP pages as inputs of one sequence: the words alone, without their looks.

    BERT's vocabulary:     [CLS] words of the page [SEP]
    RoBERTa's vocabulary:  <s> words of the page </s>

Whole elements of the DOM are taken until the next one does not fit. The first token is
global, for a Longformer.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.offsets import count_pieces
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, parts_of
from etc_jax.tasks.openkp.pages import PageWindow, page_axes, page_fields, read_page
from etc_jax.tasks.openkp.records import Record

# As much as BERT reads.
SIZES = SequenceSizes(input_length=512, global_length=1)

_WORDS = "words"
# Before each word, the first one too: byte-level BPE has other pieces for a word that
# no space stands before.
_SPACE = " "


@dataclasses.dataclass(frozen=True)
class OpenkpSequence(PageWindow, SequenceWindow):
    """A page in one sequence; `extra` has `words` int32 `[n]`, see `page_axes`."""

    axes: ClassVar = page_axes("input", _WORDS)


@without_quirks("openkp in one sequence")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
) -> list[OpenkpSequence]:
    """The one window of a page.

    Words are those between single spaces, each tokenised alone. A word without a piece
    is left out, so that the words around it are neighbours.

    Args:
      record: the page.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator.
      sizes: tokens of the sequence, and places for those of them that are global.

    Raises:
      BadRecordError: if not even the first element fits.
      ValueError: if the tokenizer lacks a special token.
    """
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    n = sizes.input_length
    page = read_page(record, tokenizer, n - 2, before_word=_SPACE)
    parts = parts_of(sizes, [cls, *page.ids, sep], [0])
    fields = page_fields(record, page, n, _WORDS, before=1)
    return [OpenkpSequence(**parts, **fields)]


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    words = (_SPACE + word for word in record.text.split(" ") if word)
    return 2 + count_pieces(tokenizer, words)
