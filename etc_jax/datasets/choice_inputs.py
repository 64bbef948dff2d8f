"""A query, candidates and documents as structured inputs (ETC paper, appendix C).

long:    candidates, query, documents
global:  one a candidate, one a token of the query, then of each document one for
         the whole and one a sentence
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import (
    CANDIDATE_TYPE,
    GLOBAL_CANDIDATE_TYPE,
    GLOBAL_PARAGRAPH_TYPE,
    GLOBAL_QUESTION_TYPE,
    GLOBAL_TYPE,
    QUESTION_TYPE,
    SENTENCE_TYPE,
)
from etc_jax.datasets.mentions import by_pieces, by_words
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow

SIZES = StructuredSizes(long_length=4096, global_length=430)
MAX_SENTENCES = 200

# What the official code takes for each role, whatever the vocabulary.
_OFFICIAL_IDS = {"sentence": 1, "question": 3, "candidate": 4, "paragraph": 5}

SplitFn = Callable[[str], Sequence[str]]


class Query(Protocol):
    """What is asked.

    Attributes:
      id: of the record.
      query: a text.
      documents: texts, not all of them blank.
      candidates: one or more.
      label: which candidate is right; None: it is not known.
    """

    id: str
    query: str
    documents: Sequence[str]
    candidates: Sequence[str]
    label: int | None


@dataclasses.dataclass(frozen=True)
class CandidatesWindow(StructuredWindow):
    """A window of which the global tokens 0, 1, ... are the candidates.

    `labels` has `candidate` int32 `[]`, which is also the candidate's global token; -1
    without a gold answer.
    """

    @property
    def is_candidate(self) -> np.ndarray:
        """Which global tokens are candidates, bool `[g]`."""
        return self.types.global_ == GLOBAL_CANDIDATE_TYPE


@dataclasses.dataclass(frozen=True)
class CandidateOptions:
    """What the official command line can choose.

    Attributes:
      max_sentences: of all documents.
      exempt_candidates: a hard g2l mask does not bind the candidates' global tokens.
      exempt_question: a hard g2l mask does not bind the question's global tokens.
      link_mentions: candidates are tied to their mentions, by label only.
      flat: the ablation without structure (paper, section 4.2).
    """

    max_sentences: int = MAX_SENTENCES
    exempt_candidates: bool = True
    exempt_question: bool = True
    link_mentions: bool = True
    flat: bool = False


_OPTIONS = CandidateOptions()


def features(
    record: Query,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    options: CandidateOptions = _OPTIONS,
    split_fn: SplitFn | None = None,
    official_quirks: bool = False,
) -> list[CandidatesWindow]:
    """The one window of a record: candidates, query, documents.

    Sentences are dropped from the end of the document that has most until all fit.
    Blank documents get no global token.

    Args:
      record: the query.
      tokenizer: WordPiece or sentencepiece, with the special tokens of official ETC.
      sizes: lengths of the input.
      options: what the experiments vary.
      split_fn: text to sentences; None: Punkt, of the nupunkt package. The official
        code uses NLTK's, whose borders differ now and then.
      official_quirks: what the official code does wrong is done wrong too: global
        tokens have the same ids in every vocabulary; candidates are lower-cased and
        the text is not; a mention is any run of the candidate's pieces, which may end
        inside of a word; a candidate overwrites mentions of those before it, where
        here the longer mention stands; blank documents have a global token; and the
        room for global tokens is not counted.

    Raises:
      BadRecordError: if the record does not fit without any sentence.
      ImportError: if nupunkt is needed and not installed.
      ValueError: if the tokenizer lacks a special token.
    """
    builder = _Builder(record, tokenizer, sizes, options, official_quirks)
    split_fn = split_fn or (lambda text: split_sentences([text]))
    documents = [d for d in record.documents if official_quirks or d.strip()]
    sentences = [list(split_fn(d)) for d in documents]
    return [builder.window(sentences)]


class _Builder:
    def __init__(
        self, record, tokenizer, sizes, options: CandidateOptions, quirks: bool
    ):
        self._record, self._tokenizer = record, tokenizer
        self._sizes, self._options, self._quirks = sizes, options, quirks
        self._ids = (
            _OFFICIAL_IDS
            if quirks
            else {role: tokenizer.special_id(role) for role in _OFFICIAL_IDS}
        )
        self._layout = Layout(sizes)
        self._candidates = [c.strip() for c in record.candidates]
        if quirks:
            self._candidates = [c.lower() for c in self._candidates]

    def window(self, sentences: list[list[str]]) -> CandidatesWindow:
        flat = [s for document in sentences for s in document]
        texts = [*self._candidates, self._record.query, *flat]
        pieces = encode(self._tokenizer, texts)
        c = len(self._candidates)
        candidates, query, rest = pieces[:c], pieces[c], iter(pieces[c + 1 :])
        documents = [[next(rest) for _ in document] for document in sentences]
        documents = self._truncated(candidates, query, documents)
        self._add_candidates(candidates)
        last = self._add_query(query)
        self._add_documents(documents, candidates)
        return self._finished(exempt_stop=(c, last))

    def _truncated(self, candidates, query, documents: list[list[TokenizedText]]):
        used = sum(map(len, candidates)) + len(query)
        max_sentences = self._options.max_sentences
        if not self._quirks:
            above = len(candidates) + len(query) + len(documents)
            room = self._sizes.global_length - above
            max_sentences = min(max_sentences, room)
        if max_sentences < 0 or used > self._sizes.long_length:
            raise BadRecordError(
                "too large",
                f"{self._record.id!r}: {len(candidates)} candidates and a query of "
                f"{used} tokens, {len(documents)} documents, in an input of "
                f"{self._sizes}",
            )
        counts = [[len(s) for s in d] for d in documents]
        keep = kept_sentences(
            counts,
            max_sentences=max_sentences,
            max_tokens=self._sizes.long_length - used,
        )
        return [d[:k] for d, k in zip(documents, keep, strict=True)]

    def _add_candidates(self, candidates: list[TokenizedText]) -> None:
        layout = self._layout
        for pieces in candidates:
            if not len(pieces):
                raise BadRecordError(
                    "empty candidate",
                    f"{self._record.id!r}: {pieces.text!r} has no token",
                )
            index = layout.add_global(self._ids["candidate"], GLOBAL_CANDIDATE_TYPE)
            first = layout.add_long(pieces.ids, CANDIDATE_TYPE, sentence=index)
            layout.add_mention(index, first, layout.num_long - 1)
            layout.close_group()

    def _add_query(self, query: TokenizedText) -> int:
        """Returns one past the last global token of the query."""
        for token in query.ids:
            index = self._layout.add_global(self._ids["question"], GLOBAL_QUESTION_TYPE)
            self._layout.add_long([token], QUESTION_TYPE, sentence=index)
        self._layout.close_group()
        return self._layout.num_global

    def _add_documents(self, documents, candidates: list[TokenizedText]) -> None:
        layout = self._layout
        find = (by_pieces if self._quirks else by_words)(candidates)
        mentions: list[tuple[int, int, int]] = []
        for sentences in documents:
            top = layout.add_global(self._ids["paragraph"], GLOBAL_PARAGRAPH_TYPE)
            for pieces in sentences:
                index = layout.add_global(self._ids["sentence"], GLOBAL_TYPE)
                first = layout.add_long(
                    pieces.ids, SENTENCE_TYPE, sentence=index, paragraph=top
                )
                mentions += [
                    (target, first + a, first + b) for target, a, b in find(pieces)
                ]
            layout.close_group()
        order = _by_candidate if self._quirks else _by_length
        for mention in sorted(mentions, key=order):
            layout.add_mention(*mention)

    def _finished(self, exempt_stop: tuple[int, int]) -> CandidatesWindow:
        c, last = exempt_stop
        options = self._options
        exempt = [
            *(range(c) if options.exempt_candidates else ()),
            *(range(c, last) if options.exempt_question else ()),
        ]
        label = -1 if self._record.label is None else self._record.label
        return CandidatesWindow(
            record=self._record,
            **self._layout.fields(
                exempt=exempt, mentions=options.link_mentions, flat=options.flat
            ),
            labels={"candidate": np.array(label, np.int32)},
            unusable="no gold answer" if label < 0 else None,
        )


def _by_candidate(mention: tuple[int, int, int]) -> int:
    return mention[0]


def _by_length(mention: tuple[int, int, int]) -> tuple[int, int]:
    # A later one overwrites: the longer, and of equal ones the earlier candidate's.
    target, first, last = mention
    return last - first, -target


def kept_sentences(
    counts: Sequence[Sequence[int]], *, max_sentences: int, max_tokens: int
) -> list[int]:
    """How many sentences of each document stay.

    While there are too many sentences or tokens, the document with most sentences loses
    its last one; of equal ones the one that has gone longest without.

    Args:
      counts: tokens of each sentence of each document.
      max_sentences: of all documents.
      max_tokens: of all sentences.
    """
    keep = [len(d) for d in counts]
    sentences = sum(keep) - max_sentences
    tokens = sum(map(sum, counts)) - max_tokens
    heap = [(-k, i, i) for i, k in enumerate(keep)]
    heapq.heapify(heap)
    turn = len(heap)
    while (sentences > 0 or tokens > 0) and any(keep):
        _, _, document = heapq.heappop(heap)
        keep[document] -= 1
        tokens -= counts[document][keep[document]]
        sentences -= 1
        heapq.heappush(heap, (-keep[document], turn, document))
        turn += 1
    return keep


def record_length(record: Query, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    # Sentences end at white space, where pieces end too.
    candidates = (candidate.strip() for candidate in record.candidates)
    return count_pieces(tokenizer, [*candidates, record.query, *record.documents])
