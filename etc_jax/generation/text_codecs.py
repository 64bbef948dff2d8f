"""Texts as ids of a language model and back: bytes, or pieces of a vocabulary."""

import dataclasses
from typing import Protocol

import numpy as np

from etc_jax.data.bytes.stream import BYTES, START
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.training.errors import UserError


class Codec(Protocol):
    """Texts as ids and back.

    Attributes:
      allowed: (first, one past the last) of the ids that stand for text.
    """

    allowed: tuple[int, int]

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, one at least.

        Raises:
          UserError, ValueError: if it has none, or one that the model does not know.
        """

    def decode(self, ids: np.ndarray) -> str:
        """The text of int ids `[n]`, all of them allowed."""


@dataclasses.dataclass(frozen=True)
class ByteCodec:
    """Bytes, which are ids one after the other.

    Bytes that are no UTF-8 are surrogates in a text ("surrogateescape").

    Attributes:
      first_id: of byte 0.
      vocab_size: of the model.
    """

    first_id: int
    vocab_size: int

    @property
    def allowed(self) -> tuple[int, int]:
        """See `Codec`."""
        return self.first_id, self.first_id + BYTES

    def encode(self, text: str) -> list[int]:
        """See `Codec`; as in training, something stands before a text."""
        content = text.encode("utf-8", "surrogateescape")
        ids = [START, *(byte + self.first_id for byte in content)]
        if max(ids) >= self.vocab_size:
            raise UserError(
                f"the prompt has byte {max(ids) - self.first_id}, but the model knows "
                f"{self.vocab_size} ids only; leave it out"
            )
        return ids

    def decode(self, ids: np.ndarray) -> str:
        """See `Codec`."""
        content = (ids - self.first_id).astype(np.uint8).tobytes()
        return content.decode("utf-8", "surrogateescape")


@dataclasses.dataclass(frozen=True)
class TextCodec:
    """Text in UTF-8 by a tokenizer.

    Attributes:
      tokenizer: of the model.
      vocab_size: rows of the model's token table.
    """

    tokenizer: Tokenizer
    vocab_size: int

    @property
    def allowed(self) -> tuple[int, int]:
        """See `Codec`: no special tokens."""
        return self.tokenizer.token_ids.regular_ids

    def encode(self, text: str) -> list[int]:
        """See `Codec`."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"the prompt is not UTF-8 ({error}), which this model's tokenizer reads"
            ) from error
        [(ids, _)] = self.tokenizer.encode_batch([text])
        if not len(ids):
            raise UserError(
                "the prompt has no token; a model of text needs one at least to go on"
            )
        check_rows(ids, self.vocab_size, self.tokenizer, "the prompt")
        return list(map(int, ids))

    def decode(self, ids: np.ndarray) -> str:
        """See `Codec`."""
        return self.tokenizer.decode(ids.tolist())
