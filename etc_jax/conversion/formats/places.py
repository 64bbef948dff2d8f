"""Where a model is: a folder, or a name in the cache of Hugging Face."""

from __future__ import annotations

import os
import pathlib
import re

# "bert-base-uncased" or "allenai/longformer-base-4096".
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# Of a repository: what models are read from. Weights of other frameworks stay there.
_FILES = (
    *("*.json", "*.txt", "*.model", "*.safetensors", "pytorch_model*.bin"),
    *("README.md", "LICENSE*"),  # which state the licence
)


# How files of other programs end -> the flag of `etc-jax convert` that reads them.
_CONVERTED = {
    ".index": "official",
    ".pt": "fairseq",
    ".pkl": "trax",
    ".pkl.gz": "trax",
}


def folder_of(
    source: str | os.PathLike, *, named: str = "the model", download: bool = False
) -> pathlib.Path:
    """The folder of a model.

    A folder of that path comes before a name of the hub.

    Args:
      source: path of a folder, or the name of a repository of Hugging Face, which is
        looked for in the local cache.
      named: what gave the place, for errors.
      download: whether a repository that the cache lacks is fetched.

    Raises:
      ValueError: if there is no such place.
    """
    if not isinstance(source, str | os.PathLike):
        raise ValueError(
            f"{named} is {source!r:.60}; expected a path, or the name of a repository"
        )
    name = os.fspath(source)
    folder = pathlib.Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        hint = conversion_of(folder)
        raise ValueError(
            f"{named} is {name}, a file; expected the folder of a model{hint}"
        )
    if not _HUB_NAME.fullmatch(name):
        raise ValueError(
            f"{named}: there is no folder {name}; expected that of a run, of a "
            "converted model or of Hugging Face, or the name of a repository, such as "
            "allenai/longformer-base-4096"
        )
    return _of_hub(name, named, download)


def conversion_of(path: pathlib.Path) -> str:
    """The end of an error: the command that converts a file; "" if none does.

    Args:
      path: of weights of another program, or of their folder.
    """
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        for end, flag in _CONVERTED.items():
            if file.name.endswith(end):
                argument = path if flag == "official" else file
                argument = f"{argument} --config=FILE" if flag == "trax" else argument
                return (
                    "; to make one of it: `etc-jax convert "
                    f"--{flag}={argument} --out=FOLDER`"
                )
    return ""


def _of_hub(name: str, named: str, download: bool) -> pathlib.Path:
    import huggingface_hub
    from huggingface_hub import constants

    try:
        folder = huggingface_hub.snapshot_download(
            name,
            local_files_only=not download,
            allow_patterns=list(_FILES) if download else None,
        )
    except (OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        tried = f"fetching it failed: {first}" if download else "nothing is fetched"
        raise ValueError(
            f"{named}: {name!r} is neither a folder here nor a repository in the cache "
            f"of Hugging Face ({constants.HF_HUB_CACHE}), and {tried}. Give the path "
            f"of the model's folder; or, with a network, run `hf download {name}` "
            "once, or load it with download=True"
        ) from error
    return pathlib.Path(folder)
