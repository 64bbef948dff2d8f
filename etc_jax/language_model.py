"""A language model that continues texts, with its parameters and its codec."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from etc_jax import decoding
from etc_jax.data.bytes.stream import BYTES
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.text_codecs import ByteCodec, Codec, TextCodec, tokenizer_of_run
from etc_jax.training.checkpoints.saved_params import SavedParams
from etc_jax.training.errors import UserError


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """What continues a text.

    Attributes:
      params: nested dict of arrays.
      decoder: of the model.
      codec: of its ids.
    """

    params: dict[str, Any]
    decoder: decoding.Decoder
    codec: Codec

    def with_special_tokens(self) -> LanguageModel:
        """The same, to which special tokens in a prompt are special tokens.

        Raises:
          UserError: if it is a model of bytes, which has none.
        """
        if not isinstance(self.codec, TextCodec):
            raise UserError(
                "a model of bytes has no special tokens; leave special_tokens_in_text "
                "out"
            )
        tokenizer = with_special_tokens(self.codec.tokenizer)
        return dataclasses.replace(self, codec=TextCodec(tokenizer))

    def continued(
        self,
        text: bytes,
        num_tokens: int | None,
        seed: int,
        *,
        temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 1.0,
    ) -> bytes:
        """What follows a prompt.

        Args:
          text: the prompt.
          num_tokens: to write; None: 200.
          seed: of the draws.
          temperature: 0 takes the likeliest token each time; None: 1.
          top_k: see `decoding.generate`.
          top_p: see there.

        Raises:
          UserError, ValueError: if the prompt cannot be continued.
        """
        tokens = decoding.generate(
            self.decoder,
            self.params,
            np.array([self.codec.encode(text)], np.int32),
            200 if num_tokens is None else num_tokens,
            jax.random.key(seed),
            allowed=self.codec.allowed,
            temperature=1.0 if temperature is None else temperature,
            top_k=top_k,
            top_p=top_p,
        )
        return self.codec.decode(np.asarray(tokens[0]))


def codec_of_run(saved: SavedParams) -> Codec:
    """Of a run on text or bytes.

    Raises:
      UserError: if it is none.
    """
    gives = saved.config.data.gives
    if gives == "bytes":
        return ByteCodec(0, saved.config.model.vocab_size)
    if gives != "text":
        raise UserError(
            f"{saved.run} was trained on data.source={saved.config.data.source!r}, "
            f"which gives {gives}; expected a run on text or bytes"
        )
    return TextCodec(tokenizer_of_run(saved), saved.config.model.vocab_size)


def codec_of_model(
    tokenizer: Tokenizer | None, size: int, first_id: int | None, named: str
) -> Codec:
    """Of a model with a tokenizer beside it, or else of bytes.

    Args:
      tokenizer: of the model, if there is one.
      size: ids of the model.
      first_id: of byte 0; None: 0, if the model has no other ids.
      named: the model, for errors.

    Raises:
      UserError: if it is not known which ids the bytes have.
    """
    if tokenizer is not None:
        if first_id is not None:
            raise UserError(f"{named} has a tokenizer: leave --first_id out")
        return TextCodec(tokenizer, size)
    if first_id is None and size != BYTES:
        raise UserError(
            f"{named} has {size} ids and no {TOKENIZER}, so that they are not just "
            "bytes; if they are bytes with others before, say which id byte 0 has, as "
            "in --first_id=2"
        )
    first = first_id or 0
    if not 0 <= first <= size - BYTES:
        raise UserError(
            f"--first_id is {first}, but {named} has {size} ids: the {BYTES} bytes do "
            "not fit after it"
        )
    return ByteCodec(first, size)
