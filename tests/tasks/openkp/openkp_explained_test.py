import numpy as np
import pytest
from multihop_samples import tokenizer
from openkp_samples import PLAIN, TITLE, record

from etc_jax.datasets.explained import Box, Sheet
from etc_jax.formats.structured import StructuredSizes
from etc_jax.ops.ngrams import NO_NGRAM
from etc_jax.tasks.openkp.explained import explain
from etc_jax.tasks.openkp.inputs import features

# Old Mill The old mill stands in Ton . The mill burned country of Ton
OLD, MILL, TON = [0, 3], [1, 4, 10], [7, 14]


@pytest.fixture
def explained():
    [window] = features(record(), tokenizer(), StructuredSizes(30, 6))
    logits = np.full((1, 5, 30), NO_NGRAM)
    logits[0, 1, OLD] = np.log([0.3, 0.2])
    logits[0, 0, TON] = np.log([0.4, 0.1])
    [got] = explain(logits, [window])
    return got


def test_a_phrase_has_the_probability_of_all_its_places(explained):
    got = [(c.text, c.probability) for c in explained.candidates]
    assert [text for text, _ in got] == ["ton", "old mill"]
    np.testing.assert_allclose([p for _, p in got], [0.5, 0.5])
    assert explained.answer == "ton, old mill" and explained.id == "http://x.org/mill"


def test_the_places_of_phrases_are_marked_in_their_elements(explained):
    [page] = explained.documents
    marked = [[p.text[a:b] for a, b in p.marks] for p in page.passages]
    assert marked == [["Old Mill"], ["old mill", "Ton"], [], ["Ton"]]
    assert [p.ranks for p in page.passages] == [((2,),), ((2,), (1,)), (), ((1,),)]


def test_every_run_of_words_has_the_ranks_of_the_phrases_that_it_is_of():
    [window] = features(
        record(("Old Mill Ton a",)), tokenizer(), StructuredSizes(30, 6)
    )
    logits = np.full((1, 5, 30), NO_NGRAM)
    logits[0, 1, [0, 1]], logits[0, 0, 2] = 1.0, 2.0
    [got] = explain(logits, [window])
    assert got.answer == "ton, old mill, mill ton"
    [passage] = got.documents[0].passages
    shown = {
        passage.text[start:stop]: ranks
        for (start, stop), ranks in zip(passage.marks, passage.ranks, strict=True)
    }
    assert shown == {"Old": (2,), "Mill": (2, 3), "Ton": (1, 3)}


def test_phrases_stand_in_the_order_of_the_prediction():
    """The best place of "mill" is better than that of "old", all of "old" are more."""
    [window] = features(
        record(("old old old mill",)), tokenizer(), StructuredSizes(30, 6)
    )
    logits = np.full((1, 5, 30), NO_NGRAM)
    logits[0, 0, :4] = np.log([0.2, 0.2, 0.2, 0.4])
    [got] = explain(logits, [window])
    assert got.answer == "mill, old"
    assert [c.text for c in got.candidates] == ["mill", "old"]
    np.testing.assert_allclose([c.probability for c in got.candidates], [0.4, 0.6])


# --- boxes ----------------------------------------------------------------------------


def look(**changes):
    """`PLAIN` with some numbers changed."""
    names = ("x", "width", "y", "height", "block", "inline", "heading", "leaf", "font")
    values = dict(zip((*names, "bold"), PLAIN, strict=True)) | changes
    return list(values.values())


def page_of(*looks, texts=None):
    """The page of an explanation, whose elements look so."""
    texts = texts or ("mill",) * len(looks)
    made = record(texts, phrases=["mill"], looks=looks)
    [window] = features(made, tokenizer(), StructuredSizes(30, 6))
    logits = np.full((1, 5, 30), NO_NGRAM)
    logits[0, 0, 0] = 0.0
    [got] = explain(logits, [window])
    return got.documents[0]


def test_boxes_are_those_of_the_elements():
    page = page_of(TITLE, PLAIN)
    # The file has the width before y.
    want = [Box(40, 20, 600, 40, 28), Box(40, 70, 600, 18, 14)]
    assert [p.box for p in page.passages] == want
    assert page.sheet == Sheet(width=640, height=88)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 0.0},
        {"height": -1.0},
        {"font": 0.0},
        {"x": -600.0},
        {"y": -18.0},
        {"x": 2000.0},
        {"y": 20_000.0},
    ],
)
def test_an_element_of_which_nothing_is_seen_has_no_box(changes):
    page = page_of(PLAIN, look(**changes))
    assert [p.box is None for p in page.passages] == [False, True]
    assert page.sheet == Sheet(640, 88)
    nothing = page_of(look(**changes))
    assert nothing.sheet is None and nothing.passages[0].box is None


def test_an_element_without_a_word_has_no_box():
    page = page_of(PLAIN, look(y=900.0), texts=("mill", ""))
    assert [p.box is None for p in page.passages] == [False, True]


def test_an_element_that_reaches_far_out_does_not_make_the_others_tiny():
    page = page_of(PLAIN, look(x=-20.0, width=90_000.0, height=70_000.0))
    assert page.sheet == Sheet(2000, 20_000) and page.passages[1].box.left == -20
