"""Where the question ends in a sequence of a question and a text."""

import numpy as np


def before_separator(
    tokens: np.ndarray, separator: int, *, separators: int | None = None
) -> np.ndarray:
    """The tokens before the first separator, which Longformer makes global.

    Args:
      tokens: int `[..., n]`.
      separator: the token between parts.
      separators: how many of it each row must have, 3 in RoBERTa's form: `<s> question
        </s></s> text </s>`; None: 1 or more.

    Returns:
      bool `[..., n]`.

    Raises:
      ValueError: if a row has another number of separators.
    """
    is_separator = np.asarray(tokens) == separator
    counts = is_separator.sum(axis=-1).ravel()
    wrong = counts < 1 if separators is None else counts != separators
    if wrong.any():
        row = int(wrong.argmax())
        wanted = "1 or more" if separators is None else separators
        raise ValueError(
            f"row {row} has the separator {separator} {counts[row]} times, expected "
            f"{wanted}; join question and text as the tokenizer of the model does"
        )
    return np.cumsum(is_separator, axis=-1) == 0
