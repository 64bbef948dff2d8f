"""Texts given to the packages that tokenise, whose faults are errors of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class NoUnicodeError(ValueError):
    """A text has half of a surrogate pair, which JSON can spell and UTF-8 cannot."""


def check_unicode(text: str, named: str | None = None) -> None:
    """Refuses what no tokenizer takes.

    Args:
      text: any string.
      named: what it is, for the error.

    Raises:
      NoUnicodeError: if the text cannot be written as UTF-8.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        where = "" if named is None else f"{named}: "
        raise NoUnicodeError(f"{where}half a character in {text!r:.200}") from error


def encoded_by(encode: Callable[[list[str]], T], texts: Sequence[str]) -> T:
    """What a package's function makes of texts; its faults are errors of ours.

    Raises:
      NoUnicodeError: if a text is none.
      ValueError: if an expression of the tokenizer gives up at a text.
    """
    texts = list(texts)
    try:
        return encode(texts)
    except (TypeError, UnicodeError):  # what the packages say to such a text
        for text in texts:
            check_unicode(text)
        raise
    except BaseException as error:
        # Rust's panics are no Exception to Python, and have no importable name.
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"the tokenizer cannot encode a text of {max(map(len, texts))} characters: "
            f"{error}; a regular expression of its normalizer or pre_tokenizer takes "
            "too long on it"
        ) from error


def encodings(encode_batch: Callable, texts: Sequence[str]) -> list[Any]:
    """Those of the `tokenizers` package, without special tokens; see `encoded_by`."""
    return encoded_by(lambda x: encode_batch(x, add_special_tokens=False), texts)
