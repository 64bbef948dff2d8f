"""Words with tags: documents of an invented world, whose names are to be found.

A document tells of persons, companies, towns and regions. Names are invented anew for
each record, so that they are known by their letters only as names: of what kind one is,
the words around it say, and where they do not, another sentence does. Tags are those of
the scheme iob2 with the types person, company, town and region.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import paths, telling, worlds
from etc_jax.tasks.synthetic.maker import Maker, series
from etc_jax.tasks.synthetic.worlds import WorldSizes

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True)
class TaggedSizes(WorldSizes):
    """How large an item is, and how hard; see `WorldSizes`."""

    contexts: int = 3
    facts: int = 2
    hops: tuple[int, int] = (1, 1)


def _record(number: int, seed: int, sizes: TaggedSizes) -> dict[str, Any]:
    # Text seeds are hashed whole, so that neighbours have nothing in common.
    rng = random.Random(f"token_classification {seed} {number}")
    path = paths.random_path(rng, sizes, end_in_year=False)
    world, _ = worlds.world_with_chain(rng, sizes, path)
    documents = telling.write_documents(rng, sizes, world)
    telling.pad(rng, documents, world, sizes.words)
    kinds = {
        tuple(_WORD.findall(entity.name)): kind
        for kind, group in world.entities.items()
        for entity in group
    }
    tokens = [
        _WORD.findall(sentence.text)
        for document in documents
        for sentence in document.sentences
    ]
    return {
        "id": f"tags-{seed}-{number}",
        "tokens": tokens,
        "tags": [_tags(words, kinds) for words in tokens],
    }


records = series(_record, TaggedSizes)


def _tags(words: list[str], kinds: dict[tuple[str, ...], str]) -> list[str]:
    """The tags of a sentence; no name is a part of another."""
    tags = ["O"] * len(words)
    for name, kind in kinds.items():
        length = len(name)
        for at in range(len(words) - length + 1):
            if tuple(words[at : at + length]) == name:
                tags[at : at + length] = [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
    return tags


MAKER = registry.register("invented_items", "token_classification")(
    Maker(records, TaggedSizes, lines=True)
)
