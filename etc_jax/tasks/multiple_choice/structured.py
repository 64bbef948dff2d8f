"""Questions with options, as structured inputs: those of WikiHop, with one document.

    long:    options, question, article
    global:  one an option, one a token of the question, the article, its sentences

The options are the candidates, and the article the only document: see
`tasks.wikihop.inputs`. Sentences that do not fit are left out from the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.structured import StructuredSizes
from etc_jax.structure import MAX_GLOBALS
from etc_jax.tasks.multiple_choice.records import Record
from etc_jax.tasks.paragraphs import by_lines
from etc_jax.tasks.wikihop import inputs as wikihop_inputs, records as wikihop_records
from etc_jax.tasks.wikihop.inputs import WikihopOptions, WikihopWindow

SIZES = StructuredSizes(long_length=4096, global_length=430)
# An article may have as many sentences as there are global tokens.
_OPTIONS = WikihopOptions(max_sentences=MAX_GLOBALS)


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    split_fn: Callable[[str], Sequence[str]] | None = None,
    official_quirks: bool = False,
) -> list[WikihopWindow]:
    """The one window of a record; `labels` has `candidate`, as of `WikihopWindow`.

    Args:
      record: the question.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: an article to sentences; None: Punkt, of the nupunkt package, none
        across lines.
      official_quirks: not for questions with options.

    Raises:
      BadRecordError, ImportError, ValueError: as for `tasks.wikihop.inputs.features`;
        ValueError if quirks are asked for.
    """
    refuse_quirks("a question with options", official_quirks)
    as_query = _as_query(record)
    windows = wikihop_inputs.features(
        as_query, tokenizer, sizes, options=_OPTIONS, split_fn=split_fn or _sentences
    )
    return [dataclasses.replace(window, record=record) for window in windows]


def _as_query(record: Record) -> wikihop_records.Record:
    answer = None if record.label is None else record.options[record.label]
    return wikihop_records.Record(
        id=record.id,
        query=record.question,
        documents=(record.article,),
        candidates=record.options,
        answer=answer,
        label=record.label,
    )


def _sentences(article: str) -> list[str]:
    return split_sentences(by_lines(article))


def whole_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off."""
    return wikihop_inputs.whole_length(_as_query(record), tokenizer)
