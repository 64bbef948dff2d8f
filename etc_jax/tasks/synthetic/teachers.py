"""WikiHop items about one relation: who is the teacher of somebody?

Four documents of one form say who taught a person and who is the person's rival. All
names are masks, `Mask<k>`, drawn anew for each item from a hundred, so that there is
nothing to remember. Only the person who is asked about has a name. A candidate is to be
chosen; a model that knows which words are mentions of which candidate learns this
in minutes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import wikihop
from etc_jax.tasks.synthetic.maker import Maker
from etc_jax.tasks.synthetic.wikihop import WikiHopSizes

_MASK = re.compile(r"___MASK(\d+)___")


@dataclasses.dataclass(frozen=True)
class TeachersSizes(WikiHopSizes):
    """How large an item is, and how hard; see `WikiHopSizes`."""

    contexts: int = 4
    facts: int = 2
    hops: tuple[int, int] = (1, 1)
    pronouns: float = 0.0
    wordings: int = 1
    kinds: tuple[str, ...] = ("person",)
    # If the rival is asked for too, small models give rival and teacher the same
    # probability for longer than such runs last.
    asks: tuple[str, ...] = ("teacher",)
    candidates: int = 4
    through_candidates: bool = True
    masked: bool = True


def records(
    count: int, *, seed: int, sizes: TeachersSizes | None = None, start: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields records `start .. start + count - 1` of an endless series."""
    sizes = sizes or TeachersSizes()
    for record in wikihop.records(count, seed=seed, sizes=sizes, start=start):
        yield {name: _one_word(value) for name, value in record.items()}


def _one_word(value: str | list[str]) -> str | list[str]:
    """A mask as one word, which takes fewer tokens."""
    if isinstance(value, list):
        return [_MASK.sub(r"Mask\1", text) for text in value]
    return _MASK.sub(r"Mask\1", value)


MAKER = registry.register("invented_items", "teachers")(
    Maker(records, TeachersSizes, data_set="wikihop", documents=wikihop.documents)
)
