"""Arrays in safetensors files: read one by one, written whole.

The format holds numbers and names alone, so that a file from anywhere can be read.
"""

import errno
import os
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from etc_jax.base import strict_json

FILE = "model.safetensors"
INDEX = f"{FILE}.index.json"
_SHOWN = 200
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class SafetensorsFiles(Mapping[str, np.ndarray]):
    """Name -> array; an array is read when it is asked for.

    Args:
      path: a safetensors file, or a folder with `model.safetensors` or with shards and
        their `model.safetensors.index.json`, as Hugging Face writes them.

    Raises:
      ValueError: if there is none, or a file is damaged, or an index and its shards
        differ.
    """

    def __init__(self, path: str | os.PathLike):
        path = pathlib.Path(path)
        single = path if path.is_file() else path / FILE
        if single.is_file():
            self._files = {single: _open(single)}
        elif (path / INDEX).is_file():
            self._files = _open_shards(path / INDEX)
        else:
            raise ValueError(_nothing_at(path))
        self._where = {}
        for opened in self._files.values():
            for name in opened.keys():
                if name in self._where:
                    raise ValueError(f"{path}: two shards hold the array {name!r}")
                self._where[name] = opened

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __getitem__(self, name: str) -> np.ndarray:
        opened = self._where[name]  # a KeyError is the caller's
        try:
            return opened.get_tensor(name)
        # The package has no error of its own for types that numpy does not have.
        except (SafetensorError, TypeError, ValueError, KeyError, OSError) as error:
            kind = opened.get_slice(name).get_dtype()
            raise ValueError(
                f"{name} of type {kind} cannot be read: {error}"
            ) from error

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one array, which is not read for it."""
        return tuple(self._where[name].get_slice(name).get_shape())


def _open(path: pathlib.Path):
    try:
        return safe_open(path, framework="np")
    except (SafetensorError, OSError) as error:
        # The reason quotes names of the file, of any length.
        raise ValueError(
            f"{path} is no whole safetensors file ({str(error)[:_SHOWN]!r}); fetch it "
            "again"
        ) from error


def _open_shards(index: pathlib.Path) -> dict[pathlib.Path, object]:
    """The files of an index, which must hold exactly what it says."""
    shard_of, paths = read_index(index)
    files = {name: _open(path) for name, path in paths.items()}
    actual = {(k, name) for name, opened in files.items() for k in opened.keys()}
    if differing := sorted(actual ^ set(shard_of.items())):
        raise ValueError(
            f"{index} and its files differ in {len(differing)} arrays, the first is "
            f"{differing[0]}; fetch them again"
        )
    return {paths[name]: opened for name, opened in files.items()}


# What values of another shape than expected lead to.
_OF_BAD_JSON = (ValueError, KeyError, TypeError, AttributeError, IndexError)


def read_index(
    index: pathlib.Path,
) -> tuple[dict[str, str], dict[str, pathlib.Path]]:
    """({array: file}, {file: its path}) by the index of shards.

    Raises:
      ValueError: if it is none, or a file is not there or would be outside the folder.
    """
    try:
        shard_of = strict_json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(shard_of.values()))
    except _OF_BAD_JSON as error:
        raise ValueError(
            f"{index} is no index of shards ({error!r}): expected JSON with a "
            "weight_map of array names to files"
        ) from error
    for name in names:
        if not isinstance(name, str) or pathlib.PurePath(name).name != name:
            raise ValueError(
                f"{index} names {name!r}; expected a file in the same folder"
            )
    paths = {name: index.parent / name for name in names}
    if missing := [name for name, path in paths.items() if not path.is_file()]:
        raise ValueError(f"{index} names {missing}, which are not there; fetch them")
    return shard_of, paths


def _nothing_at(path: pathlib.Path) -> str:
    if not path.exists():
        return f"no weights at {path}: there is no such file or folder"
    names = sorted(p.name for p in path.iterdir()) if path.is_dir() else []
    if pickles := [name for name in names if name.endswith(_PICKLES)]:
        return (
            f"{path} has no {FILE}, but {pickles}: pickles run code when they are "
            "opened and are not read here; save the model as safetensors, with "
            "save_pretrained(..., safe_serialization=True) of transformers"
        )
    return f"{path} has neither {FILE} nor {INDEX}; there are: {names}"


def write(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays of any shape and layout to one file.

    Args:
      path: of the file; replaced if it is there.
      arrays: by name.
      metadata: text of the file's head.

    Raises:
      OSError: if the storage refuses.
    """
    # The package writes an array's memory as it lies, also where it is not in C order;
    # np.ascontiguousarray would make scalars vectors.
    laid_out = {name: np.asarray(a, order="C") for name, a in arrays.items()}
    # It also makes a file that nobody else may read, whatever the umask.
    path = pathlib.Path(path)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(laid_out, path, metadata=dict(metadata or {}))
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), os.fspath(path)) from error
    path.chmod(mode)
