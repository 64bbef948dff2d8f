"""Learning a WordPiece vocabulary from texts, of pieces or whole words.

The special ids are those of the uncased BERT vocabulary that the official ETC models
use: [PAD] = 0, [unused0] = 1 (global token of a sentence), [unused1] = 2 (global token
of a sentence masked for CPC), up to [unused98] = 99, then [UNK] = 100, [CLS], [SEP],
[MASK] = 103.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

from tokenizers import normalizers, trainers

from etc_jax.data.tokenizers.wordpiece import (
    CONTINUES,
    UNKNOWN,
    WordPieceTokenizer,
    bert_tokenizer,
)

SPECIAL_TOKENS = (
    "[PAD]",
    *(f"[unused{i}]" for i in range(99)),
    *(UNKNOWN, "[CLS]", "[SEP]", "[MASK]"),
)
# Pairs of pieces that are seen less often are not joined.
_MIN_PIECE_COUNT = 2


def train(
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_char_count: int = 20,
    special: Sequence[str] = (),
    lower_case: bool = True,
) -> WordPieceTokenizer:
    """Learns a vocabulary; the same texts give the same vocabulary, id for id.

    Args:
      texts: training texts; they are read twice, so all are held in memory.
      vocab_size: ids wanted, special tokens included.
      min_char_count: characters seen less often become [UNK].
      special: tokens after `SPECIAL_TOKENS`, which no text is tokenised into.
      lower_case: whether capitals and accents are dropped.

    Raises:
      ValueError: if the texts do not give that many pieces.
    """
    texts = list(texts)
    chars = _frequent_chars(texts, min_char_count, lower_case)
    # The trainer numbers the inner pieces ("##a") in the order of a hash map that is
    # seeded anew in each process, and breaks ties between joins by these numbers.
    # Named beforehand, as special tokens, they have fixed numbers.
    fixed = [*SPECIAL_TOKENS, *special, *(CONTINUES + c for c in chars)]
    if vocab_size <= len(fixed) + len(chars):
        raise ValueError(
            f"vocab_size {vocab_size} leaves no room for words: special tokens and "
            f"single characters take {len(fixed) + len(chars)}; raise it"
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=_MIN_PIECE_COUNT,
        special_tokens=fixed,
        initial_alphabet=chars,
        limit_alphabet=len(chars),
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    # With the text normalised as the vocabulary will read it.
    learner = bert_tokenizer([UNKNOWN], lower_case)
    learner.train_from_iterator(texts, trainer)
    vocabulary = learner.get_vocab()
    if len(vocabulary) != vocab_size:
        raise ValueError(
            f"the texts give {len(vocabulary)} pieces, not vocab_size {vocab_size}; "
            "lower vocab_size or give more text"
        )
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    return WordPieceTokenizer(pieces, lower_case=lower_case)


def frequent_words(
    texts: Iterable[str],
    *,
    vocab_size: int,
    special: Sequence[str] = (),
    lower_case: bool = True,
) -> WordPieceTokenizer:
    """A vocabulary of the most frequent whole words; all others become [UNK].

    Args:
      texts: training texts, read once.
      vocab_size: ids wanted, special tokens included.
      special: as for `train`.
      lower_case: as for `train`.

    Raises:
      ValueError: if the texts do not have that many words, or there is room for none.
    """
    cut = bert_tokenizer([UNKNOWN], lower_case)
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        words = cut.pre_tokenizer.pre_tokenize_str(cut.normalizer.normalize_str(text))
        counts.update(word for word, _ in words)
    fixed = [*SPECIAL_TOKENS, *special]
    wanted = vocab_size - len(fixed)
    if not 0 < wanted <= len(counts):
        raise ValueError(
            f"vocab_size is {vocab_size}; expected {len(fixed) + 1} to "
            f"{len(fixed) + len(counts)}: {len(fixed)} special tokens, and the texts "
            f"have {len(counts)} different words"
        )
    # Of equally frequent ones the first by the alphabet, whatever the order of texts.
    words = sorted(counts, key=lambda word: (-counts[word], word))[:wanted]
    return WordPieceTokenizer([*fixed, *words], lower_case=lower_case)


def _frequent_chars(
    texts: Sequence[str], min_count: int, lower_case: bool
) -> list[str]:
    normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    return sorted(c for c, n in counts.items() if n >= min_count and not c.isspace())
