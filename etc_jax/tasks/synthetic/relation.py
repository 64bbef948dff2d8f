"""A relation between entities of the invented worlds, and the words that tell it.

Statements are written with `{s}` for the subject, a name or what stands for it, and
`{o}` for the value; phrases and questions with `{}` for the subject. A statement says
one relation only, and no two of them read alike, so that a reader of templates can take
them apart again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

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


def read(text: str) -> Iterator[Relation]:
    """The relations of a text, a paragraph each.

    The first line is "name: source -> target", and each other one a wording, whose
    fields say of which sort it is: `{s}` of a statement, `{x}` of the question for the
    same value; `{}` of a question with a question mark, otherwise of a phrase; what has
    no field is the event.
    """
    for paragraph in text.strip().split("\n\n"):
        head, *lines = map(str.strip, paragraph.splitlines())
        name, source, _, target = head.replace(":", "").split()
        wordings: dict[str, list[str]] = {}
        for line in lines:
            wordings.setdefault(_sort(line), []).append(line)
        single = {x: wordings.pop(x)[0] for x in ("same", "event") if x in wordings}
        several = {sort: tuple(x) for sort, x in wordings.items()}
        yield Relation(name, source, target, **several, **single)


def _sort(line: str) -> str:
    if "{s}" in line:
        return "statements"
    if "{x}" in line:
        return "same"
    if "{}" in line:
        return "questions" if line.endswith("?") else "phrases"
    return "event"
