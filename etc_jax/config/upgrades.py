"""Configs that earlier versions recorded, as the present one has them."""

from collections.abc import Mapping
from typing import Any

from etc_jax.base import registry

# What was a data set of its own, and is a format of another one.
FORMERLY = {"hotpotqa_longformer": "hotpotqa", "wikihop_longformer": "wikihop"}
# Options of coreference that stood in two sections, which had to agree.
_TWICE = ("span_tokens", "part_length", "singletons")
# {field: what to set today}, for a config file with a field that is elsewhere now.
MOVED = {
    f"objective.{field}": f'data.input_options to have "{field}={{}}"'
    for field in _TWICE
}


# Fields of `data` that had another name.
RENAMED = {
    "held_back_fraction": "validation_fraction",
    "held_back_files": "validation_files",
    "held_back_paths": "validation_paths",
}


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config with the names of today; one of today is left as it is."""
    upgraded_values = dict(values)
    objective, data = values.get("objective"), values.get("data")
    # What is no section is said where it is built.
    if isinstance(objective, Mapping):
        objective = {k: x for k, x in objective.items() if k not in _TWICE}
        name = objective.get("name")
        if isinstance(name, str) and name in FORMERLY:
            objective["name"] = FORMERLY[name]
        upgraded_values["objective"] = objective
    if isinstance(data, Mapping):
        data = {RENAMED.get(name, name): x for name, x in data.items()}
        is_old = "input_length" not in data
        upgraded_values["data"] = (
            _with_lengths(data, values.get("model")) if is_old else data
        )
    return upgraded_values


def _with_lengths(data: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """One sequence was the long tokens of an input, without global ones in texts."""
    data, family = dict(data), dict(model or {}).get("family")
    if family not in registry.names("model_config"):
        return data
    if registry.lookup("model_config", family).formats[0] == "structured":
        return data
    if "long_length" in data:
        data["input_length"] = data.pop("long_length")
    if data.get("source") != "windows":
        data.pop("global_length", None)
    return data
