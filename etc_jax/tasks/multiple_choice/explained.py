"""The options of a question with their probabilities, and the article."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.datasets.choices import Rated, mean_logits, pool
from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Wording,
    ranked,
)
from etc_jax.tasks.multiple_choice.records import Record

WORDING = Wording(
    support="",
    candidates="{} options, the most probable first",
    legend="The number after an option is its probability.",
)


def pool_explained(seen: Sequence[tuple[Record, Rated]]) -> Explained:
    """The options by their mean scores, and the article.

    Args:
      seen: of all windows of a record, as `choices.explain` gives it.
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
