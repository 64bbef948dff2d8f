"""Configs of other projects' models, which are JSON objects."""

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from etc_jax.base import strict_json

T = TypeVar("T")


HF_CONFIG = "config.json"


def read_hf_config(
    folder: str | os.PathLike, make_config: Callable[[Mapping[str, Any]], T]
) -> T:
    """A config from a folder of Hugging Face; see `read_config_file`.

    Raises:
      ValueError: also if there is none.
    """
    path = pathlib.Path(folder) / HF_CONFIG
    if not path.is_file():
        raise ValueError(
            f"no {HF_CONFIG} in {folder}; expected a folder that Hugging Face's "
            "save_pretrained wrote"
        )
    return read_config_file(path, make_config)


def read_config_file(
    path: pathlib.Path, make_config: Callable[[Mapping[str, Any]], T]
) -> T:
    """A config from its file.

    Args:
      path: of the file, which is there.
      make_config: makes the config of the object in the file.

    Raises:
      ValueError: naming the file, if it holds no JSON object, or one that
        `make_config` refuses with a ValueError or a TypeError.
      OSError: if it cannot be read.
    """
    values = read_object(path)
    try:
        return make_config(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_object(path: pathlib.Path) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
      ValueError: naming the file, if it holds none.
      OSError: if it cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        values = strict_json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, expected an object")
    return values
