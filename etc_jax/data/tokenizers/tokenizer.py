"""Tokenizers: one interface over the vocabulary files that models come with.

    tokenizer = open_tokenizer("bert_base_uncased")   # a folder, or a file
    [(ids, word_starts)] = tokenizer.encode_batch(["Some text."])

Each kind has a file of its own: `wordpiece`, `byte_bpe`, `sentence_pieces`, `packaged`.
The special tokens that the models use are tables in `special_tokens`; `grown_tokenizer`
adds more to a tokenizer of any kind. Folders of Hugging Face are read by
`hub_tokenizer` and written by `hub_writing`.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from etc_jax.base import copies
from etc_jax.data.tokenizers import hub as hub_tokenizer
from etc_jax.data.tokenizers.base import Encoded, Tokenizer
from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer
from etc_jax.data.tokenizers.grown import GrownTokenizer, grown
from etc_jax.data.tokenizers.sentence_pieces import SentencePieceTokenizer
from etc_jax.data.tokenizers.special_tokens import SpecialTokens, TokenIds
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.tokenizers.wordpiece_training import SPECIAL_TOKENS, train

__all__ = [
    "SPECIAL_TOKENS",
    "ByteBpeTokenizer",
    "Encoded",
    "GrownTokenizer",
    "SentencePieceTokenizer",
    "SpecialTokens",
    "TokenIds",
    "Tokenizer",
    "WordPieceTokenizer",
    "grown",
    "open_tokenizer",
    "train",
]

_WORDPIECE = "vocab.txt"
_BPE_VOCABULARIES = ("vocab.json", "encoder.json")
_BPE_MERGES = ("merges.txt", "vocab.bpe")
_SAVED = "tokenizer.json"
_EXPECTED = (
    "vocab.txt (WordPiece), vocab.json or encoder.json with merges.txt or vocab.bpe "
    "(byte-level BPE), a .model file (sentencepiece), or a tokenizer.json"
)


def open_tokenizer(
    path: str | os.PathLike, *, lower_case: bool | None = None
) -> Tokenizer:
    """The tokenizer of a file or a folder, by what is there.

    A folder of Hugging Face, which has a config.json or tokenizer_config.json beside,
    is read as transformers does (`hub_tokenizer`). In others, standard vocabulary files
    come before a tokenizer.json; the options of a kind, other than lower-casing, are
    those of its class.

    Args:
      path: a vocabulary file, or a folder with one.
      lower_case: for a vocab.txt, whether text is lower-cased; None: only if no piece
        has a capital letter, or what a folder of Hugging Face says.

    Raises:
      FileNotFoundError: if there is no such path, or no vocabulary in the folder.
      ValueError: if there is more than one, the file is none, or `lower_case` is given
        for another kind.
    """
    path = pathlib.Path(copies.local(path, with_siblings=True))
    if not path.exists():
        raise FileNotFoundError(f"no tokenizer at {path}; expected {_EXPECTED}")
    if lower_case is None and path.is_dir() and hub_tokenizer.is_hub_folder(path):
        return hub_tokenizer.read(path)
    file = _file_in(path) if path.is_dir() else path
    if file.suffix == ".txt" and file.name not in _BPE_MERGES:
        return WordPieceTokenizer.from_vocab_file(file, lower_case=lower_case)
    if lower_case is not None:
        raise ValueError(
            f"lower_case={lower_case} with {file}: only a vocab.txt leaves it open; "
            "leave it out"
        )
    if file.suffix == ".model":
        return SentencePieceTokenizer.from_model_file(file)
    if file.name in _BPE_MERGES:
        file = _companion(file, _BPE_VOCABULARIES)
    if _is_bpe_vocabulary(file):
        return ByteBpeTokenizer.from_files(file, _companion(file, _BPE_MERGES))
    if hub_tokenizer.is_hub_description(_json_object(file)):
        return hub_tokenizer.read_description(file)
    return Tokenizer.load(file)


def _file_in(folder: pathlib.Path) -> pathlib.Path:
    names = sorted(p.name for p in folder.iterdir())
    standard = [
        name
        for name in names
        if name in (_WORDPIECE, *_BPE_VOCABULARIES) or name.endswith(".model")
    ]
    if len(standard) > 1:
        raise ValueError(
            f"{folder} has more than one vocabulary: {', '.join(standard)}; give the "
            "path of the file"
        )
    if not standard and _SAVED not in names:
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise FileNotFoundError(
            f"no tokenizer in {folder}, which has: {listed or 'nothing'}; expected "
            f"{_EXPECTED}"
        )
    return folder / (standard or [_SAVED])[0]


def _companion(file: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    for name in names:
        if (file.parent / name).exists():
            return file.parent / name
    raise FileNotFoundError(
        f"{file} needs {' or '.join(names)} beside it, which {file.parent} lacks; put "
        "both files of the model into one folder"
    )


def _is_bpe_vocabulary(file: pathlib.Path) -> bool:
    """Whether a file that is not saved by etc_jax holds `{piece: id}`."""
    if file.name in _BPE_VOCABULARIES:
        return True
    content = _json_object(file)
    return bool(content) and all(type(i) is int for i in content.values())


def _json_object(file: pathlib.Path) -> dict[str, Any]:
    """What is in a file; {} for what is none: its reader reports the error."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
