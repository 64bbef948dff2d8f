"""HotpotQA records as inputs of one sequence, as Longformer reads them.

    <s> [q] question [/q] <t> title </t> sentence [s] sentence [s] ... <t> ... [s] </s>

The tokens in brackets are added to the vocabulary. The first token, the question with
its brackets, <t> before each paragraph and [s] after each sentence are global (Beltagy
et al. 2020, appendix on question answering).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.tokenizers.offsets import continues
from etc_jax.datasets.added_tokens import added_ids
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, filled, parts_of
from etc_jax.scoring.answers import exact_match
from etc_jax.tasks.hotpotqa.inputs import SPAN, WORDS, Span, find_answer, texts_of
from etc_jax.tasks.hotpotqa.records import Record, existing_support

SIZES = SequenceSizes(input_length=4096, global_length=256)
TOKENS = ("[q]", "[/q]", "<t>", "</t>", "[s]")

# Places of the answer that are labels: the first ones.
MAX_OCCURRENCES = 64


@dataclasses.dataclass(frozen=True)
class HotpotSequence(SequenceWindow):
    """A question with its paragraphs, or with as many sentences as fit.

    With g for `sizes.global_length`, `extra` has

        paragraphs   int32 [g]   places of <t>, then -1
        sentences    int32 [g]   places of [s], then -1

    and `labels` has

        relevant     int32 [g]   1 for paragraphs with a supporting sentence
        support      int32 [g]   1 for supporting sentences
        answer_type  int32 []    of `etc_jax.tasks.hotpotqa.inputs`
        starts, ends int32 [MAX_OCCURRENCES]   first and last token of each place of the
                                 answer, in order, then -1; none for "yes" and "no"

    Attributes:
      paragraphs: of the record, those in the input.
      sentences: (paragraph of the record, sentence of it), those in the input.
      units: (paragraph, sentence) of each title and sentence with text; a title is
        sentence -1.
      unit: int32 `[n]`, which of `units` each token is of; -1 for none.
      characters: int32 `[n, 2]`, (first, one past the last) character of each token in
        the text of its unit; -1 for none.
    """

    paragraphs: tuple[int, ...]
    sentences: tuple[tuple[int, int], ...]
    units: tuple[tuple[int, int], ...]
    unit: np.ndarray
    characters: np.ndarray

    axes: ClassVar = {
        "paragraphs": Placed(padding=-1),
        "sentences": Placed(padding=-1),
        "relevant": Placed(),
        "support": Placed(),
        "starts": Placed(padding=-1),
        "ends": Placed(padding=-1),
    }

    def marked(self, first: int, last: int) -> tuple[tuple[int, int], Span]:
        """(unit, characters) of tokens of one unit, without the space around them."""
        unit = self.units[self.unit[first]]
        start, stop = int(self.characters[first, 0]), int(self.characters[last, 1])
        answer = self.text_of(unit)[start:stop]
        start += len(answer) - len(answer.lstrip())
        return unit, (start, start + len(answer.strip()))

    def text_of(self, unit: tuple[int, int]) -> str:
        """The title or sentence."""
        paragraph = self.record.paragraphs[unit[0]]
        return paragraph.title if unit[1] < 0 else paragraph.sentences[unit[1]]


@without_quirks("hotpotqa in one sequence")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
) -> list[HotpotSequence]:
    """The one window of a record.

    What does not fit as a whole is left out: a title with its sentences, or a sentence;
    a later one may still fit. The answer is labelled wherever sentences of supporting
    paragraphs have it, and if none has, wherever it stands.

    Args:
      record: the question.
      tokenizer: WordPiece or byte-level BPE, grown by `TOKENS`.
      sizes: tokens of the sequence, and how many of them may be global.

    Raises:
      BadRecordError: if the question alone does not fit, or no text is left.
      ValueError: if the tokenizer lacks a token.
    """
    added = added_ids(tokenizer, TOKENS, "hotpotqa")
    pieces = iter(encode(tokenizer, list(texts_of(record))))
    layout = _Layout(sizes)
    question = next(pieces)
    head = [tokenizer.special_id("cls"), added["[q]"], *question.ids, added["[/q]"]]
    if not layout.fits(len(head), len(head)):
        raise BadRecordError(
            "question too long",
            f"{record.id!r}: {len(question)} tokens, in an input of {sizes}; raise the "
            "lengths",
        )
    for token in head:
        layout.add(token, is_global=True)
    for number, paragraph in enumerate(record.paragraphs):
        title, *sentences = (next(pieces) for _ in range(1 + len(paragraph.sentences)))
        layout.add_paragraph(number, title, sentences, added)
    if not layout.units:
        raise BadRecordError("no text", f"{record.id!r}: no paragraph fits")
    layout.add(tokenizer.special_id("sep"))
    return [_window(record, sizes, layout)]


class _Layout:
    """Grows a sequence token by token, whose last token has its room kept.

    Attributes:
      ids: of its tokens.
      global_places: of those that are global.
      paragraphs, sentences: (number, place of their token) of each.
      units: see `HotpotSequence`.
      pieces: of each unit, with the place of the first.
      unit: of each token.
      characters: of each token.
    """

    def __init__(self, sizes: SequenceSizes):
        self._sizes = sizes
        self.ids: list[int] = []
        self.global_places: list[int] = []
        self.paragraphs: list[tuple[int, int]] = []
        self.sentences: list[tuple[tuple[int, int], int]] = []
        self.units: list[tuple[int, int]] = []
        self.pieces: list[tuple[TokenizedText, int]] = []
        self.unit: list[int] = []
        self.characters: list[Span] = []

    def fits(self, tokens: int, global_tokens: int) -> bool:
        """Whether there is room for more, and for the last token after them."""
        n = len(self.ids) + tokens + 1
        g = len(self.global_places) + global_tokens
        return n <= self._sizes.input_length and g <= self._sizes.global_length

    def add(self, token: int, *, is_global: bool = False) -> int:
        """Adds a token that is no text; returns its place."""
        if is_global:
            self.global_places.append(len(self.ids))
        self.ids.append(token)
        self.unit.append(-1)
        self.characters.append((-1, -1))
        return len(self.ids) - 1

    def add_paragraph(
        self,
        number: int,
        title: TokenizedText,
        sentences: Sequence[TokenizedText],
        added: Mapping[str, int],
    ) -> None:
        """Adds a title and its sentences, those that fit."""
        if not self.fits(2 + len(title), 1):
            return
        self.paragraphs.append((number, self.add(added["<t>"], is_global=True)))
        self._add_text((number, -1), title)
        self.add(added["</t>"])
        for index, sentence in enumerate(sentences):
            if self.fits(1 + len(sentence), 1):
                self._add_text((number, index), sentence)
                position = self.add(added["[s]"], is_global=True)
                self.sentences.append(((number, index), position))

    def _add_text(self, unit: tuple[int, int], pieces: TokenizedText) -> None:
        if not len(pieces):
            return
        self.pieces.append((pieces, len(self.ids)))
        self.ids += pieces.ids
        self.unit += [len(self.units)] * len(pieces)
        self.characters += pieces.offsets
        self.units.append(unit)


def _window(record: Record, sizes: SequenceSizes, layout: _Layout) -> HotpotSequence:
    n, g = sizes.input_length, sizes.global_length
    fields = parts_of(sizes, layout.ids, layout.global_places)
    paragraphs, sentences = (
        filled(g, -1, [position for _, position in added])
        for added in (layout.paragraphs, layout.sentences)
    )
    labels, unusable = _labels(record, layout, g)
    return HotpotSequence(
        record=record,
        labels=labels,
        unusable=unusable,
        paragraphs=tuple(number for number, _ in layout.paragraphs),
        sentences=tuple(number for number, _ in layout.sentences),
        units=tuple(layout.units),
        unit=filled(n, -1, layout.unit),
        characters=filled((n, 2), -1, layout.characters),
        extra={"paragraphs": paragraphs, "sentences": sentences},
        **fields,
    )


def _labels(
    record: Record, layout: _Layout, g: int
) -> tuple[dict[str, Any], str | None]:
    """The labels, and why they cannot be trained on."""
    titles = [paragraph.title for paragraph in record.paragraphs]
    facts = existing_support(record)
    supporting = {title for title, _ in facts}
    relevant = [int(titles[p] in supporting) for p, _ in layout.paragraphs]
    support = [int((titles[p], s) in facts) for (p, s), _ in layout.sentences]
    answer = (record.answer or "").strip()
    kind = WORDS.get(answer, SPAN)
    spans: list[Span] = []
    if kind == SPAN:
        # Units are (paragraph, sentence), those of titles (paragraph, -1).
        inside = {u for u in layout.units if titles[u[0]] in supporting and u[1] >= 0}
        spans = _occurrences(layout, answer, inside)
        spans = spans or _occurrences(layout, answer, layout.units)
    unusable = None
    if record.answer is None or record.support is None:
        unusable = "no gold answer"
    elif not any(support):
        unusable = "no supporting fact in the input"
    elif kind == SPAN and not spans:
        unusable = "answer not in the input"
    first, last = np.array(spans[:MAX_OCCURRENCES], np.int32).reshape(-1, 2).T
    return {
        "relevant": filled(g, 0, relevant),
        "support": filled(g, 0, support),
        "answer_type": np.array(kind, np.int32),
        "starts": filled(MAX_OCCURRENCES, -1, first),
        "ends": filled(MAX_OCCURRENCES, -1, last),
    }, unusable


def _occurrences(
    layout: _Layout, answer: str, units: Collection[tuple[int, int]]
) -> list[Span]:
    """(first, last) token of each place of an answer in some units, in order."""
    spans = []
    for unit, (pieces, before) in zip(layout.units, layout.pieces, strict=True):
        if unit in units:
            spans += [(before + a, before + b) for a, b in spelled(pieces, answer)]
    return spans


def spelled(pieces: TokenizedText, answer: str) -> Iterator[Span]:
    """(first, last) piece of each place where pieces spell an answer.

    The answer stands there as in the record, and what the pieces say is the answer to
    the official metric: they may have a full stop more, and end where words do.
    """
    text = pieces.text
    for (first, last), _ in find_answer(pieces, answer):
        start, stop = pieces.offsets[first][0], pieces.offsets[last][1]
        goes_on = _in_word(text, start) or _in_word(text, stop)
        if exact_match(text[start:stop], answer) and not goes_on:
            yield first, last


def _in_word(text: str, index: int) -> bool:
    """Whether letters or digits stand on both sides of a place, accents among them."""
    before, after = text[max(index - 1, 0) : index], text[index : index + 1]
    if continues(after):
        return True
    return (before.isalnum() or continues(before)) and after.isalnum()


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    # [CLS], around the question and the titles, after sentences, and the last one.
    sentences = sum(len(paragraph.sentences) for paragraph in record.paragraphs)
    special = 4 + 2 * len(record.paragraphs) + sentences
    return special + count_pieces(tokenizer, texts_of(record))
