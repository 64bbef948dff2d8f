"""SQuAD 1.1 and 2.0: exact match and F1 of words (Rajpurkar et al. 2016, 2018).

Where some questions have no answer, the metrics are those of 2.0's official script: of
all questions, of those with (HasAns) and without an answer (NoAns), and the best that a
threshold on the scores of no answer reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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


class NullOdds(NamedTuple):
    """What the best metrics of all thresholds are of.

    Attributes:
      odds: by question id, how much more the model gives no answer than the best one.
      texts: by question id, the best answer that is not empty.
    """

    odds: Mapping[str, float]
    texts: Mapping[str, str]


def score_answers(
    gold: Sequence[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
    null_odds: NullOdds | None = None,
) -> Scores:
    """The same of (id, answers) of each question.

    Args:
      gold: a question of SQuAD 2.0 may have no answer, which "" then is.
      predictions: see `score`.
      null_odds: of the same questions; None: no threshold is looked for.

    Returns:
      `exact_match` and `f1` where all questions have an answer. Otherwise `exact`,
      `f1`, the same with `HasAns_` and `NoAns_` before them where there are such
      questions, and with null odds `best_exact` and `best_f1`.

    Raises:
      ValueError: if there is no question.
    """
    if not gold:
        raise ValueError("gold: at least one question expected, got none")
    if all(truths for _, truths in gold):
        metrics = _means(gold, predictions, ("exact_match", "f1"))
    else:
        metrics = _of_two(gold, predictions)
        if null_odds is not None:
            best = best_thresholds(gold, null_odds)
            metrics |= {name: value for name, (value, _) in best.items()}
    names = [identity for identity, _ in gold]
    return Scores.of(metrics, names, {"answer": predictions})


def best_thresholds(
    gold: Sequence[tuple[str, Sequence[str]]], null_odds: NullOdds
) -> dict[str, tuple[float, float]]:
    """{"best_exact" and "best_f1": (metric, threshold)}, as the official script does.

    A question is answered if its odds are at most the threshold. Where answering none
    is best, the threshold is below all odds; the script gives 0, which answers some.

    Args:
      gold: see `score_answers`.
      null_odds: of the same questions.
    """
    unanswerable = {identity for identity, truths in gold if not truths}
    order = sorted(null_odds.odds, key=lambda identity: null_odds.odds[identity])
    truths_of = dict(gold)
    thresholds = {}
    for number, name in enumerate(("best_exact", "best_f1")):
        # Answering none: right where there is no answer.
        right = best = float(sum(identity in unanswerable for identity, _ in gold))
        threshold = min(null_odds.odds.values(), default=0.0) - 1.0
        # Each threshold answers one question more than the one before.
        for identity in order:
            if identity not in truths_of:
                continue
            text = null_odds.texts[identity]
            if identity in unanswerable:
                right -= bool(text)
            else:
                right += _question(text, _with_words(truths_of[identity]))[number]
            if right > best:
                best, threshold = right, null_odds.odds[identity]
        thresholds[name] = (best / len(gold), threshold)
    return thresholds


def _of_two(
    gold: Sequence[tuple[str, Sequence[str]]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Metrics of 2.0 without a threshold."""
    parts = {
        "": gold,
        "HasAns_": [x for x in gold if x[1]],
        "NoAns_": [x for x in gold if not x[1]],
    }
    metrics = {}
    for name, part in parts.items():
        if part:
            part = [(identity, _with_words(truths)) for identity, truths in part]
            metrics |= _means(part, predictions, (f"{name}exact", f"{name}f1"))
    return metrics


def _with_words(truths: Sequence[str]) -> list[str]:
    """The answers that 2.0's script compares with: "the" is none."""
    return [truth for truth in truths if answers.normalize(truth)]


def _means(
    gold: Sequence[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
    names: tuple[str, str],
) -> dict[str, float]:
    exact = f1 = 0.0
    for identity, truths in gold:
        if identity in predictions:
            of_exact, of_f1 = _question(predictions[identity], truths)
            exact, f1 = exact + of_exact, f1 + of_f1
    return {names[0]: exact / len(gold), names[1]: f1 / len(gold)}


def _question(answer: str, truths: Sequence[str]) -> tuple[float, float]:
    """(exact match, F1) of an answer, the best over those that are right."""
    if not truths:
        # "", or what nothing is left of when it is normalised.
        return (float(not answers.normalize(answer)),) * 2
    exact = max(answers.exact_match(answer, truth) for truth in truths)
    f1 = max(answers.token_overlap(answer, truth).f1 for truth in truths)
    return float(exact), f1


def check_gold(articles: Any, where: str) -> Iterator[tuple[str, list[str]]]:
    """(id, answers) of each question; none for one that is impossible (SQuAD 2.0).

    Raises:
      ValueError: naming `where`, article, paragraph and question, if it is not so.
    """
    for i, article in enumerate(files.typed(articles, list, where)):
        at = f"{where}, article {i}"
        paragraphs = files.field(files.typed(article, dict, at), "paragraphs", list, at)
        for j, paragraph in enumerate(paragraphs):
            within = f"{at}, paragraph {j}"
            files.typed(paragraph, dict, within)
            questions = files.field(paragraph, "qas", list, within)
            for question, where_asked in files.identified(questions, "id", within):
                yield question["id"], _truths(question, where_asked)


def _truths(question: Mapping[str, Any], where: str) -> list[str]:
    texts = [
        files.field(files.typed(x, dict, where), "text", str, where)
        for x in files.field(question, "answers", list, where)
    ]
    if not texts and question.get("is_impossible") is not True:
        raise ValueError(
            f"{where}: at least one answer expected, got none and no is_impossible "
            "that is true"
        )
    return texts


def check_predictions(predictions: Any, where: str) -> dict[str, str]:
    """The predictions, if they are texts by id.

    Raises:
      ValueError: naming `where` and the id, if not.
    """
    return files.texts_by_id(predictions, where, "answer")
