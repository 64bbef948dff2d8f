"""TriviaQA records as structured inputs (as ETC paper, section 3.4).

    long:    [CLS], question, documents
    global:  [CLS], one a token of the question, then of each document one for the
             whole and one a sentence

[CLS], question and documents are groups apart from each other. Documents follow one
another, and what does not fit is cut off at the end. A sentence without room for a
global token of its own shares that of the sentence before it; each document that is
read has two at least.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etc_jax.data.text.sentences import SplitFn, sentence_numbers, split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow
from etc_jax.tasks.paragraphs import by_lines
from etc_jax.tasks.triviaqa.inputs import (
    DocumentsWindow,
    Text,
    answer_fields,
    pieces_of,
    question_too_long,
    read_documents,
    text_length,
)
from etc_jax.tasks.triviaqa.records import EvidenceDocument, Record

SIZES = StructuredSizes(long_length=4096, global_length=256)

# Global tokens of a document: its own, and one for its sentences.
LEAST = 2


@dataclasses.dataclass(frozen=True)
class StructuredDocuments(DocumentsWindow, StructuredWindow):
    """The same as long and global tokens."""


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    split_fn: SplitFn | None = None,
    official_quirks: bool = False,
) -> list[StructuredDocuments]:
    """The one window of a record.

    White space is read as one space wherever there is some. Sentences do not cross
    lines.

    Args:
      record: question and documents.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: paragraphs to sentences; None: Punkt, of the nupunkt package.
      official_quirks: not for this task.

    Raises:
      BadRecordError: if the question leaves no room for documents, or they have no
        token.
      ImportError: if nupunkt is needed and not installed.
      ValueError: if the tokenizer lacks a special token, or quirks are asked for.
    """
    refuse_quirks("triviaqa", official_quirks)
    question = pieces_of(tokenizer, record.question).ids
    above = 1 + len(question)
    room = sizes.long_length - above
    num_documents = (sizes.global_length - above) // LEAST
    if room < 1 or num_documents < 1:
        raise question_too_long(record, len(question), sizes)
    text = read_documents(record, record.documents[:num_documents], tokenizer, room)
    return [
        StructuredDocuments(
            **inputs_of(question, text, record.documents, tokenizer, sizes, split_fn),
            **answer_fields(record, text, above, sizes.long_length),
        )
    ]


def inputs_of(
    question: Sequence[int],
    text: Text,
    documents: Sequence[EvidenceDocument],
    tokenizer: Tokenizer,
    sizes: StructuredSizes,
    split_fn: SplitFn | None,
) -> dict[str, Any]:
    """Tokens, types and structure of a question and pieces of documents that fit.

    The first long token is [CLS], those of the question come next, then the pieces.

    Args:
      question: ids of its pieces.
      text: ids, documents and characters of the pieces.
      documents: that the pieces are of, by their numbers in `text`.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: paragraphs to sentences; None: Punkt, of the nupunkt package.
    """
    roles = ("cls", "question", "paragraph", "sentence")
    ids = {role: tokenizer.special_id(role) for role in roles}
    layout = Layout(sizes)
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
            for pieces in _sentences(document, text, run, split_fn or split_sentences)
        ]
        _add_document(layout, sentences, ids, reserved=LEAST * (len(runs) - number))
    return {
        "tokens": layout.tokens(),
        "types": layout.types(),
        "structure": layout.structure(exempt=[0], mentions=False, flat=False),
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
    document: EvidenceDocument, text: Text, run: Sequence[int], split_fn: SplitFn
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
    indices = (
        max(start, stop - 1) for start, stop in (text.characters[i] for i in run)
    )
    return _runs(run, [int(numbers[index]) for index in indices])


def _runs(items: Iterable[int], keys: Sequence[int]) -> list[list[int]]:
    """Items in runs of equal keys."""
    pairs = itertools.groupby(zip(keys, items, strict=True), lambda pair: pair[0])
    return [[item for _, item in run] for _, run in pairs]


def whole_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return 1 + text_length(record, tokenizer)
