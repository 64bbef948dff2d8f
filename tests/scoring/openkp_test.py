"""OpenKP figures of small cases done by hand, and what is said of bad input."""

import pytest

from etc_jax.scoring import openkp


def page(url, *phrases):
    return {"url": url, "KeyPhrases": [phrase.split(" ") for phrase in phrases]}


GOLD = [page("a", "Solar Panel", "battery"), page("b", "kite")]


def test_figures_are_means_over_pages():
    got = openkp.score(GOLD, [page("a", "battery", "roof", "solar panel"), page("b")])
    want = {
        **{"P@1": (1 + 0) / 2, "R@1": (1 / 2 + 0) / 2, "F1@1": (2 / 3 + 0) / 2},
        **{"P@3": (2 / 3 + 0) / 2, "R@3": (1 + 0) / 2, "F1@3": (4 / 5 + 0) / 2},
        **{"P@5": (2 / 5 + 0) / 2, "R@5": (1 + 0) / 2, "F1@5": (4 / 7 + 0) / 2},
    }
    assert got.metrics == pytest.approx(want, abs=1e-12)
    assert got.count == 2 and got.problems() == []


def test_the_order_of_pages_does_not_matter():
    given = [page("b", "kite"), page("a", "battery")]
    assert openkp.score(GOLD, given) == openkp.score(GOLD, given[::-1])


def test_gold_as_prediction_finds_everything():
    got = openkp.score(GOLD, GOLD).metrics
    assert got["R@3"] == got["R@5"] == got["P@1"] == 1.0


def test_case_and_repeats_do_not_matter_and_articles_and_points_do():
    phrases = [["The", "Mill"], ["the", "mill"], ["mill"], ["mill", "."], []]
    assert openkp.normalised(phrases) == ["the mill", "mill", "mill ."]
    assert openkp.normalised([[""], ["", "mill"], ["mill", ""]]) == ["mill"]


@pytest.mark.parametrize(
    "predictions, message",
    [
        ([page("a")], "1 of 2 gold records have no keyphrases.*: 'b'"),
        ([*GOLD, page("c")], "predictions are for no gold record.*: 'c'"),
        ([*GOLD, page("b")], r"record 2 \(b\): a second prediction for this url"),
        ({"a": []}, "predictions: an array expected, got an object"),
        ([{"url": "a"}], r"record 0 \(a\): no field 'KeyPhrases'"),
        ([{"url": "a", "KeyPhrases": ["x"]}], r"a phrase: an array expected, got text"),
        ([{"url": "a", "KeyPhrases": [[1]]}], "text expected, got a whole number"),
    ],
)
def test_bad_predictions_are_refused_by_name(predictions, message):
    with pytest.raises(ValueError, match=message):
        openkp.score(GOLD, predictions)


@pytest.mark.parametrize(
    "gold, message",
    [
        ([], "at least one record"),
        ([page("a"), page("b", "x")], r"record 0 \(a\).*no phrase to find"),
        ([{"url": "a", "KeyPhrases": [[""]]}], "no phrase to find"),
        ([*GOLD, page("b", "x")], "occur more than once.*'b'"),
    ],
)
def test_bad_gold_is_refused_by_name(gold, message):
    with pytest.raises(ValueError, match=message):
        openkp.score(gold, GOLD)
