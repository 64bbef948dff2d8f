"""Qasper: questions about papers, answers and their evidence (Dasigi et al. 2021).

Metrics are those of the official `evaluator.py`: the best over the annotators, for the
answer and for the evidence by itself, as means over all questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.scoring import files
from etc_jax.scoring.answers import overlap, token_overlap
from etc_jax.scoring.result import Scores

TYPES = ("extractive", "abstractive", "boolean", "none")
# Stands in evidence that is a figure or a table.
_FLOAT = "FLOAT SELECTED"


class Reference(NamedTuple):
    """What one annotator answered.

    Attributes:
      answer: text; "Unanswerable" for a question without an answer.
      evidence: paragraphs that the answer is drawn from.
      type: one of `TYPES`; "none" is that of unanswerable questions.
    """

    answer: str
    evidence: list[str]
    type: str


def score(
    gold: Mapping[str, Any],
    predictions: Mapping[str, Mapping[str, Any]],
    *,
    text_evidence_only: bool = False,
) -> Scores:
    """F1 of answers, of all and by type, and of evidence.

    Args:
      gold: papers by id, the value of a release file.
      predictions: `{"answer": text, "evidence": paragraphs}` by question id. A question
        without one scores 0, and counts for no type.
      text_evidence_only: whether figures and tables are left out of the references.

    Returns:
      `answer_f1`, `evidence_f1`, and `answer_f1_` of each of `TYPES`, which is that of
      the best reference; 0 for one that no question has.

    Raises:
      ValueError: if there is no question, or a value is not as it should be; names it.
    """
    questions = list(references_of(gold, "gold", text_evidence_only=text_evidence_only))
    if not questions:
        raise ValueError("gold: at least one question expected, got none")
    _check_predictions(predictions, "predictions")
    texts = {name: prediction["answer"] for name, prediction in predictions.items()}
    mean, by_type = _f1_of_answers(questions, texts)
    of_evidence = [
        max(evidence_f1(predictions[name]["evidence"], x.evidence) for x in references)
        if name in predictions
        else 0.0
        for name, references in questions
    ]
    metrics = {"answer_f1": mean, "evidence_f1": _mean(of_evidence), **by_type}
    return Scores.of(metrics, [name for name, _ in questions], {"answer": predictions})


def score_answers(
    questions: Sequence[tuple[str, Sequence[Reference]]], predictions: Mapping[str, str]
) -> Scores:
    """The same of answers alone, which have no evidence.

    Args:
      questions: id and references of each. A type that is none of `TYPES` is one that
        is not known, and counts for none.
      predictions: texts by question id.

    Returns:
      `answer_f1`, and by type as `score` has it if any type is known.

    Raises:
      ValueError: if there is no question, or a prediction is no text; names it.
    """
    if not questions:
        raise ValueError("gold: at least one question expected, got none")
    files.texts_by_id(predictions, "predictions", "answer")
    mean, by_type = _f1_of_answers(questions, predictions)
    has_types = any(x.type in TYPES for _, references in questions for x in references)
    metrics = {"answer_f1": mean, **(by_type if has_types else {})}
    return Scores.of(metrics, [name for name, _ in questions], {"answer": predictions})


def _f1_of_answers(
    questions: Sequence[tuple[str, Sequence[Reference]]], predictions: Mapping[str, str]
) -> tuple[float, dict[str, float]]:
    """(F1 of all questions, the metrics by type)."""
    of_answers = []
    by_type: dict[str, list[float]] = {name: [] for name in TYPES}
    for identity, references in questions:
        if identity not in predictions:
            of_answers.append(0.0)
            continue
        text = predictions[identity]
        f1s = [token_overlap(text, x.answer).f1 for x in references]
        best = max(f1s)
        of_answers.append(best)
        # The first of equally good ones, as in the script.
        if (type_ := references[f1s.index(best)].type) in by_type:
            by_type[type_].append(best)
    metrics = {f"answer_f1_{name}": _mean(some) for name, some in by_type.items()}
    return _mean(of_answers), metrics


def evidence_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of paragraphs; 1 if both are empty.

    As in the script a paragraph that stands there twice is right once.
    """
    if not predicted and not gold:
        return 1.0
    return overlap(len(set(predicted) & set(gold)), len(predicted), len(gold)).f1


def references_of(
    papers: Any, where: str, *, text_evidence_only: bool = False
) -> Iterator[tuple[str, list[Reference]]]:
    """(id, references) of each question.

    Args:
      papers: see `score`.
      where: words for where they are from.
      text_evidence_only: see `score`.

    Raises:
      ValueError: naming `where`, paper and question, if one is not as it should be.
    """
    for name, paper in files.typed(papers, dict, where).items():
        at = f"{where}, paper {name!r}"
        questions = files.field(files.typed(paper, dict, at), "qas", list, at)
        for question, asked in files.identified(questions, "question_id", at):
            annotations = files.field(question, "answers", list, asked)
            if not annotations:
                raise ValueError(f"{asked}: at least one answer expected, got none")
            references = [reference_of(annotation, asked) for annotation in annotations]
            if text_evidence_only:
                references = [_without_floats(x) for x in references]
            yield question["question_id"], references


def reference_of(annotation: Any, where: str) -> Reference:
    """What an annotator answered, from an element of a question's `answers`.

    Raises:
      ValueError: naming `where`, if it is not as it should be.
    """
    answer = files.field(files.typed(annotation, dict, where), "answer", dict, where)
    if files.field(answer, "unanswerable", bool, where):
        # The script ignores any evidence.
        return Reference("Unanswerable", [], "none")
    evidence = _texts(answer, "evidence", where)
    if spans := _texts(answer, "extractive_spans", where):
        return Reference(", ".join(spans), evidence, "extractive")
    if text := files.field(answer, "free_form_answer", str, where):
        return Reference(text, evidence, "abstractive")
    if answer.get("yes_no") is None:
        raise ValueError(
            f"{where}: an answer that is neither unanswerable nor has extractive_spans,"
            " a free_form_answer or yes_no; expected one of them"
        )
    yes = files.field(answer, "yes_no", bool, where)
    return Reference("Yes" if yes else "No", evidence, "boolean")


def _without_floats(reference: Reference) -> Reference:
    paragraphs = [text for text in reference.evidence if _FLOAT not in text]
    return reference._replace(evidence=paragraphs)


def _check_predictions(predictions: Any, where: str) -> None:
    for identity, prediction in files.typed(predictions, dict, where).items():
        at = f"{where}, prediction of {identity!r}"
        files.field(files.typed(prediction, dict, at), "answer", str, at)
        _texts(prediction, "evidence", at)


def _texts(record: dict, name: str, where: str) -> list[str]:
    texts = files.field(record, name, list, where)
    return [files.typed(text, str, f"{where}, field {name!r}") for text in texts]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
