"""Byte-level BPE of GPT-2, RoBERTa and BART, from their standard files.

A word is what GPT-2's pattern cuts off before any merge: a run of letters, of digits,
or of other marks, each with the one space before it; a contraction such as 's; a run of
further white space. So punctuation after a word is a word of its own, as in BERT's
whole-word masking. (fairseq's whole-word masking of RoBERTa starts words at spaces
only, which masks "dog" and "." of "dog." together; here they are two words.)
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from etc_jax.base.registry import register
from etc_jax.data.tokenizers.base import PackageTokenizer
from etc_jax.data.tokenizers.special_tokens import BYTE_LEVEL

Merges = Sequence[tuple[str, str]]


@register("tokenizer", "BPE")
class ByteBpeTokenizer(PackageTokenizer):
    """Byte-level BPE over a fixed vocabulary. No text is unknown to it."""

    kind = "BPE"

    def __init__(
        self, pieces: Sequence[str], merges: Merges, *, add_prefix_space: bool = False
    ):
        """Takes the vocabulary.

        Args:
          pieces: in the order of ids, bytes spelled as GPT-2 does.
          merges: pairs of pieces, the one merged first first.
          add_prefix_space: whether a text that does not begin with a space is read as
            if it did, which makes its first word the same piece as inside a text.

        Raises:
          ValueError: if a piece stands there twice, the piece of a byte is missing, or
            a merge is of or into something that is no piece.
        """
        super().__init__(pieces, BYTE_LEVEL)
        vocabulary = set(self._pieces)
        if missing := sorted(set(pre_tokenizers.ByteLevel.alphabet()) - vocabulary):
            raise ValueError(
                f"a vocabulary of {len(self._pieces)} pieces without {len(missing)} of "
                f"the 256 single bytes ({missing[0]!r} ...), which byte-level BPE "
                "needs; give the vocab.json of a GPT-2, RoBERTa or BART model"
            )
        self._merges = [(first, second) for first, second in merges]
        for rank, (first, second) in enumerate(self._merges):
            if not {first, second, first + second} <= vocabulary:
                raise ValueError(
                    f"merge {rank}, {first!r} with {second!r}, is not of pieces of the "
                    "vocabulary; use merges and vocabulary of one model"
                )
        self.add_prefix_space = add_prefix_space
        self._tokenizer = _byte_level_tokenizer(
            self._pieces, self._merges, add_prefix_space
        )

    @classmethod
    def from_files(
        cls,
        vocabulary: str | os.PathLike,
        merges: str | os.PathLike,
        *,
        add_prefix_space: bool = False,
    ) -> ByteBpeTokenizer:
        """Reads vocab.json (or GPT-2's encoder.json) and merges.txt (or vocab.bpe).

        Args:
          vocabulary: a JSON object `{piece: id}`.
          merges: two pieces a line, after a first line with a version.
          add_prefix_space: as for the class.

        Raises:
          ValueError: if a file is not what it should be, or they do not fit together.
          OSError: if one cannot be read.
        """
        pieces, pairs = read_pieces(vocabulary), read_merges(merges)
        try:
            return cls(pieces, pairs, add_prefix_space=add_prefix_space)
        except ValueError as e:
            raise ValueError(f"{vocabulary} with {merges}: {e}") from e

    @property
    def merges(self) -> list[tuple[str, str]]:
        """Pairs of pieces, the one merged first first."""
        return self._merges

    def _facts(self) -> dict[str, Any]:
        return {
            "add_prefix_space": self.add_prefix_space,
            "merges": self._merges,
            "pieces": self._pieces,
        }

    @classmethod
    def _from_package(cls, saved: dict[str, Any]) -> ByteBpeTokenizer:
        model = saved["model"]
        return cls(
            sorted(model["vocab"], key=model["vocab"].__getitem__),
            model["merges"],
            add_prefix_space=saved["pre_tokenizer"]["add_prefix_space"],
        )


def _byte_level_tokenizer(
    pieces: Sequence[str], merges: Merges, add_prefix_space: bool
) -> tokenizers.Tokenizer:
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, list(merges))
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space, use_regex=True
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def read_pieces(path: str | os.PathLike) -> list[str]:
    """The pieces of a vocab.json, in the order of their ids.

    Raises:
      ValueError: if it is none.
      OSError: if it cannot be read.
    """
    expected = "expected a JSON object of pieces and their ids 0, 1, 2, ..."
    try:
        vocabulary = json.loads(pathlib.Path(path).read_bytes())
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path} is not a BPE vocabulary: {e}; {expected}") from e
    if not isinstance(vocabulary, dict):
        name = type(vocabulary).__name__
        raise ValueError(f"{path} is not a BPE vocabulary: a {name}; {expected}")
    ids = list(vocabulary.values())
    numbers = all(type(i) is int for i in ids)
    if not ids or not numbers or sorted(ids) != list(range(len(ids))):
        raise ValueError(
            f"{path} is not a BPE vocabulary: {len(ids)} pieces do not have the ids "
            f"0..{len(ids) - 1}, each once; {expected}"
        )
    return sorted(vocabulary, key=vocabulary.__getitem__)


def read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    """The pairs of a merges.txt, the one merged first first.

    Raises:
      ValueError: if it is none.
      OSError: if it cannot be read.
    """
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as e:
        raise ValueError(
            f"{path} is not a file of BPE merges: {e}; expected UTF-8 text with two "
            "pieces in each line"
        ) from e
    merges = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        match line.split(" "):
            case [str(first), str(second)] if first and second:
                merges.append((first, second))
            case _:
                raise ValueError(
                    f"{path}:{number}: {line[:80]!r} is not a BPE merge; expected two "
                    "pieces with a space between them"
                )
    return merges
