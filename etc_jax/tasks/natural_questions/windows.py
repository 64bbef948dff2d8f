"""Windows of an article, whatever the format of inputs: text, labels, which are drawn.

The article is cut into windows that overlap. Only what lies in top-level candidates is
kept of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import rules
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes, Window, too_long
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.strides import StrideOptions
from etc_jax.formats.sequence import filled
from etc_jax.tasks.natural_questions.labels import (
    NULL,
    PLACES,
    WindowLabel,
    chosen_annotation,
    official_label,
    visible_label,
)
from etc_jax.tasks.natural_questions.records import Record, Span, top_spans

NOT_DRAWN = "window without an answer, not drawn"
# Of the options: those that choose windows to train on and shape none.
DRAWN_BY = ("null_share", "unanswerable_share", "seed")


@dataclasses.dataclass(frozen=True)
class WindowOptions(StrideOptions):
    """How an article is cut into windows.

    Attributes:
      null_share: of the windows without an answer that are trained on.
      unanswerable_share: the same for questions that have no answer in any window.
      seed: of that draw.
    """

    null_share: float = 1.0
    unanswerable_share: float = 1.0
    seed: int = 0

    def __post_init__(self):
        shares = rules.number(0, 1)
        rules.refuse(shares.problems(self, "null_share", "unanswerable_share"))
        super().__post_init__()


@dataclasses.dataclass(frozen=True)
class ArticleWindow(Window):
    """A part of an article, in any format, with the way back to it.

    `labels` are int32 `[]`: `answer_type`, and `short_begin`, `short_end`,
    `long_begin`, `long_end`, first and last token of the short and the long answer; 0,
    the place of the first token, for an end that is not in the window.

    Attributes:
      number: of the window in its record, from 0.
      count: windows of the record.
      word: int32 `[n]`, word of the article of each token; -1 for none.
      candidate: int32 `[n]`, top-level candidate of each token; -1 for none.
      share: of such windows that are trained on; 1 for those with an answer.
    """

    number: int
    count: int
    word: np.ndarray
    candidate: np.ndarray
    share: float


@dataclasses.dataclass(frozen=True)
class Article:
    """Pieces of what lies in top-level candidates: int32 `[p]` each, in order."""

    ids: np.ndarray
    word: np.ndarray
    candidate: np.ndarray


class ArticleSlice(NamedTuple):
    """What of an article is in a window.

    Attributes:
      ids: of its pieces.
      candidate: int32 `[n]`; see `ArticleWindow`.
      used: tokens of the window, special ones included.
    """

    ids: np.ndarray
    candidate: np.ndarray
    used: int


class ArticleWindows:
    """The windows of one record.

    Attributes:
      question: ids of its pieces.
      article: of the record.
    """

    def __init__(
        self,
        record: Record,
        tokenizer: Tokenizer,
        options: WindowOptions,
        *,
        tags: tuple[int, int],
        official_quirks: bool = False,
    ):
        """Tokenises the record.

        Args:
          record: question and article.
          tokenizer: of the model.
          options: see there.
          tags: ids that stand for tags that open and that close something.
          official_quirks: see `inputs.features`.

        Raises:
          BadRecordError: if nothing is left of the article.
        """
        self._record, self._options = record, options
        self._quirks = official_quirks
        words = zip(record.words, record.is_html, strict=True)
        surfaces = sorted({word for word, is_html in words if not is_html})
        question, *pieces = encode(tokenizer, [record.question, *surfaces])
        self.question = question.ids[: options.question_tokens]
        self._cut = too_long(questions=(len(question), options.question_tokens))
        ids_of = dict(zip(surfaces, (p.ids for p in pieces), strict=True))
        spans = _listed_tops(record) if official_quirks else top_spans(record)
        self.article = _article(record, spans, ids_of, tags)
        annotations = record.annotations or ()
        self._annotation = annotations[0] if annotations else None
        if not official_quirks:
            self._annotation = chosen_annotation(annotations)

    def parts(
        self, sizes: InputSizes, before: int
    ) -> Iterator[tuple[ArticleSlice, dict[str, Any]]]:
        """(what is in a window, the fields of it that all formats have) of each.

        Args:
          sizes: of an input, with one token after the article.
          before: tokens before the article.

        Raises:
          BadRecordError: if there is no room for a piece.
        """
        n, article = sizes.text_length, self.article
        if (room := n - before - 1) < 1:
            raise BadRecordError(
                "question too long",
                f"{self._record.id!r}: {len(self.question)} tokens, in an input of "
                f"{sizes}",
            )
        starts = self._options.starts(len(article.ids), room, n)
        for number, start in enumerate(starts):
            part = slice(start, start + room)
            ids = article.ids[part]
            word, candidate = (
                filled(n, -1, values[part], before)
                for values in (article.word, article.candidate)
            )
            label = self._label(start, start + len(ids), before, word)
            share = self._share(label)
            labels = {"answer_type": label.type}
            labels |= dict(zip(PLACES, label.boundaries, strict=True))
            yield (
                ArticleSlice(ids, candidate, before + len(ids) + 1),
                {
                    "record": self._record,
                    "labels": {k: np.array(x, np.int32) for k, x in labels.items()},
                    "unusable": self._unusable(number, share),
                    "number": number,
                    "count": len(starts),
                    "cut": self._cut,
                    "word": word,
                    "candidate": candidate,
                    "share": share,
                },
            )

    def _label(
        self, start: int, stop: int, before: int, word: np.ndarray
    ) -> WindowLabel:
        if self._annotation is None:
            missing = -1 if self._quirks else 0
            return WindowLabel(missing, (missing,) * 4)
        if self._quirks:
            return official_label(self._annotation, word)
        return visible_label(
            self._annotation, self.article.word, (start, stop), before - start
        )

    def _share(self, label: WindowLabel) -> float:
        if label.type != NULL or self._annotation is None:
            return 1.0
        if self._annotation.long is None and not self._annotation.has_short:
            return self._options.unanswerable_share
        return self._options.null_share

    def _unusable(self, number: int, share: float) -> str | None:
        if self._annotation is None:
            return "no annotation"
        drawn = draw(self._options.seed, self._record.id, number) < share
        return None if drawn else NOT_DRAWN


def _listed_tops(record: Record) -> list[tuple[int, Span]]:
    """Top-level candidates as the file has them, even if they overlap."""
    return [(i, x) for i, x in enumerate(record.candidates) if record.top_level[i]]


def _article(
    record: Record,
    spans: list[tuple[int, Span]],
    ids_of: dict[str, list[int]],
    tags: tuple[int, int],
) -> Article:
    ids: list[int] = []
    lengths: list[int] = []
    of_words, of_candidates = [], []
    for index, (start, stop) in spans:
        for number in range(start, stop):
            word = record.words[number]
            html = record.is_html[number]
            # A tag is one token, whatever its name.
            of_word = [tags[word.startswith("</")]] if html else ids_of[word]
            ids += of_word
            lengths.append(len(of_word))
        of_words.append(np.arange(start, stop, dtype=np.int32))
        of_candidates.append(np.full(stop - start, index, np.int32))
    if not ids:
        raise BadRecordError("no text", f"{record.id!r}: no candidate has a token")
    counts = np.array(lengths)  # [words], pieces of each
    return Article(
        ids=np.array(ids, np.int32),
        word=np.repeat(np.concatenate(of_words), counts),
        candidate=np.repeat(np.concatenate(of_candidates), counts),
    )


def draw(seed: int, name: str, number: int) -> float:
    """A number in 0..1 that depends on nothing but a seed, an id and a window."""
    digest = hashlib.blake2b(f"{seed} {name} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
