"""What the values of other projects' configs may be: one table a family, one check.

problems({"hidden_size": "768"}, {"hidden_size": whole(1)})
    -> hidden_size is '768'; expected a whole number from 1 to 2147483647
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

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
      allows: whether it is such a value; any JSON value may be given.
    """

    expected: str
    allows: Callable[[Any], bool]


def whole(low: int = 0, high: int = LARGEST) -> Rule:
    """A whole number of JSON, which true and 1.0 are not."""
    return Rule(
        f"a whole number from {low} to {high}",
        lambda value: type(value) is int and low <= value <= high,
    )


def number(low: float, high: float) -> Rule:
    """A number, whole or not, in `[low, high]`."""
    return Rule(
        f"a number from {low:g} to {high:g}",
        # Whole numbers may be larger than any float, and are compared exactly.
        lambda value: type(value) in (int, float) and low <= value <= high,
    )


def flag() -> Rule:
    return Rule("true or false", lambda value: type(value) is bool)


def choice(names) -> Rule:
    """One of some names."""
    return Rule(
        f"one of {', '.join(map(str, names))}",
        lambda value: isinstance(value, str) and value in names,
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
# Rates of dropout; 1 would drop everything.
RATE = number(0, math.nextafter(1, 0))
# Below, float32 has none between it and 0; above, it is no small number.
EPSILON = number(1e-30, 0.1)
# Of the weights that training from scratch begins with; 0: all of them are 0.
SPREAD = number(0, 1e30)


def problems(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> Iterator[str]:
    """A line for each value that a rule does not allow; what is not there is left out.

    Args:
      values: of a JSON object.
      rules: key -> rule; other keys are not looked at.
    """
    for key, rule in rules.items():
        if key in values and not rule.allows(values[key]):
            yield f"{key} is {shown(values[key])}; expected {rule.expected}"


def raise_all(title: str, messages: Iterable[str]) -> None:
    """Raises a ValueError of all messages, below a title; nothing if there are none."""
    if listed := list(messages):
        raise ValueError(f"{title}:\n  " + "\n  ".join(listed))


def check_sizes(pairs: Mapping[str, tuple[int, int | None]]) -> None:
    """Refuses a config of other sizes than the weights, before anything is made of it.

    Args:
      pairs: key of the config -> (its value, what the weights have; None: unknown).

    Raises:
      ValueError: naming every key that differs.
    """
    differing = (
        f"{key} is {in_config}, but the weights have {in_weights}"
        for key, (in_config, in_weights) in pairs.items()
        if in_weights is not None and in_config != in_weights
    )
    raise_all("config and weights differ", differing)


def one_each(values: int | Sequence[int], layers: int, key: str) -> Sequence[int]:
    """The values of a key for each layer, where there is one for all or a list.

    Raises:
      ValueError: if the list has another length.
    """
    if isinstance(values, int):
        return [values] * layers
    if len(values) != layers:
        raise ValueError(
            f"{key} has {len(values)} entries for {layers} layers; expected one for "
            "each layer"
        )
    return values


def layers_in(names: Iterable[str], start: str) -> int:
    """How many layers weights named `start.NUMBER.` have."""
    layer = re.compile(rf"{re.escape(start)}\.(\d{{1,9}})\.", re.ASCII)
    return max((int(m[1]) + 1 for m in map(layer.match, names) if m), default=0)


def shown(value: Any) -> str:
    """A JSON value for a message: on one line, and not long."""
    if isinstance(value, dict | list) and len(value) > 3:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits; too deep
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
