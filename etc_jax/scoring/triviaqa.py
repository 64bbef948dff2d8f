"""TriviaQA: exact match and F1 over all names of an answer (Joshi et al. 2017)."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from etc_jax.scoring import answers, files
from etc_jax.scoring.result import Scores
from etc_jax.scoring.squad import check_predictions

# To spaces, where SQuAD leaves nothing: "AC/DC" is "ac dc" here.
_SPACES = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))
# Of a release with `VerifiedEval` only what has these counts, and of documents only
# those of the web domain are asked.
VERIFIED_QUESTION = "QuestionPartOfVerifiedEval"
VERIFIED_DOCUMENT = "DocPartOfVerifiedEval"


def normalize(text: str) -> str:
    """Lower case, marks as spaces, no articles, single spaces."""
    return answers.normalize(text, _SPACES)


def truths_of(release: Any, where: str = "gold") -> dict[str, list[str]]:
    """All right answers by key, of a release file's value.

    Keys are question ids in the Wikipedia domain; elsewhere a question counts once for
    each of its documents, by `question--file`.

    Raises:
      ValueError: naming `where` and the question, if the value is not such.
    """
    domain = files.field(files.typed(release, dict, where), "Domain", str, where)
    flag = release.get("VerifiedEval", False)
    verified = files.typed(flag, bool, f"{where}, field 'VerifiedEval'")
    truths: dict[str, list[str]] = {}
    data = files.field(release, "Data", list, where)
    for question, at in files.identified(data, "QuestionId", where):
        if verified and not files.field(question, VERIFIED_QUESTION, bool, at):
            continue
        answer = files.field(question, "Answer", dict, at)
        keys = [question["QuestionId"]]
        if domain != "Wikipedia":
            pages = [
                *question.get("EntityPages", ()),
                *question.get("SearchResults", ()),
            ]
            names = [
                files.field(page, "Filename", str, at)
                for page in pages
                if not verified or files.field(page, VERIFIED_DOCUMENT, bool, at)
            ]
            keys = [f"{question['QuestionId']}--{name}" for name in names]
        truths |= dict.fromkeys(keys, answer_names(answer, at))
    return truths


def answer_names(answer: Any, where: str) -> list[str]:
    """What an `Answer` of a release calls right.

    Raises:
      ValueError: naming `where`, if there is nothing.
    """
    names = files.field(
        files.typed(answer, dict, where), "NormalizedAliases", list, where
    )
    names = [*names, *answer.get("HumanAnswers", ())]
    for name in names:
        files.typed(name, str, f"{where}, an alias")
    if not names:
        raise ValueError(f"{where}: at least one alias expected, got none")
    return names


def score(gold: Mapping[str, list[str]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1`, each the best over the names of an answer.

    Args:
      gold: of `truths_of`.
      predictions: answer texts by the same keys; one that is lacking scores 0.

    Raises:
      ValueError: if there is nothing to score against, or a prediction is no text.
    """
    check_predictions(predictions, "predictions")
    if not gold:
        raise ValueError("gold: at least one question expected, got none")
    exact = f1 = 0.0
    for key, truths in gold.items():
        if key in predictions:
            answer = predictions[key]
            exact += normalize(answer) in {normalize(truth) for truth in truths}
            f1 += max(
                answers.token_overlap(answer, truth, normalize=normalize).f1
                for truth in truths
            )
    metrics = {"exact_match": exact / len(gold), "f1": f1 / len(gold)}
    return Scores.of(metrics, list(gold), {"answer": predictions})
