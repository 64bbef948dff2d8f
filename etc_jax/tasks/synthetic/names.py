"""Invented names, and sentences that tell nothing of anybody's relations."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from etc_jax.tasks.synthetic import schema

_ONSETS = "b br d dr f fl g gr h k kl l m n p r s st t tr v w z".split()
_VOWELS = "a a e e i i o o u u ai ea ou".split()
_CODAS = "l l m n n nd r r rk s st t".split()
_COMPANY_WORDS = "Brothers Company Forge Mills Works Yard".split()

TRADES = (
    "weaver miller baker glassblower clockmaker sailor mason carpenter painter "
    "gardener printer tanner potter surveyor apothecary bookbinder cooper saddler"
).split()
GOODS = (
    "ropes bells barrels clocks carpets candles lenses paper sails knives boots "
    "pianos wagons nets mirrors"
).split()
ADJECTIVES = (
    "quiet busy old small proud remote pretty windy famous humble lively grey"
).split()

_SLOTS = {
    "season": "spring summer autumn winter".split(),
    "people": (
        "travellers children merchants fishermen farmers students soldiers pilgrims "
        "neighbours strangers musicians shepherds"
    ).split(),
    "thing": (
        "bridge orchard library fountain tower garden chapel barn archive meadow "
        "gallery lantern staircase courtyard"
    ).split(),
    "food": "bread cheese honey plums soup cider mushrooms pears salt fish".split(),
    "weather": "rain fog snow wind frost sunshine thunder mist".split(),
    "adjective": ADJECTIVES,
    "number": "two three four five six seven nine twelve twenty forty".split(),
}
_FILLER = (
    "In {season} there is more {weather} than anybody would like.",
    "The {people} still tell a story about the {adjective} {thing}.",
    "A {adjective} {thing} was painted there by {people} one {season}.",
    "Most {people} come in {season} to see the {thing} and to eat {food}.",
    "The price of {food} rose and fell with the {weather}.",
    "Nobody remembers why the {thing} has {number} doors.",
    "There were {number} {people} at the feast, and hardly any {food}.",
    "On {adjective} days the {people} sit near the {thing} and talk of {weather}.",
    "The {thing} was repaired after a night of {weather}.",
    "It took {number} {people} a whole {season} to carry the stones for the {thing}.",
    "A song about {food} and {weather} is sung by {people}.",
    "Visitors are shown {number} rooms and a {adjective} {thing}.",
    "Some {people} say that the {thing} is haunted when there is {weather}.",
    "Every {season} the {thing} is hung with {number} lamps.",
)
_MENTIONS = (
    "A {adjective} picture of {m} hangs in the {thing}.",
    "In {season} a letter that spoke of {m} was found under the {thing}.",
    "The {people} like to compare everything with {m}.",
    "A book about {m} was read aloud by {people}.",
    "There is a joke about {m}, {food} and {number} {people}.",
    "One {season} the {people} could talk of nothing but {m}.",
    "A {adjective} song names {m} and the {weather}.",
    "The {thing} was shown on a map together with {m}.",
)

_WORD = re.compile(r"[a-z]+")


def _template_words() -> frozenset[str]:
    """All words of the templates, none of which may be a name."""
    texts = [*_FILLER, *_MENTIONS, *TRADES, *GOODS, *ADJECTIVES, *_COMPANY_WORDS]
    texts += [word for words in _SLOTS.values() for word in words]
    for r in schema.RELATIONS:
        texts += [*r.statements, *r.phrases, *r.questions, r.same, r.event]
    return frozenset(_WORD.findall(" ".join(texts).lower()))


_TAKEN = _template_words()


class NameGenerator:
    """Draws names none of which contains another, nor a word that templates use.

    Args:
      rng: where draws come from.
      stems: words to make names of; (): they are invented.
    """

    def __init__(self, rng: random.Random, stems: Sequence[str] = ()):
        self._rng = rng
        self._stems: list[str] = []
        self._left = rng.sample(stems, len(stems))
        self._invents = not stems

    def draw(self, kind: str) -> str:
        """A new name for an entity of that kind.

        Raises:
          ValueError: if the given stems are used up.
        """
        if kind == "person":
            return f"{self._stem()} {self._stem()}"
        if kind == "company":
            return f"{self._stem()} {self._rng.choice(_COMPANY_WORDS)}"
        return self._stem()

    def _stem(self) -> str:
        while True:
            stem = self._invented() if self._invents else self._next_name()
            if stem not in _TAKEN and not any(
                stem in other or other in stem for other in self._stems
            ):
                self._stems.append(stem)
                return stem.capitalize()

    def _invented(self) -> str:
        choice = self._rng.choice
        syllables = choice((2, 2, 3))
        stem = "".join(choice(_ONSETS) + choice(_VOWELS) for _ in range(syllables))
        return stem + choice(_CODAS)

    def _next_name(self) -> str:
        if not self._left:
            raise ValueError(
                f"an item needs more names than the given ones make; "
                f"{len(self._stems)} of them fit together. Give more, or ask for "
                "fewer contexts"
            )
        return self._left.pop().lower()


def filler(rng: random.Random, mention: str = "") -> str:
    """A sentence that states no relation; with a name, one that names it in passing."""
    slots = {name: rng.choice(words) for name, words in _SLOTS.items()}
    template = rng.choice(_MENTIONS if mention else _FILLER)
    return template.format(m=mention, **slots)
