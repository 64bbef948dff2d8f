"""How near the passages of a record are to its query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
)
from etc_jax.tasks.retrieval.decoding import Vectors, check_vectors
from etc_jax.tasks.retrieval.inputs import RetrievalWindow

WORDING = Wording(
    question="Query",
    answer="Nearest passage",
    support="",
    legend="The number is the cosine of a passage and the query. The nearest one is "
    "of the record's own; metrics rank those of all records.",
)


def explain(
    outputs: Vectors, windows: Sequence[RetrievalWindow], setting: None = None
) -> list[Explained]:
    """For each window its passages with their scores, the nearest one as the answer.

    Raises:
      ValueError: if the vectors are not of these windows, or not finite.
    """
    del setting
    check_vectors(outputs, windows)
    explanations = []
    for window, query, passage, negatives in zip(windows, *outputs, strict=True):
        record = window.record
        texts, vectors = [*record.negatives[: len(negatives)]], [*negatives]
        if record.passage is not None:
            texts, vectors = [record.passage, *texts], [passage, *vectors]
        scores = [float(np.dot(query, vector)) for vector in vectors[: len(texts)]]
        best = int(np.argmax(scores)) if scores else -1
        documents = tuple(
            ExplainedDocument(
                Passage(f"Passage {i + 1}"),
                (
                    Passage(
                        text,
                        score=score,
                        is_support=i == best,
                        is_gold=None if record.passage is None else i == 0,
                    ),
                ),
                paragraphs=True,
            )
            for i, (text, score) in enumerate(zip(texts, scores, strict=True))
        )
        explanations.append(
            Explained(
                record.id,
                record.query,
                texts[best] if scores else "",
                documents,
                score=scores[best] if scores else None,
                reference=record.passage,
                wording=WORDING,
            )
        )
    return explanations
