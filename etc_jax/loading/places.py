"""Where a model is: a folder, or a name in the cache of Hugging Face."""

from __future__ import annotations

import os
import pathlib
import re

from etc_jax import local_paths

# "bert-base-uncased" or "allenai/longformer-base-4096".
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# Of a repository: what models are read from. Weights of other frameworks stay there.
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors", "pytorch_model*.bin")


def folder_of(place: str | os.PathLike, *, download: bool = False) -> pathlib.Path:
    """The folder of a model.

    A folder of that path comes before a name of the hub.

    Args:
      place: path of a folder, or the name of a repository of Hugging Face, which is
        looked for in the local cache.
      download: whether a repository that the cache lacks is fetched.

    Raises:
      ValueError: if there is no such place.
    """
    name = os.fspath(place)
    if wrong := local_paths.problem(name):
        raise ValueError(f"the model {wrong}")
    folder = pathlib.Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ValueError(f"{name} is a file; expected the folder of a model")
    if not _HUB_NAME.fullmatch(name):
        raise ValueError(
            f"there is no folder {name}; expected that of a run, of a converted model "
            "or of Hugging Face, or the name of a repository, such as "
            "allenai/longformer-base-4096"
        )
    return _of_hub(name, download)


def _of_hub(name: str, download: bool) -> pathlib.Path:
    import huggingface_hub
    from huggingface_hub import constants

    try:
        found = huggingface_hub.snapshot_download(
            name,
            local_files_only=not download,
            allow_patterns=list(_FILES) if download else None,
        )
    except (OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        tried = f"fetching it failed: {first}" if download else "nothing is fetched"
        raise ValueError(
            f"{name!r} is neither a folder here nor a repository in the cache of "
            f"Hugging Face ({constants.HF_HUB_CACHE}), and {tried}. Give the path of "
            f"the model's folder; or, with a network, run `hf download {name}` once, "
            "or load it with download=True"
        ) from error
    return pathlib.Path(found)
