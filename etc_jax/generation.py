"""Texts by any decoder: the likeliest token each time, by chance, or by beam search.

    options = Options(max_tokens=128, beams=Beams(4), rules=Rules(eos_id=2))
    memory = encode(decoder, params, input_tokens)
    found = write(decoder, params, prompt, options, memory=memory)

Encoder-decoders have a memory of their input; language models go on without.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax import beam_search
from etc_jax.beam_search import Beams
from etc_jax.decoding import Decoder, prefill
from etc_jax.ops import logit_rules, sampling
from etc_jax.ops.logit_rules import Rules

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Options:
    """What to write.

    Attributes:
      max_tokens: at most, with the one that ends a text.
      rules: of tokens.
      beams: a beam search; None: one text, token by token.
      temperature: without a search, of the softmax that is drawn from; 0: the likeliest
        token is taken.
      top_k: draw from so many likeliest tokens; 0: from all.
      top_p: draw from the likeliest tokens whose probabilities together reach this.
      num_texts: of each input, the best of a search.
      pad_id: what follows the end of a text.
    """

    max_tokens: int
    rules: Rules = Rules()
    beams: Beams | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    num_texts: int = 1
    pad_id: int = 0


def rules_of(config: Any, **changes: Any) -> Rules:
    """Rules with the tokens that an encoder-decoder begins and ends texts with.

    Args:
      config: of the model.
      **changes: fields that are otherwise.
    """
    names = ("eos_id", "forced_bos_id", "forced_eos_id")
    return Rules(**{**{name: getattr(config, name) for name in names}, **changes})


class Written(NamedTuple):
    """What was written.

    Attributes:
      tokens: int32 `[b, num_texts, max_tokens]`.
      lengths: int32 `[b, num_texts]`: tokens of each, with the one that ends it.
      scores: float32 `[b, num_texts]` of a search; without one the log probability.
    """

    tokens: Array
    lengths: Array
    scores: Array


def check(decoder: Decoder, options: Options, prompt_length: int = 1) -> None:
    """Refuses options that nothing can be written with.

    Args:
      decoder: of the model.
      options: what to write.
      prompt_length: tokens that are given, of an encoder-decoder to its decoder.

    Raises:
      ValueError: naming the option, what it is and what was expected.
    """
    rules, beams = options.rules, options.beams
    size, k = decoder.config.vocab_size, 1 if beams is None else beams.num_beams
    most = options.max_tokens
    for name, value, fits, expected in (
        ("max_tokens", most, most >= 1, "1 or more"),
        ("num_beams", k, 1 <= k <= size // 2, f"1 to {size // 2}, half the vocabulary"),
        (
            "num_texts",
            options.num_texts,
            1 <= options.num_texts <= k,
            f"1 to {k}, the number of beams",
        ),
        (
            "min_tokens",
            rules.min_tokens,
            0 <= rules.min_tokens <= most,
            f"0 to max_tokens {most}",
        ),
        (
            "no_repeat_ngram",
            rules.no_repeat_ngram,
            rules.no_repeat_ngram >= 0,
            "0 (any) or more",
        ),
        (
            "repetition_penalty",
            rules.repetition_penalty,
            rules.repetition_penalty > 0,
            "more than 0; 1 is none",
        ),
    ):
        if not fits:
            raise ValueError(f"{name} is {value}; expected {expected}")
    sampling.check(options.temperature, options.top_k, options.top_p)
    if beams is not None and options.temperature:
        raise ValueError(
            f"temperature is {options.temperature}, but a beam search draws nothing; "
            "leave it out, or the beams"
        )
    if beams is not None and beams.dialect not in beam_search.DIALECTS:
        known = ", ".join(beam_search.DIALECTS)
        raise ValueError(f"dialect is {beams.dialect!r}; expected one of {known}")
    # Nothing is asked of the last token.
    decoder.check(prompt_length + most - 1)


@functools.partial(jax.jit, static_argnames="decoder")
def encode(
    decoder: Any,
    params: Any,
    input_tokens: Array,
    input_example_ids: Array | None = None,
    global_index: Array | None = None,
) -> Any:
    """What the decoder of an encoder-decoder reads.

    Args:
      decoder: of the model.
      params: of the model.
      input_tokens: int `[b, n]`.
      input_example_ids: int `[b, n]`; 0 is padding; None: there is none.
      global_index: int `[b, g]`, the global tokens of a LED, -1 for none.
    """
    return decoder.encode(params, input_tokens, input_example_ids, global_index)


def write(
    decoder: Decoder,
    params: Any,
    prompt: Array,
    options: Options,
    rng: Array | None = None,
    *,
    memory: Any = None,
) -> Written:
    """Continues prompts, which have as many tokens each.

    Args:
      decoder: of the model.
      params: of the model.
      prompt: int `[b, m]`; of an encoder-decoder what its decoder begins with.
      options: what to write.
      rng: key of the draws; None only with temperature 0.
      memory: of `encode`; None for models without an encoder.

    Raises:
      ValueError: see `check`.
    """
    check(decoder, options, prompt.shape[1])
    if rng is None:
        if options.temperature:
            raise ValueError("rng is None; give a key to draw with, or temperature=0")
        rng = jax.random.key(0)
    prompt = jnp.asarray(prompt, jnp.int32)
    length = prompt.shape[1] + options.max_tokens - 1
    logits, cache = prefill(decoder, params, prompt, length, memory=memory)
    return _continue(decoder, params, prompt, options, rng, logits, cache)


@functools.partial(jax.jit, static_argnames=("decoder", "options"))
def _continue(decoder, params, prompt, options: Options, rng, logits, cache):
    m = prompt.shape[1]
    if options.beams is None:
        found = _one_by_one(decoder, params, prompt, options, rng, logits, cache)
        return _written(found[0][:, :, m:], found[1], options)
    k = options.beams.num_beams
    tokens, scores = beam_search.search(
        functools.partial(decoder.step, params),
        decoder.follow,
        jnp.repeat(logits, k, axis=0),
        decoder.repeat(cache, k),
        prompt,
        max_tokens=options.max_tokens,
        beams=options.beams,
        rules=options.rules,
    )
    tokens, scores = (x[:, : options.num_texts] for x in (tokens, scores))
    return _written(tokens[:, :, m:], scores, options)


def _one_by_one(decoder, params, prompt, options: Options, rng, logits, cache):
    """(int `[b, 1, length]`, float32 `[b, 1]`)."""
    b, m = prompt.shape
    rules, length = options.rules, m + options.max_tokens
    tokens = jnp.full((b, length), options.pad_id, jnp.int32).at[:, :m].set(prompt)

    def choose(logits, tokens, count, done, scores):
        found = logit_rules.apply(logits, rules, tokens, count, m, length - 1)
        token = sampling.choose(
            found,
            jax.random.fold_in(rng, count),
            options.temperature or None,
            top_k=options.top_k,
            top_p=options.top_p if options.top_p < 1 else None,
        )
        mine = jax.nn.log_softmax(found)[jnp.arange(b), token]
        tokens = tokens.at[:, count].set(jnp.where(done, options.pad_id, token))
        scores = scores + jnp.where(done, 0.0, mine)
        if rules.eos_id is not None:
            done = done | (token == rules.eos_id)
        return tokens, count + 1, done, scores

    def body(carry):
        cache, tokens, count, *rest = carry
        logits, cache = decoder.step(params, cache, jnp.take(tokens, count - 1, axis=1))
        return cache, *choose(logits, tokens, count, *rest)

    def more(carry):
        _, _, count, done, _ = carry
        return (count < length) & ~jnp.all(done)

    none = jnp.zeros((b,), bool), jnp.zeros((b,), logits.dtype)
    first = choose(logits, tokens, jnp.int32(m), *none)
    _, tokens, _, _, scores = jax.lax.while_loop(more, body, (cache, *first))
    return tokens[:, None], scores[:, None]


def _written(tokens: Array, scores: Array, options: Options) -> Written:
    """With padding after the token that ends each text."""
    n = tokens.shape[2]
    if options.rules.eos_id is None:
        return Written(tokens, jnp.full(tokens.shape[:2], n, jnp.int32), scores)
    is_end = tokens == options.rules.eos_id
    # The first one, or the last place.
    ended = jnp.any(is_end, axis=2)
    lengths = jnp.where(ended, jnp.argmax(is_end, axis=2) + 1, n).astype(jnp.int32)
    inside = jnp.arange(n)[None, None] < lengths[:, :, None]
    return Written(jnp.where(inside, tokens, options.pad_id), lengths, scores)
