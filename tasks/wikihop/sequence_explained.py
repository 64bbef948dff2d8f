"""What a WikiHop answer was chosen from, by all windows of its record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.explained import Explained
from tasks.wikihop.explained import explained
from tasks.wikihop.records import Record
from tasks.wikihop.sequence_decoding import candidate_logits, pooled
from tasks.wikihop.sequence_inputs import WikihopSequence


def explain(
    logits: np.ndarray, windows: Sequence[WikihopSequence], setting: None = None
) -> list[tuple[Record, np.ndarray]]:
    """What `pool_explained` needs of each window: record, logits of its candidates.

    Raises:
      ValueError: if the logits are not of these windows.
    """
    del setting
    rows = candidate_logits(logits, windows)
    return [(w.record, row) for w, row in zip(windows, rows, strict=True)]


def pool_explained(seen: Sequence[tuple[Record, np.ndarray]]) -> Explained:
    """The candidates by their mean logits, and the documents with mentions of the best.

    Args:
      seen: of all windows of a record, as `explain` gives it.
    """
    return explained(seen[0][0], pooled([row for _, row in seen]))
