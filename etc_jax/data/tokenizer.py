"""A lower-casing WordPiece tokenizer in the form of uncased BERT, over `tokenizers`.

The special ids are those of the uncased BERT vocabulary that the official ETC models
use: [PAD] = 0, [unused0] = 1 (global token of a sentence), [unused1] = 2 (global token
of a sentence masked for CPC), up to [unused98] = 99, then [UNK] = 100, [CLS], [SEP],
[MASK] = 103.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL_TOKENS = (
    "[PAD]",
    *(f"[unused{i}]" for i in range(99)),
    *("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
)
SENTENCE_TOKEN = "[unused0]"
CPC_MASK_TOKEN = "[unused1]"
_CONTINUES = "##"


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """The ids that building examples needs to know.

    Attributes:
      pad: padding, long and global.
      sentence: global token of a sentence.
      cpc_mask: global token of a sentence whose tokens are masked for CPC.
      mask: long token in place of a masked one.
      first_regular: ids from here up to `vocab_size` stand for text.
      vocab_size: number of ids.
    """

    pad: int
    sentence: int
    cpc_mask: int
    mask: int
    first_regular: int
    vocab_size: int


class Tokenizer:
    """WordPiece over a fixed vocabulary.

    Special tokens never come out of text: "[MASK]" in a document is three pieces.
    """

    def __init__(self, vocabulary: dict[str, int]):
        """Takes `{piece: id}`.

        Raises:
          ValueError: unless ids are 0 .. size-1 and the special tokens are in place.
        """
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise ValueError(
                f"vocabulary of {len(vocabulary)} pieces does not have the ids "
                f"0..{len(vocabulary) - 1}, each once; expected a complete vocabulary"
            )
        for name in ("[PAD]", SENTENCE_TOKEN, CPC_MASK_TOKEN, "[UNK]", "[MASK]"):
            want = SPECIAL_TOKENS.index(name)
            if vocabulary.get(name) != want:
                raise ValueError(
                    f"special token {name} has id {vocabulary.get(name)}, expected "
                    f"{want}; use a vocabulary with the special ids of uncased BERT"
                )
        self._tokenizer = _bert_tokenizer(vocabulary)
        pieces = sorted(vocabulary, key=vocabulary.__getitem__)
        self._continues = np.array([p.startswith(_CONTINUES) for p in pieces])
        self._pieces = pieces

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def pad_id(self) -> int:
        return SPECIAL_TOKENS.index("[PAD]")

    @property
    def sentence_id(self) -> int:
        return SPECIAL_TOKENS.index(SENTENCE_TOKEN)

    @property
    def cpc_mask_id(self) -> int:
        return SPECIAL_TOKENS.index(CPC_MASK_TOKEN)

    @property
    def mask_id(self) -> int:
        return SPECIAL_TOKENS.index("[MASK]")

    @property
    def token_ids(self) -> TokenIds:
        return TokenIds(
            pad=self.pad_id,
            sentence=self.sentence_id,
            cpc_mask=self.cpc_mask_id,
            mask=self.mask_id,
            first_regular=len(SPECIAL_TOKENS),
            vocab_size=self.vocab_size,
        )

    @property
    def id_dtype(self) -> np.dtype:
        """The smallest unsigned type that holds every id and is stored compactly."""
        return np.dtype(np.uint16 if self.vocab_size <= 2**16 else np.uint32)

    def encode_batch(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """(ids `[t]`, word starts bool `[t]`) of each text, without special tokens.

        A word start is the first piece of a word, for whole-word masking.
        """
        encodings = self._tokenizer.encode_batch_fast(
            list(texts), add_special_tokens=False
        )
        ids = [np.array(e.ids, self.id_dtype) for e in encodings]
        return [(x, ~self._continues[x]) for x in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, with special tokens spelled out."""
        return self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)

    def fingerprint(self) -> str:
        """SHA-256 of the vocabulary in the order of ids, in hexadecimal."""
        return hashlib.sha256(json.dumps(self._pieces).encode()).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Writes the JSON file of the `tokenizers` package."""
        self._tokenizer.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Tokenizer:
        """Reads what `save` wrote.

        Raises:
          ValueError: if the file is not a WordPiece tokenizer.
          OSError: if it cannot be read.
        """
        text = pathlib.Path(path).read_text(encoding="utf-8")
        try:
            vocabulary = json.loads(text)["model"]["vocab"]
            return cls(dict(vocabulary))
        except (ValueError, KeyError, TypeError) as e:
            raise ValueError(
                f"{path} is not a tokenizer saved by etc_jax ({e}); train it again"
            ) from e


def train(
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_char_count: int = 20,
    min_piece_count: int = 2,
) -> Tokenizer:
    """Learns a vocabulary; the same texts give the same vocabulary, id for id.

    Args:
      texts: training texts; they are read twice, so all are held in memory.
      vocab_size: ids wanted, special tokens included.
      min_char_count: characters seen less often become [UNK].
      min_piece_count: pairs of pieces seen less often are not joined.

    Raises:
      ValueError: if the texts do not give that many pieces.
    """
    texts = list(texts)
    chars = _frequent_chars(texts, min_char_count)
    # The trainer numbers the inner pieces ("##a") in the order of a hash map that is
    # seeded anew in each process, and breaks ties between joins by these numbers.
    # Named beforehand, as special tokens, they have fixed numbers.
    fixed = [*SPECIAL_TOKENS, *(_CONTINUES + c for c in chars)]
    if vocab_size <= len(fixed) + len(chars):
        raise ValueError(
            f"vocab_size {vocab_size} leaves no room for words: special tokens and "
            f"single characters take {len(fixed) + len(chars)}; raise it"
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_piece_count,
        special_tokens=fixed,
        initial_alphabet=chars,
        limit_alphabet=len(chars),
        continuing_subword_prefix=_CONTINUES,
        show_progress=False,
    )
    learner = _bert_tokenizer({"[UNK]": 0})
    learner.train_from_iterator(texts, trainer)
    vocabulary = learner.get_vocab()
    if len(vocabulary) != vocab_size:
        raise ValueError(
            f"the texts give {len(vocabulary)} pieces, not vocab_size {vocab_size}; "
            "lower vocab_size or give more text"
        )
    return Tokenizer(vocabulary)


def _bert_tokenizer(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    # 200 characters a word is the limit of the official tokenization code.
    model = models.WordPiece(
        vocabulary, unk_token="[UNK]", max_input_chars_per_word=200
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=_CONTINUES)
    return tokenizer


def _frequent_chars(texts: Sequence[str], min_count: int) -> list[str]:
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    return sorted(c for c, n in counts.items() if n >= min_count and not c.isspace())
