"""Tokens beside a vocabulary, as files of Hugging Face list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.data.tokenizers.finding import FLAGS

# Of T5 (Raffel et al. 2020, section 3.1.4): in the place of spans of a text.
_SENTINELS, _MOST_SENTINELS = 100, 10_000


def content(token: Any) -> Any:
    """The text of a special token, which may have its options beside it."""
    return token.get("content") if isinstance(token, dict) else token


def with_sentinels(config: Mapping[str, Any], first: int) -> dict[str, Any]:
    """The config with the tokens that T5's class adds after the pieces, 0 the last.

    Args:
      config: of tokenizer_config.json.
      first: id of the first of them.

    Raises:
      ValueError: if `extra_ids` is not a number of tokens.
    """
    count = config.get("extra_ids", _SENTINELS)
    if type(count) is not int or not 0 <= count <= _MOST_SENTINELS:
        raise ValueError(
            f"extra_ids is {count!r}, expected a whole number from 0 to "
            f"{_MOST_SENTINELS}"
        )
    tokens = {
        str(first + i): {"content": f"<extra_id_{count - 1 - i}>", "special": True}
        for i in range(count)
    }
    listed = config.get("added_tokens_decoder") or {}
    return {**config, "added_tokens_decoder": {**tokens, **listed}}


def added_tokens(
    config: Mapping[str, Any], description: Mapping[str, Any], added: Mapping[str, Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(id, description) of each token that is listed beside the vocabulary.

    Args:
      config: of tokenizer_config.json.
      description: of tokenizer.json; the last word on a token that both list.
      added: of added_tokens.json.

    Raises:
      ValueError: if an id or a token is none.
    """
    tokens: dict[int, dict[str, Any]] = {}
    special = _named(config)
    for token, number in added.items():
        tokens[_id(number)] = _token(token, token in special)
    decoder = config.get("added_tokens_decoder") or {}
    for number, token in decoder.items():
        tokens[int(number)] = _token(token, False)
    for token in description.get("added_tokens") or ():
        tokens[_id(token["id"])] = _token(token, False)
    for number in sorted(tokens):
        yield number, {"id": number, **tokens[number]}


def _named(config: Mapping[str, Any]) -> set[str]:
    """The special tokens that a tokenizer_config.json names."""
    lists: Sequence[str] = ("additional_special_tokens", "extra_special_tokens")
    named = [v for k, v in config.items() if k.endswith("_token")]
    for name in lists:
        value = config.get(name) or ()
        named += value.values() if isinstance(value, dict) else value
    return {t for t in map(content, named) if isinstance(t, str)}


def _id(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is the id of an added token, expected 0 or more")
    return number


def _token(token: Any, special: bool) -> dict[str, Any]:
    if isinstance(token, str):
        token = {"content": token, "special": special}
    if not isinstance(token["content"], str):
        raise ValueError(f"{token['content']!r} is an added token, expected a text")
    return {
        "content": token["content"],
        **{flag: bool(token.get(flag, False)) for flag in (*FLAGS, "special")},
    }
