"""SQuAD's files: invented articles, each of which says some things of one name.

A question asks for one of them. Names are of common words, so that a small model need
not learn to spell; a paragraph of another article says the same things of another name,
so that a question must be matched with its paragraph.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import whole
from etc_jax.tasks.synthetic.backwards import WORDS
from etc_jax.tasks.synthetic.maker import Maker, series

# What is told, and what it may be: one word each, and none is a word of a name.
THINGS = {
    "job": "baker miller sailor mason painter potter tanner weaver cooper saddler",
    "food": "cheese honey plums soup cider pears salt beans rice butter",
    "pet": "cat goat hen duck mouse crow pony frog snail owl",
    "tool": "hammer saw needle rope spade brush knife ladder pump wheel",
    "drink": "tea milk wine beer cocoa juice coffee broth punch syrup",
    "game": "chess cards dice bowls darts tag golf polo tennis hockey",
}
_NAMES = tuple(
    word
    for word in WORDS
    if not any(word in values.split() for values in THINGS.values())
)


@dataclasses.dataclass(frozen=True)
class SquadSizes:
    """How long an article is, and how many there can be.

    Attributes:
      facts: things that are told of a name, each of which is asked for once.
      unanswerable: further questions, of things that are not told, as in SQuAD 2.0.
      things: that are told of some name.
      name_words: words of a name.
      name_pool: words that names are made of.
    """

    facts: int = 4
    unanswerable: int = 0
    things: int = len(THINGS)
    name_words: int = 2
    name_pool: int = len(_NAMES)

    def __post_init__(self):
        most = {"things": len(THINGS), "facts": self.things}
        most |= {"name_pool": len(_NAMES), "name_words": self.name_pool}
        for field, limit in most.items():
            whole(1, limit).check(**{field: getattr(self, field)})
        left = self.things - self.facts
        if not 0 <= self.unanswerable <= left:
            raise ValueError(
                f"unanswerable is {self.unanswerable}; expected 0 to {left}, things "
                f"that are not among the {self.facts} facts"
            )


def _article(number: int, seed: int, sizes: SquadSizes) -> dict[str, Any]:
    rng = random.Random(f"squad {seed} {number}")
    article = draw(rng, sizes)
    asked = [
        {
            "question": question_of(thing, article.name),
            "answers": [{"text": value, "answer_start": article.start_of(thing)}],
        }
        for thing, value in article.told.items()
    ]
    untold = sorted({*_things(sizes)} - {*article.told})
    asked += [
        {
            "question": question_of(thing, article.name),
            "answers": [],
            "is_impossible": True,
        }
        for thing in rng.sample(untold, sizes.unanswerable)
    ]
    asked = [{"id": f"squad-{seed}-{number}-{i}", **x} for i, x in enumerate(asked)]
    paragraph = {"context": article.text, "qas": asked}
    return {"title": article.name, "paragraphs": [paragraph]}


@dataclasses.dataclass(frozen=True)
class Article:
    """What is told of a name.

    Attributes:
      name: of common words.
      told: thing -> what it is, in the order of the text.
    """

    name: str
    told: dict[str, str]

    @property
    def text(self) -> str:
        """A sentence for each thing, all of them of one form."""
        return " ".join(self._statements.values())

    def start_of(self, thing: str) -> int:
        """The first character of what a thing is, in the text."""
        whole = self._statements[thing]
        return self.text.index(whole) + whole.index(f"{self.told[thing]} .")

    @property
    def _statements(self) -> dict[str, str]:
        return {
            thing: f"the {thing} of {self.name} is {value} ."
            for thing, value in self.told.items()
        }


def draw(rng: random.Random, sizes: SquadSizes) -> Article:
    """An article of some name."""
    name = " ".join(rng.sample(_NAMES[: sizes.name_pool], sizes.name_words))
    told = rng.sample(_things(sizes), sizes.facts)
    return Article(name, {thing: rng.choice(THINGS[thing].split()) for thing in told})


def question_of(thing: str, name: str) -> str:
    """It has one answer."""
    return f"what is the {thing} of {name} ?"


def _things(sizes: SquadSizes) -> list[str]:
    return sorted(THINGS)[: sizes.things]


records = series(_article, SquadSizes)

MAKER = registry.register("invented_items", "squad")(
    Maker(records, SquadSizes, around=('{"version": "1.1", "data": [', "]}"))
)
