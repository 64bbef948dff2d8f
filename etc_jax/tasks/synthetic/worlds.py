"""A world of invented entities, and ways in it that lead to answers."""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Mapping, Sequence

from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.schema import (
    BY_NAME,
    KINDS,
    PAIRS,
    YEAR,
    Relation,
    twin,
)

_YEARS = range(1400, 2000)
# Facts come in pairs of twins, and a document tells a pair of its kind once.
_FACTS = range(2, 2 * min(len(pairs) for pairs in PAIRS.values()) + 1, 2)
MOST_HOPS = 6
MOST_CONTEXTS = len(_YEARS) // 2  # each has two years of its own
# Values that an answer is one of, at least.
LEAST_ANSWERS = 5
# Numbers that a mask may have.
MASKS = 100
# With fewer, an entity may not find two others of its kind.
_LEAST_ENTITIES = 3


def words_of(path: str) -> tuple[str, ...]:
    """The words of a file, for a flag.

    Raises:
      ValueError: if it cannot be read, or holds none.
    """
    try:
        words = tuple(pathlib.Path(path).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as e:
        raise ValueError(f"cannot be read: {e}") from e
    if not words:
        raise ValueError(f"{path} holds no word")
    return words


@dataclasses.dataclass(frozen=True)
class WorldSizes:
    """How large an item is, and how hard.

    Attributes:
      contexts: documents, each of one entity.
      facts: facts that a document tells, in pairs of twins; more, if the question needs
        more pairs of one kind.
      words: sentences without facts are added until an item has so many words.
      hops: (fewest, most) steps from the entity that a question names to its answer.
      pronouns: share of sentences whose subject is "she" or "the town" and not named.
      wordings: ways to say the same that are used, of those that the schema has.
      kinds: of entities that have documents; fewer are fewer relations to know.
      asks: relations, of which a question that follows some asks for one in the end;
        (): any.
      names: words to name entities with, such as those that a vocabulary has whole;
        (): names are invented.
    """

    contexts: int = 10
    facts: int = 4
    words: int = 0
    hops: tuple[int, int] = (2, 2)
    pronouns: float = 0.5
    wordings: int = 4
    kinds: tuple[str, ...] = KINDS
    asks: tuple[str, ...] = ()
    names: tuple[str, ...] = dataclasses.field(
        default=(), metadata={"read": words_of, "metavar": "FILE"}
    )

    def __post_init__(self):
        fewest, most = self.hops
        # A chain has a document for each step, and for a decoy of each but the first.
        least = max(3, 2 * most - 1)
        problems = [
            f"{name} must be {wanted}, got {getattr(self, name)}"
            for name, right, wanted in (
                ("hops", 1 <= fewest <= most <= MOST_HOPS, f"1 to {MOST_HOPS}"),
                (
                    "contexts",
                    least <= self.contexts <= MOST_CONTEXTS,
                    f"{least} to {MOST_CONTEXTS}",
                ),
                ("facts", self.facts in _FACTS, f"one of {[*_FACTS]}"),
                ("words", self.words >= 0, "at least 0"),
                ("pronouns", 0 <= self.pronouns <= 1, "0 to 1"),
                ("wordings", self.wordings >= 1, "at least 1"),
                ("kinds", _is_selection(self.kinds), f"some of {', '.join(KINDS)}"),
                ("asks", {*self.asks} <= {*BY_NAME}, f"some of {', '.join(BY_NAME)}"),
                ("names", all(map(str.isalpha, self.names)), "single words of letters"),
            )
            if not right
        ]
        if problems:
            raise ValueError("; ".join(problems))


def _is_selection(kinds: Sequence[str]) -> bool:
    return bool(kinds) and set(kinds) <= set(KINDS) and len(set(kinds)) == len(kinds)


@dataclasses.dataclass(eq=False)
class Entity:
    """A person, company, town or region.

    Attributes:
      kind: one of `schema.KINDS`.
      name: no other name of its world contains it.
      pronoun: what a sentence may call it: "she", "the town".
    """

    kind: str
    name: str
    pronoun: str


@dataclasses.dataclass(frozen=True)
class Fact:
    """`relation` of `subject` is `value`, an entity or the digits of a year."""

    subject: Entity
    relation: Relation
    value: Entity | str

    @property
    def value_name(self) -> str:
        return self.value if isinstance(self.value, str) else self.value.name


@dataclasses.dataclass(frozen=True)
class World:
    """Entities, those that have documents, and all facts about the latter.

    Attributes:
      entities: by kind.
      documented: by kind; some of `entities`.
      facts: relation -> its value for each documented entity of the source's kind.
    """

    entities: Mapping[str, Sequence[Entity]]
    documented: Mapping[str, Sequence[Entity]]
    facts: Mapping[Relation, dict[Entity, Entity | str]]

    def swap(
        self, one: tuple[Relation, Entity], other: tuple[Relation, Entity]
    ) -> None:
        """Exchanges the values of two facts whose relations are twins or the same."""
        (r, e), (q, f) = one, other
        self.facts[r][e], self.facts[q][f] = self.facts[q][f], self.facts[r][e]

    def fits(self, relation: Relation, subject: Entity, value: Entity) -> bool:
        """Whether a value is neither the subject nor what the twin has there."""
        return value not in (subject, self.facts[twin(relation)][subject])


def make_world(
    rng: random.Random,
    sizes: WorldSizes,
    stated: Sequence[Relation],
    *,
    documents: Mapping[str, int],
    least: Mapping[str, int],
) -> World:
    """Draws entities and facts.

    Args:
      rng: where all draws come from.
      sizes: of the item.
      stated: relations that must be stated of all documented entities of their source,
        with their twins. Others are stated too, up to `sizes.facts`.
      documents: documents of each kind.
      least: how many entities of some kinds there are, if they have not more
        documents. Of other kinds there are about as many as are spoken of.
    """
    stated_pairs = {kind: _stated_pairs(rng, sizes, stated, kind) for kind in documents}
    pairs = [pair for kind in documents for pair in stated_pairs[kind]]
    counts = {kind: max(_LEAST_ENTITIES, n) for kind, n in documents.items()}
    for one, _ in pairs:
        if one.target != YEAR and one.target not in documents:
            least_countdocument = counts.get(one.target, LEAST_ANSWERS)
            counts[one.target] = max(least_countdocument, documents[one.source])
    counts |= {kind: max(n, documents.get(kind, 0)) for kind, n in least.items()}
    drawn = names.NameGenerator(rng, sizes.names)
    entities = {
        kind: [_entity(rng, drawn, kind) for _ in range(counts[kind])]
        for kind in KINDS
        if kind in counts
    }
    documented = {kind: entities[kind][:n] for kind, n in documents.items()}
    facts: dict[Relation, dict[Entity, Entity | str]] = {}
    years = rng.sample(_YEARS, 2 * sum(documents.values()))
    for pair in pairs:
        subjects = documented[pair[0].source]
        if pair[0].target == YEAR:
            dealt = _years_dealt(len(subjects), years)
        else:
            target = pair[0].target
            least_countdocument = documented.get(target, ())
            dealt = _values_dealt(rng, subjects, entities[target], least_countdocument)
        for relation, values in zip(pair, dealt, strict=True):
            facts[relation] = dict(zip(subjects, values, strict=True))
    return World(entities, documented, facts)


def world_with_chain(
    rng: random.Random,
    sizes: WorldSizes,
    path: Sequence[Relation],
    *,
    answers: int = 0,
) -> tuple[World, list[Entity | str]]:
    """A world, and a way along the path in it whose end is the answer to a question.

    Args:
      rng: where all draws come from.
      sizes: of the item.
      path: relations from the entity that is asked about to the answer.
      answers: how many entities of the answer's kind there are; 0: no matter.
    """
    kind = path[-1].target
    most = {kind: answers} if answers else {}
    least = {} if kind == YEAR else {kind: answers or LEAST_ANSWERS}
    while True:
        documents = spread(rng, sizes.contexts, documents_for(path), most, sizes.kinds)
        world = make_world(rng, sizes, path, documents=documents, least=least)
        if chain := _lay_chain(rng, world, path):
            return world, chain


def mask_names(rng: random.Random, world: World, *named: Entity | str) -> None:
    """Calls every entity `Mask<k>`, of two digits, but those that a question names.

    So there is no name to remember, and what a question names is in no vocabulary of
    frequent words.

    Args:
      rng: where draws come from.
      world: whose entities get other names, before documents tell of them.
      *named: those that keep theirs.

    Raises:
      ValueError: if there are more entities than masks.
    """
    every = [entity for group in world.entities.values() for entity in group]
    hidden = [entity for entity in every if entity not in named]
    if len(hidden) > MASKS:
        raise ValueError(
            f"an item has {len(hidden)} names to mask, and there are {MASKS} masks; "
            "lower contexts, or leave masked out"
        )
    numbers = rng.sample(range(MASKS), len(hidden))
    for entity, number in zip(hidden, numbers, strict=True):
        entity.name = f"Mask{number:02}"


def _lay_chain(
    rng: random.Random, world: World, path: Sequence[Relation]
) -> list[Entity | str] | None:
    """Start and values, step by step; facts are swapped where the way would end.

    It meets nothing twice, and what the twin of a step leads to, a decoy, has a
    document as well: there is a way on from both. None if no swap helps.
    """
    chain: list[Entity | str] = [rng.choice(world.documented[path[0].source])]
    for relation in path[:-1]:
        with_document = world.documented[relation.target]
        for step, open_to in (
            (relation, [e for e in with_document if e not in chain]),
            (twin(relation), with_document),
        ):
            if not _redirect(rng, world, (step, chain[-1]), open_to, chain):
                return None
        chain.append(world.facts[relation][chain[-1]])
    if path[-1].target != YEAR:
        new = [e for e in world.entities[path[-1].target] if e not in chain]
        if not _redirect(rng, world, (path[-1], chain[-1]), new, chain):
            return None
    return [*chain, world.facts[path[-1]][chain[-1]]]


def _redirect(
    rng: random.Random,
    world: World,
    fact: tuple[Relation, Entity],
    open_to: Sequence[Entity],
    fixed: Sequence[Entity | str],
) -> bool:
    """Whether a fact's value is one of `open_to`, after a swap if need be.

    Facts of `fixed`, but this one, stay as they are.
    """
    relation, subject = fact
    value = world.facts[relation][subject]
    if value in open_to:
        return True
    swaps = [
        (other, entity)
        for other in (relation, twin(relation))
        for entity, theirs in world.facts[other].items()
        if entity not in fixed
        and theirs in open_to
        and world.fits(relation, subject, theirs)
        and world.fits(other, entity, value)
    ]
    if not swaps:
        return False
    world.swap(fact, rng.choice(swaps))
    return True


def _stated_pairs(
    rng: random.Random, sizes: WorldSizes, stated: Sequence[Relation], kind: str
) -> list[tuple[Relation, Relation]]:
    needed = [pair for pair in PAIRS[kind] if set(pair) & set(stated)]
    others = [pair for pair in PAIRS[kind] if pair not in needed]
    return needed + rng.sample(others, max(0, sizes.facts // 2 - len(needed)))


def _entity(rng: random.Random, drawn: names.NameGenerator, kind: str) -> Entity:
    pronoun = rng.choice(("he", "she")) if kind == "person" else f"the {kind}"
    return Entity(kind, drawn.draw(kind), pronoun)


def _years_dealt(count: int, years: list[int]) -> tuple[list[str], list[str]]:
    """Takes years that nobody has yet, for both twins."""
    taken, years[:] = years[: 2 * count], years[2 * count :]
    digits = [str(year) for year in taken]
    return digits[:count], digits[count:]


def _values_dealt(
    rng: random.Random,
    subjects: Sequence[Entity],
    pool: Sequence[Entity],
    with_document: Sequence[Entity],
) -> tuple[list[Entity], list[Entity]]:
    """Values of both twins: none has its own subject, and no subject one value twice.

    Each of the pool is dealt as often as any other, as far as the numbers allow: how
    often a name comes up says nothing. If there is not enough for all, those who have
    documents, `with_document`, come first, so that there are ways on from them.
    """
    while True:
        deck = _deck(rng, subjects, pool, with_document)
        if deck is not None:
            return deck[: len(subjects)], deck[len(subjects) :]


def _deck(
    rng: random.Random,
    subjects: Sequence[Entity],
    pool: Sequence[Entity],
    with_document: Sequence[Entity],
) -> list[Entity] | None:
    """First values of all subjects, then second ones; None if swapping led nowhere."""
    count = len(subjects)
    if count == 1:
        # There is nobody to swap with.
        pool = [entity for entity in pool if entity not in subjects]
    first = [entity for entity in with_document if entity in pool]
    rest = [entity for entity in pool if entity not in first]
    deck = rng.sample(first, len(first)) + rng.sample(rest, len(rest))
    while len(deck) < 2 * count:
        deck += rng.sample(pool, len(pool))
    deck = deck[: 2 * count]
    rng.shuffle(deck)

    def is_wrong(slot: int) -> bool:
        return deck[slot] in (subjects[slot % count], deck[slot - count])

    for _ in range(20 * count + 1):
        wrong = [slot for slot in range(len(deck)) if is_wrong(slot)]
        if not wrong:
            return deck
        slot, other = rng.choice(wrong), rng.randrange(len(deck))
        deck[slot], deck[other] = deck[other], deck[slot]
    return None


def spread(
    rng: random.Random,
    total: int,
    least: Mapping[str, int],
    most: Mapping[str, int],
    kinds: Sequence[str],
) -> dict[str, int]:
    """`total` documents over kinds, as even as bounds allow.

    Of `kinds`, those that have no least number get documents only where the others are
    full.
    """
    counts = {kind: min(n, most.get(kind, n)) for kind, n in least.items()}
    for _ in range(total - sum(counts.values())):
        open_kinds = [k for k, n in counts.items() if n < most.get(k, total)]
        if not open_kinds:
            open_kinds = [k for k in kinds if k not in counts]
        low = min(counts.get(k, 0) for k in open_kinds)
        kind = rng.choice([k for k in open_kinds if counts.get(k, 0) == low])
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def documents_for(path: Sequence[Relation]) -> dict[str, int]:
    """Fewest documents of each kind: those of the chain, and of a decoy for each."""
    least: dict[str, int] = {}
    for step, relation in enumerate(path):
        least[relation.source] = least.get(relation.source, 0) + (2 if step else 1)
    return least
