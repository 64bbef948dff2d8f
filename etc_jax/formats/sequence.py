"""Windows of models that read one sequence, some of whose tokens may be global."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from etc_jax import structure as st
from etc_jax.data.window_fields import Placed
from etc_jax.formats import structured as multihop
from etc_jax.formats.structured import Sizes, Window
from etc_jax.types import Rows

GLOBAL_INDEX = "global_index"
GLOBAL_PLACES = {GLOBAL_INDEX: Placed("window", -1)}


@dataclasses.dataclass(frozen=True)
class SequenceWindow(Window):
    """A sequence as the long tokens; `tokens.global_` has length 0.

    Attributes:
      extra: what the model takes besides: `global_index` int32
        `[sizes.global_length]`, places of the global tokens, ascending, then -1.
    """

    extra: dict[str, Any]

    axes: ClassVar = GLOBAL_PLACES


def parts_of(
    sizes: Sizes,
    ids: Sequence[int],
    global_places: Sequence[int],
    types: np.ndarray | None = None,
) -> dict[str, Any]:
    """Tokens, types, structure and `extra` of a window.

    Args:
      sizes: tokens of the sequence, and places for those of them that are global.
      ids: of the sequence, at most `sizes.long_length`.
      global_places: of the tokens that are global, ascending.
      types: int32 `[sizes.long_length]`; None: 0.
    """
    n, none = sizes.long_length, np.zeros(0, np.int32)
    return {
        "tokens": Rows(filled(n, 0, ids), none),
        "types": Rows(np.zeros(n, np.int32) if types is None else types, none),
        "structure": st.Structure(
            long_example_ids=filled(n, 0, [1] * len(ids)),
            global_example_ids=none,
            links=np.zeros((n, 0), st.LINK_DTYPE),
        ),
        "extra": {GLOBAL_INDEX: filled(sizes.global_length, -1, global_places)},
    }


def refuse_quirks(what: str, official_quirks: bool) -> None:
    """Refuses quirks of an official code where there is none.

    Args:
      what: the inputs are of.
      official_quirks: whether they are asked for.

    Raises:
      ValueError: if they are.
    """
    if official_quirks:
        raise ValueError(
            f"{what} has no official inputs to follow: leave official_quirks out"
        )


def filled(
    shape: int | tuple[int, ...], fill: int, values: Sequence, start: int = 0
) -> np.ndarray:
    """int32, some values from a place on."""
    made = np.full(shape, fill, np.int32)
    made[start : start + len(values)] = values
    return made


def model_inputs(windows: Sequence[SequenceWindow]) -> dict[str, Any]:
    """What a model takes of some windows; see `multihop.model_inputs`.

    Returns:
      Also what windows have in `extra`, with a first axis for them.

    Raises:
      ValueError: if there is no window.
    """
    inputs = multihop.model_inputs(windows)
    extra = {
        name: np.stack([window.extra[name] for window in windows])
        for name in windows[0].extra
    }
    return {**inputs, **extra}
