"""Invented stories with their coreference, in CoNLL-2012's columns.

    etc-jax synthetic --task=coreference --count=500 --seed=0 --split=train --out=coref

The file is called as in that release: `train.english.v4_gold_conll`.
A few persons and things come up again and again: by name, first name or trade, by noun,
and by pronoun. A pronoun always means the one of its kind (she, he, it) that was
mentioned last, and "her lantern" holds a mention of its owner, so that a reader who
keeps track of who was mentioned can say what each mention means.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from collections.abc import Iterable, Iterator

from etc_jax.base import registry
from etc_jax.base.whole_files import whole
from etc_jax.tasks.coreference.records import Record, Span
from etc_jax.tasks.coreference.writing import brackets
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.names import ADJECTIVES, TRADES, NameGenerator

SPLITS = ("train", "development", "test")

THINGS = (
    "lantern picture map letter song book boat clock barrel mirror bell wagon piano "
    "basket ladder kite"
).split()
# (subject, object, possessive) of each kind.
PRONOUNS = {
    "she": ("she", "her", "her"),
    "he": ("he", "him", "his"),
    "it": ("it", "it", "its"),
}
# <A> and <a> are a person as subject and as object, <their> is its possessive; <B> and
# <T> are another person and a thing.
_OPENINGS = (
    "In those days <A> was a <trade> , and <their> house stood by the river .",
    "Once there lived <A> , a <trade> , with <their> seven cousins .",
)
_SENTENCES = (
    "<A> met <b> by the river .",
    "<A> told <b> about <t> .",
    "<A> sold <t> to <b> .",
    "<A> carried <t> up the hill .",
    "<T> was admired by <a> and by <b> .",
    "When the rain came , <A> looked for <t> .",
    "<B> was sure that <A> had hidden <t> .",
    "<A> dreamed of <t> all night .",
    "In the morning <A> wrote to <b> .",
    "<T> fell into the river .",
)
_PRONOUN_RATE = 0.6
_OWNER_RATE = 0.4
_EMPTY_COLUMNS = ("-", "*", "-", "-", "-", "-", "*", "*")


@dataclasses.dataclass(frozen=True)
class StorySizes:
    """How large a story is.

    Attributes:
      persons: each with another trade.
      things: each with another noun, and one of the persons as owner.
      sentences: besides those that bring the persons in, one each.
    """

    persons: int = 3
    things: int = 2
    sentences: int = 20

    def __post_init__(self):
        limits = {
            "persons": (2, len(TRADES)),
            "things": (1, len(THINGS)),
            "sentences": (1, 10**6),
        }
        for name, (low, high) in limits.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise ValueError(f"{name} must be {low} to {high}, got {value}")


def _record(number: int, seed: int, sizes: StorySizes) -> Record:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    story = _Story(random.Random(f"coreference {seed} {number}"), sizes)
    return story.record(f"synthetic/{seed}/{number}")


# As in OntoNotes, what is mentioned once is in no cluster.
records = series(_record, StorySizes)


def write(stories: Iterable[Record], path: str | os.PathLike) -> None:
    """Writes a file with CoNLL-2012's columns, those that nothing is known of empty.

    Raises:
      OSError: if it cannot be written.
    """
    with whole(path) as part, open(part, "w", encoding="utf-8") as file:
        for story in stories:
            file.writelines(_lines(story))


def write_release(
    folder: str | os.PathLike, records: Iterable[Record], *, split: str
) -> pathlib.Path:
    """Writes stories as the file of a split.

    Args:
      folder: where the file is made.
      records: of `records`.
      split: of `SPLITS`.

    Returns:
      The file, which appears whole or not at all.

    Raises:
      ValueError: if it is there already.
      OSError: if it cannot be written.
    """
    path = pathlib.Path(folder) / f"{split}.english.v4_gold_conll"
    if path.exists():
        raise ValueError(f"{path} exists; give another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(records, path)
    return path


def _lines(story: Record) -> Iterator[str]:
    cells = brackets(story.clusters, story.id)
    yield f"#begin document {story.id}\n"
    index = 0
    for sentence in story.sentences:
        for number, word in enumerate(sentence):
            begin = (story.document, str(int(story.part)), str(number), word)
            cell = "|".join(cells.get(index, "-"))
            yield "   ".join((*begin, *_EMPTY_COLUMNS, cell)) + "\n"
            index += 1
        yield "\n"
    yield "#end document\n"


# --- a story --------------------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class _Entity:
    """Somebody or something.

    Attributes:
      kind: a key of `PRONOUNS`.
      names: ways to call it, the first of which is for the first time.
      owner: of a thing.
    """

    kind: str
    names: tuple[str, ...]
    owner: _Entity | None = None


class _Story:
    """Writes sentences and keeps track of who is mentioned where."""

    def __init__(self, rng: random.Random, sizes: StorySizes):
        self._rng = rng
        self._words: list[str] = []
        self._stops: list[int] = []
        self._last: dict[str, _Entity] = {}
        self._mentions: dict[_Entity, list[Span]] = {}
        names = NameGenerator(rng)
        persons = []
        for trade in rng.sample(TRADES, sizes.persons):
            full = names.draw("person")
            forms = (full, full.split()[0], f"the {trade}")
            persons.append(_Entity(rng.choice(("she", "he")), forms))
            self._tell(rng.choice(_OPENINGS).replace("<trade>", trade), persons[-1:])
        things = [
            _Entity(
                "it",
                (f"the {rng.choice(ADJECTIVES)} {noun}", f"the {noun}"),
                owner=rng.choice(persons),
            )
            for noun in rng.sample(THINGS, sizes.things)
        ]
        for _ in range(sizes.sentences):
            pair = rng.sample(persons, 2)
            self._tell(rng.choice(_SENTENCES), [*pair, rng.choice(things)])

    def record(self, document: str) -> Record:
        starts = [0, *self._stops]
        return Record(
            document=document,
            part="000",
            sentences=tuple(
                tuple(self._words[a:b])
                for a, b in zip(starts, self._stops, strict=False)
            ),
            speakers=(None,) * len(self._stops),
            clusters=tuple(
                sorted(
                    tuple(sorted(spans))
                    for spans in self._mentions.values()
                    if len(spans) > 1
                )
            ),
        )

    def _tell(self, template: str, cast: list[_Entity]) -> None:
        """Adds a sentence about some: a person, another, and a thing, so far given."""
        start = len(self._words)
        of_slot = dict(zip("abt", cast, strict=False))
        for word in template.split():
            slot = word.strip("<>")
            if slot == word:
                self._words.append(word)
            elif slot == "their":
                self._mention_owner(of_slot["a"])
            else:
                self._mention(of_slot[slot.lower()], is_subject=slot.isupper())
        first = self._words[start]
        self._words[start] = first[0].upper() + first[1:]
        self._stops.append(len(self._words))

    def _mention(self, entity: _Entity, *, is_subject: bool) -> None:
        rng, first, owner = self._rng, len(self._words), entity.owner
        is_last = self._last.get(entity.kind) is entity
        if entity not in self._mentions:
            self._words += entity.names[0].split()
        elif is_last and rng.random() < _PRONOUN_RATE:
            self._words.append(PRONOUNS[entity.kind][0 if is_subject else 1])
        elif self._owns_last(owner) and rng.random() < _OWNER_RATE:
            self._mention_owner(owner)
            self._words.append(entity.names[-1].split()[-1])
        else:
            self._words += rng.choice(entity.names).split()
        self._note(entity, first)

    def _owns_last(self, owner: _Entity | None) -> bool:
        return owner is not None and self._last.get(owner.kind) is owner

    def _mention_owner(self, owner: _Entity) -> None:
        self._words.append(PRONOUNS[owner.kind][2])
        self._note(owner, len(self._words) - 1)

    def _note(self, entity: _Entity, first: int) -> None:
        span = (first, len(self._words) - 1)
        self._mentions.setdefault(entity, []).append(span)
        self._last[entity.kind] = entity


MAKER = registry.register("invented_items", "coreference")(
    Maker(records, StorySizes, splits=SPLITS, write_split=write_release)
)
