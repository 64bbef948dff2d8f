"""What writes texts with a model that was read from a folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.bytes.stream import BYTES
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.pairs import PairOptions
from etc_jax.generation import decoding
from etc_jax.generation.language_model import LanguageModel
from etc_jax.generation.options import GenerationConfig
from etc_jax.generation.text_codecs import ByteCodec, Codec, TextCodec
from etc_jax.generation.text_writer import TextWriter, pairs_of_run
from etc_jax.generation.writer import Writer
from etc_jax.training.checkpoints.saved_params import SavedParams
from etc_jax.training.errors import UserError

# Before the names of the flags that `Reading.sled` is of.
SLED = "sled."


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a model that writes reads texts, where that is not as it was trained.

    Attributes:
      special_tokens_in_text: "<mask>" and the like in a text are special tokens, and
        not plain text.
      first_id: of byte 0, of a converted language model of bytes; None: 0, if the model
        has no other ids.
      begin_token: whether inputs of an encoder-decoder begin with <s>.
      global_tokens: so many first tokens of its inputs are global.
      sled: fields of `SledConfig` that are otherwise, of a converted encoder-decoder.
    """

    special_tokens_in_text: bool = False
    first_id: int | None = None
    begin_token: bool | None = None
    global_tokens: int | None = None
    sled: Mapping[str, Any] = dataclasses.field(default_factory=dict)


AS_TRAINED = Reading()


def writer_of(
    params: Any,
    config: Any,
    tokenizer: Tokenizer | None,
    *,
    run: SavedParams | None = None,
    file: GenerationFile | None = None,
    reading: Reading = AS_TRAINED,
    named: str = "the model",
) -> Writer:
    """A language model, or an encoder-decoder, ready to write.

    Args:
      params: nested dict of arrays.
      config: of the model.
      tokenizer: of the model; None if there is none, as for models of bytes.
      run: that the model is of; its parameters are not read.
      file: how its folder says that it writes.
      reading: how it reads texts.
      named: the model, for errors.

    Raises:
      UserError, ValueError: if it does not write texts, or does not read them so.
    """
    if run is not None:
        _check_run(run, reading)
    elif reading.sled:
        config = _with_sled(config, reading.sled, named)
    decoder = decoding.decoder_of(native.family_of(config), config)
    decoder.check(1)
    _check_kind(reading, decoding.has_encoder(decoder), named)
    if tokenizer is not None and reading.special_tokens_in_text:
        tokenizer = with_special_tokens(tokenizer)
    params = jax.tree.map(jnp.asarray, params)  # moved to the device once
    if not decoding.has_encoder(decoder):
        codec = _codec(config.vocab_size, tokenizer, run, reading, named)
        return LanguageModel(params, decoder, codec, file=file)
    if tokenizer is None:
        raise UserError(_missing_tokenizer(run, named))
    pairs, global_tokens = _pairs(config, run, reading)
    objective = None if run is None else run.config.objective
    says = getattr(objective, "generation", GenerationConfig())
    return TextWriter(
        params, decoder, tokenizer, pairs, global_tokens, file=file, of_run=says
    )


def _pairs(
    config: Any, run: SavedParams | None, reading: Reading
) -> tuple[PairOptions, int]:
    """(how inputs become tokens, first tokens of them that are global)."""
    if run is None:
        pairs = PairOptions(config.begin_token, config.sled.prefix_length)
        global_tokens = int(config.has_globals)
    else:
        pairs, global_tokens = pairs_of_run(run.config)
    if reading.begin_token is not None:
        pairs = dataclasses.replace(pairs, begin_token=reading.begin_token)
    if reading.global_tokens is not None:
        global_tokens = reading.global_tokens
    return pairs, global_tokens


def _check_run(run: SavedParams, reading: Reading) -> None:
    flags = [f"--{SLED}{name}" for name in reading.sled]
    flags += ["--first_id"] * (reading.first_id is not None)
    if flags:
        raise UserError(
            f"{run.run} is a run, which reads texts as it was trained, and whose ids "
            f"are known: leave {', '.join(flags)} out"
        )


def _check_kind(reading: Reading, has_encoder: bool, named: str) -> None:
    kind, names = "a language model", ("begin_token", "global_tokens")
    if has_encoder:
        kind, names = "an encoder-decoder", ("first_id",)
    flags = [f"--{name}" for name in names if getattr(reading, name) is not None]
    if flags:
        raise UserError(
            f"{named} is {kind}, which does not take {', '.join(flags)}; leave it out"
        )


def _with_sled(config: Any, changes: Mapping[str, Any], named: str) -> Any:
    """The config of a converted model that reads by windows.

    Raises:
      UserError: if that model cannot, or not so.
    """
    if not hasattr(config, "sled"):
        raise UserError(
            f"{named} is a {type(config).__name__}, no encoder-decoder, whose encoder "
            f"--{SLED}window is for; leave it out"
        )
    sled = dataclasses.replace(config.sled, **changes)
    config = dataclasses.replace(config, sled=sled)
    if problems := list(config.problems()):
        raise UserError("; ".join(f"--{field} {text}" for field, text in problems))
    return config


def _missing_tokenizer(run: SavedParams | None, named: str) -> str:
    if run is not None:
        return (
            f"{run.run / TOKENIZER} is missing: a run on text has its tokenizer there. "
            "Name the folder of the run, or a checkpoint that lies where the run left "
            "it"
        )
    return (
        f"{named} has no {TOKENIZER}, by which texts become tokens; convert the model "
        "with its tokenizer's files beside it"
    )


def _codec(
    size: int,
    tokenizer: Tokenizer | None,
    run: SavedParams | None,
    reading: Reading,
    named: str,
) -> Codec:
    """Of a language model of `size` ids, by its tokenizer or of bytes.

    Raises:
      UserError: if it is of neither, or it is not known which ids the bytes have.
    """
    gives = None if run is None else run.config.data.gives
    if gives not in (None, "bytes", "text"):
        raise UserError(
            f"{run.run} was trained on data.source={run.config.data.source!r}, "
            f"which gives {gives}; expected a run on text or bytes"
        )
    if gives != "bytes" and tokenizer is not None:
        if reading.first_id is not None:
            raise UserError(f"{named} has a tokenizer: leave --first_id out")
        return TextCodec(tokenizer, size)
    if gives == "text":
        raise UserError(_missing_tokenizer(run, named))
    if reading.special_tokens_in_text:
        raise UserError(
            "a model of bytes has no special tokens; leave special_tokens_in_text out"
        )
    if gives == "bytes":
        return ByteCodec(0, size)
    return _bytes_of_converted(size, reading.first_id, named)


def _bytes_of_converted(size: int, first_id: int | None, named: str) -> ByteCodec:
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
