"""Files of tokenizers that lie beside a model of Hugging Face, for a longer one."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from etc_jax.conversion.config_file import read_object

CONFIG = "tokenizer_config.json"
_FAST = "tokenizer.json"
_FILES = (
    *("vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "special_tokens_map.json", "added_tokens.json"),
    *(_FAST, CONFIG),
)
# Family -> what transformers takes where a model of it does not name its tokenizer.
_CLASSES = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "longformer": "LongformerTokenizer",
    "big_bird": "BigBirdTokenizer",
}


def files_for(
    folder: str | os.PathLike, family: str, max_length: int
) -> dict[str, bytes]:
    """{name: content} of the tokenizer's files, as they are beside a longer model.

    Args:
      folder: of the source.
      family: of the source; its tokenizer is named, as the model's new family would
        else stand for another one.
      max_length: tokens of an input, special ones among them.

    Raises:
      ValueError: if a file that is changed is no JSON object.
    """
    folder = pathlib.Path(folder)
    found = {
        name: (folder / name).read_bytes()
        for name in _FILES
        if (folder / name).is_file()
    }
    if not found:
        return {}
    values = read_object(folder / CONFIG) if CONFIG in found else {}
    values.setdefault("tokenizer_class", _CLASSES[family])
    found[CONFIG] = _text(values | {"model_max_length": max_length})
    if _FAST in found:
        values = read_object(folder / _FAST)
        if values.get("truncation"):
            values["truncation"] = {**values["truncation"], "max_length": max_length}
            found[_FAST] = _text(values)
    return found


def _text(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
