"""Filters, search, order and the confusion matrix of a page, by clicks and keys."""

import dataclasses

import numpy as np
import pytest
from page_looks import (
    LEAST_CONTRAST,
    OVERFLOWING,
    TEXTS,
    UNFOLD,
    background,
    colour,
    contrast,
)
from sklearn.metrics import confusion_matrix

from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording, ranked
from etc_jax.datasets.task import find_task
from etc_jax.prediction.answers_page import page
from etc_jax.prediction.judging import Answered, judged

EVIL = "<script>document.title = 'taken'; console.log(1)</script>"
LABELS = ("bug report", EVIL, "praise")
# Text, gold, predicted and confidence of each record; by file, from 1.
RECORDS = (
    ("the app crashes at once", 0, 0, 0.9),
    ("the new search is quick", 2, 2, 0.6),
    ("nobody answers my mails", 0, 2, 0.8),
    ("please add a dark colour", 1, 0, 0.5),
    ("charged twice in March", 1, 1, 0.7),
    ("the search finds nothing", 0, 2, 0.95),
    (f"x {EVIL} " + "y" * 300, 2, 2, 0.99),
)
WORST_FIRST = [6, 3, 4, 2, 5, 1, 7]
WORDING = Wording(
    question="Text", answer="", candidates="{} labels", headed_by_id=True, support=""
)
SHOWN = """
[...document.querySelectorAll('.records > article')]
  .filter((node) => node.checkVisibility()).map((node) => Number(node.id.slice(7)))
"""
COUNT = "document.querySelector('output').innerText"
MATRIX = """
[...document.querySelectorAll('.matrix tbody tr')].map(
  (row) => [...row.cells].slice(1).map((cell) => Number(cell.innerText)))
"""
# Scrolls to the element of a selector and gives its middle.
AT = """
(() => {
  const node = document.querySelector(`%s`);
  node.scrollIntoView({block: 'center'});
  const box = node.getClientRects()[0];
  return [box.x + box.width / 2, box.y + box.height / 2];
})()
"""


def answered(number, text, gold, said, confidence):
    rest = (1 - confidence) / (len(LABELS) - 1)
    odds = [confidence if i == said else rest for i in range(len(LABELS))]
    explained = Explained(
        f"r{number}",
        "",
        LABELS[said],
        (ExplainedDocument.of_text("Text", text),),
        ranked(LABELS, np.array(odds), {LABELS[gold]}),
        reference=LABELS[gold],
        confidence=confidence,
        wording=WORDING,
    )
    return Answered(
        explained, {"id": f"r{number}", "label": LABELS[gold]}, LABELS[said]
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    answers = [answered(i, *x) for i, x in enumerate(RECORDS, start=1)]
    verdicts = judged(find_task("classification"), answers)
    text = page([a.explained for a in answers], task="tickets", judged=verdicts)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, file):
    browser.open(file, width=1280)
    yield browser
    assert browser.complaints == []
    assert browser.evaluate("document.title") == "tickets: 7 answers"


def click(browser, selector):
    browser.click(*browser.evaluate(AT % selector))


def test_the_worst_answers_come_first_and_all_are_folded(opened):
    assert opened.evaluate(SHOWN) == WORST_FIRST
    assert opened.evaluate("document.querySelectorAll('article > [open]').length") == 0
    assert opened.evaluate(COUNT) == "7 of 7 shown"
    lines = opened.evaluate(
        "[...document.querySelectorAll('article')].map((x) => x.innerText)"
    )
    flat = [" ".join(line.split()) for line in lines]
    assert flat[0].startswith("✗ wrong r6 the search finds nothing Predicted praise")
    assert flat[0].endswith("Gold bug report Confidence 95%")
    assert flat[3].startswith("✓ right r2 the new search is quick Predicted praise")


def test_the_matrix_counts_as_scikit_learn_does(opened):
    gold, said = zip(*((x[1], x[2]) for x in RECORDS), strict=True)
    order = sorted(range(3), key=LABELS.__getitem__)  # labels stand sorted
    wanted = confusion_matrix(gold, said, labels=order).tolist()
    assert opened.evaluate(MATRIX) == wanted
    assert wanted == [[1, 1, 0], [0, 1, 2], [0, 0, 2]]  # as done by hand
    shown = " ".join(
        opened.evaluate("document.querySelector('.scores').innerText").split()
    )
    assert shown.startswith("accuracy 57.1%")


def test_a_number_of_the_matrix_chooses_its_answers(opened):
    click(opened, "button[data-pair='1 2']")
    assert opened.evaluate(SHOWN) == [6, 3]
    assert (
        opened.evaluate("document.querySelector('[aria-pressed=true]').innerText")
        == "2"
    )
    click(opened, "button[data-pair='1 2']")
    assert opened.evaluate(SHOWN) == WORST_FIRST


@pytest.mark.parametrize(
    "state, numbers", [("wrong", [6, 3, 4]), ("right", [2, 5, 1, 7]), ("", WORST_FIRST)]
)
def test_right_and_wrong_answers_are_shown_by_a_click(opened, state, numbers):
    click(opened, "[value=right]")
    click(opened, f"[name=state][value='{state}']")
    assert opened.evaluate(SHOWN) == numbers
    assert opened.evaluate(COUNT) == f"{len(numbers)} of 7 shown"


def test_what_is_typed_is_searched_with_the_other_filters(opened):
    click(opened, "[type=search]")
    opened.type("SEARCH the")
    opened.wait_for(f"{COUNT} === '2 of 7 shown'")
    assert opened.evaluate(SHOWN) == [6, 2]
    click(opened, "[value=right]")
    assert opened.evaluate(SHOWN) == [2]
    click(opened, "[type=reset]")
    opened.wait_for(f"{COUNT} === '7 of 7 shown'")
    assert opened.evaluate(SHOWN) == WORST_FIRST


@pytest.mark.parametrize(
    "keys, numbers",
    [
        ("O", [1, 2, 3, 4, 5, 6, 7]),
        ("L", [4, 2, 5, 3, 1, 6, 7]),
        ("M", [7, 6, 1, 3, 5, 2, 4]),
    ],
)
def test_the_order_is_chosen_by_keys(opened, keys, numbers):
    opened.evaluate("document.querySelector('select').focus()")
    opened.type(keys)
    assert opened.evaluate(SHOWN) == numbers


def test_a_line_unfolds_by_a_click_and_by_a_key(opened):
    answer = "document.querySelector('#answer-6 .body').checkVisibility()"
    click(opened, "#answer-6 summary .said")
    assert opened.evaluate(answer)
    opened.type(" ")  # the line has the focus
    assert not opened.evaluate(answer)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_all_fits_and_can_be_read(browser, file, width, dark):
    browser.open(file, width=width, dark=dark)
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []
    for text in browser.evaluate(TEXTS):
        *ink, _ = colour(text["ink"])
        assert contrast(ink, background(text["behind"])) > LEAST_CONTRAST, text
    assert EVIL in browser.evaluate("document.body.innerText")


def test_a_page_that_is_too_large_has_the_worst_and_says_so(browser, tmp_path):
    answers = [answered(i, *x) for i, x in enumerate(RECORDS, start=1)]
    verdicts = judged(find_task("classification"), answers)
    explained = [a.explained for a in answers]
    small = tmp_path / "small.html"
    text = page(explained, task="tickets", judged=verdicts, most_chars=4000)
    small.write_text(text, encoding="utf-8")
    browser.open(small, width=390)
    shown = browser.evaluate(SHOWN)
    assert shown == WORST_FIRST[: len(shown)] and 0 < len(shown) < 7
    note = browser.evaluate("document.querySelector('.note').innerText")
    assert note.startswith(f"This page has the {len(shown)} worst of 7 answers")
    # Counts of the head are of all.
    assert sum(map(sum, browser.evaluate(MATRIX))) == 7


def test_without_gold_answers_order_and_search_are_left(browser, tmp_path):
    answers = [answered(i, *x) for i, x in enumerate(RECORDS, start=1)]
    bare = [dataclasses.replace(a.explained, reference=None) for a in answers]
    plain = tmp_path / "plain.html"
    plain.write_text(page(bare, task="tickets"), encoding="utf-8")
    browser.open(plain, width=390)
    assert browser.evaluate(SHOWN) == [1, 2, 3, 4, 5, 6, 7]
    absent = ".states, .matrix, .state, .gold"
    assert browser.evaluate(f"document.querySelectorAll('{absent}').length") == 0
    assert browser.complaints == []
