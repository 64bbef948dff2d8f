"""Pairs of texts: some words, and the same words from the last to the first.

Nothing is to be known, and each word of the target depends on another place of the
input: a small encoder-decoder learns it in minutes.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic.maker import Maker, series

# Common words of one form each.
WORDS = tuple(
    "apple arm bird black boat bread chair cloud coat cold corn dark door dog "
    "fire fish flat four garden glass gold grass green hand hat high hill horse "
    "house iron king lake leaf long map milk moon morning narrow night north "
    "paper queen rain red ring river road salt sea seven ship six snow song "
    "stone street summer sun table three town tree two wall warm water white "
    "wide wind window winter wood yellow young".split()
)


@dataclasses.dataclass(frozen=True)
class BackwardsSizes:
    """How long an input is.

    Attributes:
      length: (fewest, most) words of an input.
    """

    length: tuple[int, int] = (3, 8)

    def __post_init__(self):
        low, high = self.length
        if not 1 <= low <= high:
            raise ValueError(f"length is {low} to {high}; expected 1 <= fewest <= most")


def _record(number: int, seed: int, sizes: BackwardsSizes) -> dict[str, Any]:
    rng = random.Random(f"backwards {seed} {number}")
    words = rng.choices(WORDS, k=rng.randint(*sizes.length))
    return {
        "id": f"backwards-{seed}-{number}",
        "input": " ".join(words),
        "target": " ".join(reversed(words)),
    }


records = series(_record, BackwardsSizes)


MAKER = registry.register("invented_items", "backwards")(
    Maker(records, BackwardsSizes, lines=True, data_set="text_to_text")
)
