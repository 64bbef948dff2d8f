"""SQuAD 1.1: exact match and F1 of words (Rajpurkar et al. 2016)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.scoring import answers, files
from etc_jax.scoring.result import Scores


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1`, each the best over a question's answers.

    Args:
      gold: articles, the `data` of a release file.
      predictions: answer texts by question id; a question without one scores 0.

    Raises:
      ValueError: if there is no question, or a value is not as it should be; names it.
    """
    check_predictions(predictions, "predictions")
    return score_answers(list(check_gold(gold, "gold")), predictions)


def score_answers(
    gold: Sequence[tuple[str, Sequence[str]]], predictions: Mapping[str, str]
) -> Scores:
    """The same of (id, answers) of each question.

    Args:
      gold: with one answer or more to each.
      predictions: see `score`.

    Raises:
      ValueError: if there is no question.
    """
    if not gold:
        raise ValueError("gold: at least one question expected, got none")
    exact = f1 = 0.0
    for identity, truths in gold:
        if identity in predictions:
            given = predictions[identity]
            exact += any(answers.exact_match(given, truth) for truth in truths)
            f1 += max(answers.token_overlap(given, truth).f1 for truth in truths)
    return Scores.of(
        {"exact_match": exact / len(gold), "f1": f1 / len(gold)},
        [identity for identity, _ in gold],
        {"answer": predictions},
    )


def score_files(gold: str | os.PathLike, predictions: str | os.PathLike) -> Scores:
    """`score` of a release file and a prediction file, `{id: answer}`.

    Raises:
      ValueError: if a file is not as it should be, or all predictions are for questions
        of some other file; names file and place.
    """

    def check(release: Any, where: str):
        articles = files.field(files.typed(release, dict, where), "data", list, where)
        list(check_gold(articles, where))
        return articles

    articles, predicted = files.read_pair(gold, predictions, check, check_predictions)
    ids = {identity for identity, _ in check_gold(articles, str(gold))}
    files.require_common_ids(ids, predicted, str(predictions))
    return score(articles, predicted)


def check_gold(articles: Any, where: str) -> Iterator[tuple[str, list[str]]]:
    """(id, answers) of each question.

    Raises:
      ValueError: naming `where`, article, paragraph and question, if it is not so.
    """
    for i, article in enumerate(files.typed(articles, list, where)):
        at = f"{where}, article {i}"
        paragraphs = files.field(files.typed(article, dict, at), "paragraphs", list, at)
        for j, paragraph in enumerate(paragraphs):
            place = f"{at}, paragraph {j}"
            files.typed(paragraph, dict, place)
            asked = files.field(paragraph, "qas", list, place)
            for question, here in files.identified(asked, "id", place):
                truths = [
                    files.field(files.typed(x, dict, here), "text", str, here)
                    for x in files.field(question, "answers", list, here)
                ]
                if not truths:
                    raise ValueError(f"{here}: at least one answer expected, got none")
                yield question["id"], truths


def check_predictions(predictions: Any, where: str) -> dict[str, str]:
    """The predictions, if they are texts by id.

    Raises:
      ValueError: naming `where` and the id, if not.
    """
    return files.texts_by_id(predictions, where, "answer")
