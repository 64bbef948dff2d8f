import re

import pytest

from etc_jax.datasets.explained import (
    Box,
    Explained,
    ExplainedDocument,
    Passage,
    Sheet,
    Wording,
)
from etc_jax.prediction.answers_page import page
from etc_jax.prediction.answers_page.drawing import drawing

SHEET = Sheet(1000, 500)


def boxes(text):
    """(numbers of the style, HTML inside) of each box, in order."""
    found = re.findall(r'<div class="box" style="(.*?)"><span>(.*?)</span></div>', text)
    return [
        (dict(re.findall(r"--(\w):([\d.-]+)", style)), inside)
        for style, inside in found
    ]


def drawn(*texts):
    return boxes(drawing(SHEET, [(box, x, x) for box, x in texts], "Page"))


def test_boxes_and_sheet_have_the_numbers_of_the_page():
    text = drawing(SHEET, [(Box(-3, 40.5, 600, 18, 14), "mill", "mill")], "Page")
    assert boxes(text) == [
        ({"x": "-3", "y": "40.5", "w": "600", "h": "18", "f": "14"}, "mill")
    ]
    assert 'class="sheet" style="--wide:1000;--high:500"' in text
    far = drawing(SHEET, [(Box(0, 19876.5, 10, 10, 8), "a", "a")], "Page")
    assert boxes(far)[0][0]["y"] == "19876.5"


def test_texts_of_one_box_share_it_in_their_order():
    box, other = Box(0, 0, 300, 100, 10), Box(0, 0, 300, 99, 10)
    got = drawn((box, "The"), (other, "x"), (box, "old mill"))
    assert [inside for _, inside in got] == ["The old mill", "x"]


def test_what_is_marked_and_what_is_smaller_stands_in_front():
    large, middle, small = (Box(0, 0, w, 100, 10) for w in (900, 500, 100))
    got = drawn((small, "c"), (large, "<mark>a</mark>"), (middle, "b"))
    assert [inside for _, inside in got] == ["b", "c", "<mark>a</mark>"]


@pytest.mark.parametrize("width, height", [(200, 20), (100, 40), (60, 100), (90, 9)])
def test_letters_are_so_small_that_a_text_has_room(width, height):
    text = "word " * 12
    [(style, _)] = drawn((Box(0, 0, width, height, 16.0), text))
    size = float(style["f"])

    def room(size):
        """For letters; there is no part of a line."""
        return int(height / (1.2 * size)) * width / (0.65 * size)

    assert room(size * 0.99) >= len(text) > room(size * 1.1) and size < 16
    [(style, _)] = drawn((Box(0, 0, 900, height, 7.0), "word"))
    assert float(style["f"]) == 7.0


def test_words_are_not_broken_but_for_endless_ones():
    [(style, _)] = drawn((Box(0, 0, 60, 500, 40.0), "Old windmills"))
    assert float(style["f"]) * 0.65 * len("windmills") == pytest.approx(60, abs=0.1)
    [(style, _)] = drawn((Box(0, 0, 60, 500, 40.0), "x" * 300))
    assert 0.65 * float(style["f"]) * 16 == pytest.approx(60, abs=0.1)


def told(*passages, sheet=SHEET):
    document = ExplainedDocument(
        Passage("Text"), passages, paragraphs=True, sheet=sheet
    )
    return Explained(
        "x", "Which?", "", (document,), wording=Wording(drawing="A <page>")
    )


def test_passages_with_a_box_are_drawn_above_the_list_of_all():
    box = Box(10, 10, 200, 30, 12)
    text = page(
        [
            told(
                Passage("Old Mill", marks=((4, 8),), ranks=((2,),), box=box),
                Passage("hidden"),
            )
        ],
        task="openkp",
    )
    [(_, inside)] = boxes(text)
    assert inside == 'Old <mark>Mill<sup class="rank">2</sup></mark>'
    figure, _, below = text.partition("<figure")[2].partition("</figure>")
    assert "A &lt;page&gt;</figcaption>" in figure and "hidden" not in figure
    assert below.count("Mill") == 1 and "hidden" in below
    # The first mark of the list has the name that links lead to.
    assert figure.count("-mark") == 0 and 'id="answer-1-mark-2"' in below


def test_documents_without_a_sheet_are_not_drawn():
    plain = page([told(Passage("a"), sheet=None)], task="x")
    assert "<figure" not in plain and 'class="box"' not in plain


@pytest.mark.parametrize(
    "evil", ['<script>alert("x")</script>', '"><img src=x>', "&lt;"]
)
def test_texts_in_boxes_are_texts(evil):
    box = Box(0, 0, 10, 10, 5)
    text = page([told(Passage(evil, marks=((1, 3),), box=box))], task="x")
    [(_, inside)] = boxes(text)
    assert not re.search(r"<(?!/?(mark|sup)\b)", inside) and "<img" not in text
    shown = re.sub(r"</?mark>", "", inside)
    for char, spelled in (
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("&", "&amp;"),
    ):
        shown = shown.replace(spelled, char)
    assert shown == evil
