"""SQuAD's files: questions of short texts, every second of which has no answer.

    etc-jax synthetic --task=squad_pieces --count=32000 --out=short.json

For models that are to read long texts in pieces later: does a piece have the answer,
and what is it? Two of four texts are an article of `squad`, that of the question or of
another name. Two are some words in a row out of several articles, which begin and end
anywhere, as the windows of a long text do. `nothing` stands at the end of each text,
and is the answer where there is no other.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import at_least
from etc_jax.tasks.synthetic import squad
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.squad import Article, SquadSizes

NOTHING = "nothing"


@dataclasses.dataclass(frozen=True)
class PieceSizes(SquadSizes):
    """How long a text is, and how many there can be.

    Attributes:
      articles: out of which some words in a row are taken.
      piece_words: words that are taken.
    """

    # Both things are told of each name, so that the things do not tell the article.
    facts: int = 2
    things: int = 2
    name_words: int = 1
    name_pool: int = 24
    articles: int = 3
    piece_words: int = 18

    def __post_init__(self):
        super().__post_init__()
        if self.unanswerable:
            raise ValueError(
                f"unanswerable is {self.unanswerable}; expected 0: every second text "
                "has no answer already"
            )
        at_least(2).check(articles=self.articles)
        names = math.perm(self.name_pool, self.name_words)
        if names < self.articles:
            raise ValueError(
                f"{self.articles} articles need as many names; name_pool = "
                f"{self.name_pool} words make {names} of name_words = "
                f"{self.name_words}; raise name_pool"
            )
        # "the THING of NAME is VALUE ."
        sentence = 6 + self.name_words
        # Of more than half the words there may be no piece without the answer.
        most = self.articles * self.facts * sentence // 2
        if not sentence <= self.piece_words <= most:
            raise ValueError(
                f"piece_words is {self.piece_words}; expected {sentence} to {most}: a "
                f"sentence, and half of {self.articles} articles"
            )


def _article(number: int, seed: int, sizes: PieceSizes) -> dict[str, Any]:
    rng = random.Random(f"squad_pieces {seed} {number}")
    article = squad.draw(rng, sizes)
    thing = rng.choice(list(article.told))
    answer = article.told[thing]
    others: list[Article] = []
    while len(others) < sizes.articles - 1:
        other = squad.draw(rng, sizes)
        if other.name not in (article.name, *(x.name for x in others)):
            if answer not in other.told.values():
                others.append(other)
    is_answered = number % 2 == 0
    if number % 4 < 2:
        text = (article if is_answered else others[0]).text
    else:
        text = _piece(rng, article, thing, others, sizes, is_answered=is_answered)
    context = f"{text} {NOTHING}"
    told = answer if is_answered else NOTHING
    words = context.split()
    # One word alone is the answer; a space stands after each.
    start = sum(len(word) + 1 for word in words[: words.index(told)])
    asked = {
        "id": f"squad_pieces-{seed}-{number}",
        "question": squad.question_of(thing, article.name),
        "answers": [{"text": told, "answer_start": start}],
    }
    paragraph = {"context": context, "qas": [asked]}
    return {"title": article.name, "paragraphs": [paragraph]}


def _piece(
    rng: random.Random,
    article: Article,
    thing: str,
    others: list[Article],
    sizes: PieceSizes,
    *,
    is_answered: bool,
) -> str:
    """Words in a row: with the answer and its name, or with one of them at most."""
    texts = [x.text for x in rng.sample([article, *others], sizes.articles)]
    words = " ".join(texts).split()
    last = words.index(article.told[thing])
    first = last - 1 - sizes.name_words  # "NAME is VALUE"
    starts = [
        start
        for start in range(len(words) - sizes.piece_words + 1)
        if (start <= first and last < start + sizes.piece_words) == is_answered
    ]
    start = rng.choice(starts)
    return " ".join(words[start : start + sizes.piece_words])


records = series(_article, PieceSizes)

MAKER = registry.register("invented_items", "squad_pieces")(
    Maker(
        records,
        PieceSizes,
        around=squad.MAKER.around,
        data_set="squad",
    )
)
