"""A language model that continues texts, with its parameters and its codec."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.formats import generation_file
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.bytes.stream import BYTES
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.loop import Options
from etc_jax.generation.options import GenerationConfig, Layer, in_force, merged
from etc_jax.generation.text_codecs import ByteCodec, Codec, TextCodec, tokenizer_of_run
from etc_jax.ops import sampling
from etc_jax.training.checkpoints.saved_params import SavedParams
from etc_jax.training.errors import UserError

# Of a continuation, where nothing else is said.
NUM_TOKENS = 200


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """What continues a text.

    Attributes:
      params: nested dict of arrays.
      decoder: of the model.
      codec: of its ids.
      file: how it writes where nothing else is asked for, as its folder has it.
    """

    params: dict[str, Any]
    decoder: decoding.Decoder
    codec: Codec
    file: GenerationFile | None = None

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
        codec = dataclasses.replace(self.codec, tokenizer=tokenizer)
        return dataclasses.replace(self, codec=codec)

    def continued(self, text: bytes, how: Mapping[str, Any], seed: int) -> list[bytes]:
        """What follows a prompt: one text, or the best of a search.

        Args:
          text: the prompt.
          how: fields of `GenerationConfig` that are not as usual.
          seed: of the draws.

        Raises:
          UserError, ValueError: if the prompt cannot be continued.
        """
        prompt = np.array([self.codec.encode(text)], np.int32)
        options = self.options(how, prompt.shape[1])
        written = generation.write(
            self.decoder, self._on_device, prompt, options, sampling.key(seed)
        )
        texts = zip(np.asarray(written.tokens[0]), written.lengths[0], strict=True)
        return [self._text(ids[:n], options.rules.eos_ids) for ids, n in texts]

    @functools.cached_property
    def _on_device(self) -> Any:
        """The parameters, moved there once for all prompts."""
        return jax.tree.map(jnp.asarray, self.params)

    def options(self, how: Mapping[str, Any], prompt_length: int) -> Options:
        """How a prompt of so many tokens is continued.

        Args:
          how: see `continued`.
          prompt_length: tokens of the prompt.

        Raises:
          ValueError: if a field is unknown, or a value out of range, or the model
            cannot go on so far.
        """
        config = merged(self._layers(how, prompt_length))
        options = config.options(self.decoder.config, NUM_TOKENS)
        rules = options.rules
        # Ids that stand for no text; the end of one is written, and not shown.
        others = {*range(self.decoder.config.vocab_size)}
        others -= {*range(*self.codec.allowed), *rules.eos_ids}
        banned = tuple(sorted({*rules.suppress_tokens, *others}))
        rules = dataclasses.replace(rules, suppress_tokens=banned)
        options = dataclasses.replace(options, rules=rules)
        generation.check(self.decoder, options, prompt_length)
        return options

    def in_force(self, how: Mapping[str, Any], prompt_length: int) -> list[str]:
        """The options of `options`, a line each, and from where they come."""
        layers = self._layers(how, prompt_length)
        return in_force(layers, self.decoder.config, NUM_TOKENS)

    def _layers(self, how: Mapping[str, Any], prompt_length: int) -> list[Layer]:
        layers = [Layer("given", GenerationConfig.of(how))]
        if self.file is not None:
            says = GenerationConfig(**self.file.fields(prompt_length))
            layers.append(Layer(str(self.file.path), says))
        return layers

    def _text(self, ids: np.ndarray, eos_ids: tuple[int, ...]) -> bytes:
        ends = len(ids) > 0 and int(ids[-1]) in eos_ids
        return self.codec.decode(ids[: len(ids) - ends])


def of_model(
    params: Any, decoder: decoding.Decoder, codec: Codec, file: GenerationFile | None
) -> LanguageModel:
    """A model with what its folder says; what of that is left out is logged."""
    if file is not None:
        generation_file.log_left_out(file)
    return LanguageModel(params, decoder, codec, file)


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
