"""Questions with options in QuALITY's form: what does somebody sell?

An article tells of some trades what each sells. The wrong options of a question of the
hard subset (`difficult`) are sold by others in the article; those of the other
questions are not mentioned, so that finding the option in the article is enough.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.long_documents import STATEMENTS
from etc_jax.tasks.synthetic.maker import Maker, series


@dataclasses.dataclass(frozen=True)
class ChoiceSizes:
    """How large an item is, and how hard.

    Attributes:
      facts: trades that an article tells of.
      options: of a question.
      questions: about an article.
      hard: share of questions of the hard subset.
      words: sentences without facts are added until an article has so many words.
    """

    facts: int = 4
    options: int = 4
    questions: int = 2
    hard: float = 0.5
    words: int = 0

    def __post_init__(self):
        goods = len(names.GOODS)
        for name, right, wanted in (
            ("options", 2 <= self.options, "2 or more"),
            (
                "facts",
                self.options <= self.facts <= min(goods, len(names.TRADES))
                and self.facts + self.options <= goods + 1,
                f"options or more, and {goods + 1} with them at most",
            ),
            ("questions", 1 <= self.questions <= self.facts, "1 to facts"),
            ("hard", 0 <= self.hard <= 1, "0 to 1"),
            ("words", self.words >= 0, "at least 0"),
        ):
            if not right:
                raise ValueError(f"{name} must be {wanted}, got {getattr(self, name)}")


def _article(number: int, seed: int, sizes: ChoiceSizes) -> dict[str, Any]:
    rng = random.Random(f"multiple_choice {seed} {number}")
    trades = rng.sample(names.TRADES, sizes.facts)
    goods = rng.sample(names.GOODS, len(names.GOODS))
    sold, others = goods[: sizes.facts], goods[sizes.facts :]
    sentences = [
        rng.choice(STATEMENTS).format(trade=trade, goods=thing)
        for trade, thing in zip(trades, sold, strict=True)
    ]
    while sum(len(sentence.split()) for sentence in sentences) < sizes.words:
        sentences.insert(rng.randint(0, len(sentences)), names.filler(rng))
    name = f"choice-{seed}-{number}"
    questions = []
    for index, asked in enumerate(rng.sample(range(sizes.facts), sizes.questions)):
        is_hard = rng.random() < sizes.hard
        pool = [x for x in sold if x != sold[asked]] if is_hard else others
        options = [sold[asked], *rng.sample(pool, sizes.options - 1)]
        rng.shuffle(options)
        questions.append(
            {
                "question": f"What does the {trades[asked]} sell?",
                "question_unique_id": f"{name}_{index + 1}",
                "options": options,
                "gold_label": options.index(sold[asked]) + 1,
                "difficult": int(is_hard),
            }
        )
    return {
        "article_id": name,
        "set_unique_id": name,
        "title": f"The market, day {number + 1}",
        "article": " ".join(sentences),
        "questions": questions,
    }


records = series(_article, ChoiceSizes)


MAKER = registry.register("invented_items", "multiple_choice")(
    Maker(records, ChoiceSizes, lines=True)
)
