"""Texts to be classified, as structured inputs.

    long:    [CLS] text
    global:  [CLS], then one a sentence

The global [CLS] sees every token, and the label is read off it. Of a text that does not
fit, the head is kept; sentences that have no global token of their own share the last.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etc_jax.data.schema import Placed
from etc_jax.data.text.sentences import SplitFn, split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import SENTENCE_TYPE
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from tasks.classification.inputs import Labelled, label_of, place_behind
from tasks.paragraphs import by_lines

SIZES = StructuredSizes(long_length=4096, global_length=128)

# Of [CLS] and one sentence, long and global.
_LEAST = 2


@dataclasses.dataclass(frozen=True)
class StructuredText(StructuredWindow):
    """As much of a text as fits.

    `labels` has `label`; see `label_of`.

    Attributes:
      num_chars: characters of the text that are in the input: the first ones.
    """

    axes: ClassVar = {"label": Placed()}

    num_chars: int


def features(
    record: Labelled,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    split_fn: SplitFn | None = None,
    official_quirks: bool = False,
) -> list[StructuredText]:
    """The one window of a record.

    White space is read as one space wherever there is some. Sentences do not cross
    lines.

    Args:
      record: the text.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: paragraphs to sentences; None: Punkt, of the nupunkt package.
      official_quirks: not for texts to be classified.

    Raises:
      BadRecordError: if the text has no token.
      ValueError: if there is no room for a token, the tokenizer lacks a special token,
        or quirks are asked for.
    """
    refuse_quirks("a text to be classified", official_quirks)
    if min(sizes.long_length, sizes.global_length) < _LEAST:
        raise ValueError(f"{sizes} leave no room for a text; expected {_LEAST} or more")
    layout, cls = Layout(sizes), tokenizer.special_id("cls")
    sentence_id = tokenizer.special_id("sentence")
    layout.add_global(cls)
    layout.add_long([cls], SENTENCE_TYPE)
    read, whole = [], True
    for pieces in encode(tokenizer, _sentences(record, split_fn)):
        if not len(pieces):
            continue
        ids = pieces.ids[: sizes.long_length - layout.num_long]
        if whole := len(ids) == len(pieces):
            read.append(pieces.text)
        elif ids:
            read.append(pieces.text[: pieces.offsets[len(ids) - 1][1]])
        if ids:
            if layout.fits(0):
                layout.add_global(sentence_id)
            layout.add_long(ids, SENTENCE_TYPE, sentence=layout.num_global - 1)
        if not whole:
            break
    if layout.num_long == 1:
        raise BadRecordError("no text", f"{record.id!r} has no token")
    layout.close_group()
    label, unusable = label_of(record)
    return [
        StructuredText(
            record=record,
            tokens=layout.tokens(),
            types=layout.types(),
            structure=layout.structure(exempt=[0], mentions=False, flat=False),
            labels={"label": label},
            unusable=unusable,
            num_chars=len(record.text)
            if whole
            else place_behind(record.text, "".join(read)),
        )
    ]


def _sentences(record: Labelled, split_fn: SplitFn | None = None) -> list[str]:
    return list((split_fn or split_sentences)(by_lines(record.text)))


def whole_length(record: Labelled, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return 1 + count_pieces(tokenizer, _sentences(record))
