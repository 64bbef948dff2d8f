"""A question and documents as inputs that hold the answer.

In one sequence, as BERT and Longformer read them; the first token and the question are
global, in their places:

    RoBERTa's vocabulary:  <s> question </s></s> documents </s>
    BERT's vocabulary:     [CLS] question [SEP] documents [SEP]

As structured inputs (as ETC paper, section 3.4):

    long:    [CLS], question, documents
    global:  [CLS], one a token of the question, then of each document one for the
             whole and one a sentence

[CLS], question and documents are groups apart from each other. A sentence without room
for a global token of its own shares that of the sentence before it; each document that
is read has two at least.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from etc_jax.data.text.sentences import SplitFn, sentence_numbers, split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.paragraphs import by_lines
from etc_jax.datasets.spans import Document, Span, gold_outputs_of
from etc_jax.datasets.task import FeatureConverter, FeaturesFn, in_formats
from etc_jax.formats.sequence import SequenceSizes, filled, pair_parts
from etc_jax.formats.structured import Layout, StructuredSizes


class Text(NamedTuple):
    """The pieces of some documents that are in a window.

    Attributes:
      ids: of all pieces.
      document: of each piece.
      characters: of each piece, in its document.
    """

    ids: list[int]
    document: list[int]
    characters: list[Span]

    def fields(self, length: int, before: int) -> dict[str, np.ndarray]:
        """`document` and `characters` of a `DocumentsWindow`.

        Args:
          length: n, tokens of the window, padding included.
          before: tokens before the text.
        """
        return {
            "document": filled(length, -1, self.document, before),
            "characters": filled((length, 2), -1, self.characters, before),
        }


def pieces_of(tokenizer: Tokenizer, text: str) -> TokenizedText:
    """The pieces of a text with single spaces, and where they stand in it as it is."""
    [encoded] = encode(tokenizer, [" ".join(text.split())])
    is_space = np.fromiter(map(str.isspace, text), bool, len(text))
    follows = np.concatenate([[True], is_space[:-1]])[: len(text)]
    # Of a run of white space the first stands for all.
    indices = np.flatnonzero(~(is_space & follows)).tolist()
    # A piece may be a space alone, which has no character.
    offsets = [
        (indices[a], indices[b - 1] + 1 if a < b else indices[a])
        for a, b in encoded.offsets
    ]
    return TokenizedText(text, encoded.ids, offsets)


# --- formats --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class QuestionLayout(abc.ABC):
    """Where a question and pieces of documents stand in inputs of one format.

    Attributes:
      sizes: lengths of the input.
      ids: of special tokens, by role.
      tokenizer: that they are of.
      split_fn: paragraphs to sentences, of structured inputs.
      of_document: global tokens of a document, at least.
      after: tokens after the documents.
    """

    sizes: Any
    ids: Mapping[str, int]
    tokenizer: Tokenizer
    split_fn: SplitFn

    of_document: ClassVar[int]
    after: ClassVar[int]

    @property
    @abc.abstractmethod
    def special(self) -> int:
        """Tokens beside those of question and documents."""

    @abc.abstractmethod
    def fields(
        self, question: Sequence[int], text: Text, documents: Sequence[Document]
    ) -> dict[str, Any]:
        """The fields of a window that its format has.

        Args:
          question: ids of its pieces, which fit.
          text: pieces of the documents, which fit.
          documents: that the pieces are of, by their numbers in `text`.

        Raises:
          ImportError: if nupunkt is needed and not installed.
        """

    def before(self, question: int) -> int:
        """Tokens before the documents, with so many of the question."""
        return question + self.special - self.after

    def room(self, question: int) -> int:
        """For pieces of documents beside so many tokens of the question."""
        return self.sizes.text_length - question - self.special

    def least_global(self, question: int) -> int:
        """Global tokens that there must be: the first, the question, a document."""
        return 1 + question + self.of_document

    def readable(
        self, documents: Sequence[Document], question: int
    ) -> Sequence[Document]:
        """The documents for which there are global tokens: the first ones."""
        if self.sizes.global_length < self.least_global(question):
            return ()
        spare = self.sizes.global_length - 1 - question
        return documents[: spare // self.of_document if self.of_document else None]


def layout_of(
    tokenizer: Tokenizer, sizes: InputSizes, split_fn: SplitFn | None = None
) -> QuestionLayout:
    """The layout in the format of some sizes.

    Args:
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator;
        of structured inputs one with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: paragraphs to sentences, of structured inputs; None: Punkt, of the
        nupunkt package.

    Raises:
      ValueError: if the tokenizer lacks a special token.
    """
    cls, roles = _FORMATS[type(sizes)]
    ids = {role: tokenizer.special_id(role) for role in roles}
    return cls(sizes, ids, tokenizer, split_fn or split_sentences)


class _Sequence(QuestionLayout):
    of_document, after = 0, 1

    @property
    def special(self) -> int:
        return 2 + self.tokenizer.special.pair_separators

    def fields(self, question, text, documents) -> dict[str, Any]:
        head = [self.ids["cls"], *question]
        tail = [*text.ids, self.ids["sep"]]
        return pair_parts(self.sizes, head, tail, len(head), self.tokenizer)


class _Structured(QuestionLayout):
    # Its own, and one for its sentences.
    of_document, after = 2, 0
    special = 1

    def fields(self, question, text, documents) -> dict[str, Any]:
        ids, layout = self.ids, Layout(self.sizes)
        layout.add_global(ids["cls"])
        layout.add_long([ids["cls"]], SENTENCE_TYPE)
        layout.close_group()
        for token in question:
            index = layout.add_global(ids["question"])
            layout.add_long([token], QUESTION_TYPE, sentence=index)
        layout.close_group()
        runs = _runs(range(len(text.ids)), text.document)
        for number, run in enumerate(runs, start=1):
            document = documents[text.document[run[0]]]
            sentences = [
                [text.ids[i] for i in pieces]
                for pieces in _sentences(document, text, run, self.split_fn)
            ]
            reserved = self.of_document * (len(runs) - number)
            _add_document(layout, sentences, ids, reserved=reserved)
        return layout.fields()


_FORMATS = {
    SequenceSizes: (_Sequence, ("cls", "sep")),
    StructuredSizes: (_Structured, ("cls", "question", "paragraph", "sentence")),
}


def _add_document(
    layout: Layout, sentences: list[list[int]], ids: Mapping[str, int], *, reserved: int
) -> None:
    """Adds a document to a layout.

    Args:
      layout: of the input.
      sentences: ids of the pieces of each; they fit.
      ids: of special tokens, by role.
      reserved: global tokens to leave to the documents after it.
    """
    paragraph = layout.add_global(ids["paragraph"])
    sentence = layout.add_global(ids["sentence"])
    for number, pieces in enumerate(sentences):
        if number and layout.fits(0, 1 + reserved):
            sentence = layout.add_global(ids["sentence"])
        layout.add_long(pieces, SENTENCE_TYPE, sentence=sentence, paragraph=paragraph)
    layout.close_group()


def _sentences(
    document: Document, text: Text, run: Sequence[int], split_fn: SplitFn
) -> list[list[int]]:
    """The pieces of a document, a list for each sentence.

    Args:
      document: that they are of.
      text: that has them.
      run: the pieces.
      split_fn: paragraphs to sentences.
    """
    read = document.text[: text.characters[run[-1]][1]]
    numbers = sentence_numbers(read, split_fn(by_lines(read)))
    # A piece is of the sentence of its last character: the space before a word may be
    # of its piece.
    last = (max(start, stop - 1) for start, stop in (text.characters[i] for i in run))
    return _runs(run, [int(numbers[character]) for character in last])


def _runs(items: Iterable[int], keys: Sequence[int]) -> list[list[int]]:
    """Items in runs of equal keys."""
    pairs = itertools.groupby(zip(keys, items, strict=True), lambda pair: pair[0])
    return [[item for _, item in run] for _, run in pairs]


# --- template -------------------------------------------------------------------------


def span_converters(
    features: FeaturesFn,
    sizes: Mapping[str, InputSizes],
    official_gold: Callable[[Any], Any],
    **fields: Any,
) -> dict[str, FeatureConverter]:
    """The converters of a data set whose answers are spans of documents.

    Args:
      features: see `FeatureConverter`; it makes inputs of all formats, by the sizes.
      sizes: by format.
      official_gold: `DataSet.gold`.
      **fields: the others of a `FeatureConverter`.
    """
    lengths = {"sequence": _sequence_length, "structured": _structured_length}
    formats = {x: {"sizes": sizes[x], "record_length": lengths[x]} for x in sizes}
    gold_outputs = gold_outputs_of(official_gold)
    common = {"learner": "spans", "features": features, "gold_outputs": gold_outputs}
    return in_formats(formats, **common, **fields)


def _sequence_length(record: Any, tokenizer: Tokenizer) -> int:
    """Tokens of a sequence if nothing is cut off, special tokens included.

    Args:
      record: with `question` and `documents`.
      tokenizer: for them.
    """
    return 2 + tokenizer.special.pair_separators + _text_length(record, tokenizer)


def _structured_length(record: Any, tokenizer: Tokenizer) -> int:
    """Long tokens if nothing is cut off, special tokens included."""
    return 1 + _text_length(record, tokenizer)


def _text_length(record: Any, tokenizer: Tokenizer) -> int:
    """Tokens of question and documents."""
    texts = (" ".join(document.text.split()) for document in record.documents)
    return count_pieces(tokenizer, [record.question, *texts])
