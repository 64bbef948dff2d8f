"""ContractNLI's files: one JSON object, contracts first and the hypotheses after them.

{"documents": [{"id": 1, "text": ..., "annotation_sets": [{"annotations":
    {"nda-1": {"choice": "NotMentioned", "spans": []}, ...}}], ...}, ...],
 "labels": {"nda-1": {"hypothesis": ..., "short_description": ...}, ...}}
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import WHOLE, Fields, anything, objects, wrong_type
from etc_jax.datasets.json_objects import read_members
from etc_jax.datasets.tables import is_json_value
from etc_jax.datasets.text_sets import each_by_itself, unfolded

CHOICES = {
    "Entailment": "Entailment",
    "Contradiction": "Contradiction",
    "NotMentioned": "Not mentioned",
}
"""How the release spells a choice, and how SCROLLS does."""


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """See `text_sets.ReleaseFn`: a record for each contract and hypothesis.

    The file is read twice, as the hypotheses stand after the contracts.
    """
    return _records(path) if is_json_value(path) else None


def _records(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    labels = [value for name, value in read_members(path) if name == "labels"]
    if len(labels) != 1:
        raise BadRecordError(
            "unknown file",
            f"{path} has {len(labels)} members 'labels', expected one, with the "
            "hypotheses, as train.json, dev.json and test.json of ContractNLI have it",
        )
    try:
        fields = Fields(labels[0], "labels")
        hypotheses = {
            name: Fields(fields.get(name, anything), name).text("hypothesis")
            for name in labels[0]
        }
    except BadRecordError as e:
        # Each contract is asked about all of them.
        raise BadRecordError("unknown file", f"{os.fspath(path)}: {e}") from e
    documents = (value for name, value in read_members(path) if name == "documents")
    records_of = functools.partial(_of_document, hypotheses=hypotheses)
    return unfolded(enumerate(documents, start=1), records_of)


def _of_document(
    document: Fields, *, hypotheses: Mapping[str, str]
) -> Iterator[dict[str, Any] | BadRecordError]:
    """The records of a contract, in the order of the hypotheses.

    Raises:
      BadRecordError: if it cannot be used.
    """
    identity, text = document.get("id", WHOLE), document.text("text")
    # The release has one set of annotations for each contract.
    annotated = document.get("annotation_sets", objects, [])
    annotations = annotated[0].get("annotations", Fields) if annotated else None

    def record_of(name: str) -> dict[str, Any]:
        record = {"id": f"{identity}:{name}", "prefix": hypotheses[name], "input": text}
        if annotations is not None:
            record["target"] = annotations.get(name, _choice)
        return record

    return each_by_itself(hypotheses, record_of)


def _choice(value: Any, what: str) -> str:
    choice = Fields(value, what).text("choice")
    if choice not in CHOICES:
        raise wrong_type(choice, f"{what}.choice", f"one of {', '.join(CHOICES)}")
    return CHOICES[choice]
