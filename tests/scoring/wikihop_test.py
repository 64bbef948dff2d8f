"""WikiHop accuracy of small cases, and what is said of bad input."""

import pytest

from etc_jax.scoring import wikihop

GOLD = [
    {"id": "a", "answer": "german empire"},
    {"id": "b", "answer": "___MASK3___"},
    {"id": "c", "answer": "rome"},
    {"id": "d", "answer": "ton "},
]


def test_case_and_outer_spaces_do_not_matter_and_articles_do():
    given = {"a": " German Empire", "b": "___mask3___", "c": "the rome", "d": "ton"}
    assert wikihop.score(GOLD, given).metrics == {"accuracy": 0.75}


def test_missing_ids_are_wrong_and_named_and_surplus_ones_count_nowhere():
    got = wikihop.score(GOLD, {"c": "rome", "e": "rome"})
    assert got.metrics == {"accuracy": 0.25}
    assert got.missing == {"candidate": ("a", "b", "d")}
    assert got.surplus == ("e",)


@pytest.mark.parametrize(
    "gold, predictions, message",
    [
        ([], {}, "at least one record"),
        ([{"id": 3, "answer": "x"}], {}, "record 0, field 'id': text expected"),
        ([{"id": "a"}], {}, r"record 0 \(a\): no field 'answer'; fields are: id"),
        (GOLD, [], "predictions: an object expected, got an array"),
        (GOLD, {"a": 0}, "candidate of 'a': text expected, got a whole number"),
    ],
)
def test_bad_input_is_named(gold, predictions, message):
    with pytest.raises(ValueError, match=message):
        wikihop.score(gold, predictions)
