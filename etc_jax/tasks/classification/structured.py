"""Texts to be classified, as structured inputs.

    long:    [CLS] text
    global:  [CLS], then one a sentence

The global [CLS] sees every token, and the label is read off it. Of a text that does not
fit, the head is kept; sentences that have no global token of their own share the last.
A second text is a group apart from the first one, its long tokens of the type of
questions; the longer of the two is cut first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from etc_jax.data.text.sentences import SplitFn, split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.paragraphs import by_lines
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from etc_jax.tasks.classification.inputs import (
    Labelled,
    TextWindow,
    end_of,
    kept_tokens,
    label_of,
    texts_of,
)

SIZES = StructuredSizes(long_length=4096, global_length=128)


@dataclasses.dataclass(frozen=True)
class StructuredText(TextWindow, StructuredWindow):
    """As much of a text as fits, as long and global tokens."""


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
    texts = texts_of(record)
    least = 1 + len(texts)  # [CLS] and a sentence of each, long and global
    if min(sizes.long_length, sizes.global_length) < least:
        raise ValueError(f"{sizes} leave no room for a text; expected {least} or more")
    sentences = [_encoded(tokenizer, text, split_fn) for text in texts]
    lengths = [sum(map(len, of_text)) for of_text in sentences]
    if not all(lengths):
        raise BadRecordError("no text", f"{record.id!r} has no token")
    layout, cls = Layout(sizes), tokenizer.special_id("cls")
    sentence_id = tokenizer.special_id("sentence")
    layout.add_global(cls)
    layout.add_long([cls], SENTENCE_TYPE)
    chars = []
    counts = kept_tokens(sizes.long_length - 1, lengths)
    for number, (text, most) in enumerate(zip(texts, counts, strict=True)):
        read = _add_text(
            layout,
            sentences[number],
            most,
            kind=(SENTENCE_TYPE, QUESTION_TYPE)[number],
            sentence_id=sentence_id,
            later=len(texts) - number - 1,
        )
        layout.close_group()
        whole = most == lengths[number]
        chars.append(len(text) if whole else end_of(text, read))
    label, unusable = label_of(record)
    return [
        StructuredText(
            record=record,
            **layout.fields(),
            labels={"label": label},
            unusable=unusable,
            num_chars=chars[0],
            num_second=sum(chars[1:]),
        )
    ]


def _add_text(
    layout: Layout,
    sentences: Sequence[TokenizedText],
    most: int,
    *,
    kind: int,
    sentence_id: int,
    later: int,
) -> str:
    """Adds a text to a layout; what of it has been read.

    Args:
      layout: of the input.
      sentences: each with a token.
      most: tokens that are read, one or more.
      kind: type of the long tokens.
      sentence_id: id of the global tokens.
      later: texts after it, for each of which a global token is left.
    """
    read = []
    for number, pieces in enumerate(sentences):
        ids = pieces.ids[:most]
        if not ids:
            break
        if not number or layout.fits(0, 1 + later):
            layout.add_global(sentence_id)
        layout.add_long(ids, kind, sentence=layout.num_global - 1)
        whole = len(ids) == len(pieces)
        stop = None if whole else pieces.offsets[len(ids) - 1][1]
        read.append(pieces.text[:stop])
        most -= len(ids)
    return "".join(read)


def _encoded(
    tokenizer: Tokenizer, text: str, split_fn: SplitFn | None
) -> list[TokenizedText]:
    """The sentences of a text that have a token."""
    return [x for x in encode(tokenizer, _sentences(text, split_fn)) if len(x)]


def _sentences(text: str, split_fn: SplitFn | None = None) -> list[str]:
    return list((split_fn or split_sentences)(by_lines(text)))


def record_length(record: Labelled, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    texts = texts_of(record)
    return 1 + count_pieces(tokenizer, [s for text in texts for s in _sentences(text)])
