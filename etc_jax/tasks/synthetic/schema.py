"""All that can be said about entities of the invented worlds."""

from __future__ import annotations

import pathlib

from etc_jax.tasks.synthetic.relation import YEAR as YEAR, Relation as Relation, read

KINDS = ("person", "company", "town", "region")
_FILE = pathlib.Path(__file__).with_name("relations.txt")
RELATIONS = tuple(read(_FILE.read_text(encoding="utf-8")))
BY_NAME = {relation.name: relation for relation in RELATIONS}


def _pairs(kind: str) -> tuple[tuple[Relation, Relation], ...]:
    """Twins: they have the same source and the same target."""
    relations = [relation for relation in RELATIONS if relation.source == kind]
    pairs = tuple(zip(relations[::2], relations[1::2], strict=True))
    for one, other in pairs:
        assert one.target == other.target, (one.name, other.name)
    return pairs


# Kind of the source -> its pairs of twins.
PAIRS = {kind: _pairs(kind) for kind in KINDS}
PAIR_OF = {
    relation: pair for kind in KINDS for pair in PAIRS[kind] for relation in pair
}


def twin(relation: Relation) -> Relation:
    """The other relation between the same kinds."""
    one, other = PAIR_OF[relation]
    return other if relation == one else one
