"""Qasper against a plain re-statement of its script, and bad input.

Golden cases of the script itself are in `goldens_test.py`.
"""

import random

import pytest

from etc_jax.scoring import qasper
from scoring.texts_test import edited, long_text, plain_f1, random_text

PARAGRAPHS = ["one", "two", "three", "FLOAT SELECTED: Table 1", "", "東京"]
BLANK = {"unanswerable": False, "extractive_spans": [], "free_form_answer": ""}
BLANK |= {"yes_no": None, "evidence": []}


def annotation(draw: random.Random) -> dict:
    spans = [random_text(draw) for _ in range(draw.choice([0, 0, 1, 2]))]
    text = draw.choice(["", random_text(draw)])
    yes = draw.choice([True, False] if not spans and not text else [True, False, None])
    evidence = draw.choices(PARAGRAPHS, k=draw.randrange(4))
    return {
        "answer": {
            "unanswerable": draw.random() < 0.2,
            "extractive_spans": spans,
            "free_form_answer": text,
            "yes_no": yes,
            "evidence": evidence,
        }
    }


def plain_answer(annotation: dict, text_only: bool) -> tuple[str, str, list[str]]:
    """(answer, type, evidence)."""
    x = annotation["answer"]
    if x["unanswerable"]:
        return "Unanswerable", "none", []
    evidence = x["evidence"]
    if text_only:
        evidence = [p for p in evidence if "FLOAT SELECTED" not in p]
    if x["extractive_spans"]:
        return ", ".join(x["extractive_spans"]), "extractive", evidence
    if x["free_form_answer"]:
        return x["free_form_answer"], "abstractive", evidence
    return ("Yes" if x["yes_no"] else "No"), "boolean", evidence


def plain_evidence_f1(some: list[str], gold: list[str]) -> float:
    if not some and not gold:
        return 1.0
    same = len({*some} & {*gold})
    # 2PR / (P + R) of P = same / len(some), R = same / len(gold).
    return 2 * same / (len(some) + len(gold)) if same else 0.0


@pytest.mark.parametrize("text_only", [False, True])
def test_scores_are_those_of_the_script(text_only):
    draw = random.Random(0)
    questions = {
        str(i): [annotation(draw) for _ in range(i % 4 + 1)] for i in range(2000)
    }
    qas = [{"question_id": i, "answers": x} for i, x in questions.items()]
    papers = {"p": {"qas": qas[:700]}, "q": {"qas": qas[700:]}}
    closed = ["Unanswerable", "Yes", "no."]
    predictions = {
        i: {
            "answer": draw.choice([*closed, random_text(draw), random_text(draw)]),
            "evidence": draw.choices(PARAGRAPHS, k=draw.randrange(4)),
        }
        for i in questions
        if draw.random() < 0.95
    }
    for i in list(predictions)[::50]:
        text = long_text(draw, 100 + int(i))
        predictions[i]["answer"] = edited(draw, text, 0.5)
        texts = {"free_form_answer": text}, {"extractive_spans": text.splitlines()}
        questions[i][-1]["answer"] = BLANK | draw.choice(texts)
    answers, evidences, by_type = [], [], {name: [] for name in qasper.TYPES}
    for i, annotations in questions.items():
        best = evidence = 0.0
        if i in predictions:
            given = predictions[i]
            references = [plain_answer(x, text_only) for x in annotations]
            of_each = [(plain_f1(given["answer"], x[0]), x[1]) for x in references]
            best, kind = sorted(of_each, key=lambda x: x[0], reverse=True)[0]
            by_type[kind].append(best)
            evidence = max(
                plain_evidence_f1(given["evidence"], x[2]) for x in references
            )
        answers.append(best)
        evidences.append(evidence)
    want = {"answer_f1": answers, "evidence_f1": evidences}
    want |= {f"answer_f1_{name}": values for name, values in by_type.items()}
    want = {name: sum(values) / len(values) for name, values in want.items()}
    found = qasper.score(papers, predictions, text_evidence_only=text_only)
    assert found.metrics == pytest.approx(want, abs=1e-12)
    assert 0 < min(want.values()) and max(want.values()) < 1
    assert found.count == 2000 == len(predictions) + len(found.missing["answer"])


def papers(**fields):
    answers = [{"answer": BLANK | fields}]
    return {"p": {"qas": [{"question_id": "q", "answers": answers}]}}


@pytest.mark.parametrize(
    "gold, predictions, message",
    [
        ({}, {}, "gold: at least one question expected, got none"),
        (
            {"p": {"qas": [{"question_id": "q", "answers": []}]}},
            {},
            r"gold, paper 'p', record 0 \(q\): at least one answer expected, got none",
        ),
        (papers(), {}, "neither unanswerable nor has extractive_spans"),
        (
            papers(yes_no="no"),
            {},
            r"\(q\), field 'yes_no': true/false expected, got te",
        ),
        (papers(yes_no=True), {"q": {"answer": "yes"}}, "of 'q': no field 'evidence'"),
    ],
)
def test_bad_input_is_named(gold, predictions, message):
    with pytest.raises(ValueError, match=message):
        qasper.score(gold, predictions)
