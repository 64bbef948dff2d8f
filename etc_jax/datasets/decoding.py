"""What decoding of all data sets shares: checks of outputs, gold outputs, softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.data.windows.window import Window

# The logit of a label in gold outputs; that of anything else is 0 or -SURE.
SURE = 20.0

ReadFn = Callable[..., Sequence[Any]]


def of_one_setting(read: ReadFn) -> Callable[..., list[list[Any]]]:
    """`FeatureConverter.decode` of a data set whose decoding has nothing to choose.

    Args:
      read: (outputs, windows) -> the prediction of each window; it may take options.
    """

    def decode(
        outputs: Any,
        windows: Sequence[Window],
        settings: Sequence[None] = (None,),
        **options: Any,
    ) -> list[list[Any]]:
        predictions = read(outputs, windows, **options)
        return [[prediction] * len(settings) for prediction in predictions]

    return decode


def with_records(read: ReadFn) -> Callable[..., list[tuple[Any, Any]]]:
    """`FeatureConverter.explain` of a data set that explains what it has pooled.

    `pool_explained` is given (record, what `read` makes of the window) of each window.

    Args:
      read: as for `of_one_setting`.
    """

    def explain(
        outputs: Any, windows: Sequence[Window], setting: None = None, **options: Any
    ) -> list[tuple[Any, Any]]:
        del setting  # there is nothing to choose
        predictions = read(outputs, windows, **options)
        return [(w.record, p) for w, p in zip(windows, predictions, strict=True)]

    return explain


def check_outputs(
    arrays: Mapping[str, np.ndarray],
    windows: Sequence[Window],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Checks that there is a row of finite logits for each window.

    Args:
      arrays: logits `[windows, ...]` by name; "" where there is only one array.
      windows: that they should be of, in order.
      shapes: of one row of each array.

    Raises:
      ValueError: if an array has another shape, or holds NaN or infinity.
    """
    for name, row in shapes.items() if windows else ():
        what = f"{name} logits".strip()
        got, expected = tuple(np.shape(arrays[name])), (len(windows), *row)
        if got != expected:
            raise ValueError(
                f"{what} have shape {got}, expected {expected}: give the outputs of "
                "these windows, in their order"
            )
        for window, logits in zip(windows, arrays[name], strict=True):
            if not np.isfinite(logits).all():
                raise ValueError(
                    f"{what} of {window.record.id!r} hold NaN or infinity; expected "
                    "numbers"
                )


def require_gold(windows: Sequence[Window], gold: Callable[[Any], Any]) -> None:
    """Checks that gold outputs can be made of some windows.

    Args:
      windows: of records.
      gold: record -> its gold answer, or None.

    Raises:
      ValueError: if a record has no gold answer.
    """
    for window in windows:
        if gold(window.record) is None:
            raise ValueError(
                f"{window.record.id!r} has no gold answer; give records of a training "
                "or development file"
            )


def one_hot(windows: Sequence[Window], label: str, number: int) -> np.ndarray:
    """Logits `[b, number]` that are sure of a label of each window.

    Args:
      windows: with labels.
      label: its name; int32 `[]`.
      number: of classes.
    """
    labels = np.array([window.labels[label] for window in windows]).reshape(-1, 1)
    return SURE * (np.arange(number) == labels)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over all entries of logits `[...]`: float64 of that shape."""
    # The largest exponent is 0: nothing overflows.
    odds = np.exp(np.float64(logits) - np.max(logits))
    return odds / np.sum(odds)
