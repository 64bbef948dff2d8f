"""Ids that a model's token table has no rows for.

A tokenizer may have more ids than a model has rows: bart-large-cnn was trained without
`<mask>`, and words may be added to a tokenizer alone. Such a model reads all texts but
those that have one of these ids. On a device an id beyond the table would silently read
another row, so ids are checked where texts become them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from etc_jax.data.tokenizers.base import Tokenizer


def check_rows(
    ids: Iterable[int] | np.ndarray, rows: int, tokenizer: Tokenizer, what: str
) -> None:
    """Refuses ids that a model has no rows for.

    Args:
      ids: int `[...]`, of a text.
      rows: of the model's token table.
      tokenizer: that made the ids.
      what: has the ids, for the error.

    Raises:
      ValueError: naming the token without a row that has the largest id.
    """
    largest = int(np.max(np.asarray(ids), initial=0))
    if largest < rows:
        return
    [piece] = tokenizer.pieces([largest])
    raise ValueError(
        f"{what} has {piece!r}, id {largest} of the tokenizer, but the model has rows "
        f"for ids 0 to {rows - 1} alone: it was trained without that token; leave it "
        "out of the text, or add rows to the model with etc-jax grow"
    )
