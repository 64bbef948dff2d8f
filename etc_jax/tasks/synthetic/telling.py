"""Documents that tell of an invented world."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence

from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.schema import Relation
from etc_jax.tasks.synthetic.worlds import Entity, Fact, World, WorldSizes


@dataclasses.dataclass(frozen=True)
class WorldSentence:
    """A sentence, and what it states, if anything."""

    text: str
    fact: Fact | None = None


@dataclasses.dataclass
class WorldDocument:
    """The sentences about an entity; the first sentence names it."""

    entity: Entity
    sentences: list[WorldSentence]

    def index_of(self, relation: Relation) -> int:
        """Which sentence states that relation of the entity."""
        stated = [s.fact.relation if s.fact else None for s in self.sentences]
        return stated.index(relation)


def write_documents(
    rng: random.Random, sizes: WorldSizes, world: World
) -> list[WorldDocument]:
    """A document for each documented entity, in a random order."""
    documents = [
        _document(rng, sizes, world, entity)
        for kind in world.documented
        for entity in world.documented[kind]
    ]
    rng.shuffle(documents)
    return documents


def _document(
    rng: random.Random, sizes: WorldSizes, world: World, entity: Entity
) -> WorldDocument:
    facts = [
        Fact(entity, relation, values[entity])
        for relation, values in world.facts.items()
        if relation.source == entity.kind
    ]
    rng.shuffle(facts)
    sentences = [WorldSentence(introduction(rng, entity))]
    sentences += [WorldSentence(_statement(rng, sizes, fact), fact) for fact in facts]
    return WorldDocument(entity, sentences)


def introduction(rng: random.Random, entity: Entity) -> str:
    """The first sentence of a document: a name and what kind of thing has it."""
    adjective = rng.choice(names.ADJECTIVES)
    article = "an" if adjective[0] in "aeiou" else "a"
    if entity.kind == "person":
        what = rng.choice(names.TRADES)
    elif entity.kind == "company":
        what = f"company that makes {rng.choice(names.GOODS)}"
    else:
        what = entity.kind
    return f"{entity.name} is {article} {adjective} {what}."


def _statement(rng: random.Random, sizes: WorldSizes, fact: Fact) -> str:
    template = wording(rng, sizes, fact.relation.statements)
    entity = fact.subject
    subject = entity.pronoun if rng.random() < sizes.pronouns else entity.name
    text = template.format(s=subject, o=fact.value_name)
    return text[0].upper() + text[1:]


def wording(rng: random.Random, sizes: WorldSizes, wordings: Sequence[str]) -> str:
    """One of the ways to say something that are in use."""
    return rng.choice(wordings[: sizes.wordings])


def question_along(
    rng: random.Random, sizes: WorldSizes, path: Sequence[Relation], start: Entity
) -> str:
    """A question for what a path leads to from an entity."""
    question = start.name
    for relation in path[:-1]:
        question = wording(rng, sizes, relation.phrases).format(question)
    return wording(rng, sizes, path[-1].questions).format(question)


def count_words(documents: Iterable[WorldDocument]) -> int:
    """Words of all sentences, by white space."""
    return sum(len(s.text.split()) for d in documents for s in d.sentences)


def pad(
    rng: random.Random,
    documents: Sequence[WorldDocument],
    world: World,
    words: int,
) -> None:
    """Adds sentences without facts, after the first, until there are so many words.

    Every other one names an entity of the world in passing.
    """
    mentioned = [entity for group in world.entities.values() for entity in group]
    left = words - count_words(documents)
    while left > 0:
        entity = rng.choice(mentioned) if rng.random() < 0.5 else None
        left -= add_filler(rng, rng.choice(documents), entity)


def set_apart(rng: random.Random, document: WorldDocument, words: int) -> None:
    """Adds sentences without a name after the first."""
    while words > 0:
        text = names.filler(rng)
        document.sentences.insert(1, WorldSentence(text))
        words -= len(text.split())


def add_filler(
    rng: random.Random, document: WorldDocument, entity: Entity | None
) -> int:
    """Adds a sentence without a fact after the first; returns its words."""
    text = names.filler(rng, entity.name if entity else "")
    index = rng.randint(1, len(document.sentences))
    document.sentences.insert(index, WorldSentence(text))
    return len(text.split())
