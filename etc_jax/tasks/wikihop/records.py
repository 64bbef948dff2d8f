"""WikiHop's official files (QAngaroo, Welbl et al. 2018), plain and masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from etc_jax.datasets.fields import STRING, Fields, list_of, text
from etc_jax.datasets.records import BadRecordError, Note, reader


@dataclasses.dataclass(frozen=True)
class Record:
    """A query, documents and candidate answers.

    Attributes:
      id: name of the record.
      query: a relation, spelled with underscores, a space, and an entity.
      documents: texts as the file has them, not all of them blank.
      candidates: as the file has them.
      answer: None in test files.
      label: which candidate is the answer (the first, if it is there twice); None in
        test files.
    """

    id: str
    query: str
    documents: tuple[str, ...]
    candidates: tuple[str, ...]
    answer: str | None
    label: int | None


def parse(value: Any, note: Note) -> Record:
    """A record from its JSON value.

    Args:
      value: the object of the official format.
      note: called with (kind, message) for what is odd.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name = fields.text("id")
    candidates = fields.get("candidates", list_of(STRING, least=1))
    if blank := [i for i, c in enumerate(candidates) if not c.strip()]:
        raise BadRecordError("empty candidate", f"{name!r}, candidates {blank}")
    documents = fields.get("supports", list_of(STRING, least=1))
    blank = [i for i, d in enumerate(documents) if not d.strip()]
    if len(blank) == len(documents):
        raise BadRecordError("no document", f"{name!r} has {len(blank)} blank ones")
    if blank:
        note("empty document", f"{name!r}, documents {blank}")
    if len({normal(c) for c in candidates}) < len(candidates):
        note("candidate twice", f"{name!r}")
    answer = fields.get("answer", text, None)
    return Record(
        id=name,
        query=fields.text("query"),
        documents=documents,
        candidates=candidates,
        answer=answer,
        label=None if answer is None else _label(name, answer, candidates),
    )


# The records of official files such as `train.json` and `train.masked.json`.
read = reader(parse)


def normal(answer: str) -> str:
    """The form in which answers are compared."""
    return answer.strip().lower()


def _label(name: str, answer: str, candidates: Sequence[str]) -> int:
    forms = [normal(c) for c in candidates]
    if normal(answer) not in forms:
        raise BadRecordError(
            "answer is no candidate", f"{name!r}: {answer!r} is not in {forms[:5]}..."
        )
    return forms.index(normal(answer))


def official_gold(record: Record) -> dict[str, str] | None:
    """What scoring needs of a record; None without a gold answer."""
    if record.answer is None:
        return None
    return {"id": record.id, "answer": record.answer}
