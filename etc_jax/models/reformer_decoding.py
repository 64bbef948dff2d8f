"""Reformer as a language model, one token after the other from a cache.

    logits, cache = prefill(params, config, prompt, length=1024)
    logits, cache = step(params, config, cache, token)  # and so on
    tokens = generate(params, config, prompt, 100, jax.random.key(0), top_k=40)

A prompt is run at once, as in training; each token that follows sees what it would see
if the sequence ended with it. In LSH attention this is not what a forward pass over a
longer sequence shows it, as later tokens move the borders of sorted chunks there (see
`ops.attention.lsh_decoding`). Later tokens change nothing in local layers that look at
one chunk before their own, or none, and none behind it, and where a sequence, padded
(`ReformerConfig.padded`), is one chunk. If all layers are like that, one forward pass
gives the logits of all places; if all but the last one are, `ReformerLm` over the
tokens so far gives those of the newest.

The number of buckets does not change while decoding: without `config.num_buckets` it
follows from the length that the cache is made for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.cached_attention import HashedCache, with_cache
from etc_jax.layers.chunked_attention import Sequence
from etc_jax.layers.reversible import LayerKind, TwoStreamStack
from etc_jax.models.reformer import ReformerLm
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.ops import blocking, reversible
from etc_jax.ops.attention.lsh_decoding import LocalCache, Newest
from etc_jax.ops.attention.lsh_hashing import buckets_for
from etc_jax.ops.sampling import choose


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["layers", "position"],
    meta_fields=["length"],
)
@dataclasses.dataclass(frozen=True)
class Cache:
    """What is kept of a batch of sequences.

    Attributes:
      layers: a `LocalCache` or a `HashedCache` for each layer of `config.pattern`, with
        a leading axis of repeats.
      position: int32 `[b]`, where the next token of each sequence stands.
      length: longest sequence that there is room for.
    """

    layers: tuple[LocalCache | HashedCache, ...]
    position: jax.Array
    length: int


# --- the model ------------------------------------------------------------------------


class _Parts(NamedTuple):
    """A model with parameters, and its layers for a cache."""

    config: ReformerConfig
    model: ReformerLm
    kinds: tuple[LayerKind, ...]
    repeats: int
    params: Any

    def start(self, x: jax.Array) -> jax.Array:
        return x.astype(self.config.residual_dtype)

    def logits(self, y1: jax.Array, y2: jax.Array) -> jax.Array:
        """Streams `[b, 1, e]` -> float32 `[b, vocabulary]`."""
        y = self.model.encoder.final_norm(jnp.concatenate([y1, y2], axis=-1))
        return self.model.logits(y)[:, 0]


def _parts(params: Any, config: ReformerConfig, length: int) -> _Parts:
    config = _for_length(config, length)
    model = ReformerLm(config).bind({"params": params})
    stack = model.encoder.stack
    kinds = tuple(with_cache(kind, length) for kind in stack.kinds)
    return _Parts(config, model, kinds, stack.num_repeats, params["encoder"])


def _for_length(config: ReformerConfig, length: int) -> ReformerConfig:
    """The config with a number of buckets, checked.

    Raises:
      ValueError: if nothing can be decoded with it, or not so long.
    """
    if not config.causal:
        raise ValueError(
            "the model has causal=False: its tokens see those behind them, so that it "
            "cannot continue a text; take a language model"
        )
    if not 1 <= length <= config.max_length:
        raise ValueError(
            f"length is {length}, expected 1..{config.max_length}: the model's "
            "max_length is how many positions it has"
        )
    if config.num_buckets is None:
        buckets = buckets_for(length, config.lsh_chunk_length, config.max_length)
        config = dataclasses.replace(config, num_buckets=buckets)
    return config


@functools.partial(jax.jit, static_argnames=("config", "batch", "length"))
def init_cache(params: Any, config: ReformerConfig, batch: int, length: int) -> Cache:
    """A cache of sequences without a token.

    Args:
      params: of `ReformerLm`.
      config: of the model.
      batch: number of sequences.
      length: longest sequence that there will be.

    Raises:
      ValueError: if the model is not causal, or the length is none of it.
    """
    parts = _parts(params, config, length)
    x = jnp.zeros((batch, 1, config.embed_dim), config.residual_dtype)
    _, cache = _fill(parts, x, jnp.zeros((batch,), jnp.int32), length)
    return cache


@functools.partial(jax.jit, static_argnames=("config", "length"))
def prefill(
    params: Any,
    config: ReformerConfig,
    tokens: jax.Array,
    length: int,
    prompt_lengths: jax.Array | None = None,
) -> tuple[jax.Array, Cache]:
    """Runs prompts at once.

    Args:
      params: of `ReformerLm`.
      config: of the model.
      tokens: int `[b, n]`.
      length: longest sequence that there will be, prompt included.
      prompt_lengths: int `[b]` in 1..n: tokens of each row, with padding behind; None:
        all have n. In LSH attention the padding takes part in what is cut into chunks.

    Returns:
      (float32 logits `[b, vocabulary]` of the token behind each prompt, cache).

    Raises:
      ValueError: if the model is not causal, or the prompt does not fit.
    """
    parts = _parts(params, config, length)
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
    tokens = blocking.pad_axis(tokens, 1, 0, parts.config.padded(n) - n)
    x = parts.start(parts.model.encoder.embeddings(tokens))
    streams, cache = _fill(parts, x, prompt_lengths.astype(jnp.int32), length)
    last = (prompt_lengths - 1)[:, None, None]
    y1, y2 = (jnp.take_along_axis(y, last, axis=1) for y in streams)
    return parts.logits(y1, y2), cache


def _fill(parts: _Parts, x: jax.Array, lengths: jax.Array, length: int):
    """(the two streams behind the stack, the cache) of a prompt's embeddings."""
    token = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
    sequence = Sequence((token < lengths[:, None]).astype(jnp.int32))
    streams, _, kept = TwoStreamStack(parts.kinds, parts.repeats).apply(
        {"params": parts.params["stack"]},
        x,
        x,
        sequence,
        jax.random.key(parts.config.hash_seed),
        method="with_hidden",
    )
    return streams, Cache(tuple(of_f for of_f, _ in kept), lengths, length)


@functools.partial(jax.jit, static_argnames="config", donate_argnames="cache")
def step(
    params: Any, config: ReformerConfig, cache: Cache, token: jax.Array
) -> tuple[jax.Array, Cache]:
    """One token more.

    Args:
      params: of `ReformerLm`.
      config: of the model.
      cache: of the tokens before it; used up, as its memory is written to.
      token: int `[b]`.

    Returns:
      (float32 logits `[b, vocabulary]` of the next token, cache). Logits of a sequence
      that is longer than the cache are not a number.
    """
    parts = _parts(params, config, cache.length)
    position = jnp.minimum(cache.position, cache.length - 1)
    x = parts.start(parts.model.encoder.embeddings.at(token, position))[:, None]
    halves = [(_as_half(kind.f()), _as_half(kind.g())) for kind in parts.kinds]
    layers = parts.params["stack"]["layers"]
    stacked = [(layers[kind.name]["f"], layers[kind.name]["g"]) for kind in parts.kinds]
    one_chunk, multiple = parts.config.chunking
    length = position + 1
    whole = -(-length // multiple) * multiple
    length = jnp.where(length <= one_chunk, length, whole)  # `config.padded`

    def body(carry, inputs):
        streams, kept = carry
        layer, params = inputs
        now = Newest(position, length, layer)
        for i, of_layer in enumerate(params):
            *streams, (mine, _) = reversible.layer(
                halves[i], of_layer, (None, None), now, *streams, (kept[i], None)
            )
            kept = (*kept[:i], mine, *kept[i + 1 :])
        return (tuple(streams), kept), None

    repeats = jnp.arange(parts.repeats, dtype=jnp.int32)
    start = ((x, x), cache.layers)
    # Caches are carried, so that each layer writes its rows where they are.
    (streams, kept), _ = jax.lax.scan(body, start, (repeats, stacked))
    fits = (cache.position < cache.length)[:, None]
    logits = jnp.where(fits, parts.logits(*streams), jnp.nan)
    return logits, Cache(kept, cache.position + 1, cache.length)


def _as_half(half: nn.Module) -> reversible.Half:
    def apply(params, x, rng, shared, kept):
        del rng  # rotations are in the cache
        return half.apply({"params": params}, x, shared, kept)

    return apply


# --- a text ---------------------------------------------------------------------------


def generate(
    params: Any,
    config: ReformerConfig,
    prompt: jax.Array,
    num_tokens: int,
    rng: jax.Array | None = None,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    prompt_lengths: jax.Array | None = None,
    allowed: tuple[int, int] | None = None,
) -> jax.Array:
    """Continues prompts.

    Args:
      params: of `ReformerLm`.
      config: of the model.
      prompt: int `[b, n]`.
      num_tokens: of each continuation.
      rng: key of the draws; None only with temperature 0.
      temperature: of the softmax that is drawn from; 0: the likeliest token is taken.
      top_k: draw from so many likeliest tokens; 0: from all.
      top_p: draw from the likeliest tokens whose probabilities together reach this.
      prompt_lengths: see `prefill`.
      allowed: (first, behind the last) of the ids that may be taken; None: all.

    Returns:
      int32 `[b, num_tokens]`.

    Raises:
      ValueError: see `check_generation`; before anything is compiled.
    """
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    length = check_generation(config, prompt.shape, num_tokens, **options)
    if rng is None:
        if temperature:
            raise ValueError("rng is None; give a key to draw with, or temperature=0")
        rng = jax.random.key(0)
    params = jax.tree.map(jnp.asarray, params)  # moved to the device once
    logits, cache = prefill(params, config, prompt, length, prompt_lengths)
    tokens, _ = _continue(
        params,
        config,
        cache,
        logits,
        jax.random.split(rng, num_tokens),
        jnp.float32(temperature) if temperature else None,
        jnp.float32(top_p) if top_p < 1 else None,
        top_k=top_k,
        allowed=allowed or (0, config.vocab_size),
    )
    return tokens


def check_generation(
    config: ReformerConfig,
    prompt_shape: tuple[int, ...],
    num_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> int:
    """The length of the cache that `generate` needs.

    Raises:
      ValueError: if the model is not causal or the sequence too long for it, or an
        option is out of range.
    """
    for name, x, fits, expected in (
        ("num_tokens", num_tokens, num_tokens >= 1, "1 or more"),
        ("temperature", temperature, 0 <= temperature < math.inf, "0 or more"),
        ("top_k", top_k, top_k >= 0, "0 (all) or more"),
        ("top_p", top_p, 0 < top_p <= 1, "more than 0, at most 1"),
    ):
        if not fits:
            raise ValueError(f"{name} is {x}; expected {expected}")
    if len(prompt_shape) != 2 or prompt_shape[1] < 1:
        raise ValueError(
            f"the prompt has shape {prompt_shape}, expected [batch, n] with n of at "
            "least 1"
        )
    n = prompt_shape[1]
    length = n + num_tokens - 1  # nothing is asked of the last one
    if length > config.max_length:
        raise ValueError(
            f"a prompt of {n} tokens and {num_tokens} that follow need {length} "
            f"positions, but the model's max_length is {config.max_length}; shorten "
            "one of them"
        )
    _for_length(config, length)
    return length


@functools.partial(
    jax.jit,
    static_argnames=("config", "top_k", "allowed"),
    donate_argnames="cache",
)
def _continue(
    params: Any,
    config: ReformerConfig,
    cache: Cache,
    logits: jax.Array,
    rngs: jax.Array,
    temperature: jax.Array | None,
    top_p: jax.Array | None,
    *,
    top_k: int,
    allowed: tuple[int, int],
) -> tuple[jax.Array, Cache]:
    """(a token for each key, the cache, which takes the place of the one given)."""

    def draw(logits, rng):
        logits = logits[:, slice(*allowed)]
        found = choose(logits, rng, temperature, top_k=top_k, top_p=top_p)
        return found + allowed[0]

    def body(carry, rng):
        logits, cache = step(params, config, carry[1], carry[0])
        token = draw(logits, rng)
        return (token, cache), token

    first = draw(logits, rngs[0])
    (_, cache), others = jax.lax.scan(body, (first, cache), rngs[1:])
    return jnp.concatenate([first[:, None], others.T], axis=1), cache
