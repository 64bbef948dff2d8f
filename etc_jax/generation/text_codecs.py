"""Texts as ids of a language model and back: bytes, or pieces of a vocabulary."""

import dataclasses
from typing import Protocol

import numpy as np

from etc_jax.data.bytes.stream import BYTES, START
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.rows import check_rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.training.checkpoints.saved_params import SavedParams
from etc_jax.training.errors import UserError


def tokenizer_of_run(saved: SavedParams) -> Tokenizer:
    """That of a run on text, in whose folder it lies.

    Args:
      saved: one of the run's checkpoints.

    Raises:
      UserError: if it is missing.
    """
    path = saved.run / TOKENIZER
    if not path.exists():
        raise UserError(
            f"{path} is missing: a run on text has its tokenizer there. Name the "
            "folder of the run, or a checkpoint that lies where the run left it"
        )
    return Tokenizer.from_bytes(path.read_bytes(), str(path))


class Codec(Protocol):
    """Texts as ids and back.

    Attributes:
      allowed: (first, one past the last) of the ids that stand for text.
    """

    allowed: tuple[int, int]

    def encode(self, text: bytes) -> list[int]:
        """The ids of a prompt, one at least.

        Raises:
          UserError: if it has none.
        """

    def decode(self, ids: np.ndarray) -> bytes:
        """The text of int ids `[n]`, all of them allowed."""


@dataclasses.dataclass(frozen=True)
class ByteCodec:
    """Bytes, which are ids one after the other.

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

    def encode(self, text: bytes) -> list[int]:
        """See `Codec`; as in training, something stands before a text."""
        ids = [START, *(byte + self.first_id for byte in text)]
        if max(ids) >= self.vocab_size:
            raise UserError(
                f"the prompt has byte {max(ids) - self.first_id}, but the model knows "
                f"{self.vocab_size} ids only; leave it out"
            )
        return ids

    def decode(self, ids: np.ndarray) -> bytes:
        """See `Codec`."""
        return (ids - self.first_id).astype(np.uint8).tobytes()


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

    def encode(self, text: bytes) -> list[int]:
        """See `Codec`."""
        try:
            [(ids, _)] = self.tokenizer.encode_batch([text.decode("utf-8-sig")])
        except UnicodeDecodeError as error:
            raise UserError(
                f"the prompt is not UTF-8 ({error}), which this model's tokenizer reads"
            ) from error
        if not len(ids):
            raise UserError(
                "the prompt has no token; a model of text needs one at least to go on"
            )
        check_rows(ids, self.vocab_size, self.tokenizer, "the prompt")
        return list(map(int, ids))

    def decode(self, ids: np.ndarray) -> bytes:
        """See `Codec`."""
        return self.tokenizer.decode(ids.tolist()).encode()
