"""Texts that may be written in several ways: their references, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.scoring import files


def check_references(gold: Any, where: str) -> Iterator[tuple[str, list[str]]]:
    """(id, references) of each record.

    Args:
      gold: records with `id` and `references`, one text or more.
      where: words for where they are from.

    Raises:
      ValueError: naming `where` and the record, if it is not so, or there is no record.
    """
    if not files.typed(gold, list, where):
        raise ValueError(f"{where}: at least one record expected, got none")
    for record, at in files.identified(gold, "id", where):
        references = files.field(record, "references", list, at)
        if not references:
            raise ValueError(f"{at}: at least one reference expected, got none")
        yield record["id"], [files.typed(text, str, at) for text in references]


def check_several(references: Any, where: str) -> None:
    """Refuses references of one text that are no list, or none.

    Raises:
      ValueError: naming `where`.
    """
    if isinstance(references, str) or not references:
        raise ValueError(
            f"{where} are {references!r}; expected a list of one text or more"
        )


def written(
    gold: Sequence[tuple[str, Any]], predictions: Mapping[str, str], where: str
) -> list[str]:
    """The text of each record; "" where there is none.

    Args:
      gold: records, by their id first.
      predictions: texts by record id.
      where: words for where they are from.

    Raises:
      ValueError: naming `where` and the id, if one is no text.
    """
    files.texts_by_id(predictions, where, "text")
    return [predictions.get(identity, "") for identity, *_ in gold]
