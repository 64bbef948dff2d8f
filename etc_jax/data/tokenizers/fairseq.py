"""The vocabulary beside a checkpoint of fairseq: `dict.txt`, and byte-level BPE.

fairseq numbers four special tokens first, then the words of `dict.txt`, line by line.
These are ids of GPT-2's vocabulary, and filler words (`madeupword0000`) that make their
number a multiple of 8. A task that masks text adds `<mask>` after all of them: it is
row 51,200 of bart.base, and id 50,264 of the vocabulary that transformers has for it.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer, read_merges, read_pieces
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer

DICTIONARY = "dict.txt"
MASK = "<mask>"
# Of transformers' RoBERTa, whose ids are fairseq's, or of GPT-2; either has both names.
_PIECES, _MERGES = ("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")
_FIRST = ("<s>", "<pad>", "</s>", "<unk>")
_OVERWRITE = " #fairseq:overwrite"


class Vocabulary(NamedTuple):
    """What lies beside a checkpoint.

    Attributes:
      tokenizer: None if there is none.
      words: of fairseq's dictionary, in the order of rows, special tokens among them;
        None without a `dict.txt`.
    """

    tokenizer: Tokenizer | None = None
    words: tuple[str, ...] | None = None

    @property
    def mask_id(self) -> int | None:
        """The id of `<mask>`; None if the tokenizer has none."""
        if self.tokenizer is None:
            return None
        pieces = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        return pieces.index(MASK) if MASK in pieces else None

    def mask_row(self, rows: int, *, sentinels: bool, masks: bool | None) -> int | None:
        """The row of `<mask>` in the file; None: it has none, or nothing tells it.

        Args:
          rows: of the token table.
          sentinels: whether rows after that of `<mask>` are sentinels, as of a BART-LS.
          masks: whether the task adds `<mask>` to the vocabulary; None: unknown.

        Raises:
          ValueError: if that cannot be decided, or the dictionary is that of another
            model.
        """
        if self.words is not None:
            return self._row_of_words(rows, sentinels)
        if self.tokenizer is None:
            return None
        if rows <= self.tokenizer.vocab_size or sentinels:
            mask = self.mask_id
            return mask if mask is not None and mask < rows else None
        if masks is None:
            raise ValueError(
                f"the table has {rows} rows, the tokenizer {self.tokenizer.vocab_size} "
                f"ids, and the settings name no task of fairseq, so that the row of "
                f"{MASK} is not known; put the {DICTIONARY} of the model beside the "
                "file"
            )
        # The task adds it after all words of the dictionary.
        return rows - 1 if masks else None

    def _row_of_words(self, rows: int, sentinels: bool) -> int | None:
        beyond = rows - len(self.words)
        if beyond < 0 or (beyond > 1 and not sentinels):
            raise ValueError(
                f"{DICTIONARY} has {len(self.words)} words, special tokens among them, "
                f"but the table {rows} rows; expected as many, or one more, of {MASK}: "
                f"put the {DICTIONARY} of the model beside the file"
            )
        if MASK in self.words:
            return self.words.index(MASK)
        return len(self.words) if beyond else None


def read(folder: str | os.PathLike, rows: int) -> Vocabulary:
    """The vocabulary in the folder of a checkpoint.

    Args:
      folder: of the checkpoint.
      rows: of its token table.

    Raises:
      ValueError: if a file is missing or damaged, or they do not fit together.
    """
    folder = pathlib.Path(folder)
    words = None
    if (path := folder / DICTIONARY).is_file():
        words = _words(path)
    # RoBERTa's names come first: with them GPT-2's files may lie there, too.
    file = next((folder / x for x in _PIECES if (folder / x).is_file()), None)
    if file is None:
        return Vocabulary(None, words)
    pieces = read_pieces(file)
    if _FIRST[0] in pieces:
        return Vocabulary(_opened(file), words)
    if words is None:
        raise ValueError(
            f"{file} is GPT-2's vocabulary, whose ids {DICTIONARY} maps onto the rows "
            f"of the model; put the {DICTIONARY} of the model beside it, or the "
            "vocab.json and merges.txt of RoBERTa"
        )
    row_pieces = [_piece(word, pieces, path) for word in words]
    if rows > len(words) and MASK not in words:
        row_pieces.append(MASK)
    return Vocabulary(ByteBpeTokenizer(row_pieces, read_merges(_merges(file))), words)


def _opened(file: pathlib.Path) -> Tokenizer:
    _merges(file)
    return open_tokenizer(file)


def _merges(file: pathlib.Path) -> pathlib.Path:
    for name in _MERGES:
        if (path := file.with_name(name)).is_file():
            return path
    raise ValueError(f"{file} needs {' or '.join(_MERGES)} beside it")


def _piece(word: str, pieces: Sequence[str], path: pathlib.Path) -> str:
    """The piece of GPT-2's vocabulary that a word of the dictionary is the id of."""
    if not (word.isascii() and word.isdecimal()):
        return word
    if int(word) >= len(pieces):
        raise ValueError(
            f"{path} has {word}, but the vocabulary beside it ids 0 to "
            f"{len(pieces) - 1}; put the files of one model together"
        )
    return pieces[int(word)]


def _words(path: pathlib.Path) -> tuple[str, ...]:
    """The special tokens that fairseq puts first, and the words of a dictionary.

    Raises:
      ValueError: if it is none, or a word stands there twice.
    """
    try:
        lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a dictionary of fairseq: {error}") from error
    words = dict.fromkeys(_FIRST)
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        word, _, count = line.removesuffix(_OVERWRITE).rpartition(" ")
        if not word or not count.isdecimal():
            raise ValueError(
                f"{path}:{number}: {line[:80]!r} is not a line of a dictionary of "
                "fairseq; expected a word, a space and its count"
            )
        if word in words and not line.endswith(_OVERWRITE):
            raise ValueError(
                f"{path}:{number}: {word!r} is there twice; each word has one row"
            )
        words[word] = None
    return tuple(words)
