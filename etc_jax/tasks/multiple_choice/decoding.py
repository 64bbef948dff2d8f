"""From scores of options to the number of one, to metrics, and for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.choices import Rated, mean_logits, pool
from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording, ranked
from etc_jax.scoring.answers import normalize, token_overlap
from etc_jax.tasks.multiple_choice.records import Record

# The prediction for a question that is no input: no option.
NO_OPTION = 0

WORDING = Wording(
    support="",
    candidates="{} options, the most probable first",
    legend="The number after an option is its probability.",
)


def option_of_text(text: str, options: Sequence[str]) -> int:
    """The number from 1 of the option that a written text means.

    One that is equal once both are normalised as SQuAD's answers are; else one that has
    most words in common, by F1; of equal ones the first; 0 if none has any.

    Args:
      text: that a model wrote.
      options: to choose from.
    """
    forms = [normalize(option) for option in options]
    if (form := normalize(text)) in forms:
        return forms.index(form) + 1
    shared = [token_overlap(text, option).f1 for option in options]
    return int(np.argmax(shared)) + 1 if any(shared) else NO_OPTION


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a record; None without a gold label."""
    if record.label is None:
        return None
    return {"id": record.id, "label": record.label + 1, "hard": record.is_hard}


def unread_gold(name: str) -> dict[str, Any]:
    """What scoring takes for a question that could not be read: no option is right."""
    return {"id": name, "label": None, "hard": False}


def pool_explained(seen: Sequence[tuple[Record, Rated]]) -> Explained:
    """The options by their mean scores, and the article.

    Args:
      seen: (record, its choices with logits) of all windows of a record.
    """
    record, of_windows = seen[0][0], [ratings for _, ratings in seen]
    number = pool(of_windows)
    right = None if record.label is None else record.options[record.label]
    options = ranked(record.options, softmax(mean_logits(of_windows)), {right})
    return Explained(
        record.id,
        record.question,
        record.options[number - 1],
        (ExplainedDocument.of_text(record.title or "Article", record.article),),
        options,
        reference=right,
        confidence=options[0].probability,
        prediction=number,
        wording=WORDING,
    )
