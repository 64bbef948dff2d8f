"""Texts whose entities are spans of characters: their words and tags.

A word is a run of letters and digits, or one other character.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Any

from etc_jax.data.text.sentences import sentence_numbers, split_sentences
from etc_jax.datasets.fields import LIST, Fields, whole, wrong_type
from etc_jax.datasets.paragraphs import by_lines
from etc_jax.datasets.records import BadRecordError, Note
from etc_jax.tasks.token_classification import schemes
from etc_jax.tasks.token_classification.document import Sentences, TextWords
from etc_jax.tasks.token_classification.schemes import TaggedSpan

_WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> TextWords:
    """Words and sentences of a text, which do not cross lines.

    Raises:
      ImportError: if nupunkt, which finds sentences, is not installed.
    """
    offsets = [match.span() for match in _WORD.finditer(text)]
    numbers = sentence_numbers(text, split_sentences(by_lines(text)))
    sentences: dict[int, list[tuple[int, int]]] = {}
    for start, stop in offsets:
        sentences.setdefault(int(numbers[start]), []).append((start, stop))
    return TextWords(text, tuple(map(tuple, sentences.values())))


def spans_in(value: Any, what: str) -> list[tuple[int, int, str]]:
    """(start, end, label) of the spans that a JSON value lists, in order.

    Raises:
      BadRecordError: if it is no list of such.
    """
    triples = []
    for number, span in enumerate(LIST(value, what)):
        name = f"{what}[{number}]"
        if isinstance(span, list):
            if len(span) != 3:
                raise wrong_type(span, name, "[start, end, label]")
            span = dict(zip(("start", "end", "label"), span, strict=True))
        fields = Fields(span, name)
        start, stop = fields.get("start", whole(0)), fields.get("end", whole(0))
        triples.append((start, stop, fields.text("label").strip()))
    return sorted(triples)


def tags_of_spans(
    spans: Sequence[tuple[int, int, str]], text_words: TextWords, note: Note
) -> Sentences:
    """The tags of words by scheme iob2; a span that cuts words is all of them.

    Args:
      spans: of `spans_in`.
      text_words: the words, and where they stand in the text.
      note: called with (kind, message) for a span that cuts words.

    Raises:
      BadRecordError: if a span is outside of the text, holds no word, or shares one
        with another span.
    """
    tagged: list[list[TaggedSpan]] = [[] for _ in text_words.offsets]
    starts = [offsets[0][0] for offsets in text_words.offsets]
    for start, stop, kind in spans:
        shown = f"[{start}, {stop}, {kind!r}]"
        if not start < stop <= len(text_words.text):
            raise BadRecordError(
                "span outside of the text",
                f"{shown}, expected 0 <= start < end <= {len(text_words.text)}",
            )
        number = max(bisect.bisect_right(starts, stop - 1) - 1, 0)
        offsets = text_words.offsets[number]
        words = [i for i, (a, b) in enumerate(offsets) if a < stop and b > start]
        if not words:
            raise BadRecordError("span without a word", f"{shown} holds none")
        first, last = words[0], words[-1]
        around = text_words.text[offsets[first][0] : offsets[last][1]]
        if around.strip() != text_words.text[start:stop].strip():
            note("span not at the ends of words", f"{shown} is taken as {around!r}")
        if tagged[number] and first < tagged[number][-1].stop:
            raise BadRecordError(
                "spans overlap",
                f"{shown} shares a word with one before it; a word has one tag",
            )
        tagged[number].append(TaggedSpan(first, last + 1, kind))
    return tuple(
        schemes.tags_of(of_sentence, len(offsets))
        for of_sentence, offsets in zip(tagged, text_words.offsets, strict=True)
    )
