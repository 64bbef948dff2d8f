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
    things, names = sorted(THINGS)[: sizes.things], _NAMES[: sizes.name_pool]
    rng = random.Random(f"squad {seed} {number}")
    name = " ".join(rng.sample(names, sizes.name_words))
    told = rng.sample(things, sizes.facts)
    context, asked = "", []

    def ask(thing: str, **fields: Any) -> None:
        question = f"what is the {thing} of {name} ?"
        key = f"squad-{seed}-{number}-{len(asked)}"
        asked.append({"id": key, "question": question, **fields})

    for thing in told:
        value = rng.choice(THINGS[thing].split())
        before = f"the {thing} of {name} is "
        ask(thing, answers=[{"text": value, "answer_start": len(context + before)}])
        context += f"{before}{value} . "
    for thing in rng.sample(sorted({*things} - {*told}), sizes.unanswerable):
        ask(thing, answers=[], is_impossible=True)
    paragraph = {"context": context.rstrip(), "qas": asked}
    return {"title": name, "paragraphs": [paragraph]}


records = series(_article, SquadSizes)

MAKER = registry.register("invented_items", "squad")(
    Maker(records, SquadSizes, around=('{"version": "1.1", "data": [', "]}"))
)
