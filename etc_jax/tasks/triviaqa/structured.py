"""TriviaQA records as structured inputs (as ETC paper, section 3.4).

See `datasets.span_inputs`. Documents follow one another, and what does not fit is cut
off at the end.
"""

from __future__ import annotations

import dataclasses

from etc_jax.data.text.sentences import SplitFn
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.span_inputs import LEAST, pieces_of, structured_fields
from etc_jax.datasets.spans import DocumentsWindow
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.tasks.triviaqa.inputs import (
    answer_fields,
    question_too_long,
    read_documents,
)
from etc_jax.tasks.triviaqa.records import Record

SIZES = StructuredSizes(long_length=4096, global_length=256)


@dataclasses.dataclass(frozen=True)
class StructuredDocuments(DocumentsWindow, StructuredWindow):
    """A question with as much of its documents as fits, as long and global tokens.

    `labels` are those of `TriviaqaWindow`.
    """


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
    documents = record.documents[:num_documents]
    text, occurrences = read_documents(record, documents, tokenizer, room)
    return [
        StructuredDocuments(
            **answer_fields(record, occurrences, above),
            **text.fields(sizes.long_length, above),
            **structured_fields(question, text, documents, tokenizer, sizes, split_fn),
        )
    ]
