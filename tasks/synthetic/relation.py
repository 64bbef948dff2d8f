"""A relation between entities of the invented worlds, and the words that tell it.

Statements are written with `{s}` for the subject, a name or what stands for it, and
`{o}` for the value; phrases and questions with `{}` for the subject. A statement says
one relation only, and no two of them read alike, so that a reader of templates can take
them apart again.
"""

from __future__ import annotations

import dataclasses

YEAR = "year"


@dataclasses.dataclass(frozen=True, eq=False)
class Relation:
    """A function from entities of one kind to entities of a kind, or to years.

    Attributes:
      name: as in a WikiHop query; it does not contain `_of_`, which joins steps.
      source, target: kinds; the target may be `YEAR`.
      statements: ways to tell it.
      phrases: ways to name the value, to be put in place of a subject.
      questions: ways to ask for the value.
      same: the question whether `{x}` and `{y}` share the value; "" for years.
      event: what happened in that year, after "who"; "" for entities.
    """

    name: str
    source: str
    target: str
    statements: tuple[str, ...]
    phrases: tuple[str, ...]
    questions: tuple[str, ...]
    same: str = ""
    event: str = ""
