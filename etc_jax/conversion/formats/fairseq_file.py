"""Checkpoints of fairseq: tensors and the settings of the run that made them.

The settings are an argparse.Namespace, the only class that is made of the file besides
tensors: making one sets attributes and calls nothing.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from etc_jax.conversion.formats.weight_files import (
    TorchTensors,
    checked_tensors,
    torch_loader,
)


class FairseqFile(NamedTuple):
    """What a checkpoint holds.

    Attributes:
      settings: of the model and its task, by the names of fairseq's command line.
      weights: name -> array.
    """

    settings: Mapping[str, Any]
    weights: TorchTensors


def read(path: str | os.PathLike) -> FairseqFile:
    """A checkpoint as fairseq saves it, such as `bart.large/model.pt`.

    The settings are empty if the file has none.

    Raises:
      ValueError: if there is no such file, it is damaged, it holds objects that cannot
        be read safely, or torch is not installed.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            f"no file {path}; expected a checkpoint of fairseq, such as "
            "bart.large/model.pt"
        )
    load = torch_loader(
        f"{path} is a pickle",
        "save its 'args' and 'model' alone, as "
        "torch.save({'args': args, 'model': weights}, path)",
        (argparse.Namespace,),
    )
    checkpoint = load(path)
    if not isinstance(checkpoint, Mapping) or "model" not in checkpoint:
        raise ValueError(
            f"{path} has no 'model'; expected a checkpoint of fairseq, a dict with the "
            "weights as 'model' and the settings as 'args' or 'cfg'"
        )
    weights = checked_tensors(checkpoint["model"], f"'model' of {path}")
    return FairseqFile(_settings(checkpoint), TorchTensors(weights))


def _settings(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of `args`, or of `cfg` in files of fairseq 0.10 and later."""
    if settings := _mapping(checkpoint.get("args")):
        return settings
    cfg = _mapping(checkpoint.get("cfg"))
    model, task = _mapping(cfg.get("model")), _mapping(cfg.get("task"))
    named = {"task": task["_name"]} if "_name" in task else {}
    return {**task, **named, **model} if model else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, argparse.Namespace):
        return vars(value)
    return value if isinstance(value, Mapping) else {}
