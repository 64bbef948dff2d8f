"""HotpotQA records as inputs and labels (ETC paper, appendix C)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from etc_jax.base.types import Rows
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE, TITLE_TYPE
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode, occurrences
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from etc_jax.tasks.hotpotqa import official as hotpotqa_official
from etc_jax.tasks.hotpotqa.records import Record, existing_support

SIZES = StructuredSizes(long_length=4096, global_length=256)

# Classes of the answer type.
SPAN, YES, NO = 0, 1, 2
WORDS = {"yes": YES, "no": NO}

# BIO codes of the official second encoding of answers.
BEGIN, INSIDE, OUTSIDE = 0, 1, 2

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class HotpotWindow(StructuredWindow):
    """A window with the way back to the text.

    `labels` are `support` int32 `[g]` (1 for supporting sentences, and for the title
    and the paragraph's token above them), `answer_type`, `begin` and `end` int32 `[]`
    (both 0, the place of the first token, unless the type is `SPAN`).

    Attributes:
      paragraph: int32 `[g]`, which paragraph of the record; -1 for none.
      sentence: int32 `[g]`, which sentence of the paragraph; -1 for none, also for
        titles and the tokens of whole paragraphs.
      texts: the text that each global token in use stands for; "" for none.
      offsets: int32 `[n, 2]`, characters of that text that each long token covers; -1
        where there is none.
      spans: where the answer stands in titles and sentences of supporting paragraphs,
        (first, last) long token: those that spell it exactly before those that are
        longer, then the earliest-ending first. None for "yes" and "no".
    """

    paragraph: np.ndarray
    sentence: np.ndarray
    texts: tuple[str, ...]
    offsets: np.ndarray
    spans: tuple[Span, ...]


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    flat: bool = False,
    official_quirks: bool = False,
) -> list[HotpotWindow]:
    """The one window of a record.

    A sentence that does not fit as a whole is left out; a later one may still fit.

    Args:
      record: the question.
      tokenizer: WordPiece or sentencepiece, with the special tokens of official ETC.
      sizes: lengths of the input.
      flat: the ablation without structure (paper, section 4.2).
      official_quirks: what the official code does wrong is done wrong too: the index
        of a sentence counts only those kept, so that it is shifted after one left
        out; answers are also looked for in sentences that are left out; "yes" and "no"
        get a span where the words stand; facts that point nowhere support the title.

    Raises:
      BadRecordError: if the question alone does not fit.
      ValueError: if the tokenizer lacks a special token.
    """
    builder = _Builder(record, tokenizer, sizes, official_quirks)
    builder.add_question()
    for index in range(len(record.paragraphs)):
        builder.add_paragraph(index)
    return [builder.window(flat)]


class _Builder:
    def __init__(
        self, record, tokenizer, sizes: StructuredSizes, official_quirks: bool
    ):
        self._record, self._quirks = record, official_quirks
        self._tokenizer = tokenizer
        self._ids = {
            role: tokenizer.special_id(role)
            for role in ("cls", "question", "paragraph", "sentence")
        }
        self._layout = Layout(sizes)
        self._pieces = iter(encode(tokenizer, list(texts_of(record))))
        answer = record.answer or ""
        self._answer = answer if official_quirks else answer.strip()
        self._support = _facts(record, official_quirks)
        self._paragraphs: list[int] = []
        self._sentences: list[int] = []
        self._texts: list[str] = []
        self._offsets: list[tuple[int, int]] = []
        self._marks: list[bool] = []
        self._spans: list[tuple[Span, bool]] = []

    def add_question(self) -> None:
        self._add_global("cls")
        self._add_long([self._ids["cls"]], SENTENCE_TYPE, None)
        self._layout.close_group()
        pieces = next(self._pieces)
        if not self._quirks and not self._layout.fits(len(pieces), len(pieces)):
            raise BadRecordError(
                "question too long",
                f"{self._record.id!r}: {len(pieces)} tokens, in an input of "
                f"{self._layout.sizes}",
            )
        for token in pieces.ids:
            if self._layout.fits(1):
                self._add_long(
                    [token], QUESTION_TYPE, None, sentence=self._layout.num_global
                )
                self._add_global("question")
        self._layout.close_group()

    def add_paragraph(self, index: int) -> None:
        paragraph = self._record.paragraphs[index]
        supporting = self._support.get(paragraph.title, frozenset())
        top = self._layout.num_global
        if self._layout.fits(0):
            self._add_global("paragraph", index, mark=bool(supporting))
        num_added = 0
        parts = [(-1, paragraph.title), *enumerate(paragraph.sentences)]
        for number, text in parts:
            pieces = next(self._pieces)
            mark = bool(supporting) if number < 0 else number in supporting
            fits = self._layout.fits(len(pieces))
            if mark and (fits or self._quirks):
                self._find_answer(pieces)
            if not fits:
                continue
            kind = TITLE_TYPE if number < 0 else SENTENCE_TYPE
            self._add_long(
                pieces.ids,
                kind,
                pieces.offsets,
                sentence=self._layout.num_global,
                paragraph=top,
            )
            shown = num_added if self._quirks and number >= 0 else number
            self._add_global("sentence", index, shown, text, mark)
            num_added += number >= 0
        self._layout.close_group()

    def _add_long(self, ids, kind: int, offsets, **ties) -> None:
        self._layout.add_long(ids, kind, **ties)
        self._offsets += [(-1, -1)] * len(ids) if offsets is None else offsets

    def _add_global(self, role, paragraph=-1, sentence=-1, text="", mark=False):
        self._layout.add_global(self._ids[role])
        self._paragraphs.append(paragraph)
        self._sentences.append(sentence)
        self._texts.append(text)
        self._marks.append(mark)

    def _find_answer(self, pieces: TokenizedText) -> None:
        first = self._layout.num_long
        if self._quirks:
            spans = hotpotqa_official.answer_spans(
                pieces, self._answer, self._tokenizer
            )
            spans = [(span, True) for span in spans]
        elif self._answer in WORDS:
            spans = []
        else:
            spans = find_answer(pieces, self._answer)
        self._spans += [((a + first, b + first), exact) for (a, b), exact in spans]

    def window(self, flat: bool) -> HotpotWindow:
        layout = self._layout
        # Stable: of equal ends the first in the text.
        self._spans.sort(key=lambda x: (not x[1], x[0][1]))
        spans = tuple(span for span, _ in self._spans)
        offsets = np.full((layout.sizes.long_length, 2), -1, np.int32)
        flat_offsets = itertools.chain.from_iterable(self._offsets)
        offsets.ravel()[: 2 * layout.num_long] = np.fromiter(flat_offsets, np.int32)
        globals_ = [self._paragraphs, self._sentences, self._marks]
        paragraph, sentence, support = (
            layout.pad(Rows([], x), fill).global_
            for x, fill in zip(globals_, (-1, -1, 0), strict=True)
        )
        labels, unusable = self._labels(support, spans)
        return HotpotWindow(
            record=self._record,
            **layout.fields(flat=flat),
            labels=labels,
            unusable=unusable,
            paragraph=paragraph,
            sentence=sentence,
            texts=tuple(self._texts),
            offsets=offsets,
            spans=spans,
        )

    def _labels(self, support: np.ndarray, spans: tuple[Span, ...]):
        kind = WORDS.get(self._answer, SPAN)
        fits = spans and spans[0][1] < self._layout.sizes.long_length
        sentences = self._layout.pad(Rows([], self._sentences), -1).global_ >= 0
        supported = support.any() if self._quirks else support[sentences].any()
        unusable = None
        if self._record.answer is None or self._record.support is None:
            unusable = "no gold answer"
        elif not supported:
            unusable = "no supporting fact in the input"
        elif kind == SPAN and not fits:
            unusable = "answer not in the supporting text of the input"
        span = spans[0] if spans else (0, 0)
        numbers = {"answer_type": kind, "begin": span[0], "end": span[1]}
        labels = {k: np.array(v, np.int32) for k, v in numbers.items()}
        return {"support": support, **labels}, unusable


def texts_of(record: Record) -> Iterator[str]:
    """Question, titles and sentences, in the order of an input."""
    yield record.question
    for paragraph in record.paragraphs:
        yield paragraph.title
        yield from paragraph.sentences


def _facts(record: Record, official_quirks: bool) -> dict[str, set[int]]:
    facts: dict[str, set[int]] = {}
    chosen = record.support or () if official_quirks else existing_support(record)
    for title, index in chosen:
        facts.setdefault(title, set()).add(index)
    return facts


def find_answer(pieces: TokenizedText, answer: str) -> list[tuple[Span, bool]]:
    """Where an answer stands in a text, as it is spelled.

    Returns:
      (first and last piece, whether they spell the answer and no more) of each place.
    """
    matches = occurrences(pieces.text, answer)
    spans = ((pieces.covering(*match), match) for match in matches)
    return [(span, pieces.is_exact(span, *match)) for span, match in spans if span]


def bio_labels(window: HotpotWindow) -> np.ndarray:
    """Every place of the answer at once: int32 `[n]` of BEGIN, INSIDE and OUTSIDE."""
    n = len(window.offsets)
    codes = np.full(n, OUTSIDE, np.int32)
    for first, last in window.spans:
        if last < n:
            codes[first : last + 1] = INSIDE
            codes[first] = BEGIN
    return codes


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return 1 + count_pieces(tokenizer, texts_of(record))  # [CLS]
