"""How right single answers are, by the official metrics of each data set."""

import base64
import types

import natural_questions_samples as articles
import numpy as np
import pytest

from etc_jax.datasets.explained import Explained
from etc_jax.datasets.task import find_task
from etc_jax.prediction.judging import Answered, Verdict, check, judged


def answered(name, gold, prediction):
    return Answered(Explained(name, "", "", ()), gold, prediction)


def verdicts(task, *pairs):
    """The share of each (gold, prediction), judged together."""
    found = judged(task, [answered(f"r{i}", *x) for i, x in enumerate(pairs)])
    return [verdict and verdict.share for verdict in found.verdicts]


def label(i, name):
    return {"id": f"r{i}", "label": name}


def test_a_label_is_right_whatever_class_f1_is_of():
    task = find_task("hyperpartisan")  # F1 of "true"
    pairs = [(label(i, g), p) for i, (g, p) in enumerate(("ff", "tf", "tt", "ft"))]
    names = {"f": "false", "t": "true"}
    pairs = [({**g, "label": names[g["label"]]}, names[p]) for g, p in pairs]
    assert verdicts(task, *pairs) == [1, 0, 1, 0]
    found = judged(task, [answered(f"r{i}", *x) for i, x in enumerate(pairs)])
    assert found.scores.metrics == {"accuracy": 0.5, "f1": 0.5}
    assert found.confusion == (("false", "true"), ((1, 1), (1, 1)))


def test_sets_of_labels_are_right_as_a_whole_and_have_no_matrix():
    task = find_task("classification").with_options(
        {"multi_label": True, "labels": ("a", "b", "c")}
    )
    pairs = [((), []), (("a",), []), (("a", "b"), ["b", "a"]), (("a",), ["a", "c"])]
    pairs = [(label(i, g), p) for i, (g, p) in enumerate(pairs)]
    assert verdicts(task, *pairs) == [1, 0, 1, 0]
    assert judged(task, [answered("r0", *pairs[0])]).confusion is None


def test_a_record_without_entities_is_right_if_none_is_found():
    task = find_task("token_classification")
    gold = [[["O", "O"]], [["O", "O"]], [["B-x", "O"], ["B-y"]]]
    given = [[["O", "O"]], [["B-x", "O"]], [["B-x", "O"], ["O"]]]
    pairs = zip(gold, given, strict=True)
    pairs = [({"id": f"r{i}", "tags": g}, p) for i, (g, p) in enumerate(pairs)]
    assert verdicts(task, *pairs) == [1, 0, pytest.approx(2 / 3)]


def test_natural_questions_are_judged_by_the_answers_they_have():
    task, words = find_task("natural_questions"), "<P> ann lee built it </P> <P> x </P>"
    paragraph, name = (0, 6), (1, 3)
    both = [articles.annotation(paragraph, [name])] * 2
    only_long = [articles.annotation(paragraph)] * 2
    one = [articles.annotation(paragraph, [name]), articles.annotation()]
    gold = []
    for i, said in enumerate((both, both, only_long, one)):
        value = articles.original(words, name=i, question="who", said=said)
        record = task.parse(value, lambda kind, message: None)
        gold.append(task.gold(record))
    prediction = {
        **task.no_answer,
        "long": [*paragraph],
        "long_score": 1.0,
        "short": [*name],
        "short_score": 1.0,
    }
    wrong = {**prediction, "short": [2, 4]}
    given = [prediction, wrong, prediction, prediction]
    answers = [
        answered(x["example_id"], x, p) for x, p in zip(gold, given, strict=True)
    ]
    shares = [v.share for v in judged(task, answers).verdicts]
    # Not enough annotators answered the last one: it counts in no F1 of its own.
    assert shares == [1.0, 0.5, 1.0, None]


def test_ranks_are_among_the_passages_of_all_records():
    task = find_task("retrieval")

    def vector(*x):
        return base64.b64encode(np.array(x, "<f4").tobytes()).decode()

    def prediction(key, query, passage):
        found = {"key": key, "query": vector(*query), "has_passage": True}
        return found | {"passages": {f"p{key}": vector(*passage)}}

    pairs = [
        ({"id": "r0"}, prediction("0", (1, 0), (1, 0))),
        ({"id": "r1"}, prediction("1", (1, 0), (0, 1))),
    ]
    assert verdicts(task, *pairs) == [1.0, 0.5]


def test_records_without_gold_answers_have_no_verdict():
    task = find_task("wikihop")
    gold = {"id": "r0", "answer": "ton"}
    found = judged(task, [answered("r0", gold, "ton"), answered("r1", None, "x")])
    assert found.verdicts == (Verdict(1.0, {"accuracy": 1.0}), None)
    assert found.scores.count == 1
    assert judged(task, [answered("r1", None, "x")]) is None


def test_gold_answers_that_cannot_be_scored_are_found_out_at_once():
    record = types.SimpleNamespace(id="http://x", keyphrases=())
    with pytest.raises(ValueError, match="no phrase to find"):
        check(find_task("openkp"), [record])
