"""Articles as a reader sees them, by hand."""

import json

import numpy as np
import pytest
from natural_questions_samples import ARTICLE, record, tokenizer

from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction.answers_page import page
from etc_jax.tasks import natural_questions as nq
from etc_jax.tasks.natural_questions.labels import NULL, YES

NQ_TASK = nq.DATA_SET.in_format()

TASK = NQ_TASK.with_options({"question_tokens": 4, "stride": 8})
WORDS = ARTICLE.split(" ")
# What a reader sees of the article: its candidates, and what is between them.
TEXTS = [
    "Mill",
    "the mill was built by ann .",
    "lost words",
    "mill 1840\nlake 1901",
    "song of two\nriver",
]


def told(long, short, *, made=None, kind=NULL, cls=0.0):
    """What is told of a model that is sure of two spans of words, both inclusive."""
    windows = TASK.features(made or record(), tokenizer(), StructuredSizes(24, 16))
    assert len(windows) > 1
    outputs = nq.decoding.Outputs(
        np.zeros((len(windows), 5)), np.zeros((len(windows), 24, 4))
    )
    outputs.span[:, 0] = cls
    for i, window in enumerate(windows):
        outputs.answer_type[i, kind] = 1.0
        for place, word in enumerate((*short, *long)):
            at = np.flatnonzero(window.word == word)
            outputs.span[i, at, place] = 3.0 + place
    # In two batches: windows of a record may lie in several.
    rows = [slice(0, 1), slice(1, None)]
    seen = [
        x
        for part in rows
        for x in TASK.explain(
            nq.decoding.Outputs(*(y[part] for y in outputs)), windows[part], None
        )
    ]
    return TASK.pool_explained(seen)


def words(text):
    """First and last place of some words that follow each other."""
    wanted = text.split(" ")
    [first] = [i for i in range(len(WORDS)) if WORDS[i : i + len(wanted)] == wanted]
    return first, first + len(wanted) - 1


def marked(explained):
    [document] = explained.documents
    return [p.text[a:b] for p in document.passages for a, b in p.marks]


PARAGRAPH = "<P> the mill was built by ann . </P>"
ROW = "<Tr> lake 1901 </Tr>"


def test_the_long_answer_is_what_supports_and_the_short_one_is_marked():
    got = told(words(PARAGRAPH), words("by ann"))
    assert (got.id, got.question, got.answer) == ("7", "who built the mill", "by ann")
    [document] = got.documents
    assert document.title.text == "Mill"
    assert [p.text for p in document.passages] == TEXTS
    [(_, number)] = got.supporting()
    assert document.passages[number].text == TEXTS[1] and marked(got) == ["by ann"]
    # Begin and end: 5 + 6 of the long one, 3 + 4 of the short one, [CLS] has 0.
    assert document.passages[number].score == pytest.approx(11.0)
    assert got.score == pytest.approx(7.0)
    scores = [p.score for p in document.passages if not p.is_support]
    assert scores == [None] * 4
    assert all(p.probability is None for p in document.passages)


def test_a_long_answer_inside_of_a_table_stands_by_itself():
    got = told(words(ROW), words("1901"))
    [document] = got.documents
    assert [p.text for p in document.passages] == [
        *TEXTS[:3],
        "mill 1840",
        "lake 1901",
        TEXTS[4],
    ]
    assert [d.passages[n].text for d, n in got.supporting()] == ["lake 1901"]
    assert marked(got) == ["1901"]


def test_a_short_answer_outside_of_the_long_one_is_marked_where_it_is():
    got = told(words(PARAGRAPH), words("song of"))
    assert got.answer == "song of" and marked(got) == ["song of"]
    assert [d.passages[n].text for d, n in got.supporting()] == [TEXTS[1]]


def test_cells_have_a_tab_between_them_and_a_mark_may_span_some():
    table = "<Table> <Tr> <Td> old mill </Td> <Td_x> 1840 </Td> </Tr> </Table>"
    made = record(f"{table} <P> {'song ' * 20}</P>", said=())
    got = told((0, 10), (3, 7), made=made)
    assert got.documents[0].passages[0].text == "old mill\t1840"
    assert got.as_json()["support"][0]["text"] == "old mill 1840"
    assert marked(got) == ["old mill\t1840"] and got.answer == "old mill 1840"


def test_yes_is_the_answer_and_marks_nothing():
    got = told(words(PARAGRAPH), words("by ann"), kind=YES)
    assert got.answer == "yes" and marked(got) == []
    assert got.score == got.documents[0].passages[1].score  # of the long answer


def test_an_answer_below_no_answer_is_shown_as_less_likely():
    got = told(words(PARAGRAPH), words("by ann"), cls=10.0)
    assert got.score == 7.0 - 20.0
    text = page([got], task="natural_questions")
    assert text.count("score -13.00, less likely than no answer") == 1
    # In the list of places, and where it stands.
    assert text.count("score -9.00, less likely than no answer") == 2
    assert text.count('style="--p:0.25"') == 1


def test_json_has_the_prediction_and_the_page_the_scores():
    got = told(words(PARAGRAPH), words("by ann"))
    values = json.loads(json.dumps(got.as_json()))
    assert values["support"] == [
        {"title": "Mill", "sentence": 1, "text": TEXTS[1], "score": 11.0}
    ]
    assert values["prediction"]["short"] == [8, 10] and values["score"] == 7.0
    [official] = nq.decoding.official({got.id: values["prediction"]})["predictions"]
    assert official["long_answer"]["start_token"] == 3
    text = page([got], task="natural_questions")
    assert ">by ann</mark>" in text and text.count("passage support wanted scored") == 1
    assert "score 11.00" in text and "score 7.00" in text and "%<" not in text
    assert "less likely" not in text
    lines = got.text().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["question", "who"],
        ["answer", "by"],
        ["wanted", "ann"],
        ["score", "7.00"],
        ["11.00", "Mill:"],
    ]
