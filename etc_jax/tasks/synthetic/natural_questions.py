"""Natural-Questions-like items: a question, an article, what annotators answered.

The records have the fields of the original release. An article tells of an invented
world, an entity a block: a paragraph, a table or a list. A question asks for what a
relation, or several, leads to; whether two entities share something; or who an entity
is, which has a long answer alone. Where there is no answer, the article tells of
everything but the fact that is asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
from collections.abc import Sequence
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import at_least
from etc_jax.tasks.synthetic import names, paths, telling, worlds
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.schema import PAIRS, YEAR
from etc_jax.tasks.synthetic.telling import WorldDocument, WorldSentence
from etc_jax.tasks.synthetic.worlds import Entity, World, WorldSizes

# (first, one past the last) word.
Span = tuple[int, int]

ABOUT = ("Who or what is {}?", "What is known of {}?", "What is told of {}?")
# How blocks are written: around the block, and around each sentence.
BLOCKS = {"P": (), "Table": ("Tr", "Td"), "Ul": ("Li",)}

_TOKEN = re.compile(r"\w+|[^\w\s]")
_NO_SPAN = (-1, -1)


@dataclasses.dataclass(frozen=True)
class NaturalQuestionsSizes(WorldSizes):
    """How large an item is, and how hard.

    Attributes:
      hops: as for all; most real questions are of one.
      nulls: share of questions without an answer.
      yes_no: share of those whose answer is yes or no.
      long_only: share of those with a long answer alone.
      annotators: how many there are: 1 as in training files, 5 as in development
        files, where some of them miss an answer that at least two give, and one may
        see an answer where there is none.
      apart: words that tell nothing between a document's first sentence, which always
        names its entity, and its facts.
      blocks: how documents are written: P, Table, Ul.
      masked: all names but those in the question are `Mask<k>`, k changing with the
        item.
    """

    hops: tuple[int, int] = (1, 2)
    nulls: float = 0.25
    yes_no: float = 0.1
    long_only: float = 0.1
    annotators: int = 1
    apart: int = 0
    blocks: tuple[str, ...] = tuple(BLOCKS)
    masked: bool = False

    def __post_init__(self):
        super().__post_init__()
        shares = (self.nulls, self.yes_no, self.long_only)
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(
                "nulls, yes_no and long_only must be at least 0 and 1 at most in all, "
                f"got {shares}"
            )
        at_least(1).check(annotators=self.annotators)
        at_least(0).check(apart=self.apart)
        if not self.blocks or not {*self.blocks} <= {*BLOCKS}:
            raise ValueError(
                f"blocks must be some of {', '.join(BLOCKS)}, got {self.blocks}"
            )


@dataclasses.dataclass(frozen=True)
class _Item:
    """A question over blocks of documents, and what answers it.

    Attributes:
      question: its text.
      blocks: documents that stand together, in order.
      about: the entity whose block is the long answer; None for no answer.
      sentence: the one that holds the short answer; None without one.
      value: how the short answer is spelled.
      yes_no: "YES", "NO" or "NONE".
    """

    question: str
    blocks: Sequence[Sequence[WorldDocument]]
    about: Entity | None = None
    sentence: WorldSentence | None = None
    value: str = ""
    yes_no: str = "NONE"


def _record(number: int, seed: int, sizes: NaturalQuestionsSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    name = f"natural questions {seed} {number}"
    rng = random.Random(name)
    item = _item(rng, sizes)
    page = _Page(rng, sizes.blocks)
    for block in item.blocks:
        page.add(block)
    long = short = None
    if item.about is not None:
        long = page.block_of[item.about]
    if item.sentence is not None:
        short = page.find(item.sentence, item.value)
    digest = hashlib.sha256(name.encode()).digest()
    # As in the release, a number of 64 bits with a sign.
    return page.record(int.from_bytes(digest[:8], signed=True)) | {
        "question_text": item.question,
        "question_tokens": _TOKEN.findall(item.question),
        "annotations": [
            page.annotation(i, *answers)
            for i, answers in enumerate(
                _drawn_annotations(rng, sizes, page, long, short, item.yes_no)
            )
        ],
    }


records = series(_record, NaturalQuestionsSizes)


def documents(record: dict[str, Any]) -> list[str]:
    """The words of each block that is a candidate at the top level, without tags."""
    tokens = record["document_tokens"]
    blocks = [
        tokens[candidate["start_token"] : candidate["end_token"]]
        for candidate in record["long_answer_candidates"]
        if candidate["top_level"]
    ]
    return [
        " ".join(x["token"] for x in block if not x["html_token"]) for block in blocks
    ]


# --- questions ------------------------------------------------------------------------


def _item(rng: random.Random, sizes: NaturalQuestionsSizes) -> _Item:
    draw = rng.random()
    if draw < sizes.yes_no:
        return _yes_or_no(rng, sizes)
    if draw < sizes.yes_no + sizes.long_only:
        return _about(rng, sizes)
    return _value(rng, sizes, is_null=draw >= 1 - sizes.nulls)


def _value(rng: random.Random, sizes: NaturalQuestionsSizes, *, is_null: bool) -> _Item:
    """What some steps lead to; without an answer, the last step is not stated."""
    path = paths.random_path(rng, sizes, end_in_year=True)
    world, chain = worlds.world_with_chain(rng, sizes, path)
    if sizes.masked:
        worlds.mask_names(rng, world, chain[0])
    question = telling.question_along(rng, sizes, path, chain[0])
    documents = telling.write_documents(rng, sizes, world)
    source = next(d for d in documents if d.entity is chain[-2])
    sentence = source.sentences[source.index_of(path[-1])]
    if is_null:
        source.sentences.remove(sentence)
    blocks = _padded(rng, sizes, world, documents)
    if is_null:
        return _Item(question, blocks)
    return _Item(question, blocks, source.entity, sentence, sentence.fact.value_name)


def _about(rng: random.Random, sizes: NaturalQuestionsSizes) -> _Item:
    path = paths.random_path(rng, sizes, end_in_year=True)
    world, chain = worlds.world_with_chain(rng, sizes, path)
    if sizes.masked:
        worlds.mask_names(rng, world, chain[0])
    documents = telling.write_documents(rng, sizes, world)
    question = telling.wording(rng, sizes, ABOUT).format(chain[0].name)
    return _Item(question, _padded(rng, sizes, world, documents), chain[0])


def _yes_or_no(rng: random.Random, sizes: NaturalQuestionsSizes) -> _Item:
    """Whether two entities of one block share a value; they do, of this or its twin."""
    kind = rng.choice(sizes.kinds)
    pair = rng.choice([p for p in PAIRS[kind] if p[0].target != YEAR])
    asked, other = rng.sample(pair, 2)
    is_yes = rng.random() < 0.5
    shared = asked if is_yes else other
    while True:
        least = {pair[0].target: worlds.LEAST_ANSWERS}
        counts = worlds.spread(rng, sizes.contexts, {kind: 2}, {}, sizes.kinds)
        world = worlds.make_world(rng, sizes, pair, documents=counts, least=least)
        x, y = rng.sample(world.documented[kind], 2)
        world.facts[shared][y] = world.facts[shared][x]
        values = {world.facts[r][e] for r in pair for e in (x, y)}
        # Three: the shared one, and those that they do not share.
        if len(values) == 3 and world.facts[shared][y] is not y:
            break
    if sizes.masked:
        worlds.mask_names(rng, world, x, y)
    documents = telling.write_documents(rng, sizes, world)
    question = asked.same.format(x=x.name, y=y.name)
    blocks = _padded(rng, sizes, world, documents, together=(x, y))
    return _Item(question, blocks, x, yes_no="YES" if is_yes else "NO")


def _padded(
    rng: random.Random,
    sizes: NaturalQuestionsSizes,
    world: World,
    documents: list[WorldDocument],
    together: Sequence[Entity] = (),
) -> list[list[WorldDocument]]:
    """A block a document, but one for those of `together`, at the first one's place."""
    for document in documents:
        telling.set_apart(rng, document, sizes.apart)
    telling.pad(rng, documents, world, sizes.words)
    joined = [d for d in documents if d.entity in together]
    blocks = []
    for document in documents:
        if document not in joined:
            blocks.append([document])
        elif document is joined[0]:
            blocks.append(joined)
    return blocks


def _drawn_annotations(
    rng: random.Random,
    sizes: NaturalQuestionsSizes,
    page: _Page,
    long: Span | None,
    short: Span | None,
    yes_no: str,
) -> list[tuple[Span | None, Span | None, str]]:
    """(long answer, short answer, yes or no) of each annotator."""
    count = sizes.annotators
    if count == 1:
        return [(long, short, yes_no)]
    nothing = (None, None, "NONE")
    if long is None:
        annotations = [nothing] * count
        if rng.random() < 0.5:
            annotations[0] = (rng.choice(list(page.block_of.values())), None, "NONE")
    else:
        agreed = rng.randint(2, count)
        annotations = [(long, short, yes_no)] * agreed + [nothing] * (count - agreed)
    return rng.sample(annotations, count)


# --- pages ----------------------------------------------------------------------------


class _Page:
    """An article that grows block by block."""

    def __init__(self, rng: random.Random, kinds: Sequence[str]):
        self._rng = rng
        self._kinds = sorted(kinds)
        self._words: list[str] = []
        self._bytes: list[Span] = []
        self._candidates: list[tuple[Span, bool]] = []
        self._sentence_spans: list[tuple[WorldSentence, Span]] = []
        self.block_of: dict[Entity, Span] = {}
        self._say("<H1>", "Almanac", "</H1>")

    def _say(self, *words: str) -> Span:
        first = len(self._words)
        for word in words:
            start = self._bytes[-1][1] + 1 if self._bytes else 0  # after a space
            self._bytes.append((start, start + len(word.encode())))
            self._words.append(word)
        return first, len(self._words)

    def add(self, documents: Sequence[WorldDocument]) -> None:
        """A block of documents, sometimes under a heading, which is no candidate."""
        if self._rng.random() < 0.3:
            self._say("<H2>", self._rng.choice(names.GOODS), "</H2>")
        kind = self._rng.choice(self._kinds)
        start, _ = self._say(f"<{kind}>")
        number = len(self._candidates)
        for document in documents:
            for sentence in document.sentences:
                self._add_sentence(sentence, BLOCKS[kind])
        _, stop = self._say(f"</{kind}>")
        self._candidates.insert(number, ((start, stop), True))
        self.block_of |= {d.entity: (start, stop) for d in documents}

    def _add_sentence(self, sentence: WorldSentence, tags: Sequence[str]) -> None:
        start, _ = self._say(*(f"<{tag}>" for tag in tags))
        self._sentence_spans.append(
            (sentence, self._say(*_TOKEN.findall(sentence.text)))
        )
        _, stop = self._say(*(f"</{tag}>" for tag in reversed(tags)))
        if tags:
            self._candidates.append(((start, stop), False))

    def find(self, sentence: WorldSentence, value: str) -> Span:
        """Where a value stands in a sentence; names are in no other name."""
        start, stop = next(span for s, span in self._sentence_spans if s is sentence)
        wanted = _TOKEN.findall(value)
        last = stop - len(wanted)
        return next(
            (i, i + len(wanted))
            for i in range(start, last + 1)
            if self._words[i : i + len(wanted)] == wanted
        )

    def record(self, name: int) -> dict[str, Any]:
        """All fields but those of question and annotations."""
        return {
            "example_id": name,
            "document_title": "Almanac",
            "document_url": "",
            "document_html": " ".join(self._words),
            "document_tokens": [
                {
                    "token": word,
                    "start_byte": start,
                    "end_byte": stop,
                    "html_token": word.startswith("<"),
                }
                for word, (start, stop) in zip(self._words, self._bytes, strict=True)
            ],
            "long_answer_candidates": [
                self._offsets(span) | {"top_level": top}
                for span, top in self._candidates
            ],
        }

    def annotation(
        self, number: int, long: Span | None, short: Span | None, yes_no: str
    ) -> dict[str, Any]:
        """The answer of an annotator, in the official form."""
        index = -1
        if long is not None:
            index = self._candidates.index((long, True))
        return {
            "annotation_id": number,
            "long_answer": self._offsets(long) | {"candidate_index": index},
            "short_answers": [self._offsets(short)] if short else [],
            "yes_no_answer": yes_no,
        }

    def _offsets(self, span: Span | None) -> dict[str, int]:
        words = in_bytes = _NO_SPAN
        if span is not None:
            words = span
            in_bytes = self._bytes[span[0]][0], self._bytes[span[1] - 1][1]
        return {
            "start_byte": in_bytes[0],
            "end_byte": in_bytes[1],
            "start_token": words[0],
            "end_token": words[1],
        }


MAKER = registry.register("invented_items", "natural_questions")(
    Maker(records, NaturalQuestionsSizes, lines=True, documents=documents)
)
