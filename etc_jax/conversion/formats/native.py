"""The project's own folder of a model: parameters, config, report of their origin.

    model.json          family and config of the model, size and checksum of the rest
    params.safetensors  the parameters by their paths
    report.json         what they were made of
    README.md           the card of the model, unless the user has written one
    ...                 files that were given to go with them, such as a tokenizer

Conversion writes it and training begins from it. It holds parameters alone, unlike the
checkpoints of a run.
"""

import dataclasses
import hashlib
import json
import logging
import os
import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import registry, strict_json
from etc_jax.base.rules import Problem
from etc_jax.base.user_cache import as_given
from etc_jax.base.whole_files import whole_folder
from etc_jax.config.fields import build
from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.conversion.formats.safetensors_io import SafetensorsFiles, write
from etc_jax.data.digests import sha256_of

_LOG = logging.getLogger(__name__)

MODEL = "model.json"
PARAMS = "params.safetensors"
REPORT = "report.json"
CARD = "README.md"
FORMAT = "etc_jax model 1"


class Native(NamedTuple):
    """A model as it was saved.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model, a dataclass of its family.
    """

    params: dict[str, Any]
    config: Any


def exists(folder: str | os.PathLike) -> bool:
    """Whether a folder holds a saved model, whole or not."""
    return (pathlib.Path(folder) / MODEL).is_file()


def model_config(section: Mapping[str, Any]) -> Any:
    """The config of a model from its family and fields, as a run's config has them.

    Raises:
      ValueError: naming every field in error.
    """
    fields = dict(section)
    family = fields.pop("family", None)
    if problem := registry.problem("model_config", family):
        raise ValueError(f"model.family: {problem}")
    problems: list[Problem] = []
    config = build(registry.lookup("model_config", family), fields, "model", problems)
    if problems:
        listed = "\n  ".join(f"{path} {message}" for path, message in problems)
        raise ValueError(f"config of the model:\n  {listed}")
    return config


def check_free(folder: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Refuses a folder that a model may not be saved to.

    Raises:
      ValueError: if something is there, other than a saved model to be overwritten.
    """
    folder = pathlib.Path(folder)
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not exists(folder):
        raise ValueError(f"{folder} is there and no saved model; name another folder")
    if not overwrite:
        raise ValueError(
            f"{folder} holds a saved model already; overwrite it, or name another "
            "folder"
        )


def save(
    folder: str | os.PathLike,
    params: Mapping[str, Any],
    config: Any,
    report: Mapping[str, Any],
    *,
    files: Mapping[str, bytes] = MappingProxyType({}),
    overwrite: bool = False,
) -> None:
    """Writes a folder that appears whole or not at all.

    Of a model that is overwritten the files go that were saved with it. What others
    have put beside them, such as notes and evaluations, stays. So does a card that the
    user has changed or written: a new one is not, and the log says so.

    Args:
      folder: made, with the folders above it.
      params: nested dict of arrays.
      config: of the model, of a registered family.
      report: JSON values on the origin of the parameters.
      files: {name: content} of what lies beside them; see `read_file`.
      overwrite: replace a model that was saved there.

    Raises:
      ValueError: see `check_free`; if a file would replace one of others.
    """
    folder = pathlib.Path(folder).expanduser()
    check_free(folder, overwrite=overwrite)
    if CARD in files and _has_card_of_user(folder):
        _LOG.warning(
            "%s stays as it is, and no new card is written: it was changed, or is not "
            "of etc-jax; move it away to get one",
            folder / CARD,
        )
        files = {name: content for name, content in files.items() if name != CARD}
    with whole_folder(folder, _files_of_model if overwrite else None) as part:
        _write(part, params, config, report, files)


def _files_of_model(folder: pathlib.Path) -> set[str]:
    """Names of the files that were saved with a model; all others are of others."""
    try:
        listed = _about(folder).get("files", {})
    except ValueError:  # what a damaged list named stays
        listed = ()
    others = {CARD} if _has_card_of_user(folder) else set()
    return {MODEL, PARAMS, REPORT, *listed} - others


def _has_card_of_user(folder: pathlib.Path) -> bool:
    """Whether a folder has a card that is not as it was saved with the model."""
    path = folder / CARD
    if not os.path.lexists(path):
        return False
    try:
        saved = _about(folder).get("files", {}).get(CARD)
    except ValueError:  # whose it is cannot be read
        return True
    return not path.is_file() or _sha256(path.read_bytes()) != saved


def _write(part: pathlib.Path, params, config, report, files) -> None:
    flat = {path: np.asarray(leaf) for path, leaf in flatten(params).items()}
    write(part / PARAMS, flat, {"format": FORMAT})
    about = {
        "format": FORMAT,
        "model": section_of(config),
        "params": {
            "arrays": len(flat),
            "numbers": sum(a.size for a in flat.values()),
            "sha256": sha256_of(part / PARAMS),
        },
        "files": {name: _sha256(content) for name, content in files.items()},
    }
    write_files(part, files)
    for name, values in ((MODEL, about), (REPORT, report)):
        text = as_given(json.dumps(values, indent=2, allow_nan=False))
        (part / name).write_text(f"{text}\n", encoding="utf-8")


def write_files(folder: pathlib.Path, files: Mapping[str, bytes]) -> None:
    """Writes {name: content} into a folder; a name may have folders before it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def family_of(config: Any) -> str:
    """The name that the config's class is registered under.

    Raises:
      ValueError: if there is none.
    """
    return registry.name_of("model_config", type(config))


def section_of(config: Any) -> dict[str, Any]:
    """Family and fields of a model, as the section of a run's config.

    Raises:
      ValueError: see `family_of`.
    """
    return {"family": family_of(config), **dataclasses.asdict(config)}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_config(folder: str | os.PathLike) -> Any:
    """The config of a saved model, without its parameters.

    Raises:
      ValueError: if there is no saved model, or another version's.
    """
    return model_config(model_section(folder))


def _about(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / MODEL
    if not path.is_file():
        raise ValueError(f"no saved model at {folder}: {path} does not exist")
    try:
        about = strict_json.loads(path.read_text(encoding="utf-8"))
        layout, _, _ = about["format"], about["model"], about["params"]["sha256"]
        if not isinstance(about["model"], dict):
            raise TypeError("model is no object")
        if not isinstance(about.get("files", {}), dict):
            raise TypeError("files is no object")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({repr(error)[:200]}); convert the model again"
        ) from error
    if layout != FORMAT:
        raise ValueError(f"{path} has the format {layout!r}; expected {FORMAT!r}")
    return about


def model_section(folder: str | os.PathLike) -> dict[str, Any]:
    """Family and fields of a saved model, as the section of a run's config.

    Raises:
      ValueError: if there is no saved model, or another version's.
    """
    return _about(pathlib.Path(folder))["model"]


def lists(folder: str | os.PathLike, name: str) -> bool:
    """Whether a file was saved beside the parameters.

    Raises:
      ValueError: if there is no saved model, or another version's.
    """
    return name in _about(pathlib.Path(folder)).get("files", {})


def read_file(folder: str | os.PathLike, name: str) -> bytes:
    """The content of a file that was saved beside the parameters.

    Raises:
      ValueError: if it is not there, or has changed since.
    """
    path = pathlib.Path(folder) / name
    listed = _about(pathlib.Path(folder)).get("files", {})
    if name not in listed or not path.is_file():
        raise ValueError(f"{path} does not exist, or was not saved with the model")
    content = path.read_bytes()
    if _sha256(content) != listed[name]:
        raise ValueError(
            f"{path} is not the file that {MODEL} was written for: its checksum "
            "differs; make the model again"
        )
    return content


def load(folder: str | os.PathLike) -> Native:
    """Reads what `save` wrote, bit by bit.

    Raises:
      ValueError: if there is no saved model, or its files have changed since.
    """
    folder = pathlib.Path(folder)
    about = _about(folder)
    path = folder / PARAMS
    if not path.is_file():
        raise ValueError(f"{path} does not exist; convert the model again")
    if sha256_of(path) != about["params"]["sha256"]:
        raise ValueError(
            f"{path} is not the file that {MODEL} was written for: its checksum "
            "differs; convert the model again"
        )
    return Native(unflatten(SafetensorsFiles(path)), model_config(about["model"]))
