"""TriviaQA records as inputs, in one sequence as Longformer reads them.

See `datasets.span_inputs`. Documents follow one another, each tokenised by itself, and
what does not fit is cut off at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from etc_jax.data.text.sentences import SplitFn
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.offsets import TokenizedText
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.span_inputs import Text, layout_of, pieces_of
from etc_jax.datasets.spans import Document, DocumentsWindow, Span
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, filled
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.scoring.triviaqa import normalize
from etc_jax.tasks.triviaqa.names import AnswerNames, words_of
from etc_jax.tasks.triviaqa.records import Record

# Longformer cuts questions at 55 tokens. Here they are whole, and few are longer.
SIZES = SequenceSizes(input_length=4096, global_length=128)
STRUCTURED_SIZES = StructuredSizes(long_length=4096, global_length=256)

# Occurrences that are labels: the first ones of a text.
MAX_OCCURRENCES = 64


@dataclasses.dataclass(frozen=True)
class TriviaqaWindow(DocumentsWindow, SequenceWindow):
    """A question with as much of its documents as fits, in one sequence.

    `labels` are int32 `[MAX_OCCURRENCES]`, each place where the text has a name of the
    answer.
    """


@dataclasses.dataclass(frozen=True)
class StructuredDocuments(DocumentsWindow, StructuredWindow):
    """The same as long and global tokens."""


_WINDOWS = {SequenceSizes: TriviaqaWindow, StructuredSizes: StructuredDocuments}


@without_quirks("triviaqa")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: InputSizes = SIZES,
    *,
    split_fn: SplitFn | None = None,
) -> list[DocumentsWindow]:
    """The one window of a record.

    White space is read as one space wherever there is some, as in Longformer's inputs.
    Of structured inputs, sentences do not cross lines.

    Args:
      record: question and documents.
      tokenizer: see `span_inputs.layout_of`.
      sizes: lengths of the input, which say its format.
      split_fn: see `span_inputs.layout_of`.

    Raises:
      BadRecordError: if the question has more tokens than may be global or leaves no
        room, or the documents have no token.
      ImportError: if nupunkt is needed and not installed.
      ValueError: if the tokenizer lacks a special token.
    """
    layout = layout_of(tokenizer, sizes, split_fn)
    question = pieces_of(tokenizer, record.question).ids
    before, room = layout.before(len(question)), layout.room(len(question))
    documents = layout.readable(record.documents, len(question))
    if room < 1 or not documents:
        raise BadRecordError(
            "question too long",
            f"{record.id!r}: {len(question)} tokens, in an input of {sizes}; raise the "
            "lengths",
        )
    text, occurrences = _read_documents(record, documents, tokenizer, room)
    spans = np.array(occurrences[:MAX_OCCURRENCES], np.int32).reshape(-1, 2)
    starts, ends = before + spans.T
    unusable = None if len(spans) else "answer not in the input"
    if record.aliases is None:
        unusable = "no gold answer"
    return [
        _WINDOWS[type(sizes)](
            record=record,
            labels={
                "starts": filled(MAX_OCCURRENCES, -1, starts),
                "ends": filled(MAX_OCCURRENCES, -1, ends),
            },
            unusable=unusable,
            **text.fields(sizes.text_length, before),
            **layout.fields(question, text, documents),
        )
    ]


def _read_documents(
    record: Record,
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    room: int,
) -> tuple[Text, list[Span]]:
    """(pieces of some documents, (first, last) piece of each name of the answer).

    Args:
      record: with the names of the answer.
      documents: of the record, the first ones.
      tokenizer: for them.
      room: pieces that are kept, the first ones.

    Raises:
      BadRecordError: if there is no piece.
    """
    text, occurrences = Text([], [], []), []
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
        occurrences.extend(
            (before + first, before + last)
            for first, last in _occurrences(names, pieces, count)
        )
    if not text.ids:
        raise BadRecordError("no text", f"{record.id!r}: no document has a token")
    return text, occurrences


def _occurrences(
    names: AnswerNames, pieces: TokenizedText, count: int
) -> Iterator[Span]:
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
