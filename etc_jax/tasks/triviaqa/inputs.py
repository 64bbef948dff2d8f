"""TriviaQA records as inputs of one sequence, as Longformer reads them.

    RoBERTa's vocabulary:  <s> question </s></s> documents </s>
    BERT's vocabulary:     [CLS] question [SEP] documents [SEP]

The question and the token before it are global, in their places. Documents follow one
another, each tokenised by itself, and what does not fit is cut off at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import Window
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import (
    SequenceSizes,
    SequenceWindow,
    filled,
    parts_of,
    refuse_quirks,
)
from etc_jax.scoring.triviaqa import normalize
from etc_jax.tasks.triviaqa.names import AnswerNames, Span, words_of
from etc_jax.tasks.triviaqa.records import EvidenceDocument, Record

# Longformer cuts questions at 55 tokens. Here they are whole, and few are longer.
SIZES = SequenceSizes(input_length=4096, global_length=128)

# Occurrences that are labels: the first ones of a text.
MAX_OCCURRENCES = 64


@dataclasses.dataclass(frozen=True)
class DocumentsWindow(Window):
    """A question with as much of its documents as fits, in any format.

    `labels` are `starts` and `ends`, int32 `[MAX_OCCURRENCES]`: first and last token of
    each place where the text has a name of the answer, in order, then -1. Tokens are
    those of the sequence, of structured inputs the long ones.

    Attributes:
      document: int32 `[n]`, document of the record that each token is of; -1 for none.
      characters: int32 `[n, 2]`, (first, one past the last) character of each token in
        its document; -1 for none.
    """

    document: np.ndarray
    characters: np.ndarray

    axes: ClassVar = {"starts": Placed(padding=-1), "ends": Placed(padding=-1)}

    def span_of(self, first: int, last: int) -> tuple[int, Span]:
        """(document, characters) of tokens of one document, without space around."""
        number = int(self.document[first])
        start, stop = int(self.characters[first, 0]), int(self.characters[last, 1])
        answer = self.record.documents[number].text[start:stop]
        start += len(answer) - len(answer.lstrip())
        return number, (start, start + len(answer.strip()))


@dataclasses.dataclass(frozen=True)
class TriviaqaWindow(DocumentsWindow, SequenceWindow):
    """The same in one sequence."""


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    official_quirks: bool = False,
) -> list[TriviaqaWindow]:
    """The one window of a record.

    White space is read as one space wherever there is some, as in Longformer's inputs.

    Args:
      record: question and documents.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator.
      sizes: tokens of the sequence, and how many of them may be global.
      official_quirks: not for this task.

    Raises:
      BadRecordError: if the question has more tokens than may be global or leaves no
        room, or the documents have no token.
      ValueError: if the tokenizer lacks a special token, or quirks are asked for.
    """
    refuse_quirks("triviaqa", official_quirks)
    sep = tokenizer.special_id("sep")
    question = pieces_of(tokenizer, record.question).ids
    separators = [sep] * tokenizer.special.pair_separators
    head = [tokenizer.special_id("cls"), *question, *separators]
    room = sizes.input_length - len(head) - 1
    num_global = 1 + len(question)
    if num_global > sizes.global_length or room < 1:
        raise question_too_long(record, len(question), sizes)
    text = read_documents(record, record.documents, tokenizer, room)
    # BERT tells texts apart by their types, RoBERTa by the separators alone.
    text_type = int(tokenizer.special.pair_separators == 1)
    n, before = sizes.input_length, len(head)
    # Of the text and the separator after it.
    types = filled(n, 0, [text_type] * (len(text.ids) + 1), before)
    parts = parts_of(sizes, [*head, *text.ids, sep], range(num_global), types)
    return [TriviaqaWindow(**answer_fields(record, text, before, n), **parts)]


def question_too_long(
    record: Record, tokens: int, sizes: SequenceSizes
) -> BadRecordError:
    """The error for a question that leaves no room for documents.

    Args:
      record: that has it.
      tokens: of the question.
      sizes: of the input.
    """
    return BadRecordError(
        "question too long",
        f"{record.id!r}: {tokens} tokens, in an input of {sizes}; raise the lengths",
    )


class Text(NamedTuple):
    """The documents as far as there is room.

    Attributes:
      ids: of all pieces.
      document: of each piece.
      characters: of each piece, in its document.
      occurrences: (first, last) piece of each name of the answer.
    """

    ids: list[int]
    document: list[int]
    characters: list[Span]
    occurrences: list[tuple[int, int]]


def read_documents(
    record: Record,
    documents: Sequence[EvidenceDocument],
    tokenizer: Tokenizer,
    room: int,
) -> Text:
    """The pieces of some documents, and where they name the answer.

    Args:
      record: with the names of the answer.
      documents: of the record, the first ones.
      tokenizer: for them.
      room: pieces that are kept, the first ones.

    Raises:
      BadRecordError: if there is no piece.
    """
    text = Text([], [], [], [])
    names = AnswerNames(record.aliases or ())
    for number, document in enumerate(documents):
        before = len(text.ids)
        if before == room:
            break
        pieces = pieces_of(tokenizer, document.text)
        count = min(len(pieces), room - before)
        text.ids.extend(pieces.ids[:count])
        text.document.extend([number] * count)
        text.characters.extend(pieces.offsets[:count])
        text.occurrences.extend(
            (before + first, before + last)
            for first, last in _occurrences(names, pieces, count)
        )
    if not text.ids:
        raise BadRecordError("no text", f"{record.id!r}: no document has a token")
    return text


def _occurrences(
    names: AnswerNames, pieces: TokenizedText, count: int
) -> Iterator[tuple[int, int]]:
    """(first, last) of the first `count` pieces of each name that they spell."""
    limit = pieces.offsets[count - 1][1] if count else 0
    for start, stop in names.find(words_of(pieces.text, limit)):
        span = pieces.covering(start, stop)
        if span is None or span[1] >= count:
            continue
        # A piece may go on after a word: then what it says is another answer.
        spelled = slice(pieces.offsets[span[0]][0], pieces.offsets[span[1]][1])
        if normalize(pieces.text[spelled]) == normalize(pieces.text[start:stop]):
            yield span


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


def answer_fields(
    record: Record, text: Text, before: int, length: int
) -> dict[str, Any]:
    """Record, labels and the way back to the text of a window.

    Args:
      record: the window is of.
      text: that is in it.
      before: tokens before the text.
      length: n, tokens of the window, padding included.
    """
    occurrences = np.array(text.occurrences[:MAX_OCCURRENCES], np.int32).reshape(-1, 2)
    starts, ends = before + occurrences.T
    return {
        "record": record,
        "labels": {
            "starts": filled(MAX_OCCURRENCES, -1, starts),
            "ends": filled(MAX_OCCURRENCES, -1, ends),
        },
        "unusable": _why_unusable(record, occurrences),
        "document": filled(length, -1, text.document, before),
        "characters": filled((length, 2), -1, text.characters, before),
    }


def _why_unusable(record: Record, occurrences: np.ndarray) -> str | None:
    if record.aliases is None:
        return "no gold answer"
    return None if len(occurrences) else "answer not in the input"


def whole_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return 2 + tokenizer.special.pair_separators + text_length(record, tokenizer)


def text_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of question and documents."""
    texts = (" ".join(document.text.split()) for document in record.documents)
    return count_pieces(tokenizer, [record.question, *texts])
