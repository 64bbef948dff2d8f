"""Models of Hugging Face as models of this project, and back, by family.

A folder holds config.json and safetensors. What a family is called in config.json, as
`model_type`, is what it is called here.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion import encoder, native, reformer
from etc_jax.conversion.config_file import HF_CONFIG, read_hf_config
from etc_jax.conversion.engine import Report
from etc_jax.conversion.safetensors_io import FILE, SafetensorsFiles, write
from etc_jax.models.encoder import EncoderForMaskedLm
from etc_jax.models.reformer import ReformerLm
from etc_jax.models.reformer_config import ReformerConfig


class Family(NamedTuple):
    """How models of a family are exchanged.

    Attributes:
      config_class: of its configs.
      config_from: dict of a config.json -> config.
      config_to: the inverse.
      abstract: config -> shapes of the parameters.
      weights_from: (name -> array, config, shapes) -> (parameters, report).
      weights_to: (parameters, config) -> name -> array.
    """

    config_class: type
    config_from: Callable[[Mapping[str, Any]], Any]
    config_to: Callable[[Any], dict[str, Any]]
    abstract: Callable[[Any], Any]
    weights_from: Callable[[Mapping[str, np.ndarray], Any, Any], tuple[Any, Report]]
    weights_to: Callable[[Mapping[str, Any], Any], dict[str, np.ndarray]]


def _shapes(model_class: type, config: Any) -> Any:
    model, tokens = model_class(config), jnp.zeros((1, 1), jnp.int32)
    return jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]


FAMILIES = {
    "reformer": Family(
        ReformerConfig,
        reformer.config_from_hf,
        reformer.config_to_hf,
        functools.partial(_shapes, ReformerLm),
        reformer.import_hf,
        reformer.export_hf,
    ),
    **{
        family: Family(
            config_class,
            encoder.config_from_hf,
            encoder.config_to_hf,
            functools.partial(_shapes, EncoderForMaskedLm),
            encoder.import_hf,
            encoder.export_hf,
        )
        for family, config_class in encoder.CONFIGS.items()
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
    family, config = read_hf_config(folder, _config)
    weights = SafetensorsFiles(folder)
    params, report = family.weights_from(weights, config, family.abstract(config))
    return Imported(params, config, report)


def _config(values: Mapping[str, Any]) -> tuple[Family, Any]:
    name = values.get("model_type")
    if name not in FAMILIES:
        raise ValueError(
            f"model_type is {name!r}; what can be read is {', '.join(FAMILIES)}"
        )
    return FAMILIES[name], FAMILIES[name].config_from(values)


def save(folder: str | os.PathLike, params: Mapping[str, Any], config: Any) -> int:
    """Writes a folder that transformers reads; the number of its arrays.

    Raises:
      ValueError: if the family has no counterpart, or the folder holds something.
      OSError: if it cannot be written.
    """
    found = [f for f in FAMILIES.values() if type(config) is f.config_class]
    if not found:
        raise ValueError(
            f"{type(config).__name__} has no counterpart in transformers; what has is "
            f"{', '.join(FAMILIES)}"
        )
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name another folder")
    weights = found[0].weights_to(params, config)
    with native.whole_folder(folder) as part:
        # transformers asks for the framework that wrote it.
        write(part / FILE, weights, {"format": "pt"})
        values = json.dumps(found[0].config_to(config), indent=2)
        (part / HF_CONFIG).write_text(f"{values}\n", encoding="utf-8")
    return len(weights)
