"""Models of Hugging Face as models of this project, and back, by family.

A folder holds config.json and weights (`weight_files`). Families go by what they are
called in config.json, as `model_type`; models of other programs that save such folders
go by their class in `architectures`, as their `model_type` is that of another layout.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from etc_jax.base import registry
from etc_jax.base.rules import shown
from etc_jax.base.whole_files import whole_folder
from etc_jax.conversion import exchange
from etc_jax.conversion.engine import Report
from etc_jax.conversion.exchange import KIND, Exchange
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import HF_CONFIG, read_hf_config
from etc_jax.conversion.formats.safetensors_io import FILE, write
from etc_jax.conversion.formats.weight_files import open_weights

CLASS = "hugging_face_class"


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
    family, values, config, weights = _opened(folder)
    params, report = family.read(values, weights, config)
    return Imported(params, config, report)


def read_config(folder: str | os.PathLike) -> Any:
    """The config of the model of a folder, whose weights are opened and not read.

    Raises:
      ValueError: see `read`.
    """
    return _opened(folder)[2]


def _opened(folder: str | os.PathLike) -> tuple[Exchange, Mapping, Any, Mapping]:
    """(family, values of config.json, config, name -> array)."""
    family, values, config = read_hf_config(folder, _config)
    weights = open_weights(folder)
    return family, values, family.refined(config, weights), weights


def _config(values: Mapping[str, Any]) -> tuple[Exchange, Mapping[str, Any], Any]:
    classes = values.get("architectures")
    for name in registry.names(CLASS):
        if isinstance(classes, list) and name in classes:
            family = registry.lookup(CLASS, name)
            return family, values, family.config_from(values)
    name, names = values.get("model_type"), list(registry.names(KIND))
    if name not in names:
        raise ValueError(
            f"model_type is {shown(name)}; what can be read is {', '.join(names)}"
        )
    family = registry.lookup(KIND, name)
    return family, values, family.config_from(values)


def save(
    folder: str | os.PathLike,
    params: Mapping[str, Any],
    config: Any,
    *,
    files: Mapping[str, bytes] = MappingProxyType({}),
    labels: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Writes a folder that transformers reads; the number of its arrays.

    Args:
      folder: made, with the folders above it.
      params: nested dict of arrays.
      config: of the model.
      files: {name: content} of what lies beside them, such as a tokenizer.
      labels: of a model that chooses among some, as `label_names` has them; of another
        one they are left out. {}: numbers.

    Raises:
      ValueError: if the family has no counterpart, or the folder holds something.
      OSError: if it cannot be written.
    """
    family = exchange.of(config)
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name another folder")
    weights = family.weights_to(params, config)
    with whole_folder(folder) as part:
        # transformers asks for the framework that wrote it.
        write(part / FILE, weights, {"format": "pt"})
        values = family.values_to(params, config)
        numbers = values.get("id2label")
        if numbers and numbers.keys() == labels.get("id2label", {}).keys():
            values |= labels
        values = json.dumps(values, indent=2)
        (part / HF_CONFIG).write_text(f"{values}\n", encoding="utf-8")
        native.write_files(part, files)
    return len(weights)
