"""Coreference by hand, labels and bits; and what is said of bad input."""

import math

import pytest

from etc_jax.scoring import classification, coreference
from etc_jax.scoring.bits import bits_per_symbol

A, B, C, D = [0, 0], [2, 3], [5, 5], [7, 8]


def test_a_split_cluster_by_hand():
    """{A B C} found as {A B} and {C D}: one of two links is kept."""
    found = coreference.score({"d": [[A, B, C]]}, {"d": [[A, B], [C, D]]}).metrics
    assert found["muc_recall"] == 1 / 2 and found["muc_precision"] == 1 / 2
    assert found["b_cubed_recall"] == pytest.approx((4 / 3 + 1 / 3) / 3)
    assert found["b_cubed_precision"] == pytest.approx((4 / 2 + 1 / 2) / 4)
    assert found["ceaf_e_recall"] == pytest.approx(4 / 5)
    assert found["ceaf_e_precision"] == pytest.approx(4 / 5 / 2)
    f1 = [found[f"{name}_f1"] for name in coreference.METRICS]
    assert found["conll_f1"] == pytest.approx(sum(f1) / 3)


def test_documents_are_summed_before_they_are_divided():
    gold = {"a": [[A, B]], "b": [[A, B, C, D]]}
    found = coreference.score(gold, {"a": [[A, B]]})
    assert found.metrics["muc_recall"] == 1 / 4
    assert found.metrics["muc_precision"] == 1
    assert found.missing == {"clusters": ("b",)}


@pytest.mark.parametrize(
    "gold, predictions, message",
    [
        ({}, {}, "at least one document"),
        ({"d": [[A, B], [A, C]]}, {}, r"gold 'd': the mention \(0, 0\) is there 2"),
        ({"d": [[A]]}, {"d": [[[3, 1]]]}, r"predicted 'd': a mention is \(3, 1\)"),
        ({"d": [[]]}, {}, "a cluster has no mention"),
    ],
)
def test_bad_clusters_are_named(gold, predictions, message):
    with pytest.raises(ValueError, match=message):
        coreference.score(gold, predictions)


def test_lacking_labels_are_wrong_and_of_no_class():
    gold = {"a": "true", "b": "true", "c": "false", "d": "false"}
    found = classification.score(gold, {"a": "true", "c": "true"}, positive="true")
    assert found.metrics == {"accuracy": 0.25, "f1": 0.5}
    assert found.missing == {"label": ("b", "d")}
    with pytest.raises(ValueError, match="at least one label"):
        classification.score({}, {})


def test_bits_of_the_scored_symbols_alone():
    nats = [math.log(2), math.log(8), 5.0]
    assert bits_per_symbol(nats, [1, 1, 0]) == pytest.approx(2)


@pytest.mark.parametrize(
    "nats, scored, message",
    [
        ([], None, "at least one scored symbol"),
        ([1.0], [0], "at least one scored symbol"),
        ([1.0, 2.0], [1], r"shape \(1,\), expected \(2,\)"),
        ([math.nan], None, "finite numbers"),
        ([-0.1], None, "0 or more"),
    ],
)
def test_what_is_no_probability_is_refused(nats, scored, message):
    with pytest.raises(ValueError, match=message):
        bits_per_symbol(nats, scored)
