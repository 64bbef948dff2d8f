"""Questions about a paragraph as inputs (Devlin et al. 2019, 4.2, 4.3).

See `datasets.span_inputs`. A context that does not fit is read in several windows that
overlap. The first token also stands for "no answer here": it is the label where a
window does not hold the whole answer.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from etc_jax.base.rules import FINITE, at_least, refuse
from etc_jax.data.text.sentences import SplitFn
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import InputSizes, too_long
from etc_jax.datasets.offsets import TokenizedText
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.span_inputs import Text, layout_of, pieces_of
from etc_jax.datasets.spans import DocumentsWindow
from etc_jax.datasets.strides import StrideOptions
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.tasks.squad.records import Record, SquadOptions, read

# 384 tokens and 64 of the question, as in BERT's runs.
SIZES = SequenceSizes(input_length=384, global_length=65)
STRUCTURED_SIZES = StructuredSizes(long_length=512, global_length=128)
# The first token, which stands for no answer.
NOWHERE = 0
_SHAPING = ("question_tokens", "stride")


@dataclasses.dataclass(frozen=True)
class SpanOptions(SquadOptions, StrideOptions):
    """How inputs are made and spans are read.

    Attributes:
      max_answer_tokens: of the longest answer.
      n_best: answers that are kept of each question.
      unanswerable: a question may have no answer, as in SQuAD 2.0; by default so if one
        of the files to learn from has none.
      null_threshold: such a question has no answer if the score of none is so much
        above that of the best one; `etc-jax evaluate` finds the best threshold.
    """

    given_to: ClassVar[tuple[str, ...]] = (
        *SquadOptions.given_to,
        *("features", "decode", "explain", "pool", "pool_explained"),
    )

    question_tokens: int = 64
    max_answer_tokens: int = 30
    n_best: int = 20
    unanswerable: bool = False
    null_threshold: float = 0.0

    def __post_init__(self):
        SquadOptions.__post_init__(self)
        StrideOptions.__post_init__(self)
        refuse(at_least(1).problems(self, "max_answer_tokens", "n_best"))
        FINITE.check(null_threshold=self.null_threshold)

    def completed(self, paths: Sequence[str | os.PathLike]) -> Self:
        """Whether a question of the files has no answer.

        Raises:
          OSError: if a file cannot be read.
        """
        if self.unanswerable:
            return self
        records = read(paths, Problems(), options=self)
        has_unanswerable = any(record.answers == () for record in records)
        return dataclasses.replace(self, unanswerable=has_unanswerable)

    def shaping(self, sizes: InputSizes) -> dict[str, Any]:
        """See there: neither columns nor how spans are read shape an input."""
        names = (*_SHAPING, sizes.text_field)
        return {name: x for name, x in super().shaping(sizes).items() if name in names}

    def task_fields(self) -> dict[str, Any]:
        """The prediction for a question whose context is no input."""
        odds = {"null_odds": 0.0} if self.unanswerable else {}
        return {"no_answer": {"text": "", "nbest": [], **odds}}


OPTIONS = SpanOptions()


@dataclasses.dataclass(frozen=True)
class SpanWindow(DocumentsWindow):
    """A question with a part of its context, in any format.

    `labels` are `starts` and `ends`, int32 `[1]`: first and last token of the first
    answer, `NOWHERE` twice if the window does not hold all of it; -1 if that is not
    known.

    Attributes:
      number: of the window in its record, from 0.
      count: windows of the record.
    """

    number: int
    count: int


@dataclasses.dataclass(frozen=True)
class SquadWindow(SpanWindow, SequenceWindow):
    """The same in one sequence."""


@dataclasses.dataclass(frozen=True)
class StructuredSquad(SpanWindow, StructuredWindow):
    """The same as long and global tokens."""


_WINDOWS = {SequenceSizes: SquadWindow, StructuredSizes: StructuredSquad}


@without_quirks("squad")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: InputSizes = SIZES,
    *,
    options: SpanOptions = OPTIONS,
    split_fn: SplitFn | None = None,
) -> list[SpanWindow]:
    """The windows of a record, in order.

    White space is read as one space wherever there is some. Of structured inputs,
    sentences do not cross lines; those without room for a global token share that of
    the one before.

    Args:
      record: question and context.
      tokenizer: see `span_inputs.layout_of`.
      sizes: lengths of the input, which say its format.
      options: see there.
      split_fn: see `span_inputs.layout_of`.

    Raises:
      BadRecordError: if the context has no token.
      ImportError: if nupunkt is needed and not installed.
      ValueError: if the sizes do not go with the options, or the tokenizer lacks a
        special token.
    """
    layout = layout_of(tokenizer, sizes, split_fn)
    options.check_room(sizes, layout.special)
    least = layout.least_global(options.question_tokens)
    if sizes.global_length < least:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected {least} at least for a "
            f"question of {options.question_tokens} tokens and the context; raise it, "
            "or lower question_tokens"
        )
    question = pieces_of(tokenizer, record.question).ids
    cut = too_long(questions=(len(question), options.question_tokens))
    question = question[: options.question_tokens]
    context = pieces_of(tokenizer, record.context)
    if not len(context):
        raise BadRecordError("no text", f"{record.id!r}: the context has no token")
    before, room = layout.before(len(question)), layout.room(len(question))
    starts = options.starts(len(context), room, sizes.text_length)
    span, unusable = _answer(record, context)
    windows = []
    for number, start in enumerate(starts):
        part = slice(start, start + room)
        ids = context.ids[part]
        text = Text(ids, [0] * len(ids), context.offsets[part])
        whole = span is not None and start <= span[0] and span[1] < start + room
        ends = [x + before - start for x in span] if whole else [NOWHERE] * 2
        if unusable is not None:
            ends = [-1, -1]
        windows.append(
            _WINDOWS[type(sizes)](
                record=record,
                labels={
                    "starts": np.array(ends[:1], np.int32),
                    "ends": np.array(ends[1:], np.int32),
                },
                unusable=unusable,
                number=number,
                count=len(starts),
                cut=cut,
                **text.fields(sizes.text_length, before),
                **layout.fields(question, text, record.documents),
            )
        )
    return windows


def _answer(
    record: Record, context: TokenizedText
) -> tuple[tuple[int, int] | None, str | None]:
    """((first, last) piece of the first answer, why there is no label)."""
    if record.answers is None:
        return None, "no gold answer"
    if not record.answers:
        return None, None
    text, start = record.answers[0]
    if start is None:
        return None, "answer not at its place"
    span = context.covering(start, start + len(text))
    return span, None if span else "answer without a token"
