"""Accuracy, macro and micro F1 of labels, against cases worked out by hand."""

import sys

import pytest

from etc_jax.base import extras
from etc_jax.scoring.labels import score

pytest.importorskip("sklearn")


def one(labels):
    """A set of one label for each id."""
    return {str(i): {label} for i, label in enumerate(labels)}


def test_one_label_by_hand():
    # a: 2 of 3 found, 1 wrongly given. b: 1 of 2, 2 wrongly. c: 0 of 1.
    got = score(one("aaabbc"), one("aababb"))
    assert got.metrics["accuracy"] == pytest.approx(3 / 6)
    assert got.metrics["micro_f1"] == pytest.approx(3 / 6)
    of_a, of_b = 2 * 2 / (3 + 3), 2 * 1 / (2 + 3)
    assert got.metrics["macro_f1"] == pytest.approx((of_a + of_b + 0) / 3)
    assert got.count == 6 and got.problems() == []


def test_sets_of_labels_by_hand():
    gold = {"1": {"a", "b"}, "2": {"b"}, "3": set(), "4": {"c"}}
    said = {"1": {"a"}, "2": {"b", "c"}, "3": set(), "4": {"c"}}
    got = score(gold, said).metrics
    assert got["accuracy"] == pytest.approx(2 / 4)
    # Right: a, b, c; given: 4; wanted: 4.
    assert got["micro_f1"] == pytest.approx(2 * 3 / (4 + 4))
    assert got["macro_f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_a_label_that_is_the_only_one_is_found_or_not():
    gold = {"1": {"a"}, "2": {"a"}, "3": set()}
    got = score(gold, {"1": {"a"}, "2": set(), "3": set()}).metrics
    want = {"accuracy": 2 / 3, "macro_f1": 2 / 3, "micro_f1": 2 / 3}
    assert got == pytest.approx(want)
    nothing = score({"1": set()}, {"1": set()}).metrics
    assert nothing == {"accuracy": 1.0, "macro_f1": 0.0, "micro_f1": 0.0}


def test_a_record_without_a_prediction_is_wrong():
    got = score(one("ab"), {"0": {"a"}, "x": {"b"}})
    assert got.metrics == pytest.approx(
        {"accuracy": 1 / 2, "macro_f1": 1 / 2, "micro_f1": 2 * 1 / (1 + 2)}
    )
    assert got.missing == {"label": ("1",)} and got.surplus == ("x",)
    assert score({"0": set()}, {}).metrics["accuracy"] == 0.0


def test_a_record_that_could_not_be_read_is_wrong_and_of_no_label():
    got = score(one("ab"), one("ab"), unread=("x", "y"))
    assert got.metrics == {"accuracy": 1 / 2, "macro_f1": 1.0, "micro_f1": 1.0}
    assert got.count == 4
    assert score({}, {}, unread=("x",)).metrics["micro_f1"] == 0.0


def test_nothing_to_score_is_refused():
    with pytest.raises(ValueError, match="at least one record expected"):
        score({}, {})


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(extras.MissingExtraError, match=r"needed to score labels.*"):
        score(one("of no other test"), one("a"))
