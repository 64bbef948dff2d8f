"""BERT's WordPiece, from a standard vocab.txt or a vocabulary trained here.

Words are those of BERT's basic tokenization: cut at white space, around
each punctuation mark, and around each Chinese character.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from etc_jax.base.registry import register
from etc_jax.data.tokenizers.base import Encoded, PackageTokenizer
from etc_jax.data.tokenizers.encoding import encodings
from etc_jax.data.tokenizers.special_tokens import WORDPIECE

CONTINUES = "##"
UNKNOWN = "[UNK]"
# The limit of the official tokenization code; the tokenizers package defaults to 100.
MAX_WORD_CHARS = 200


@register("tokenizer", "WordPiece")
class WordPieceTokenizer(PackageTokenizer):
    """WordPiece over a fixed vocabulary."""

    kind = "WordPiece"

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        lower_case: bool = True,
        max_word_chars: int = MAX_WORD_CHARS,
        strip_accents: bool | None = None,
        chinese_chars: bool = True,
    ):
        """Takes the vocabulary.

        Args:
          pieces: in the order of ids.
          lower_case: whether text is lower-cased.
          max_word_chars: longer words are unknown.
          strip_accents: whether text loses its accents; None: if it is lower-cased.
          chinese_chars: whether each Chinese character is a word.

        Raises:
          ValueError: if a piece stands there twice, or [UNK] is missing.
        """
        super().__init__(pieces, WORDPIECE)
        if UNKNOWN not in self._pieces:
            raise ValueError(
                f"a vocabulary of {len(self._pieces)} pieces without {UNKNOWN}, which "
                "WordPiece needs; give a vocabulary of BERT's form"
            )
        self.lower_case = lower_case
        self.max_word_chars = max_word_chars
        self.strip_accents = strip_accents
        self.chinese_chars = chinese_chars
        self._tokenizer = bert_tokenizer(
            self._pieces, lower_case, max_word_chars, strip_accents, chinese_chars
        )
        self._starts = np.array([not p.startswith(CONTINUES) for p in self._pieces])

    @classmethod
    def from_vocab_file(
        cls,
        path: str | os.PathLike,
        *,
        lower_case: bool | None = None,
        max_word_chars: int = MAX_WORD_CHARS,
    ) -> WordPieceTokenizer:
        """Reads a vocab.txt as official ETC does.

        A line is a piece, stripped of white space around it; ids count the pieces, of
        which a repeated one keeps its first id and takes no second.

        Args:
          path: the file.
          lower_case: as for the class; None: only if no piece has a capital letter.
          max_word_chars: as for the class.

        Raises:
          ValueError: if the file is not UTF-8, or has no [UNK].
          OSError: if it cannot be read.
        """
        try:
            text = pathlib.Path(path).read_bytes().decode("utf-8")
        except UnicodeDecodeError as e:
            raise ValueError(
                f"{path} is not a WordPiece vocabulary: {e}; expected UTF-8 text with "
                "a piece in each line"
            ) from e
        # Not splitlines(): some vocabularies have pieces that it takes for line ends.
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        pieces = list(dict.fromkeys(line.strip() for line in lines))
        if lower_case is None:
            regular = [p for p in pieces if not WORDPIECE.is_reserved(p)]
            lower_case = all(p == p.lower() for p in regular)
        try:
            return cls(pieces, lower_case=lower_case, max_word_chars=max_word_chars)
        except ValueError as e:
            raise ValueError(f"{path} is not a WordPiece vocabulary: {e}") from e

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        encoded = encodings(self._tokenizer.encode_batch_fast, texts)
        ids = [np.array(e.ids, self.id_dtype) for e in encoded]
        return [(x, self._starts[x]) for x in ids]

    def _facts(self) -> dict[str, Any]:
        facts = {
            "lower_case": self.lower_case,
            "max_word_chars": self.max_word_chars,
            "pieces": self._pieces,
        }
        # Only where they differ from BERT's own: fingerprints of old caches stay.
        if self.strip_accents not in (None, self.lower_case):
            facts["strip_accents"] = self.strip_accents
        if not self.chinese_chars:
            facts["chinese_chars"] = False
        return facts

    @classmethod
    def _from_package(cls, saved: dict[str, Any]) -> WordPieceTokenizer:
        model, normalizer = saved["model"], saved["normalizer"]
        return cls(
            sorted(model["vocab"], key=model["vocab"].__getitem__),
            lower_case=normalizer["lowercase"],
            max_word_chars=model["max_input_chars_per_word"],
            strip_accents=normalizer["strip_accents"],
            chinese_chars=normalizer["handle_chinese_chars"],
        )


def bert_tokenizer(
    pieces: Sequence[str],
    lower_case: bool = True,
    max_word_chars: int = MAX_WORD_CHARS,
    strip_accents: bool | None = None,
    chinese_chars: bool = True,
) -> tokenizers.Tokenizer:
    """The package's tokenizer with BERT's basic tokenization."""
    model = models.WordPiece(
        {piece: i for i, piece in enumerate(pieces)},
        unk_token=UNKNOWN,
        max_input_chars_per_word=max_word_chars,
        continuing_subword_prefix=CONTINUES,
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lower_case,
        strip_accents=strip_accents,
        handle_chinese_chars=chinese_chars,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    return tokenizer
