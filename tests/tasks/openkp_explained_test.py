import numpy as np
import pytest
from multihop_samples import tokenizer
from openkp_samples import record

from etc_jax.ops.ngrams import NO_NGRAM
from tasks.multihop import Sizes
from tasks.openkp_explained import explain
from tasks.openkp_features import features

# Old Mill The old mill stands in Ton . The mill burned country of Ton
OLD, MILL, TON = [0, 3], [1, 4, 10], [7, 14]


@pytest.fixture
def explained():
    [window] = features(record(), tokenizer(), Sizes(30, 6))
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
    assert [p.is_support for p in page.passages] == [True, True, False, True]


def test_phrases_side_by_side_are_one_mark():
    [window] = features(record(("Old Mill Ton a",)), tokenizer(), Sizes(30, 6))
    logits = np.full((1, 5, 30), NO_NGRAM)
    logits[0, 1, [0, 1]], logits[0, 0, 2] = 1.0, 2.0
    [got] = explain(logits, [window])
    assert got.documents[0].passages[0].marks == ((0, 12),)
