"""HotpotQA-like items: questions over several documents, with supporting facts.

The records have the fields of the official release in its distractor setting. A bridge
question names one entity and asks for what is found some steps away from it; a
comparison names two and asks which was first or later, or whether they share something.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Sequence
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import paths, telling, worlds
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.schema import KINDS, PAIRS, YEAR, Relation
from etc_jax.tasks.synthetic.telling import WorldDocument
from etc_jax.tasks.synthetic.worlds import Entity, World, WorldSizes

LEVELS = {1: "easy", 2: "medium"}  # steps of a question; more are "hard"
_WHICH = {kind: f"Which {kind}" for kind in KINDS} | {"person": "Who"}
_ORDERS = {"first": min, "earlier": min, "later": max}


@dataclasses.dataclass(frozen=True)
class HotpotQaSizes(WorldSizes):
    """How large an item is, and how hard.

    Attributes:
      comparisons: share of comparisons among questions, half of them yes/no questions.
      masked: all names but those in the question are `Mask<k>`, k changing with the
        item.
    """

    comparisons: float = 0.2
    masked: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.comparisons <= 1:
            raise ValueError(f"comparisons must be 0 to 1, got {self.comparisons}")


@dataclasses.dataclass(frozen=True)
class _Item:
    """A question, and the facts that answer it, as (entity, relation)."""

    question: str
    answer: str
    kind: str
    level: str
    documents: Sequence[WorldDocument]
    support: Sequence[tuple[Entity, Relation]]


def _record(number: int, seed: int, sizes: HotpotQaSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    name = f"hotpotqa {seed} {number}"
    rng = random.Random(name)
    if rng.random() >= sizes.comparisons:
        item = _bridge(rng, sizes)
    elif rng.random() < 0.5:
        item = _which_first(rng, sizes)
    else:
        item = _yes_or_no(rng, sizes)
    by_entity = {document.entity: document for document in item.documents}
    support = [
        [entity.name, by_entity[entity].index_of(relation)]
        for entity, relation in item.support
    ]
    return {
        "_id": hashlib.sha256(name.encode()).hexdigest()[:24],
        "question": item.question,
        "answer": item.answer,
        "type": item.kind,
        "level": item.level,
        "supporting_facts": support,
        "context": [_context(document) for document in item.documents],
    }


records = series(_record, HotpotQaSizes)


def documents(record: dict[str, Any]) -> list[str]:
    """The texts of a record's documents, without their titles."""
    return ["".join(sentences) for _, sentences in record["context"]]


def _context(document: WorldDocument) -> list:
    """Title and sentences; as in the release, all but the first begin with a space."""
    texts = [sentence.text for sentence in document.sentences]
    return [document.entity.name, texts[:1] + [f" {text}" for text in texts[1:]]]


def _written(
    rng: random.Random, sizes: WorldSizes, world: World
) -> list[WorldDocument]:
    documents = telling.write_documents(rng, sizes, world)
    telling.pad(rng, documents, world, sizes.words)
    return documents


def _bridge(rng: random.Random, sizes: HotpotQaSizes) -> _Item:
    path = paths.random_path(rng, sizes, end_in_year=True)
    world, chain = worlds.world_with_chain(rng, sizes, path)
    if sizes.masked:
        worlds.mask_names(rng, world, chain[0])
    question = telling.question_along(rng, sizes, path, chain[0])
    answer = chain[-1] if isinstance(chain[-1], str) else chain[-1].name
    return _Item(
        question,
        answer,
        "bridge",
        LEVELS.get(len(path), "hard"),
        _written(rng, sizes, world),
        list(zip(chain[:-1], path, strict=True)),
    )


def _world_of_pair(
    rng: random.Random, sizes: WorldSizes, pair: tuple[Relation, Relation]
) -> tuple[World, Entity, Entity]:
    """A world where half of the documents are of the pair's source, and two of them."""
    kind, target = pair[0].source, pair[0].target
    half = max(2, sizes.contexts // 2)
    if others := [k for k in sizes.kinds if k != kind]:
        others = dict.fromkeys(rng.sample(others, min(2, len(others))), 0)
        documents = {kind: half} | others
        documents = worlds.spread(
            rng, sizes.contexts, documents, {kind: half}, sizes.kinds
        )
    else:
        documents = {kind: sizes.contexts}
    least = {} if target == YEAR else {target: worlds.LEAST_ANSWERS}
    world = worlds.make_world(rng, sizes, pair, documents=documents, least=least)
    return world, *rng.sample(world.documented[kind], 2)


def _which_first(rng: random.Random, sizes: HotpotQaSizes) -> _Item:
    kind = rng.choice(sizes.kinds)
    (pair,) = (pair for pair in PAIRS[kind] if pair[0].target == YEAR)
    world, x, y = _world_of_pair(rng, sizes, pair)
    if sizes.masked:
        worlds.mask_names(rng, world, x, y)
    asked = rng.choice(pair)
    order = rng.choice(sorted(_ORDERS))
    frames = (
        "{which} {event} {order}, {x} or {y}?",
        "Of {x} and {y}, {low} {event} {order}?",
    )
    question = telling.wording(rng, sizes, frames).format(
        which=_WHICH[kind],
        low=_WHICH[kind].lower(),
        event=asked.event,
        order=order,
        x=x.name,
        y=y.name,
    )
    answer = _ORDERS[order](x, y, key=lambda entity: int(world.facts[asked][entity]))
    return _Item(
        question,
        answer.name,
        "comparison",
        LEVELS[2],
        _written(rng, sizes, world),
        [(x, asked), (y, asked)],
    )


def _yes_or_no(rng: random.Random, sizes: HotpotQaSizes) -> _Item:
    """Whether two entities share a value. They share one: of the relation or its twin.

    So the names in the two documents say nothing of the answer.
    """
    kind = rng.choice(sizes.kinds)
    pair = rng.choice([p for p in PAIRS[kind] if p[0].target != YEAR])
    asked, other = rng.sample(pair, 2)
    is_yes = rng.random() < 0.5
    shared = asked if is_yes else other
    while True:
        world, x, y = _world_of_pair(rng, sizes, pair)
        world.facts[shared][y] = world.facts[shared][x]
        values = {world.facts[r][e] for r in pair for e in (x, y)}
        # Three: the shared one, and those that they do not share.
        if len(values) == 3 and world.facts[shared][y] is not y:
            break
    if sizes.masked:
        worlds.mask_names(rng, world, x, y)
    question = asked.same.format(x=x.name, y=y.name)
    answer = "yes" if is_yes else "no"
    return _Item(
        question,
        answer,
        "comparison",
        LEVELS[2],
        _written(rng, sizes, world),
        [(x, asked), (y, asked)],
    )


MAKER = registry.register("invented_items", "hotpotqa")(
    Maker(records, HotpotQaSizes, documents=documents)
)
