"""WikiHop-like items: a relation of a subject, documents, candidates to choose from.

The records have the fields of the official training file. The relation of a query is a
composed one, such as `region_of_home`: the documents tell of its steps, the last of
which leads to the answer. Candidates are all entities of the answer's kind.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import paths, telling, worlds
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.telling import WorldDocument
from etc_jax.tasks.synthetic.worlds import Entity, WorldSizes


@dataclasses.dataclass(frozen=True)
class WikiHopSizes(WorldSizes):
    """How large an item is, and how hard.

    Attributes:
      candidates: to choose from, each of which occurs in the documents.
      through_candidates: all entities on the way to the answer are candidates too, so
        that the links between candidates and their mentions join the documents.
      masked: candidates are `___MASK<k>___` everywhere, k changing with the item.
    """

    candidates: int = 8
    through_candidates: bool = False
    masked: bool = False

    def __post_init__(self):
        super().__post_init__()
        # Entities on the way must differ, and so must their decoys.
        least = 2 + self.hops[1]
        if not least <= self.candidates <= worlds.MASKS:
            raise ValueError(
                f"candidates must be {least} to {worlds.MASKS} for {self.hops[1]} "
                f"hops, got {self.candidates}"
            )
        if len(self.kinds) == 1 and self.contexts > self.candidates + 1:
            raise ValueError(
                f"contexts must be at most candidates + 1 = {self.candidates + 1} with "
                f"documents of one kind ({self.kinds[0]}), got {self.contexts}"
            )


def _record(number: int, seed: int, sizes: WikiHopSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    rng = random.Random(f"wikihop {seed} {number}")
    path = paths.random_path(
        rng, sizes, end_in_year=False, one_kind=sizes.through_candidates
    )
    kind = path[-1].target
    # The subject itself is no candidate.
    pool = sizes.candidates + (path[0].source == kind)
    world, chain = worlds.world_with_chain(rng, sizes, path, answers=pool)
    candidates = [entity for entity in world.entities[kind] if entity is not chain[0]]
    documents = telling.write_documents(rng, sizes, world)
    _mention_all(rng, documents, candidates)
    telling.pad(rng, documents, world, sizes.words)
    record = {
        "id": f"WH_synthetic_{seed}_{number}",
        "query": f"{paths.path_name(path)} {chain[0].name.lower()}",
        "answer": chain[-1].name.lower(),
        "candidates": sorted(entity.name.lower() for entity in candidates),
        "supports": [_support(document) for document in documents],
    }
    return _masked(rng, record) if sizes.masked else record


records = series(_record, WikiHopSizes)


def documents(record: dict[str, Any]) -> list[str]:
    """The texts of a record's documents."""
    return record["supports"]


def _support(document: WorldDocument) -> str:
    return " ".join(sentence.text for sentence in document.sentences)


def _mention_all(
    rng: random.Random, documents: list[WorldDocument], candidates: list[Entity]
) -> None:
    """Names in passing each candidate that the documents do not name."""
    text = "\n".join(_support(document) for document in documents)
    for entity in candidates:
        if entity.name not in text:
            telling.add_filler(rng, rng.choice(documents), entity)


def _masked(rng: random.Random, record: dict[str, Any]) -> dict[str, Any]:
    numbers = rng.sample(range(worlds.MASKS), len(record["candidates"]))
    masks = {
        name: f"___MASK{number}___"
        for name, number in zip(record["candidates"], numbers, strict=True)
    }
    any_name = re.compile("|".join(map(re.escape, masks)), re.IGNORECASE)

    def mask(text: str) -> str:
        return any_name.sub(lambda match: masks[match[0].lower()], text)

    return record | {
        "answer": masks[record["answer"]],
        "candidates": sorted(masks.values()),
        "supports": [mask(text) for text in record["supports"]],
    }


MAKER = registry.register("invented_items", "wikihop")(
    Maker(records, WikiHopSizes, documents=documents)
)
