"""The measures of short answers, by hand."""

import pytest
from hypothesis import given, strategies as st

from etc_jax.scoring.answers import (
    Overlap,
    exact_match,
    harmonic_mean,
    normalize,
    overlap,
    token_overlap,
)

words = st.lists(st.sampled_from(["the", "mill", "an", "old", "Mill!", "A"]))


@pytest.mark.parametrize(
    "text, want",
    [
        ("The  Old\tMill!", "old mill"),
        ("A.M.", "am"),
        ("the-end", "theend"),
        ("an a the", ""),
        ("theory of a mill", "theory of mill"),
        ("1,234", "1234"),
        ("a–b", "–b"),  # an en dash is no ASCII punctuation, and ends a word
        ("O’Neill", "o’neill"),
    ],
)
def test_normalize(text, want):
    assert normalize(text) == want


def test_overlap_counts_repeated_words_as_often_as_they_stand_there():
    got = token_overlap("mill mill mill", "mill mill stone stone")
    assert got == pytest.approx(Overlap(2 / 3, 2 / 4, 4 / 7))


def test_two_answers_of_nothing_but_articles_match_and_do_not_overlap():
    assert exact_match("the", "A")
    assert token_overlap("the", "a") == Overlap(0, 0, 0)


@pytest.mark.parametrize(
    "one, other", [("yes", "yes it is"), ("no", "no yes"), ("noanswer", "x noanswer")]
)
def test_closed_answers_are_right_or_wrong_on_either_side(one, other):
    closed = ("yes", "no", "noanswer")
    assert token_overlap(one, other, closed=closed).f1 == 0
    assert token_overlap(other, one, closed=closed).f1 == 0
    assert token_overlap(one, other).f1 > 0
    assert token_overlap(f"{one}.", one.upper(), closed=closed).f1 == 1


@given(words, words)
def test_swapping_sides_swaps_precision_and_recall(one, other):
    there, back = (
        token_overlap(" ".join(x), " ".join(y)) for x, y in ((one, other), (other, one))
    )
    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert there.f1 == pytest.approx(back.f1)
    low, high = sorted(there[:2])
    assert 0 <= low <= high <= 1
    assert low - 1e-12 <= there.f1 <= high + 1e-12


def test_nothing_to_divide_by_is_zero():
    assert overlap(0, 0, 0) == overlap(0, 3, 0) == Overlap(0, 0, 0)
    assert harmonic_mean(0.0, 0.0) == 0
