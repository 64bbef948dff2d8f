"""How models of a family are exchanged with Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from etc_jax.conversion.engine import Report


class Exchange(NamedTuple):
    """Functions of one family, registered as "hugging_face" under its `model_type`.

    A layout of another program, which is read and not written, is registered as
    "hugging_face_class" under the name of its class in `architectures`.

    Attributes:
      config_class: of its configs.
      config_from: dict of a config.json -> config.
      read: (that dict, name -> array, config) -> (parameters, report).
      weights_to: (parameters, config) -> name -> array.
      values_to: (parameters, config) -> dict of a config.json.
      refined: (config, name -> array) -> the config with what weights alone show.
    """

    config_class: type
    config_from: Callable[[Mapping[str, Any]], Any]
    read: Callable[..., tuple[Any, Report]]
    weights_to: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]]
    values_to: Callable[[Mapping[str, Any], Any], dict[str, Any]]
    refined: Callable[[Any, Mapping[str, np.ndarray]], Any] = lambda config, _: config
