"""What values may be, and the words that refuse others."""

import dataclasses
import math

import pytest

from etc_jax.base import rules


@pytest.mark.parametrize(
    "rule, allowed, refused, expected",
    [
        (rules.at_least(1), (1, 2.5), (0, 0.5, math.nan), "1 or more"),
        (rules.at_least(0, "all"), (0,), (-1,), "0 (all) or more"),
        (rules.more_than(0), (1e-30,), (0, -1, math.nan), "more than 0"),
        (
            rules.whole(0, 3),
            (0, 3),
            (True, 1.0, "1", -1, 4),
            "a whole number from 0",
        ),
        (rules.number(0, 1), (0, 0.5, 1), (-0.1, True, "1"), "a number from 0 to 1"),
        (rules.number(0, 1, "[)"), (0, 0.9), (1, math.nan), "a number in [0, 1)"),
        (rules.number(0, 1, "(]"), (0.1, 1), (0, 1.1), "a number in (0, 1]"),
        (rules.number(0, 1, "()"), (0.1,), (0, 1), "a number in (0, 1)"),
        (rules.number(0, 1e30), (10**30,), (10**31,), "a number from 0 to 1e+30"),
        (rules.FINITE, (0, -1.5), (math.inf, math.nan, "1"), "a finite number"),
        (rules.flag(), (True,), (1, None, "true"), "true or false"),
        (
            rules.choice((True, "never")),
            (True, "never"),
            (1, "ever"),
            "one of True",
        ),
        (rules.text(), ("",), (None, 1), "a text"),
        (
            rules.listed(rules.whole(), 2, 2),
            ([1, 2],),
            ([1], [1, -1], 3),
            "a list of 2",
        ),
        (
            rules.either(rules.text(), rules.NOTHING),
            (None, "a"),
            (1,),
            "a text or null",
        ),
    ],
)
def test_a_rule_says_what_it_allows(rule, allowed, refused, expected):
    assert [rule.problem(value) for value in allowed] == [None] * len(allowed)
    for value in refused:
        problem = rule.problem(value)
        assert problem.startswith(f"is {value!r}; expected {expected}"), problem


def test_a_misspelt_choice_is_told_the_nearest():
    problem = rules.choice(("float32", "bfloat16")).problem("bfloat")
    assert problem == (
        "is 'bfloat'; expected one of float32, bfloat16; did you mean 'bfloat16'?"
    )


@dataclasses.dataclass
class Section:
    steps: int | None = None
    rows: int = 0


def test_fields_that_are_not_set_are_let_through():
    found = list(rules.at_least(1).problems(Section(), "steps", "rows"))
    assert found == [("rows", "is 0; expected 1 or more")]
    with pytest.raises(ValueError, match="^Section: rows is 0; expected 1 or more$"):
        rules.refuse(found, "Section")
    rules.refuse([], "Section")


def test_all_wrong_values_are_one_error():
    with pytest.raises(ValueError, match="^a is 0; expected 1 or more; b is -1; exp"):
        rules.at_least(1).check(a=0, c=1, b=-1)


def test_a_value_is_shown_on_one_short_line():
    assert rules.shown("a\nb" * 99).count("\n") == 0 and len(rules.shown("x" * 99)) < 70
    assert rules.shown([1] * 9) == "a list of 9" and rules.shown((1, 2)) == "(1, 2)"
    assert rules.shown(10**9999) == "a int that cannot be shown"
