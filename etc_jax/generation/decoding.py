"""Token by token from a cache, with any model that has a decoder.

    decoder = decoding.decoder_of("reformer", config)
    logits, cache = decoding.prefill(decoder, params, prompt, length=1024)
    logits, cache = decoding.step(decoder, params, cache, token)  # and so on

A prompt is run at once, as in training; each token that follows sees what it would see
if the sequence ended with it.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from etc_jax.base import registry


class Decoder(Protocol):
    """A model that continues sequences.

    Registered as `@registry.register("decoder", FAMILY)` on a frozen dataclass made by
    `(config)`: it is a static argument of what is compiled. Its config has
    `vocab_size`.
    """

    config: Any

    def check(self, length: int) -> None:
        """Raises ValueError if the model cannot continue, or not to that length."""

    def init_cache(self, params: Any, batch: int, length: int) -> Any:
        """The cache of `batch` sequences without a token.

        Args:
          params: of the model.
          batch: number of sequences.
          length: longest sequence that there will be.
        """

    def prefill(
        self,
        params: Any,
        tokens: jax.Array,
        lengths: jax.Array,
        length: int,
        *memory: Any,
    ) -> tuple[jax.Array, Any]:
        """Runs prompts at once.

        Args:
          params: of the model.
          tokens: int `[b, n]`, n at most `length`.
          lengths: int32 `[b]` in 1..n: tokens of each row, then padding.
          length: longest sequence that there will be, prompt included.
          *memory: what the decoder of an encoder-decoder reads, which its `encode`
            gives.

        Returns:
          (float32 logits `[b, vocabulary]` of the token after each prompt, cache).
        """

    def step(self, params: Any, cache: Any, token: jax.Array) -> tuple[jax.Array, Any]:
        """One token more.

        Args:
          params: of the model.
          cache: of the tokens before it.
          token: int `[b]`.

        Returns:
          (float32 logits `[b, vocabulary]` of the next token, cache). Logits of a
          sequence that is longer than the cache are not a number.
        """

    def repeat(self, cache: Any, num_beams: int) -> Any:
        """The cache of so many sequences in place of each, one after the other."""

    def follow(self, cache: Any, parents: jax.Array) -> Any:
        """The cache in which each sequence of an input goes on from one of them.

        Args:
          cache: of `repeat`, and steps since.
          parents: int `[b, k]`, which of the k sequences of its input.
        """


def decoder_of(family: str, config: Any) -> Decoder:
    """The decoder of a model.

    Args:
      family: name of the model's family.
      config: of the model.

    Raises:
      ValueError: if models of the family do not continue sequences.
    """
    try:
        decoder = registry.lookup("decoder", family)
    except KeyError as error:
        raise ValueError(
            f"models of family {family!r} cannot continue a text: {error.args[0]}"
        ) from error
    return decoder(config)


def has_encoder(decoder: Decoder) -> bool:
    """Whether a decoder's model reads a text before it writes one."""
    return hasattr(decoder, "encode")


@functools.partial(jax.jit, static_argnames=("decoder", "batch", "length"))
def init_cache(decoder: Decoder, params: Any, batch: int, length: int) -> Any:
    """See `Decoder.init_cache`.

    Raises:
      ValueError: see `Decoder.check`.
    """
    decoder.check(length)
    return decoder.init_cache(params, batch, length)


@functools.partial(jax.jit, static_argnames=("decoder", "length"))
def prefill(
    decoder: Decoder,
    params: Any,
    tokens: jax.Array,
    length: int,
    prompt_lengths: jax.Array | None = None,
    memory: Any = None,
) -> tuple[jax.Array, Any]:
    """See `Decoder.prefill`.

    Args:
      decoder: of the model.
      params: of the model.
      tokens: int `[b, n]`.
      length: longest sequence that there will be, prompt included.
      prompt_lengths: int `[b]` in 1..n; None: all prompts have n tokens.
      memory: see `Decoder.prefill`; None: the model has no encoder.

    Raises:
      ValueError: if the prompt does not fit, or see `Decoder.check`.
    """
    decoder.check(length)
    if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= length:
        raise ValueError(
            f"the prompt has shape {tokens.shape}, expected [batch, n] with n in "
            f"1..{length}, which is the length that there is room for"
        )
    b, n = tokens.shape
    if prompt_lengths is None:
        prompt_lengths = jnp.full((b,), n, jnp.int32)
    if prompt_lengths.shape != (b,):
        raise ValueError(
            f"prompt_lengths have shape {prompt_lengths.shape}, expected {(b,)}"
        )
    more = () if memory is None else (memory,)
    lengths = prompt_lengths.astype(jnp.int32)
    return decoder.prefill(params, tokens, lengths, length, *more)


@functools.partial(jax.jit, static_argnames="decoder", donate_argnames="cache")
def step(
    decoder: Decoder, params: Any, cache: Any, token: jax.Array
) -> tuple[jax.Array, Any]:
    """See `Decoder.step`; the cache is used up, as its memory is written to."""
    return decoder.step(params, cache, token)
