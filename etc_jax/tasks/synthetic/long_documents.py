"""Long documents that tell few things: a question about one, or a summary of all.

    etc-jax synthetic --task=long_documents --ask=question --count=1000 --words=8000 \\
        --out=train.jsonl

A document tells of some trades what each sells. These sentences stand at random places
among others about nothing, so that a model which reads the first part of a document
knows that part of the answers, and no more. Records are those of data set text_to_text.
The same documents are the items of data sets with files of their own, such as
gov_report and qasper.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from etc_jax.base import registry, rules
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.maker import Maker, series

STATEMENTS = (
    "The {trade} sells {goods}.",
    "At the market the {trade} offers {goods}.",
    "From the {trade} one buys {goods}.",
)
# Things and trades that are told of are all different.
_MOST_FACTS = min(len(names.GOODS), len(names.TRADES))
_PARAGRAPH_SENTENCES = 6


@dataclasses.dataclass(frozen=True)
class DocumentSizes:
    """How long a document is, and what it tells.

    Attributes:
      words: sentences about nothing are added until a document has so many.
      facts: trades that it tells of.
      after: words before the first place where a fact may stand; 0: facts stand
        anywhere.
      wordings: ways to state a fact that are used.
      trades: those that documents tell of.
      own_goods: a trade sells some goods that no other sells, so that an answer is
        found by what it is; without, by the trade that stands near it.
      summary_by: a summary has its sentences in the order of the document ("place"), or
        in one order of all trades ("trade"), which a model can know that does not see
        which of two distant sentences comes first.
    """

    words: int = 2000
    facts: int = 4
    after: int = 0
    wordings: int = len(STATEMENTS)
    trades: int = len(names.TRADES)
    own_goods: bool = False
    summary_by: Literal["place", "trade"] = "place"

    def __post_init__(self):
        rules.refuse(
            problem
            for rule, names_ in (
                (rules.whole(0), ("words", "after")),
                (rules.whole(1, _MOST_FACTS), ("facts",)),
                (rules.whole(1, len(STATEMENTS)), ("wordings",)),
                (rules.whole(1, len(names.TRADES)), ("trades",)),
                (rules.choice(("place", "trade")), ("summary_by",)),
                (rules.flag(), ("own_goods",)),
            )
            for problem in rule.problems(self, *names_)
        )
        if self.facts > self.trades:
            raise ValueError(
                f"facts is {self.facts}; expected at most trades, {self.trades}"
            )
        if self.own_goods and self.trades > len(names.GOODS):
            raise ValueError(
                f"trades is {self.trades}; expected at most {len(names.GOODS)}, the "
                "goods that there are, for own_goods"
            )
        if self.after and self.after >= self.words:
            raise ValueError(
                f"after is {self.after}; expected less than words, {self.words}"
            )


class Fact(NamedTuple):
    """What somebody sells.

    Attributes:
      trade: of who sells it.
      goods: what it is.
      statement: the sentence of the document that says so.
    """

    trade: str
    goods: str
    statement: str

    @property
    def question(self) -> str:
        """It has one answer, `goods`."""
        return f"What does the {self.trade} sell?"

    @property
    def summary(self) -> str:
        """The sentence of a summary, of one wording."""
        return STATEMENTS[0].format(trade=self.trade, goods=self.goods)


class LongDocument(NamedTuple):
    """A document.

    Attributes:
      id: of the document.
      sentences: those that state a fact and those about nothing, in order.
      facts: in the order in which they are stated.
      summed_up: the same in the order of `DocumentSizes.summary_by`.
    """

    id: str
    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]
    summed_up: tuple[Fact, ...]

    @property
    def text(self) -> str:
        """Paragraphs, with an empty line between them."""
        return "\n\n".join(self.paragraphs)

    @property
    def paragraphs(self) -> list[str]:
        starts = range(0, len(self.sentences), _PARAGRAPH_SENTENCES)
        return [" ".join(self.sentences[i : i + _PARAGRAPH_SENTENCES]) for i in starts]

    def sections(self, count: int) -> list[list[str]]:
        """The paragraphs, in so many parts; see `in_parts`."""
        return in_parts(self.paragraphs, count)

    @property
    def summary(self) -> list[str]:
        """A sentence for each fact."""
        return [fact.summary for fact in self.summed_up]


def in_parts(texts: Sequence[str], count: int) -> list[list[str]]:
    """Texts in `count` parts that follow one another.

    All but the last that have any have equally many.
    """
    size = -(-len(texts) // count)
    return [list(texts[i * size : (i + 1) * size]) for i in range(count)]


def document(rng: random.Random, name: str, sizes: DocumentSizes) -> LongDocument:
    """Draws a document.

    Facts stand between any two sentences with the same chance, whatever the others do,
    if so many words stand before as `sizes.after` says.

    Args:
      rng: where all draws come from.
      name: id of the document.
      sizes: of the document.
    """
    every = names.TRADES[: sizes.trades]
    trades = rng.sample(every, sizes.facts)
    if sizes.own_goods:
        of_trade = {x: names.GOODS[i :: sizes.trades] for i, x in enumerate(every)}
        goods = [rng.choice(of_trade[trade]) for trade in trades]
    else:
        goods = rng.sample(names.GOODS, sizes.facts)
    wordings = rng.choices(STATEMENTS[: sizes.wordings], k=sizes.facts)
    facts = [
        Fact(trade, thing, wording.format(trade=trade, goods=thing))
        for trade, thing, wording in zip(trades, goods, wordings, strict=True)
    ]
    words = sum(len(fact.statement.split()) for fact in facts)
    before = _sentences_about_nothing(rng, sizes.after)
    others = _sentences_about_nothing(rng, sizes.words - sizes.after - words)
    gaps = sorted(rng.randint(0, len(others)) for _ in facts)
    sentences, start = before, 0
    for gap, fact in zip(gaps, facts, strict=True):
        sentences += [*others[start:gap], fact.statement]
        start = gap
    summed_up = facts
    if sizes.summary_by == "trade":
        summed_up = sorted(facts, key=lambda fact: names.TRADES.index(fact.trade))
    told = (*sentences, *others[start:])
    return LongDocument(name, told, tuple(facts), tuple(summed_up))


def _sentences_about_nothing(rng: random.Random, words: int) -> list[str]:
    """Sentences of so many words together, or a few more."""
    sentences: list[str] = []
    while words > 0:
        sentences.append(names.filler(rng))
        words -= len(sentences[-1].split())
    return sentences


def documents(
    layout: Callable[[random.Random, LongDocument], Any],
    sizes_class: type[DocumentSizes],
    name: str,
) -> Callable[..., Iterator[Any]]:
    """`Maker.records` of a data set whose records are made of such documents.

    Args:
      layout: (source of draws, document) -> record in the form of the data set.
      sizes_class: of the sizes, where none are given.
      name: of the data set, with which ids begin.
    """

    def make(number: int, seed: int, sizes: DocumentSizes) -> Any:
        # Text seeds are hashed whole, so that neighbours have nothing in common.
        rng = random.Random(f"{name} {seed} {number}")
        return layout(rng, document(rng, f"{name}-{seed}-{number}", sizes))

    make.__module__ = layout.__module__
    return series(make, sizes_class)


# --- records of text to text ----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class AskedSizes(DocumentSizes):
    """How long a document is, what it tells, and what is to be written.

    Attributes:
      ask: summary, a sentence for each fact; or question, which stands in `prefix`, of
        one of the facts.
    """

    ask: Literal["summary", "question"] = "summary"


def _record(number: int, seed: int, sizes: AskedSizes) -> dict[str, Any]:
    rng = random.Random(f"long_documents {seed} {number}")
    drawn = document(rng, f"long-{seed}-{number}", sizes)
    if sizes.ask == "summary":
        return {"id": drawn.id, "input": drawn.text, "target": " ".join(drawn.summary)}
    fact = rng.choice(drawn.facts)
    return {
        "id": drawn.id,
        "prefix": fact.question,
        "input": drawn.text,
        "target": fact.goods,
    }


records = series(_record, AskedSizes)


MAKER = registry.register("invented_items", "long_documents")(
    Maker(records, AskedSizes, lines=True, data_set="text_to_text")
)
