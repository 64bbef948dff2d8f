"""A tokenizer that finds special tokens in texts: `<mask>`, `[SEP]`, `<extra_id_0>`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.tokenizers.finding import FLAGS
from etc_jax.data.tokenizers.grown import GrownTokenizer
from etc_jax.data.tokenizers.special_tokens import BYTE_LEVEL, NAMED


def with_special_tokens(tokenizer: Tokenizer) -> GrownTokenizer:
    """The same tokenizer, to which special tokens in a text are special tokens.

    Ids of a text are those that transformers gives by default. Special tokens are
    those with a role, such as [SEP] or <mask>, and all that were added to the
    vocabulary, such as T5's sentinels. Where a text has one (as a word of its own, with
    the white space before it) is as the folder of Hugging Face says that the tokenizer
    is of, else anywhere.

    Args:
      tokenizer: of any kind, to which special tokens in a text are plain text.
    """
    base, matched = _base_and_found(tokenizer)
    matched |= _special_tokens(base, tokenizer)
    return GrownTokenizer(base, list(tokenizer.added_ids), list(matched.values()))


@functools.lru_cache(maxsize=8)
def ids_outside_texts(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids of special tokens that no text is tokenised into.

    Of `with_special_tokens` there are none: its texts may have each of them.
    """
    base, matched = _base_and_found(tokenizer)
    special = _special_tokens(base, tokenizer).keys() - matched.keys()
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return frozenset(i for i, piece in enumerate(pieces) if piece in special)


def special_token(piece: str, base: Tokenizer) -> dict[str, Any]:
    """A special token as a tokenizer.json lists it, where no file describes it.

    Args:
      piece: the token.
      base: whose it is.
    """
    # RoBERTa and BART have learnt the mask with the space before it (fairseq's
    # fill_mask). Of a bare vocabulary, transformers takes the space for text.
    strips = piece == base.special.mask and base.special == BYTE_LEVEL and not base.hub
    flags = dict.fromkeys(FLAGS, False) | {"lstrip": strips}
    return {"content": piece, **flags, "special": True}


def _base_and_found(tokenizer: Tokenizer) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer of the vocabulary, and {token: flags} of what texts may have."""
    if not isinstance(tokenizer, GrownTokenizer):
        return tokenizer, {}
    return tokenizer.base, {x["content"]: x for x in tokenizer.matched}


def _special_tokens(base: Tokenizer, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """{token: its `content` and flags}."""
    vocabulary = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    config: Mapping[str, Any] = base.hub.get("config", {})
    named = [p for pieces in NAMED.values() for p in pieces]
    named = [p for p in named if base.special.is_reserved(p)]
    named += tokenizer.added_ids
    # Not "add_bos_token": true.
    configured = [x for name, x in config.items() if name.endswith("_token")]
    named += [x for x in configured if isinstance(x, str | dict)]
    tokens = [special_token(x, base) if isinstance(x, str) else x for x in named]
    tokens += base.hub.get("added_tokens", ())  # the last word on a token
    return {
        x["content"]: {"content": x["content"]}
        | {flag: bool(x.get(flag, False)) for flag in FLAGS}
        for x in tokens
        if x.get("content") in vocabulary
    }
