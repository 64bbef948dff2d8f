"""Models of Hugging Face as models of this project, and back, by family.

A folder holds config.json and weights (`weight_files`). Families go by what they are
called in config.json, as `model_type`.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from etc_jax.conversion.config_rules import shown
from etc_jax.conversion.engine import Report
from etc_jax.conversion.families import (
    encoder,
    encoder_config,
    encoder_decoder,
    encoder_decoder_config,
    reformer,
)
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import HF_CONFIG, read_hf_config
from etc_jax.conversion.formats.safetensors_io import FILE, write
from etc_jax.conversion.formats.weight_files import open_weights
from etc_jax.models.reformer_config import ReformerConfig


class Family(NamedTuple):
    """How models of a family are exchanged.

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


FAMILIES = {
    "reformer": Family(
        ReformerConfig,
        reformer.config_from_hf,
        reformer.read_hf,
        reformer.weights_to_hf,
        reformer.values_to_hf,
    ),
    **{
        family: Family(
            config_class,
            encoder_config.config_from_hf,
            encoder.read_hf,
            encoder.export_hf,
            encoder.values_to_hf,
        )
        for family, config_class in encoder_config.CONFIGS.items()
    },
    **{
        family: Family(
            keys.config_class,
            encoder_decoder_config.config_from_hf,
            encoder_decoder.read_hf,
            encoder_decoder.export_hf,
            encoder_decoder.values_to_hf,
            encoder_decoder.refined,
        )
        for family, keys in encoder_decoder_config.FAMILIES.items()
    },
}


class Imported(NamedTuple):
    """A model that was read.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model.
      report: which parameter is made of what.
    """

    params: dict[str, Any]
    config: Any
    report: Report


def read(folder: str | os.PathLike) -> Imported:
    """The model of a folder.

    Raises:
      ValueError: if something is missing, damaged, of another family, or does not fit.
    """
    family, values, config = read_hf_config(folder, _config)
    weights = open_weights(folder)
    config = family.refined(config, weights)
    params, report = family.read(values, weights, config)
    return Imported(params, config, report)


def _config(values: Mapping[str, Any]) -> tuple[Family, Mapping[str, Any], Any]:
    name = values.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ValueError(
            f"model_type is {shown(name)}; what can be read is {', '.join(FAMILIES)}"
        )
    return FAMILIES[name], values, FAMILIES[name].config_from(values)


def is_known(config: Any) -> bool:
    """Whether transformers has a counterpart of a model's family."""
    return any(type(config) is family.config_class for family in FAMILIES.values())


def save(
    folder: str | os.PathLike,
    params: Mapping[str, Any],
    config: Any,
    *,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> int:
    """Writes a folder that transformers reads; the number of its arrays.

    Args:
      folder: made, with the folders above it.
      params: nested dict of arrays.
      config: of the model.
      files: {name: content} of what lies beside them, such as a tokenizer.

    Raises:
      ValueError: if the family has no counterpart, or the folder holds something.
      OSError: if it cannot be written.
    """
    if not is_known(config):
        raise ValueError(
            f"{type(config).__name__} has no counterpart in transformers; what has is "
            f"{', '.join(FAMILIES)}"
        )
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name another folder")
    family = next(f for f in FAMILIES.values() if type(config) is f.config_class)
    weights = family.weights_to(params, config)
    with native.whole_folder(folder) as part:
        # transformers asks for the framework that wrote it.
        write(part / FILE, weights, {"format": "pt"})
        values = json.dumps(family.values_to(params, config), indent=2)
        (part / HF_CONFIG).write_text(f"{values}\n", encoding="utf-8")
        for name, content in files.items():
            (part / name).write_bytes(content)
    return len(weights)
