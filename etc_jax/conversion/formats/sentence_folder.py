"""Files of sentence-transformers: how the vector of a text is made.

modules.json                what follows what: Transformer, Pooling, Normalize
1_Pooling/config.json       mean, or the first token
sentence_bert_config.json   tokens of the longest text
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from etc_jax.base import strict_json
from etc_jax.conversion.formats.config_file import read_object

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
LENGTHS = "sentence_bert_config.json"
_PROMPTS = "config_sentence_transformers.json"
_TYPES = "sentence_transformers.models."
_KINDS = ["Transformer", "Pooling", "Normalize"]
_START = "pooling_mode_"
# What a pooling is called there -> here.
_NAMES = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls"}


@dataclasses.dataclass(frozen=True)
class SentenceFolder:
    """How a folder says that texts become vectors.

    Attributes:
      pooling: "mean" or "cls".
      normalize: vectors have length 1.
      max_length: tokens of the longest text; None: as many as the model reads.
    """

    pooling: str
    normalize: bool
    max_length: int | None = None


def transformer_in(folder: pathlib.Path) -> pathlib.Path:
    """The folder of the model: that of its Transformer, or the folder itself.

    Raises:
      ValueError: if the list of modules is damaged.
    """
    path = folder / MODULES
    paths = dict(_modules(path)) if path.is_file() else {}
    return _inside(folder, paths.get(_KINDS[0], ""))


def read(folder: pathlib.Path) -> SentenceFolder | None:
    """What a folder says; None if it has no such file.

    Raises:
      ValueError: if vectors are made in a way that is not known here.
    """
    path = folder / MODULES
    if not path.is_file():
        return None
    paths = dict(_supported_modules(path))
    pooling = _pooling(_inside(folder, paths["Pooling"]) / "config.json")
    model = _inside(folder, paths["Transformer"])
    return SentenceFolder(
        pooling,
        "Normalize" in paths,
        _max_length(model / LENGTHS, folder / _PROMPTS),
    )


def _modules(path: pathlib.Path) -> list[tuple[str, str]]:
    """(kind, folder) of the modules.

    Raises:
      ValueError: if the file is no list of them.
    """
    try:
        listed = strict_json.loads(path.read_bytes().decode("utf-8"))
        return [(str(m["type"]).rpartition(".")[2], str(m["path"])) for m in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error


def _supported_modules(path: pathlib.Path) -> list[tuple[str, str]]:
    """The modules, if they are a transformer, a pooling and at most a norm.

    Raises:
      ValueError: if they are others.
    """
    modules = _modules(path)
    kinds = [kind for kind, _ in modules]
    if kinds not in (_KINDS, _KINDS[:-1]):
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}; what is known here is "
            "Transformer and Pooling, with Normalize or without. Load the folder of "
            "its Transformer for hidden states"
        )
    return modules


def _inside(folder: pathlib.Path, name: str) -> pathlib.Path:
    path = folder / name
    inside = path.resolve().is_relative_to(folder.resolve())
    if not (inside and path.is_dir()):
        raise ValueError(f"{folder / MODULES} names {name!r}, no folder in {folder}")
    return path


def _pooling(path: pathlib.Path) -> str:
    values = read_object(path) if path.is_file() else {}
    chosen = (key for key, is_on in values.items() if is_on is True)
    modes = [key.removeprefix(_START) for key in chosen if key.startswith(_START)]
    if isinstance(values.get("pooling_mode"), str):
        modes = [values["pooling_mode"]]
    if len(modes) != 1 or modes[0] not in _NAMES:
        raise ValueError(
            f"{path} has the pooling {', '.join(modes) or 'of none'}; what is known "
            "here is the mean of the tokens, or the first one (cls)"
        )
    return _NAMES[modes[0]]


def _max_length(lengths: pathlib.Path, prompts: pathlib.Path) -> int | None:
    values = read_object(lengths) if lengths.is_file() else {}
    if values.get("do_lower_case"):
        raise ValueError(
            f"{lengths}: do_lower_case is true, but texts are lower-cased by "
            "tokenizers alone here; expected false"
        )
    more = read_object(prompts) if prompts.is_file() else {}
    if more.get("default_prompt_name"):
        raise ValueError(
            f"{prompts}: default_prompt_name is {more['default_prompt_name']!r}, but "
            "no prompt is put before texts here; expected null"
        )
    longest = values.get("max_seq_length")
    if longest is not None and (type(longest) is not int or longest < 1):
        raise ValueError(
            f"{lengths}: max_seq_length is {longest!r}; expected 1 or more"
        )
    return longest


def of_run(config: Mapping[str, Any]) -> SentenceFolder | None:
    """How a run that learnt vectors makes them; None for other runs.

    Args:
      config: of the run, as `config.to_dict` gives it.
    """
    pooling = config["objective"].get("pooling")
    if pooling is None:
        return None
    return SentenceFolder(pooling, True, config["data"]["input_length"])


def files_of(settings: SentenceFolder, embed_dim: int) -> dict[str, bytes]:
    """{name: content} of the files that `read` reads.

    Args:
      settings: of the model, which is in the folder itself.
      embed_dim: of the vectors.

    Raises:
      ValueError: if sentence-transformers has no such pooling.
    """
    if settings.pooling not in _NAMES:
        raise ValueError(
            f"vectors are made by pooling {settings.pooling!r}, which a folder of "
            "sentence-transformers cannot say; it can say mean and cls"
        )
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    if settings.normalize:
        kinds["Normalize"] = "2_Normalize"
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_TYPES}{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    modes = {"cls_token": "cls", "mean_tokens": "mean"}
    modes |= {"max_tokens": None, "mean_sqrt_len_tokens": None}
    pooling = {f"{_START}{k}": x == settings.pooling for k, x in modes.items()}
    contents: dict[str, Any] = {
        MODULES: modules,
        POOLING: {"word_embedding_dimension": embed_dim, **pooling},
    }
    if settings.max_length is not None:
        lengths = {"max_seq_length": settings.max_length, "do_lower_case": False}
        contents[LENGTHS] = lengths
    return {k: f"{json.dumps(x, indent=2)}\n".encode() for k, x in contents.items()}
