"""How long inputs are: counted, and of whole records before anything is cut off."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.datasets.offsets import encode
from tasks import (
    coreference,
    hotpotqa,
    hyperpartisan,
    imdb,
    natural_questions,
    openkp,
    triviaqa,
    wikihop,
)
from tasks.natural_questions.records import top_spans

_CHUNK = 1 << 20


class Lengths:
    """How often each length came up.

    That is all that percentiles need, and it is small however many lengths there are.
    """

    def __init__(self):
        self._counts: collections.Counter[int] = collections.Counter()

    def add(self, length: int) -> None:
        """Counts one."""
        self._counts[length] += 1

    def add_between(self, offsets: np.ndarray, of: np.ndarray | None = None) -> None:
        """Counts the distances of neighbours, a piece of the array at a time.

        Args:
          offsets: int `[k + 1]`, ascending.
          of: what the offsets are places of; None: of themselves.
        """
        for start in range(0, len(offsets) - 1, _CHUNK):
            part = offsets[start : start + _CHUNK + 1]
            lengths = np.diff(part if of is None else of[part])
            found = zip(*np.unique(lengths, return_counts=True), strict=True)
            self._counts.update({int(length): int(count) for length, count in found})

    @property
    def number(self) -> int:
        return self._counts.total()

    @property
    def total(self) -> int:
        return sum(length * count for length, count in self._counts.items())

    def over(self, length: int) -> int:
        """How many are longer."""
        return sum(count for x, count in self._counts.items() if x > length)

    def percentile(self, percent: float) -> int:
        """The smallest length that so many of a hundred are not above.

        It is one that came up; 50 gives the median (the lower one of an even number),
        100 the longest.

        Raises:
          ValueError: if nothing was counted, or it is not over 0 and up to 100.
        """
        if not (self._counts and 0 < percent <= 100):
            raise ValueError(
                f"percentile {percent} of {self.number} lengths; expected over 0, up "
                "to 100, of at least one"
            )
        # As it is spelled: 99.9 has no exact float.
        rank = math.ceil(Fraction(str(percent)) * self.number / 100)
        for length in sorted(self._counts):
            rank -= self._counts[length]
            if rank <= 0:
                return length
        raise AssertionError("more than all of them")


# --- whole records --------------------------------------------------------------------


def whole_length(task: str, record: Any, tokenizer: Tokenizer) -> int:
    """Long tokens of a record if nothing of it is cut off, special tokens included.

    Args:
      task: a data set's name.
      record: of the data set.
      tokenizer: as for its inputs.

    Raises:
      BadRecordError: if a text is not Unicode.
    """
    return _WHOLE[task](record, tokenizer)


def _pieces(texts: Iterable[str], tokenizer: Tokenizer) -> int:
    """Pieces of some texts; of those that are the same, one is tokenised."""
    counts = collections.Counter(texts)
    found = encode(tokenizer, list(counts))
    return sum(len(pieces) * counts[pieces.text] for pieces in found)


def _hotpotqa(record: hotpotqa.Record, tokenizer: Tokenizer) -> int:
    texts = [record.question]
    for paragraph in record.paragraphs:
        texts += [paragraph.title, *paragraph.sentences]
    return 1 + _pieces(texts, tokenizer)  # [CLS]


def _hotpotqa_longformer(record: hotpotqa.Record, tokenizer: Tokenizer) -> int:
    # Around the question and the titles, and behind sentences; [CLS] and the last one.
    sentences = sum(len(paragraph.sentences) for paragraph in record.paragraphs)
    special = 3 + 2 * len(record.paragraphs) + sentences
    return special + _hotpotqa(record, tokenizer)


def _wikihop(record: wikihop.Record, tokenizer: Tokenizer) -> int:
    # Sentences end at white space, where pieces end too.
    candidates = (candidate.strip() for candidate in record.candidates)
    return _pieces([*candidates, record.query, *record.documents], tokenizer)


def _wikihop_longformer(record: wikihop.Record, tokenizer: Tokenizer) -> int:
    documents = [text for text in record.documents if text.strip()]
    texts = [record.query, *record.candidates, *documents]
    # [CLS], tokens around the query and around candidates, and behind documents.
    special = 3 + tokenizer.special.pair_separators
    special += 2 * len(record.candidates) + len(documents)
    return special + _pieces((" ".join(text.split()) for text in texts), tokenizer)


def _natural_questions(record: natural_questions.Record, tokenizer: Tokenizer) -> int:
    tags, texts = 0, [record.question]
    for _, (start, stop) in top_spans(record):
        for word, is_html in zip(
            record.words[start:stop], record.is_html[start:stop], strict=True
        ):
            if is_html:
                tags += 1
            else:
                texts.append(word)
    return 3 + tags + _pieces(texts, tokenizer)  # [CLS] and two [SEP]


def _openkp(record: openkp.Record, tokenizer: Tokenizer) -> int:
    return _pieces(record.text.split(" "), tokenizer)


def _triviaqa(record: triviaqa.Record, tokenizer: Tokenizer) -> int:
    texts = (" ".join(document.text.split()) for document in record.documents)
    special = 2 + tokenizer.special.pair_separators
    return special + _pieces([record.question, *texts], tokenizer)


def _text(record: imdb.Record | hyperpartisan.Record, tokenizer: Tokenizer) -> int:
    return 2 + _pieces([" ".join(record.text.split())], tokenizer)


def _coreference(record: coreference.Record, tokenizer: Tokenizer) -> int:
    sentences = ("".join(f" {word}" for word in s) for s in record.sentences)
    return 2 + _pieces(sentences, tokenizer)


_WHOLE: dict[str, Callable[[Any, Tokenizer], int]] = {
    "hotpotqa": _hotpotqa,
    "wikihop": _wikihop,
    "natural_questions": _natural_questions,
    "openkp": _openkp,
    "triviaqa": _triviaqa,
    "imdb": _text,
    "hyperpartisan": _text,
    "coreference": _coreference,
    "hotpotqa_longformer": _hotpotqa_longformer,
    "wikihop_longformer": _wikihop_longformer,
}
