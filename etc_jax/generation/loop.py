"""Texts by any decoder: the likeliest token each time, by chance, or by beam search.

    options = Options(max_tokens=128, beams=Beams(4), rules=Rules(eos_ids=(2,)))
    written = answer(decoder, params, input_tokens, input_example_ids, options)
    written = write(decoder, params, prompt, options)

An encoder-decoder answers its input; a language model goes on with a prompt.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base.rules import Problem, at_least, refuse
from etc_jax.generation import beam_search, decoding
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.decoding import Decoder, prefill
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
      start_id: what the decoder of an encoder-decoder begins with; None: as it was
        trained.
    """

    max_tokens: int
    rules: Rules = Rules()
    beams: Beams | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    num_texts: int = 1
    pad_id: int = 0
    start_id: int | None = None


def rules_of(config: Any, **changes: Any) -> Rules:
    """Rules with the tokens that an encoder-decoder begins and ends texts with.

    Args:
      config: of the model.
      **changes: fields that are otherwise.
    """
    first, last = config.forced_bos_id, config.forced_eos_id
    of_model = {
        "eos_ids": (config.eos_id,),
        "forced_bos_ids": () if first is None else (first,),
        "forced_eos_ids": () if last is None else (last,),
    }
    return Rules(**{**of_model, **changes})


def prompt_of(decoder: Decoder, options: Options, rows: int) -> Array:
    """What the decoder of an encoder-decoder begins with, int32 `[rows, 1]`."""
    return jnp.full((rows, 1), _start_id(decoder, options), jnp.int32)


def _start_id(decoder: Decoder, options: Options) -> int | None:
    if options.start_id is not None:
        return options.start_id
    return getattr(decoder.config, "decoder_start_id", None)


class Written(NamedTuple):
    """What was written.

    Attributes:
      tokens: int32 `[b, num_texts, max_tokens]`.
      lengths: int32 `[b, num_texts]`: tokens of each, with the one that ends it.
      scores: float32 `[b, num_texts]` of a search; without one the log probability;
        `beam_search.NONE` of what is no text, as the rules allow no more.
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
      ValueError: naming each option, what it is and what was expected.
    """
    refuse(_value_problems(options))
    refuse(_model_problems(decoder, options, prompt_length))
    length = prompt_length + options.max_tokens - 1  # nothing is asked of the last one
    try:
        decoder.check(length)
    except ValueError as error:
        if decoding.has_encoder(decoder):  # what it begins with is no prompt of a user
            raise
        raise ValueError(
            f"a prompt of length {prompt_length} and {options.max_tokens} tokens that "
            f"follow need {length} positions: {error}"
        ) from error


def _value_problems(options: Options) -> Iterator[Problem]:
    beams, most = options.beams, options.max_tokens
    yield from at_least(1).problems(options, "max_tokens")
    yield from options.rules.problems()
    if options.rules.min_tokens > most >= 1:
        value = options.rules.min_tokens
        yield "min_tokens", f"is {value}; expected 0 to max_tokens {most}"
    yield from sampling.problems(options.temperature, options.top_k, options.top_p)
    if beams is not None:
        yield from beams.problems()
        if options.temperature:
            yield (
                "temperature",
                f"is {options.temperature}, but a beam search draws nothing; leave it "
                "out, or the beams",
            )
    k = 1 if beams is None else beams.num_beams
    if not 1 <= options.num_texts <= max(k, 1):
        value = options.num_texts
        yield "num_texts", f"is {value}; expected 1 to {k}, the number of beams"


def _model_problems(decoder, options: Options, prompt_length: int):
    size, most = decoder.config.vocab_size, options.max_tokens
    start_id = _start_id(decoder, options)
    if start_id is not None and not 0 <= start_id < size:
        yield "start_id", f"is {start_id}; expected 0 to {size - 1}"
    start_ids = () if start_id is None or prompt_length > 1 else (start_id,)
    yield from options.rules.problems_with(size, most, prompt_length, start_ids)
    if options.beams is not None:
        yield from options.beams.problems_with(size, most, options.rules)


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


def first_tokens(example_ids: Array, count: int) -> Array:
    """int32 `[b, g]`: places of the first `count` tokens of each row; -1: padding.

    Args:
      example_ids: int `[b, n]`; 0 is padding.
      count: tokens of a row, such as those that are global; g is at most that.
    """
    is_token = example_ids[:, :count] > 0
    return jnp.where(is_token, jnp.arange(is_token.shape[1])[None], -1)


def answer(
    decoder: Any,
    params: Any,
    input_tokens: Array,
    input_example_ids: Array,
    options: Options,
    rng: Array | None = None,
    *,
    global_tokens: int = 0,
    numbers: Array | None = None,
) -> Written:
    """What an encoder-decoder writes for each of its inputs.

    Args:
      decoder: of the model.
      params: of the model.
      input_tokens: int `[b, n]`.
      input_example_ids: int `[b, n]`; 0 is padding, whose tokens do not count.
      options: what to write.
      rng: see `write`.
      global_tokens: so many first tokens of an input are global.
      numbers: see `write`.

    Raises:
      ValueError: see `check`.
    """
    is_token = input_example_ids > 0
    tokens = jnp.where(is_token, input_tokens, decoder.config.pad_id)
    index = first_tokens(input_example_ids, global_tokens) if global_tokens else None
    return write(
        decoder,
        params,
        prompt_of(decoder, options, len(tokens)),
        options,
        rng,
        memory=encode(decoder, params, tokens, input_example_ids, index),
        inputs=jnp.where(is_token, tokens, -1),
        numbers=numbers,
    )


def write(
    decoder: Decoder,
    params: Any,
    prompt: Array,
    options: Options,
    rng: Array | None = None,
    *,
    prompt_lengths: Array | None = None,
    memory: Any = None,
    inputs: Array | None = None,
    numbers: Array | None = None,
) -> Written:
    """Continues prompts.

    Args:
      decoder: of the model.
      params: of the model.
      prompt: int `[b, m]`; of an encoder-decoder what its decoder begins with.
      options: what to write.
      rng: key of the draws; None only with temperature 0.
      prompt_lengths: int `[b]` in 1..m: tokens of each prompt, then padding, which
        rules of tokens cannot tell from a text; None: all have m tokens.
      memory: of `encode`; None for models without an encoder.
      inputs: int `[b, n]`, what was encoded, -1 in padding; `encoder_no_repeat_ngram`
        alone needs them.
      numbers: int `[b]`: the draws of a row are a function of `rng` and its number,
        whatever rows are beside it; None: 0 to b - 1.

    Raises:
      ValueError: see `check`; or if something is missing that the options need.
    """
    check(decoder, options, prompt.shape[1])
    inputs = _checked_inputs(options, prompt_lengths, inputs)
    rng = sampling.key_of_draws(rng, options.temperature)
    draws = rng, np.arange(len(prompt)) if numbers is None else numbers
    prompt = jnp.asarray(prompt, jnp.int32)
    params = jax.tree.map(jnp.asarray, params)  # moved to the device once
    length = prompt.shape[1] + options.max_tokens - 1
    logits, cache = prefill(
        decoder, params, prompt, length, prompt_lengths, memory=memory
    )
    if options.beams is not None:
        return _searched(decoder, params, prompt, options, logits, cache, inputs)
    # A memory may stand in the cache as it is, and its owner needs it again.
    go_on = _one_by_one_in_place if memory is None else _one_by_one
    return go_on(decoder, params, prompt, options, draws, logits, cache, inputs)[0]


def _checked_inputs(
    options: Options, prompt_lengths: Array | None, inputs: Array | None
) -> Array | None:
    """The inputs, where the rules read them; see `write`.

    Raises:
      ValueError: if something is missing that they read.
    """
    if prompt_lengths is not None and options.rules != Rules():
        raise ValueError(
            f"prompt_lengths are given with rules of tokens ({options.rules}), which "
            "would read padding as text; give prompts of one length, or no rules"
        )
    if not options.rules.encoder_no_repeat_ngram:
        return None
    if inputs is None:
        raise ValueError(
            "encoder_no_repeat_ngram is "
            f"{options.rules.encoder_no_repeat_ngram}, but inputs is None; give what "
            "was encoded, or set it to 0"
        )
    return inputs


@functools.partial(jax.jit, static_argnames=("decoder", "options"))
def _searched(decoder, params, prompt, options: Options, logits, cache, inputs):
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
        inputs=inputs,
    )
    tokens, scores = (x[:, : options.num_texts] for x in (tokens, scores))
    return _written(tokens[:, :, prompt.shape[1] :], scores, options)


def _drawn(decoder, params, prompt, options: Options, draws, logits, cache, inputs):
    """(what is written, the cache, which may take the place of the one given)."""
    b, m = prompt.shape
    rngs = jax.vmap(jax.random.fold_in, (None, 0))(*draws)
    rules, length = options.rules, m + options.max_tokens
    is_end = jnp.asarray(logit_rules.is_in(rules.eos_ids, logits.shape[1]))
    tokens = jnp.full((b, length), options.pad_id, jnp.int32).at[:, :m].set(prompt)

    def choose(logits, tokens, count, done, scores):
        allowed = logit_rules.apply(logits, rules, tokens, count, m, length - 1, inputs)
        token = sampling.choose(
            allowed,
            jax.vmap(jax.random.fold_in, (0, None))(rngs, count),
            options.temperature or None,
            top_k=options.top_k,
            top_p=options.top_p if options.top_p < 1 else None,
        )
        score = jax.nn.log_softmax(allowed)[jnp.arange(b), token]
        tokens = tokens.at[:, count].set(jnp.where(done, options.pad_id, token))
        scores = scores + jnp.where(done, 0.0, score)
        return tokens, count + 1, done | is_end[token], scores

    def body(carry):
        cache, tokens, count, *rest = carry
        logits, cache = decoder.step(params, cache, jnp.take(tokens, count - 1, axis=1))
        return cache, *choose(logits, tokens, count, *rest)

    def more(carry):
        _, _, count, done, _ = carry
        return (count < length) & ~jnp.all(done)

    none = jnp.zeros((b,), bool), jnp.zeros((b,), logits.dtype)
    first = choose(logits, tokens, jnp.int32(m), *none)
    cache, tokens, _, _, scores = jax.lax.while_loop(more, body, (cache, *first))
    return _written(tokens[:, None, m:], scores[:, None], options), cache


_one_by_one = jax.jit(_drawn, static_argnames=("decoder", "options"))
_one_by_one_in_place = jax.jit(
    _drawn, static_argnames=("decoder", "options"), donate_argnames="cache"
)


def _written(tokens: Array, scores: Array, options: Options) -> Written:
    """With padding after the token that ends each text, and scores that are numbers."""
    # What the rules have left no token for is no text, whatever stands there.
    scores = jnp.where(scores > beam_search.NONE, scores, beam_search.NONE)
    n = tokens.shape[2]
    is_end = jnp.isin(tokens, jnp.asarray(options.rules.eos_ids, jnp.int32))
    # The first one, or the last place.
    ended = jnp.any(is_end, axis=2)
    lengths = jnp.where(ended, jnp.argmax(is_end, axis=2) + 1, n).astype(jnp.int32)
    inside = jnp.arange(n)[None, None] < lengths[:, :, None]
    return Written(jnp.where(inside, tokens, options.pad_id), lengths, scores)
