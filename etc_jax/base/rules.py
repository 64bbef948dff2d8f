"""What a value may be, and the one wording of errors about values that may not.

at_least(1).problem(0)
    -> "is 0; expected 1 or more"
at_least(1).problems(section, "keep")
    -> ("keep", "is 0; expected 1 or more")
at_least(1).check(keep=0)
    -> ValueError: keep is 0; expected 1 or more
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from etc_jax.base.suggestions import did_you_mean

# (field, what is wrong with it).
Problem = tuple[str, str]

# Sizes of arrays are int32 in most programs that read them.
LARGEST = 2**31 - 1
# Layers and heads are looped over, so that a wrong number must not take for ever.
MOST = 10_000
_SHOWN = 60


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a value may be.

    Attributes:
      expected: in words.
      allows: whether a value is such a one; any may be given.
      names: of a choice, the nearest of which is suggested.
    """

    expected: str
    allows: Callable[[Any], bool]
    names: tuple[str, ...] = ()

    def expected_of(self, value: Any) -> str:
        """`expected`, with the name that a misspelt one was meant to be."""
        near = did_you_mean(value, self.names) if isinstance(value, str) else ""
        return f"{self.expected}; {near}" if near else self.expected

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, after its name in a sentence; None: nothing."""
        if self.allows(value):
            return None
        return f"is {shown(value)}; expected {self.expected_of(value)}"

    def problems(self, section: Any, *fields: str) -> Iterator[Problem]:
        """(field, problem) of each field of a section; one that is None is not set."""
        for field in fields:
            value = getattr(section, field)
            if value is not None and (problem := self.problem(value)):
                yield field, problem

    def check(self, **values: Any) -> None:
        """Raises one ValueError that names all values that are not allowed."""
        problems = ((name, self.problem(value)) for name, value in values.items())
        refuse((name, problem) for name, problem in problems if problem)


def refuse(problems: Iterable[Problem], named: str = "") -> None:
    """Raises one ValueError with all of some problems, if there are any.

    Args:
      problems: (field, what is wrong).
      named: whose fields they are; stands before them.
    """
    if lines := [f"{field} {message}" for field, message in problems]:
        raise ValueError(f"{named}: " * bool(named) + "; ".join(lines))


def at_least(low: float, meaning: str = "") -> Rule:
    """A number that is not below another, which may have a meaning of its own."""
    least = f"{low} ({meaning})" if meaning else f"{low}"
    return Rule(f"{least} or more", lambda value: value >= low)


def more_than(low: float) -> Rule:
    return Rule(f"more than {low}", lambda value: value > low)


def whole(low: int = 0, high: int = LARGEST) -> Rule:
    """A whole number in `[low, high]`, which True and 1.0 are not."""
    return Rule(
        f"a whole number from {low} to {high}",
        lambda value: _is(value, numbers.Integral) and low <= value <= high,
    )


def number(low: float, high: float, ends: str = "[]") -> Rule:
    """A number, whole or not, between two that belong to it or not: "[]", "[)"..."""
    words = f"from {low:g} to {high:g}"
    if ends != "[]":
        words = f"in {ends[0]}{low:g}, {high:g}{ends[1]}"

    def allows(value: Any) -> bool:
        # Whole numbers may be larger than any float, and are compared exactly.
        return (
            _is(value, numbers.Real)
            and (low <= value if ends[0] == "[" else low < value)
            and (value <= high if ends[1] == "]" else value < high)
        )

    return Rule(f"a number {words}", allows)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


FINITE = Rule("a finite number", lambda x: _is(x, numbers.Real) and math.isfinite(x))


def flag() -> Rule:
    return Rule("true or false", lambda value: type(value) is bool)


def choice(names: Iterable[Any]) -> Rule:
    """One of some values; 1 is not True."""
    values = tuple(names)
    return Rule(
        f"one of {', '.join(map(str, values))}",
        lambda value: any(type(value) is type(x) and value == x for x in values),
        tuple(x for x in values if isinstance(x, str)),
    )


def text() -> Rule:
    return Rule("a text", lambda value: isinstance(value, str))


def listed(rule: Rule, low: int = 1, high: int = MOST) -> Rule:
    """A list of so many values, each allowed by a rule."""
    many = str(low) if low == high else f"{low} to {high}"
    return Rule(
        f"a list of {many}, each {rule.expected}",
        lambda value: (
            isinstance(value, list | tuple)
            and low <= len(value) <= high
            and all(map(rule.allows, value))
        ),
    )


def either(*rules: Rule) -> Rule:
    """What one of some rules allows."""
    return Rule(
        " or ".join(rule.expected for rule in rules),
        lambda value: any(rule.allows(value) for rule in rules),
    )


NOTHING = Rule("null", lambda value: value is None)


def shown(value: Any) -> str:
    """A value for a message: on one line, and not long."""
    if isinstance(value, dict | list) and len(value) > 3:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits; too deep
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
