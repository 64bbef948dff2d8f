"""Questions with options, as structured inputs.

The options are the candidates, the question is the query, and the article the only
document: see `datasets.choice_inputs`. Sentences that do not fit are left out from the
end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets import choice_inputs
from etc_jax.datasets.choice_inputs import CandidateOptions, CandidatesWindow
from etc_jax.datasets.paragraphs import by_lines
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.structured import StructuredSizes
from etc_jax.structure import MAX_GLOBALS
from etc_jax.tasks.multiple_choice.records import COLUMNS, Record

SIZES = StructuredSizes(long_length=4096, global_length=430)
OPTIONS = COLUMNS
# An article may have as many sentences as there are global tokens.
_CANDIDATES = CandidateOptions(max_sentences=MAX_GLOBALS)


@without_quirks("a question with options")
def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: StructuredSizes = SIZES,
    *,
    split_fn: Callable[[str], Sequence[str]] | None = None,
) -> list[CandidatesWindow]:
    """The one window of a record; `labels` has `candidate`, as of `CandidatesWindow`.

    Args:
      record: the question.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input.
      split_fn: an article to sentences; None: Punkt, of the nupunkt package, none
        across lines.

    Raises:
      BadRecordError, ImportError, ValueError: as for `choice_inputs.features`.
    """
    as_query = _as_query(record)
    windows = choice_inputs.features(
        as_query, tokenizer, sizes, options=_CANDIDATES, split_fn=split_fn or _sentences
    )
    return [dataclasses.replace(window, record=record) for window in windows]


class _Query(NamedTuple):
    id: str
    query: str
    documents: tuple[str, ...]
    candidates: tuple[str, ...]
    label: int | None


def _as_query(record: Record) -> _Query:
    return _Query(
        record.id, record.question, (record.article,), record.options, record.label
    )


def _sentences(article: str) -> list[str]:
    return split_sentences(by_lines(article))


def record_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off."""
    return choice_inputs.record_length(_as_query(record), tokenizer)
