"""Configs that earlier versions recorded, as the present one has them."""

from collections.abc import Mapping
from typing import Any

# What was a data set of its own, and is a format of another one.
FORMERLY = {"hotpotqa_longformer": "hotpotqa", "wikihop_longformer": "wikihop"}
# Options of coreference that stood in two sections, which had to agree.
_TWICE = ("span_tokens", "part_length", "singletons")
# {field: what to set today}, for a config file with a field that is elsewhere now.
MOVED = {
    f"objective.{field}": f'data.input_options to have "{field}={{}}"'
    for field in _TWICE
}


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config with the names of today; one of today is left as it is."""
    objective = values.get("objective")
    if not isinstance(objective, Mapping):  # is said where the section is built
        return dict(values)
    objective = {k: x for k, x in objective.items() if k not in _TWICE}
    name = objective.get("name")
    if isinstance(name, str) and name in FORMERLY:
        objective["name"] = FORMERLY[name]
    return {**values, "objective": objective}
