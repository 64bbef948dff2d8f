"""Configs that earlier versions recorded, as the present one has them."""

from collections.abc import Mapping
from typing import Any

# What was a data set of its own, and is a format of another one.
FORMERLY = {"hotpotqa_longformer": "hotpotqa", "wikihop_longformer": "wikihop"}
# Options of coreference that stood in two sections, which had to agree.
_TWICE = ("span_tokens", "part_length", "singletons")


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config with the names of today; one of today is left as it is."""
    objective = {
        k: x for k, x in values.get("objective", {}).items() if k not in _TWICE
    }
    name = objective.get("name")
    if name in FORMERLY:
        objective["name"] = FORMERLY[name]
    return {**values, **({"objective": objective} if objective else {})}
