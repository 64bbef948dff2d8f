"""From logits to labels: probabilities, files, figures, and what is shown."""

import json
import math

import numpy as np
import pytest
from classification_samples import article, review
from multihop_samples import tokenizer

from etc_jax.datasets.explained import Explained
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import classification, hyperpartisan, imdb

HYPERPARTISAN_TASK = hyperpartisan.DATA_SET.in_format()
IMDB_TASK = imdb.DATA_SET.in_format()

SIZES = SequenceSizes(input_length=12, global_length=1)
TASKS = {IMDB_TASK: review, HYPERPARTISAN_TASK: article}


def windows_of(*records, sizes=SIZES):
    return [
        w
        for record in records
        for w in classification.inputs.features(record, tokenizer(), sizes)
    ]


@pytest.fixture
def windows():
    return windows_of(review(id="a"), review(id="b"), review(id="c"))


LOGITS = np.array([[2.0, -1.0], [0.5, 0.75], [3.0, 3.0]], np.float32)


def test_the_label_with_the_largest_logit_is_taken(windows):
    assert IMDB_TASK.answers(LOGITS, windows) == {
        "a": "neg",
        "b": "pos",
        "c": "neg",
    }
    articles = windows_of(article(id="d"))
    assert HYPERPARTISAN_TASK.answers(LOGITS[1:2], articles) == {"d": "true"}
    assert IMDB_TASK.answers(LOGITS[:0], []) == {}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_figures_by_hand(task):
    first, second = TASKS[task]().labels
    gold = [{"id": str(i), "label": first if i < 6 else second} for i in range(10)]
    # Of 4 of the second label 3 are found, and 2 of the first are taken for it.
    said = [first] * 4 + [second] * 5 + [first]
    scores = task.score(gold, dict(zip(map(str, range(10)), said, strict=True)))
    assert scores.metrics["accuracy"] == 0.7
    assert scores.metrics["f1"] == pytest.approx(2 * 3 / (5 + 4))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_what_could_not_be_read_is_wrong_in_both_figures(task):
    second = TASKS[task]().labels[1]
    gold = [{"id": "a", "label": second}, task.unread_gold("unreadable 0")]
    said = {"a": second, "unreadable 0": task.no_answer}
    scores = task.score(gold, task.official(said))
    assert scores.metrics["accuracy"] == 0.5
    assert scores.metrics["f1"] == pytest.approx(2 * 1 / (1 + 2))
    assert task.score(gold, {"a": second}).missing == {"label": ("unreadable 0",)}


# --- what a reader is shown -----------------------------------------------------------


def test_labels_are_shown_with_their_probabilities(windows):
    told = IMDB_TASK.explain(LOGITS, windows, None)
    assert all(isinstance(each, Explained) for each in told)
    assert [each.answer for each in told] == ["neg", "pos", "neg"]
    first = told[0]
    assert (first.id, first.question) == ("a", "Is this review for the film?")
    assert [c.text for c in first.candidates] == ["neg", "pos"]
    assert first.candidates[0].probability == pytest.approx(1 / (1 + math.exp(-3)))
    # Of equal ones the same is first as in the prediction.
    assert [c.text for c in told[2].candidates] == ["neg", "pos"]
    assert "95%  neg" in first.text()
    assert json.loads(json.dumps(first.as_json()))["candidates"][0]["text"] == "neg"


def test_a_text_is_shown_line_by_line_under_its_title():
    [told] = HYPERPARTISAN_TASK.explain(LOGITS[:1], windows_of(article()), None)
    assert told.question == "Is this article hyperpartisan?"
    [document] = told.documents
    assert document.title.text == "Mills"
    assert [p.text for p in document.passages] == [article().text]
    [told] = IMDB_TASK.explain(LOGITS[:1], windows_of(review()), None)
    [document] = told.documents
    assert document.title.text == "Text"
    assert [p.text for p in document.passages] == ["the old mill stands.", "it is old"]


def test_what_was_not_read_is_shown_apart():
    made = windows_of(review(), sizes=SequenceSizes(8, 1))
    [told] = IMDB_TASK.explain(LOGITS[:1], made, None)
    read, behind = told.documents
    assert [p.text for p in read.passages] == ["the old mill stands.", "it"]
    assert [p.text for p in behind.passages] == ["is old"]
    assert behind.title.text.startswith("Not read")
    with pytest.raises(ValueError, match="logits have shape"):
        IMDB_TASK.explain(LOGITS, made, None)
