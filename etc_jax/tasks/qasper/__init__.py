"""Qasper (Dasigi et al. 2021): questions about papers, answered in words.

    etc-jax prepare --task=qasper --tokenizer=vocab.json --begin_token \\
        --out=prepared/qasper qasper-train-v0.3.json

The question is the prefix, and the input the full text of the paper, sections with
their names; title and abstract, which those who asked had read, are not in it, as in
the authors' baseline and in SCROLLS. A blank line stands between the two. Each
annotator's answer is right: its spans, joined by commas, or its words, or Yes, No or
Unanswerable.

The score is the official F1 of answers, of all and by the type of the best reference.
Predictions are in the form that the official evaluator reads, a JSON object a line;
their evidence is empty, since a model that writes the answer gives none, and its F1 is
not shown.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.datasets import pairs
from etc_jax.datasets.fields import LIST, STRING, Fields, list_of, objects, text
from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.json_objects import read_members
from etc_jax.datasets.pairs import Pair
from etc_jax.datasets.records import BadRecordError, Note
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import each_by_itself, text_data_set, unfolded
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring import qasper as scoring
from etc_jax.scoring.result import Scores

# 16,384 tokens as in SLED and BART-LS; 128 written as in SLED's code.
SIZES = TextToTextSizes(input_length=16384, target_length=128)

_BETWEEN = "\n\n"
# Of a record that could not be read, or that does not say it.
_UNKNOWN = ""


@dataclasses.dataclass(frozen=True)
class Question(Pair):
    """A question about a paper.

    Attributes:
      types: of each right text, one of `scoring.qasper.TYPES`; () if they are not
        known.
    """

    types: tuple[str, ...] = ()


def parse(value: Any, note: Note) -> Question:
    """A record from a JSON value.

    Args:
      value: see `pairs.parse`; it may have `types` too.
      note: not called.

    Raises:
      BadRecordError: if it cannot be used.
    """
    pair = pairs.parse(value, note, between=_BETWEEN)
    types = Fields(value).get("types", list_of(text), ())
    if unknown := sorted({*types} - {*scoring.TYPES}):
        raise BadRecordError(
            "unknown type",
            f"{pair.id!r}: {unknown[0]!r}; expected {', '.join(scoring.TYPES)}",
        )
    count = len(pair.references or ())
    if count and types and len(types) != count:
        raise BadRecordError(
            "another number of types", f"{pair.id!r}: {len(types)} of {count} targets"
        )
    return Question(**vars(pair), types=types)


# --- files ----------------------------------------------------------------------------


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """The questions of each paper of a file; see `text_sets.ReleaseFn`."""
    if has_objects(path):
        return None
    papers = (paper for _, paper in read_members(path))
    return unfolded(enumerate(papers, start=1), _of_paper)


def _of_paper(paper: Fields) -> Iterator[dict[str, Any] | BadRecordError]:
    sections = (_section(section) for section in paper.get("full_text", objects))
    full_text = "\n".join(filter(None, sections))
    record_of = functools.partial(_record, full_text=full_text)
    return each_by_itself(paper.get("qas", LIST), record_of)


def _section(section: Fields) -> str:
    """The name of a section and its paragraphs, a line each, without blank ones."""
    name = section.get("section_name", _text_or_none)
    lines = [name or "", *section.get("paragraphs", list_of(STRING))]
    return "\n".join(line.strip() for line in lines if line.strip())


def _text_or_none(value: Any, what: str) -> str | None:
    return None if value is None else STRING(value, what)


def _record(question: Any, *, full_text: str) -> dict[str, Any]:
    fields = Fields(question, "qas")
    name = fields.text("question_id")
    record = {"id": name, "input": full_text, "prefix": fields.text("question")}
    annotations = fields.get("answers", LIST, [])
    if not annotations:
        return record
    try:
        references = [scoring.reference_of(x, repr(name)) for x in annotations]
    except ValueError as error:
        raise BadRecordError("no answer", str(error)) from error
    return {
        **record,
        "target": [reference.answer for reference in references],
        "types": [reference.type for reference in references],
    }


# --- score ----------------------------------------------------------------------------


def official(predictions: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines of the official prediction file, of texts by question id."""
    return [
        {"question_id": name, "predicted_answer": answer, "predicted_evidence": []}
        for name, answer in predictions.items()
    ]


def official_gold(record: Question) -> dict[str, Any] | None:
    """What `score` needs of a record; None without right texts."""
    if record.references is None:
        return None
    types = list(record.types) or [_UNKNOWN] * len(record.references)
    return {"id": record.id, "references": record.references, "types": types}


def unread_gold(name: str) -> dict[str, Any]:
    """The gold of a record that could not be read: no words, and of no type.

    It counts in the F1 of all questions, and in that of no type, as one that is not
    answered does in the official script.
    """
    return {"id": name, "references": [""], "types": [_UNKNOWN]}


def score(
    gold: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]
) -> Scores:
    """The official metrics; see `scoring.qasper.score_answers`.

    Args:
      gold: of `official_gold`.
      lines: of `official`.
    """
    questions = []
    for record in gold:
        several = zip(record["references"], record["types"], strict=True)
        references = [scoring.Reference(text, [], kind) for text, kind in several]
        questions.append((record["id"], references))
    answers = {x["question_id"]: x["predicted_answer"] for x in lines}
    return scoring.score_answers(questions, answers)


DATA_SET = register(
    text_data_set(
        "qasper",
        measure="f1",
        sizes=SIZES,
        release=release,
        parse=parse,
        prefix="Question",
        metric="answer_f1",
        lines=True,
        official=official,
        gold=official_gold,
        score=score,
        unread_gold=unread_gold,
    )
)
"""The data set, as commands and configs find it."""
