"""The tokenizers of `etc_jax.data` as seqio vocabularies.

(seqio's own BERT vocabulary gives a padded array a word and cannot decode it again.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.tasks.seqio.tensorflow import seqio, tf


class TokenizerVocabulary(seqio.Vocabulary):
    """A tokenizer in seqio's terms; equal if fingerprints and last tokens are.

    Documents have no end-of-sequence token: they are packed, and packing marks borders.
    Texts that a decoder writes have one. There is no id for the unknown: the tokenizer
    knows its own, and an id outside of the vocabulary is an error, not an unknown word.

    In a tf.data pipeline, text goes through Python, one call for each.
    """

    def __init__(self, tokenizer: Tokenizer, eos_id: int | None = None):
        super().__init__()
        self.tokenizer = tokenizer
        self._eos_id = eos_id

    @property
    def pad_id(self) -> int:
        return self.tokenizer.special_id("pad")

    @property
    def eos_id(self) -> int | None:
        return self._eos_id

    @property
    def bos_id(self) -> None:
        return None

    @property
    def unk_id(self) -> None:
        return None

    @property
    def _base_vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    def _encode(self, s: str) -> list[int]:
        ((ids, _),) = self.tokenizer.encode_batch([s])
        return ids.tolist()

    def _decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        """Scalar string -> int32 `[tokens]`."""

        def encode(texts: np.ndarray) -> np.ndarray:
            return np.array(self._encode(texts[0].decode()), np.int32)

        # One string comes as bytes in a graph, and as an array outside of one.
        ids = tf.numpy_function(encode, [tf.reshape(s, [1])], tf.int32, stateful=False)
        ids.set_shape([None])
        return ids

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        """int32 `[..., tokens]` -> string `[...]`."""

        def decode(rows: np.ndarray) -> np.ndarray:
            flat = rows.reshape(-1, rows.shape[-1])
            texts = [self._decode(row.tolist()).encode() for row in flat]
            return np.array(texts, object).reshape(rows.shape[:-1])

        texts = tf.numpy_function(decode, [ids], tf.string, stateful=False)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenizerVocabulary):
            return False
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[str, int | None]:
        return self.tokenizer.fingerprint(), self._eos_id

    def __str__(self) -> str:
        return f"TokenizerVocabulary({self.tokenizer.fingerprint()[:12]})"
