"""SQuAD as text: a model writes the answer.

Inputs are T5's, `question: ... context: ...` (Raffel et al. 2020, appendix D), and the
first answer is learnt; of a question without one, an empty text.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from etc_jax.datasets.explained import ExplainedDocument, Wording
from etc_jax.datasets.pairs import Pair, PairOptions
from etc_jax.datasets.text_converter import LEGEND, make_text_converter
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.squad.records import Record, SquadOptions

# T5 reads 512 tokens; answers have some words.
SIZES = TextToTextSizes(input_length=512, target_length=64)


@dataclasses.dataclass(frozen=True)
class SquadTextOptions(SquadOptions, PairOptions):
    """Columns, and how texts become tokens."""

    given_to: ClassVar[tuple[str, ...]] = (
        *SquadOptions.given_to,
        *PairOptions.given_to,
    )


def pair_of(record: Record) -> Pair:
    """What is read of a record, and what is to be written."""
    target = None
    if record.answers is not None:
        target = record.answers[0].text if record.answers else ""
    question = f"question: {record.question}"
    return Pair(record.id, f"context: {record.context}", target, question)


def _shown(record: Record) -> tuple[str, ExplainedDocument]:
    return record.question, ExplainedDocument.of_text(record.title, record.context)


TEXT = make_text_converter(
    "squad",
    sizes=SIZES,
    options=SquadTextOptions(),
    pair_of=pair_of,
    shown=_shown,
    wording=Wording(support="", legend=LEGEND, side_by_side=True),
)
