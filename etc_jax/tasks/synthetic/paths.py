"""Ways over several relations, and what they are called."""

from __future__ import annotations

import random
from collections.abc import Sequence

from etc_jax.tasks.synthetic.schema import BY_NAME, KINDS, PAIRS, YEAR, Relation
from etc_jax.tasks.synthetic.worlds import WorldSizes

# Of a way that ends in what is asked for: a few are enough where there is one.
_TRIES = 10_000


def random_path(
    rng: random.Random, sizes: WorldSizes, *, end_in_year: bool, one_kind: bool = False
) -> tuple[Relation, ...]:
    """Relations each of which starts where the one before ends.

    Args:
      rng: where draws come from.
      sizes: say how many there are, which kinds have documents, and what is asked for.
      end_in_year: whether the last may lead to a year.
      one_kind: whether all lead from entities of one kind to the same kind.

    Raises:
      ValueError: if no way ends in what is asked for.
    """
    for _ in range(_TRIES):
        path = _any_path(rng, sizes, end_in_year=end_in_year, one_kind=one_kind)
        if not sizes.asks or path[-1].name in sizes.asks:
            return path
    raise ValueError(
        f"no way of {sizes.hops[0]} to {sizes.hops[1]} steps over documents of kinds "
        f"{', '.join(sizes.kinds)} ends in asks = {', '.join(sizes.asks)}; name other "
        "kinds, or ask for other relations"
    )


def _any_path(
    rng: random.Random, sizes: WorldSizes, *, end_in_year: bool, one_kind: bool
) -> tuple[Relation, ...]:
    kind = rng.choice(sizes.kinds)
    steps = rng.randint(*sizes.hops)
    path: list[Relation] = []
    for step in range(steps):
        targets = sizes.kinds
        if step == steps - 1:
            targets = (*KINDS, YEAR) if end_in_year else KINDS
        if one_kind:
            targets = (kind,)
        choices = [r for pair in PAIRS[kind] for r in pair if r.target in targets]
        path.append(rng.choice(choices))
        kind = path[-1].target
    return tuple(path)


def path_name(path: Sequence[Relation]) -> str:
    """The name of a composed relation, the last step first: "region_of_home"."""
    return "_of_".join(relation.name for relation in reversed(path))


def path_of_name(name: str) -> tuple[Relation, ...]:
    """The path that has that name.

    Raises:
      ValueError: if a step is not a relation.
    """
    steps = name.split("_of_")
    if unknown := [step for step in steps if step not in BY_NAME]:
        raise ValueError(f"unknown relations {unknown} in {name!r}")
    return tuple(BY_NAME[step] for step in reversed(steps))
