"""Token by token from a cache, with any model that has a decoder.

    decoder = decoding.decoder_of("reformer", config)
    logits, cache = decoding.prefill(decoder, params, prompt, length=1024)
    logits, cache = decoding.step(decoder, params, cache, token)  # and so on
    tokens = decoding.generate(decoder, params, prompt, 100, jax.random.key(0))

A prompt is run at once, as in training; each token that follows sees what it would see
if the sequence ended with it.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from etc_jax.base import registry
from etc_jax.base.rules import at_least
from etc_jax.ops import sampling


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
        made = registry.lookup("decoder", family)
    except KeyError as error:
        raise ValueError(
            f"models of family {family!r} cannot continue a text: {error.args[0]}"
        ) from error
    return made(config)


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


def generate(
    decoder: Decoder,
    params: Any,
    prompt: jax.Array,
    num_tokens: int,
    rng: jax.Array | None = None,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    prompt_lengths: jax.Array | None = None,
) -> jax.Array:
    """Continues prompts.

    Args:
      decoder: of the model.
      params: of the model.
      prompt: int `[b, n]`.
      num_tokens: of each continuation.
      rng: key of the draws; None only with temperature 0.
      temperature: of the softmax that is drawn from; 0: the likeliest token is taken.
      top_k: draw from so many likeliest tokens; 0: from all.
      top_p: draw from the likeliest tokens whose probabilities together reach this.
      prompt_lengths: see `prefill`.

    Returns:
      int32 `[b, num_tokens]`.

    Raises:
      ValueError: see `check_generation`; before anything is compiled.
    """
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    length = check_generation(decoder, prompt.shape, num_tokens, **options)
    rng = sampling.key_of_draws(rng, temperature)
    params = jax.tree.map(jnp.asarray, params)  # moved to the device once
    logits, cache = prefill(decoder, params, prompt, length, prompt_lengths)
    tokens, _ = _continue(
        decoder,
        params,
        cache,
        logits,
        jax.random.split(rng, num_tokens),
        jnp.float32(temperature) if temperature else None,
        jnp.float32(top_p) if top_p < 1 else None,
        top_k=top_k,
    )
    return tokens


def check_generation(
    decoder: Decoder,
    prompt_shape: tuple[int, ...],
    num_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> int:
    """The length of the cache that `generate` needs.

    Raises:
      ValueError: if the model cannot continue, the sequence is too long for it, or an
        option is out of range.
    """
    at_least(1).check(num_tokens=num_tokens)
    sampling.check(temperature, top_k, top_p)
    if len(prompt_shape) != 2 or prompt_shape[1] < 1:
        raise ValueError(
            f"the prompt has shape {prompt_shape}, expected [batch, n] with n of at "
            "least 1"
        )
    return check_length(decoder, prompt_shape[1], num_tokens)


def check_length(decoder: Decoder, prompt_length: int, num_tokens: int) -> int:
    """The length of the cache for so many tokens after a prompt.

    Raises:
      ValueError: if the model cannot continue, or not so far.
    """
    n = prompt_length
    length = n + num_tokens - 1  # nothing is asked of the last one
    try:
        decoder.check(length)
    except ValueError as error:
        if n == 1:  # what an encoder-decoder begins with is no prompt of a user
            raise
        raise ValueError(
            f"a prompt of {n} tokens and {num_tokens} that follow need {length} "
            f"positions: {error}"
        ) from error
    return length


@functools.partial(
    jax.jit,
    static_argnames=("decoder", "top_k"),
    donate_argnames="cache",
)
def _continue(
    decoder: Decoder,
    params: Any,
    cache: Any,
    logits: jax.Array,
    rngs: jax.Array,
    temperature: jax.Array | None,
    top_p: jax.Array | None,
    *,
    top_k: int,
) -> tuple[jax.Array, Any]:
    """(a token for each key, the cache, which takes the place of the one given)."""

    def draw(logits, rng):
        return sampling.choose(logits, rng, temperature, top_k=top_k, top_p=top_p)

    def body(carry, rng):
        logits, cache = decoder.step(params, carry[1], carry[0])
        token = draw(logits, rng)
        return (token, cache), token

    first = draw(logits, rngs[0])
    (_, cache), others = jax.lax.scan(body, (first, cache), rngs[1:])
    return jnp.concatenate([first[:, None], others.T], axis=1), cache
