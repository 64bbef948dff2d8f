"""The weights in a folder of Hugging Face: safetensors, or pickles of torch.

A pickle can run anything when it is opened. torch's own reader takes tensors and plain
containers alone (`weights_only=True`), which is the only way that one is read here.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.conversion.formats.safetensors_io import (
    FILE,
    INDEX,
    SafetensorsFiles,
    read_index,
)

BIN = "pytorch_model.bin"
BIN_INDEX = f"{BIN}.index.json"
# Before, weights_only could be got round.
_TORCH = (2, 6)


def open_weights(folder: str | os.PathLike) -> Mapping[str, np.ndarray]:
    """Name -> array of a folder, which may be lazy; safetensors come first.

    Raises:
      ValueError: if there are no weights, or a file is damaged, holds other objects, or
        needs torch, which is not there.
    """
    folder = pathlib.Path(folder)
    if any((folder / name).is_file() for name in (FILE, INDEX)):
        return SafetensorsFiles(folder)
    if any((folder / name).is_file() for name in (BIN, BIN_INDEX)):
        return _torch_files(folder)
    return SafetensorsFiles(folder)  # says what is there instead


class TorchTensors(Mapping[str, np.ndarray]):
    """Name -> array of tensors of torch.

    Args:
      tensors: by name.
    """

    def __init__(self, tensors: Mapping[str, Any]):
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __getitem__(self, name: str) -> np.ndarray:
        import torch

        tensor = self._tensors[name].detach()
        try:
            if tensor.dtype == torch.bfloat16:
                import ml_dtypes

                return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
            return tensor.numpy()
        except (TypeError, RuntimeError) as error:  # sparse, quantised, of no storage
            raise ValueError(
                f"{name} of type {tensor.dtype} cannot be read: {error}"
            ) from error

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one array."""
        return tuple(self._tensors[name].shape)


def _torch_files(folder: pathlib.Path) -> TorchTensors:
    """Name -> array of `pytorch_model.bin`, or of its shards and their index.

    Raises:
      ValueError: see `open_weights`.
    """
    load = torch_loader(
        f"{folder} has no {FILE}, but {BIN}",
        "save the model as safetensors, with save_pretrained of transformers",
    )
    tensors: dict[str, Any] = {}
    for path in _files(folder):
        for name, tensor in checked_tensors(load(path), str(path)).items():
            if name in tensors:
                raise ValueError(f"{folder}: two files hold the tensor {name!r}")
            tensors[name] = tensor
    return TorchTensors(tensors)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    if (folder / BIN).is_file():
        return [folder / BIN]
    _, paths = read_index(folder / BIN_INDEX)
    return list(paths.values())


def torch_loader(
    what: str, remedy: str, classes: Sequence[type] = ()
) -> Callable[[pathlib.Path], Any]:
    """Function from a path to what torch saved there: tensors and plain containers.

    Args:
      what: there is that needs torch, for the error.
      remedy: for a reader who has no torch or a file of other things.
      classes: that a file may hold besides; making them must be harmless.

    Raises:
      ValueError: if there is no torch, or an old one; also by the function, if a file
        is damaged or holds other things.
    """
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            f"{what}, which torch reads; install it, or {remedy}"
        ) from error
    version = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
    if version < _TORCH:
        raise ValueError(
            f"{what}, which is safe to read from torch "
            f"{'.'.join(map(str, _TORCH))} on, but torch {torch.__version__} is "
            f"installed; install a newer one, or {remedy}"
        )

    def load(path: pathlib.Path) -> Any:
        try:
            with torch.serialization.safe_globals(list(classes)):
                return torch.load(path, map_location="cpu", weights_only=True)
        # Which one a damaged pickle leads to is not documented: it may be any.
        except Exception as error:
            reason = (str(error).strip().splitlines() or [repr(error)])[0]
            raise ValueError(
                f"{path} is damaged, or holds other things than tensors ({reason}); "
                f"fetch it again, or {remedy}"
            ) from error

    return load


def checked_tensors(tensors: Any, where: str) -> Mapping[str, Any]:
    """What torch read, if it is tensors by name.

    Raises:
      ValueError: naming `where`, if it is something else.
    """
    import torch

    if not isinstance(tensors, Mapping):
        raise ValueError(
            f"{where} holds a {type(tensors).__name__}; expected tensors by name"
        )
    others = [
        name
        for name, x in tensors.items()
        if not (isinstance(name, str) and isinstance(x, torch.Tensor))
    ]
    if others:
        raise ValueError(
            f"{where} holds {type(tensors[others[0]]).__name__} as {others[0]!r}; "
            "expected tensors by name"
        )
    return tensors
