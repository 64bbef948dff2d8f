"""How models of a family are exchanged with Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import registry
from etc_jax.conversion.engine import Report

KIND = "hugging_face"


class Exchange(NamedTuple):
    """Functions of one family, registered as "hugging_face" under its `model_type`.

    A layout of another program, which is read and not written, is registered as
    "hugging_face_class" under the name of its class in `architectures`.

    Attributes:
      config_class: of its configs; None: of another family's, which writes them.
      config_from: dict of a config.json -> config.
      read: (that dict, name -> array, config) -> (parameters, report).
      weights_to: (parameters, config) -> name -> array.
      values_to: (parameters, config) -> dict of a config.json.
      refined: (config, name -> array) -> the config with what weights alone show.
      model_type: of config.json, where it is not the family's name here.
      tokenizer_class: that transformers takes where a folder names none.
      facts: what differs from other families of its kind, which they read.
    """

    config_class: type | None
    config_from: Callable[[Mapping[str, Any]], Any]
    read: Callable[..., tuple[Any, Report]]
    weights_to: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]]
    values_to: Callable[[Mapping[str, Any], Any], dict[str, Any]]
    refined: Callable[[Any, Mapping[str, np.ndarray]], Any] = lambda config, _: config
    model_type: str | None = None
    tokenizer_class: str | None = None
    facts: Any = None


def find(config: Any) -> Exchange | None:
    """That of a model's family; None: transformers has no counterpart."""
    exchanges = (registry.lookup(KIND, name) for name in registry.names(KIND))
    return next((x for x in exchanges if type(config) is x.config_class), None)


def of(config: Any) -> Exchange:
    """That of a model's family.

    Raises:
      ValueError: if transformers has no counterpart.
    """
    if (exchange := find(config)) is None:
        raise ValueError(
            f"{type(config).__name__} has no counterpart in transformers; what has is "
            f"{', '.join(registry.names(KIND))}"
        )
    return exchange


def model_types(facts: type) -> list[str]:
    """Those of families with facts of a class, but for other names of them."""
    exchanges = {name: registry.lookup(KIND, name) for name in registry.names(KIND)}
    return [
        name
        for name, exchange in exchanges.items()
        if exchange.config_class and isinstance(exchange.facts, facts)
    ]


def model_type_of(config: Any) -> str:
    """What the family of a config is called in config.json."""
    return registry.name_of(KIND, of(config))
