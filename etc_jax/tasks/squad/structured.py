"""Questions about a paragraph as structured inputs (as ETC paper, section 3.4).

Windows and labels are those of `inputs`; tokens, types and structure those of one
document, see `datasets.span_inputs`.
"""

from __future__ import annotations

import dataclasses

from etc_jax.data.text.sentences import SplitFn
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.span_inputs import LEAST, structured_fields
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import StructuredSizes, StructuredWindow
from etc_jax.tasks.squad.inputs import OPTIONS, ContextParts, SpanOptions, SpanWindow
from etc_jax.tasks.squad.records import Record

SIZES = StructuredSizes(long_length=512, global_length=128)


@dataclasses.dataclass(frozen=True)
class StructuredSquad(SpanWindow, StructuredWindow):
    """A question with a part of its context as long and global tokens."""


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    options: SpanOptions = OPTIONS,
    split_fn: SplitFn | None = None,
    official_quirks: bool = False,
) -> list[StructuredSquad]:
    """The windows of a record, in order.

    White space is read as one space wherever there is some. Sentences do not cross
    lines; those without room for a global token share that of the one before.

    Args:
      record: question and context.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      options: see there.
      split_fn: paragraphs to sentences; None: Punkt, of the nupunkt package.
      official_quirks: not for this task.

    Raises:
      BadRecordError: if the context has no token.
      ImportError: if nupunkt is needed and not installed.
      ValueError: if the sizes do not go with the options, the tokenizer lacks a special
        token, or quirks are asked for.
    """
    refuse_quirks("squad", official_quirks)
    options.check_room(sizes, 1)
    least = 1 + options.question_tokens + LEAST
    if sizes.global_length < least:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected {least} at least for a "
            f"question of {options.question_tokens} tokens and the context; raise it, "
            "or lower question_tokens"
        )
    parts = ContextParts(record, tokenizer, options)
    before = 1 + len(parts.question)
    arguments = record.documents, tokenizer, sizes, split_fn
    return [
        StructuredSquad(**fields, **structured_fields(parts.question, text, *arguments))
        for text, fields in parts.windows(sizes, before, sizes.long_length - before)
    ]
