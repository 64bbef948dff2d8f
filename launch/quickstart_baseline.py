"""Ways to answer questions over documents without following names."""

import collections
import re
from collections.abc import Collection, Sequence
from typing import Any

from etc_jax.scoring import hotpotqa

Record = dict[str, Any]
# (which document, which sentence of it)
Place = tuple[int, int]
_NAME = re.compile(r"[A-Z]\w*(?: [A-Z]\w*)*|\d+")


def majority(train: Sequence[Record], dev: Sequence[Record]) -> dict[str, Any]:
    """Answers each question alike, with what was most often right in training.

    The answer is the most frequent one. The sentences are at the same places in every
    record: of the most frequent places so many as give the best F1 in training.

    Args:
      train: records in the official raw format.
      dev: the same; their gold is not looked at.

    Returns:
      Predictions for `dev` in the official form.

    Raises:
      ValueError: if there is nothing to train on.
    """
    if not train:
        raise ValueError("no training record; expected at least one")
    answers = collections.Counter(record["answer"] for record in train)
    [(answer, _)] = answers.most_common(1)
    places = best_places(train)
    return {
        "answer": {record["_id"]: answer for record in dev},
        "sp": {record["_id"]: _at(record, places) for record in dev},
    }


def without_names(train: Sequence[Record], dev: Sequence[Record]) -> dict[str, Any]:
    """Takes every sentence that says what supports answers, of whomever it says it.

    Sentences are alike if they differ in names alone. The answer is the last name of
    the first sentence that is like those with an answer; "" if there is none. It
    fits data in which all questions ask for the same.

    Args:
      train: records in the official raw format.
      dev: the same; their gold is not looked at.

    Returns:
      Predictions for `dev` in the official form.
    """
    gold = [(r, _sentence(r, *place)) for r in train for place in _gold(r)]
    support = {_form(text) for _, text in gold}
    telling = {_form(text) for r, text in gold if r["answer"] in text}
    found: dict[str, Any] = {"answer": {}, "sp": {}}
    for record in dev:
        chosen = [
            (title, i, text)
            for title, sentences in record["context"]
            for i, text in enumerate(sentences)
            if _form(text) in support
        ]
        answers = [_NAME.findall(x)[-1] for *_, x in chosen if _form(x) in telling]
        found["answer"][record["_id"]] = answers[0] if answers else ""
        found["sp"][record["_id"]] = [[title, i] for title, i, _ in chosen]
    return found


def _form(sentence: str) -> str:
    return _NAME.sub("_", sentence.strip())


def _sentence(record: Record, document: int, sentence: int) -> str:
    return record["context"][document][1][sentence]


def best_places(records: Sequence[Record]) -> tuple[Place, ...]:
    """Of the most frequent places of supporting sentences those with the best F1."""
    counts = collections.Counter(p for record in records for p in _gold(record))
    # Of equal ones the first in the text, so that the order is always the same.
    ordered = sorted(counts, key=lambda place: (-counts[place], place))
    scores = [
        _support_f1(records, ordered[:count]) for count in range(1, len(ordered) + 1)
    ]
    return tuple(ordered[: 1 + scores.index(max(scores))])


def _gold(record: Record) -> list[Place]:
    documents = {title: i for i, (title, _) in enumerate(record["context"])}
    return [(documents[title], i) for title, i in record["supporting_facts"]]


def _at(record: Record, places: Collection[Place]) -> list[list]:
    context = record["context"]
    return [
        [context[document][0], sentence]
        for document, sentence in places
        if document < len(context) and sentence < len(context[document][1])
    ]


def _support_f1(records: Sequence[Record], places: Collection[Place]) -> float:
    found = [
        hotpotqa.supporting_facts_overlap(
            _at(record, places), record["supporting_facts"]
        )
        for record in records
    ]
    return sum(overlap.f1 for _, overlap in found) / len(found)
