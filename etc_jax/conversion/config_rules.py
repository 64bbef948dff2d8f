"""What the values of other projects' configs may be: one table a family, one check.

problems({"hidden_size": "768"}, {"hidden_size": whole(1)})
    -> hidden_size is '768'; expected a whole number from 1 to 2147483647
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etc_jax.base.rules import Rule, number

# Rates of dropout; 1 would drop everything.
RATE = number(0, 1, "[)")
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
        if key in values and (problem := rule.problem(values[key])):
            yield f"{key} {problem}"


def check_head_dim(config: Any) -> None:
    """Raises ValueError unless heads share out the width, as those of transformers."""
    size = config.attention_head_dim
    if size * config.num_heads != config.embed_dim:
        raise ValueError(
            f"head_dim is {size}, of {config.num_heads} heads in a width of "
            f"{config.embed_dim}; transformers computes embed_dim / num_heads, "
            "keep this model here"
        )


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
