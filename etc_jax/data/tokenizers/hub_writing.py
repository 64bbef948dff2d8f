"""Files of a tokenizer that transformers 5 reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from etc_jax.data.tokenizers.base import PackageTokenizer, Tokenizer
from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer
from etc_jax.data.tokenizers.grown import GrownTokenizer
from etc_jax.data.tokenizers.hub import CONFIG, MERGES, TOKENIZER, VOCAB_JSON, VOCAB_TXT
from etc_jax.data.tokenizers.sentence_pieces import SentencePieceTokenizer
from etc_jax.data.tokenizers.special_in_text import special_token
from etc_jax.data.tokenizers.special_tokens import NAMED
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer

SENTENCE_PIECES = "spiece.model"
# It takes all of tokenizer.json; other classes leave parts of it out.
_AS_DESCRIBED = "PreTrainedTokenizerFast"


def files_of(tokenizer: Tokenizer, max_length: int | None) -> dict[str, bytes]:
    """{name: content} of a folder's files of the tokenizer.

    What was read of a folder of Hugging Face is written as it was there.

    Args:
      tokenizer: of any kind.
      max_length: tokens of an input, special ones among them; None: as it was there.

    Raises:
      ValueError: if transformers has no counterpart.
    """
    base = tokenizer.base if isinstance(tokenizer, GrownTokenizer) else tokenizer
    config = dict(base.hub.get("config", ())) or _config(base)
    if max_length is not None:
        config["model_max_length"] = max_length
    files = {}
    if isinstance(base, SentencePieceTokenizer):
        files[SENTENCE_PIECES] = _model_of(base)
        if tokenizer.added_ids:
            config["added_tokens_decoder"] = {
                str(i): special_token(token, base)
                for token, i in tokenizer.added_ids.items()
            }
    else:
        assert isinstance(base, PackageTokenizer)
        description = _description(base, tokenizer.added_ids)
        if description["truncation"] and max_length is not None:
            description["truncation"] = {
                **description["truncation"],
                "max_length": max_length,
            }
        files[TOKENIZER] = _json(description)
        files |= _vocabulary(base)
    if tokenizer.added_ids:
        more = config.get("extra_special_tokens") or []
        if isinstance(more, list):
            in_texts = {token["content"] for token in tokenizer.matched}
            new = [t for t in tokenizer.added_ids if t not in {*more, *in_texts}]
            config["extra_special_tokens"] = [*more, *new]
    files[CONFIG] = _json(config)
    return files


def _json(values: Mapping[str, Any]) -> bytes:
    # Escaped: a vocabulary may hold what UTF-8 cannot.
    return (json.dumps(values, indent=2) + "\n").encode("ascii")


def _named(tokenizer: Tokenizer) -> dict[str, str]:
    vocabulary = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    named = {
        name: next((piece for piece in pieces if piece in vocabulary), None)
        for name, pieces in NAMED.items()
    }
    if isinstance(tokenizer, WordPieceTokenizer):
        del named["bos_token"], named["eos_token"]
    return {name: piece for name, piece in named.items() if piece is not None}


def _config(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer_config.json of a tokenizer that was made here."""
    named = _named(tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return {"tokenizer_class": _class_of(tokenizer, named), **named}
    return {"tokenizer_class": _AS_DESCRIBED, **named}


def _class_of(tokenizer: SentencePieceTokenizer, named: Mapping[str, str]) -> str:
    """The class of transformers that reads a sentencepiece model.

    Raises:
      ValueError: if it would add tokens to the vocabulary, or compute other ids.
    """
    if tokenizer.is_bpe:
        name, needed = "ReformerTokenizer", ("eos_token", "unk_token")
    else:
        name, needed = "BigBirdTokenizer", tuple(NAMED)
    if missing := [n for n in needed if n not in named]:
        raise ValueError(
            f"transformers reads this sentencepiece model with its {name}, which needs "
            f"{', '.join('/'.join(NAMED[n]) for n in missing)} in the vocabulary"
        )
    return name


def _model_of(tokenizer: SentencePieceTokenizer) -> bytes:
    if tokenizer.split_digit_commas:
        raise ValueError(
            "the tokenizer splits commas off digits, as official ETC does, for which "
            "transformers has no tokenizer"
        )
    return tokenizer.model_file


def _description(base: PackageTokenizer, added: Mapping[str, int]) -> dict[str, Any]:
    """The tokenizer.json."""
    description = json.loads(base._tokenizer.to_str())
    named = _named(base)
    special = set(named.values())
    pieces = base.pieces(range(base.vocab_size))
    tokens = {i: p for i, p in enumerate(pieces) if p in special}
    tokens |= {i: token for token, i in added.items()}
    tokens = {i: {"id": i, **special_token(p, base)} for i, p in tokens.items()}
    # What the folder said of a token is the last word.
    tokens |= {token["id"]: token for token in base.hub.get("added_tokens", ())}
    description["added_tokens"] = [tokens[i] for i in sorted(tokens)]
    description["post_processor"] = _post_processor(base, named)
    other_parts = ("post_processor", "decoder", "truncation", "padding")
    return description | {p: base.hub[p] for p in other_parts if base.hub.get(p)}


def _post_processor(base: PackageTokenizer, named: Mapping[str, str]) -> Any:
    """What puts special tokens around one text, and around two."""
    if "cls_token" not in named or "sep_token" not in named:
        return None
    cls, sep = named["cls_token"], named["sep_token"]
    pieces = base.pieces(range(base.vocab_size))

    def token(name: str, side: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": side}}

    def text(name: str, side: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": side}}

    # RoBERTa has two separators between texts, and one type of token.
    second = 0 if base.special.pair_separators > 1 else 1
    between = [token(sep, 0)] * base.special.pair_separators
    return {
        "type": "TemplateProcessing",
        "single": [token(cls, 0), text("A", 0), token(sep, 0)],
        "pair": [
            *(token(cls, 0), text("A", 0), *between),
            *(text("B", second), token(sep, second)),
        ],
        "special_tokens": {
            name: {"id": name, "ids": [pieces.index(name)], "tokens": [name]}
            for name in (cls, sep)
        },
    }


def _vocabulary(base: PackageTokenizer) -> dict[str, bytes]:
    """The standard files of older programs, where the kind has such."""
    pieces = base.pieces(range(base.vocab_size))
    if isinstance(base, WordPieceTokenizer):
        return {VOCAB_TXT: "".join(f"{p}\n" for p in pieces).encode()}
    if isinstance(base, ByteBpeTokenizer):
        merges = [" ".join(pair) for pair in base.merges]
        lines = ["#version: 0.2", *merges]
        return {
            VOCAB_JSON: _json({piece: i for i, piece in enumerate(pieces)}),
            MERGES: "".join(f"{line}\n" for line in lines).encode(),
        }
    return {}
