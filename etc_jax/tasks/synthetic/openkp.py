"""OpenKP-like pages: a DOM with looks, of which some phrases are keyphrases.

The records have the fields of the official files. Every phrase is said as often as the
others, and has one element to itself. Those of keyphrases are large, and stand high up
in the middle column; those of the others lack one or two of these three. So the
words, their number and their order say nothing, and no look does by itself.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import at_least, refuse
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.names import NameGenerator

_MARK = re.compile(r"([.,?!])")
_KINDS = ("person", "company", "town")
_LEADS = ("{}", "{}", "About {}", "{} and more", "All of {}")

# Pixels: of places (low, high), and of fonts.
_MIDDLE, _SIDE = (100, 300), (1050, 1250)
_TOP, _FOOT = (0, 700), (3500, 5500)
_LARGE, _SMALL = (26, 48), (9, 14)


@dataclasses.dataclass(frozen=True)
class OpenkpSizes:
    """How large a page is, and how hard.

    Attributes:
      keyphrases: fewest and most of a page, up to 3.
      others: phrases that are none.
      mentions: how often the text says each phrase, beside its own element.
      words: pages are filled up to so many.
    """

    keyphrases: tuple[int, int] = (1, 3)
    others: int = 5
    mentions: int = 2
    words: int = 200

    def __post_init__(self):
        low, high = self.keyphrases
        if not 1 <= low <= high <= 3:
            raise ValueError(
                f"keyphrases must be a range within 1 to 3, got {self.keyphrases}"
            )
        refuse(at_least(0).problems(self, "others", "mentions", "words"))


@dataclasses.dataclass(frozen=True)
class ElementLook:
    """What an element looks like.

    Attributes:
      is_large: whether its font is.
      is_top: whether it is high up on the page.
      is_middle: whether it is in the middle column.
    """

    is_large: bool
    is_top: bool
    is_middle: bool


KEYPHRASE = ElementLook(True, True, True)
_OTHERS = [
    ElementLook(large, top, middle)
    for large in (True, False)
    for top in (True, False)
    for middle in (True, False)
    if 0 < large + top + middle < 3
]
_BODY = [ElementLook(False, top, True) for top in (True, False)]


def _page(number: int, seed: int, sizes: OpenkpSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    rng = random.Random(f"openkp {seed} {number}")
    wanted = rng.randint(*sizes.keyphrases)
    naming = NameGenerator(rng)
    phrases = [naming.draw(rng.choice(_KINDS)) for _ in range(wanted + sizes.others)]
    elements = [
        (
            rng.choice(_LEADS).format(phrase),
            KEYPHRASE if i < wanted else rng.choice(_OTHERS),
        )
        for i, phrase in enumerate(phrases)
    ]
    elements += [
        (names.filler(rng, phrase), rng.choice(_BODY))
        for phrase in phrases
        for _ in range(sizes.mentions)
    ]
    words = sum(len(_spaced(text).split(" ")) for text, _ in elements)
    while words < sizes.words:
        elements.append((names.filler(rng), rng.choice(_BODY)))
        words += len(_spaced(elements[-1][0]).split(" "))
    rng.shuffle(elements)
    keyphrases = rng.sample(phrases[:wanted], wanted)
    return {
        "url": f"http://example.org/synthetic/{seed}/{number}",
        "text": " ".join(_spaced(text) for text, _ in elements),
        "VDOM": json.dumps(_vdom(rng, elements)),
        "KeyPhrases": [phrase.split(" ") for phrase in keyphrases],
    }


records = series(_page, OpenkpSizes)


def documents(record: dict[str, Any]) -> list[str]:
    """The text of the page."""
    return [record["text"]]


def _spaced(text: str) -> str:
    """Marks as words of their own, as in the official files."""
    return " ".join(_MARK.sub(r" \1 ", text).split())


def _vdom(rng: random.Random, elements: list[tuple[str, ElementLook]]) -> list[dict]:
    nodes, start = [], 0
    for number, (text, look) in enumerate(elements):
        text = _spaced(text)
        end = start + len(text.split(" "))
        nodes.append(
            {
                "Id": number,
                "text": text,
                "feature": _feature(rng, look),
                "start_idx": start,
                "end_idx": end,
            }
        )
        start = end
    return nodes


def _feature(rng: random.Random, look: ElementLook) -> list[float]:
    """An element's ten features and its parent's, a box around the column."""
    column = _MIDDLE if look.is_middle else _SIDE
    font = rng.randint(*(_LARGE if look.is_large else _SMALL))
    x, y = rng.randint(*column), rng.randint(*(_TOP if look.is_top else _FOOT))
    width = rng.randint(150, 700 if look.is_middle else 250)
    is_inline = rng.random() < 0.2
    element = [x, width, y, 2 * font, not is_inline, is_inline]
    element += [look.is_large, True, font, look.is_large and rng.random() < 0.5]
    parent = [column[0] - 50, 900 if look.is_middle else 400, 0, 6000]
    parent += [True, False, False, False, 14, False]
    return [float(value) for value in element + parent]


MAKER = registry.register("invented_items", "openkp")(
    Maker(records, OpenkpSizes, lines=True, documents=documents)
)
