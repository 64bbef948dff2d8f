"""A page of written texts beside their sources and references, in a browser."""

import random
import types

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

from etc_jax.datasets.pairs import Pair
from etc_jax.datasets.task import find_task
from etc_jax.prediction.answers_page import page
from etc_jax.prediction.judging import Answered, judged

FILLER = "Nothing of note was said that day, and the members went home by the river."
FACT = "The old mill was sold to Ann Lee in 1790 and it burned."
# Of each record: input, target and others, and what is written.
RECORDS = (
    (
        "\n".join([*[FILLER] * 20, FACT, *[FILLER] * 20]),
        ("Ann Lee bought the mill.", "The mill was sold to Ann."),
        "It says the old mill was sold to Ann Lee, and it burned.",
    ),
    (f"{FACT} {FILLER}", ("a frog",), "A frog"),
    (" ".join([*[FILLER] * 200, FACT]), ("the mill burned",), "the mill, it burned"),
)
COUNT = "document.querySelector('output').innerText"
ORDER = "[...document.querySelectorAll('article')].map((x) => Number(x.id.slice(7)))"
OPEN_FIRST = "document.querySelector('#answer-1 > details').open = true"
COLUMNS = """
[...document.querySelectorAll('#answer-1 .sides > div')].map((node) => node.innerText)
"""
# Marks of a column: text without its number, and the number.
MARKS = """
[...document.querySelectorAll('#answer-1 .sides > div:nth-child(%d) mark')].map(
  (node) => [...node.childNodes].map((part) => part.textContent))
"""
# The metrics that the line of an answer shows.
CHOSEN = """
[...document.querySelectorAll('#answer-1 .by')]
  .filter((node) => getComputedStyle(node).display !== 'none')
  .map((node) => node.textContent)
"""
# What search has coloured in an answer, and whether all of that is unfolded.
SEARCHED = """
[...CSS.highlights.get('searched')].map((range) => [
  range.toString(), range.startContainer.parentNode.checkVisibility(),
  range.startContainer.parentNode.closest('article').id])
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    pytest.importorskip("rouge_score")
    task = find_task("text_to_text").with_options({"measure": "rouge"})
    answers = []
    for number, (text, targets, written) in enumerate(RECORDS, start=1):
        pair = Pair(f"r{number}", text, targets[0], others=targets[1:])
        window = types.SimpleNamespace(record=pair)
        [shown] = task.explain(np.array([written], dtype=object), [window], None)
        answers.append(Answered(shown, task.gold(pair), written))
    text = page(
        [a.explained for a in answers], task="reports", judged=judged(task, answers)
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, file):
    browser.open(file, width=1280)
    browser.evaluate(OPEN_FIRST)
    yield browser
    assert browser.complaints == []


def test_source_output_and_all_references_stand_side_by_side(opened):
    columns = opened.evaluate(COLUMNS)
    source, output, references = (" ".join(text.split()) for text in columns)
    assert source.startswith("INPUT 18 more paragraphs") and FACT[:20] in source
    assert output.startswith("OUTPUT, ") and "FROM THE INPUT" in output
    assert references.startswith("REFERENCE ")
    assert all(text in references for text in RECORDS[0][1])
    tops = opened.evaluate(
        "[...document.querySelectorAll('#answer-1 .sides > div')]"
        ".map((x) => x.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 1


def test_words_from_the_source_are_marked_in_both_with_one_number(opened):
    output = opened.evaluate(MARKS % 2)
    assert output == [["the old mill was sold to Ann Lee", "1"], ["and it burned", "2"]]
    source = opened.evaluate(MARKS % 1)
    assert [x[0].lower() for x in source] == [x[0].lower() for x in output]
    assert [x[1] for x in source] == ["1", "2"]


def test_a_marked_part_leads_to_its_place_in_the_source(opened):
    opened.evaluate("document.querySelectorAll('#answer-1 .sides a')[1].click()")
    assert opened.evaluate("document.querySelector(':target').innerText") == (
        "and it burned2"
    )


def test_a_long_paragraph_is_folded_far_from_what_is_marked(opened):
    texts = opened.evaluate(
        "[...document.querySelectorAll('#answer-3 .sides summary')]"
        ".map((x) => x.textContent)"
    )
    # 200 sentences of 74 characters are 20 paragraphs of 800 at most, and one is left.
    assert len(FILLER) == 74 and texts == ["18 more paragraphs"]


@pytest.mark.parametrize(
    "order, numbers, shown",
    [
        ("highest 2", [2, 1, 3], "rouge2"),
        ("lowest 1", [1, 3, 2], "rouge1"),
        ("file", [1, 2, 3], None),
    ],
)
def test_lines_are_put_in_order_by_each_metric(opened, order, numbers, shown):
    opened.evaluate(f"document.forms[0].elements.order.value = '{order}'")
    opened.evaluate("document.forms[0].dispatchEvent(new Event('change'))")
    assert opened.evaluate(ORDER) == numbers
    texts = opened.evaluate(CHOSEN)
    assert [text.split()[0] for text in texts] == [shown] * (shown is not None)
    assert opened.evaluate("document.forms[0].elements.order.length") == 2 + 2 * 5


def test_a_search_shows_where_the_words_stand_also_in_what_was_folded(opened):
    opened.evaluate("document.querySelector('[type=search]').focus()")
    opened.type("RIVER lee")
    opened.wait_for("CSS.highlights.get('searched').size > 40")
    assert opened.evaluate(COUNT) == "3 of 3 shown"
    hits = opened.evaluate(SEARCHED)
    # Only in the answer that is open.
    assert {x[0].lower() for x in hits} == {"river", "lee"}
    assert all(x[1] and x[2] == "answer-1" for x in hits)
    assert sum(x[0] == "river" for x in hits) > 40
    opened.type(" 1790")
    opened.wait_for(
        "[...CSS.highlights.get('searched')].some((x) => x + '' === '1790')"
    )
    opened.evaluate("document.querySelector('#answer-2 > details').open = true")
    opened.wait_for(
        "[...CSS.highlights.get('searched')].some((x) =>"
        " x.startContainer.parentNode.closest('#answer-2'))"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_all_fits_and_can_be_read(browser, file, width, dark):
    browser.open(file, width=width, dark=dark)
    browser.evaluate(UNFOLD)
    browser.evaluate("document.querySelector('.records').dataset.by = '3'")
    assert browser.evaluate(OVERFLOWING) == []
    for text in browser.evaluate(TEXTS):
        *ink, _ = colour(text["ink"])
        assert contrast(ink, background(text["behind"])) > LEAST_CONTRAST, text


def test_a_page_of_long_sources_is_little_more_than_they_are():
    draw = random.Random(0)
    names = [f"word{i}" for i in range(3000)]
    source = " ".join(draw.choices(names, k=16_000))
    words = source.split()
    written = " ".join(x for i in range(40) for x in words[i * 400 : i * 400 + 10])
    task = find_task("text_to_text")
    window = types.SimpleNamespace(record=Pair("a", source, written))
    [shown] = task.explain(np.array([written], dtype=object), [window], None)
    assert len(shown.marks) == 40
    bare = len(page([], task="x"))
    texts = len(source) + 2 * len(written)
    assert len(page([shown], task="x")) - bare < 1.2 * texts
