"""Texts by any decoder: the likeliest token each time, by chance, or by beam search.

    options = Options(max_tokens=128, beams=Beams(4), rules=Rules(eos_ids=(2,)))
    memory = encode(decoder, params, input_tokens)
    found = write(decoder, params, prompt, options, memory=memory)

Encoder-decoders have a memory of their input; language models go on without.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.rules import at_least, refuse
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
    decoding.check_length(decoder, prompt_length, options.max_tokens)


def _value_problems(options: Options) -> Iterator[tuple[str, str]]:
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
    given = () if start_id is None or prompt_length > 1 else (start_id,)
    yield from options.rules.problems_with(size, most, prompt_length, given)
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


def write(
    decoder: Decoder,
    params: Any,
    prompt: Array,
    options: Options,
    rng: Array | None = None,
    *,
    memory: Any = None,
    inputs: Array | None = None,
) -> Written:
    """Continues prompts, which have as many tokens each.

    Args:
      decoder: of the model.
      params: of the model.
      prompt: int `[b, m]`; of an encoder-decoder what its decoder begins with.
      options: what to write.
      rng: key of the draws; None only with temperature 0.
      memory: of `encode`; None for models without an encoder.
      inputs: int `[b, n]`, what was encoded, -1 in padding; `encoder_no_repeat_ngram`
        alone needs them.

    Raises:
      ValueError: see `check`.
    """
    check(decoder, options, prompt.shape[1])
    if not options.rules.encoder_no_repeat_ngram:
        inputs = None
    elif inputs is None:
        raise ValueError(
            "encoder_no_repeat_ngram is "
            f"{options.rules.encoder_no_repeat_ngram}, but inputs is None; give what "
            "was encoded, or set it to 0"
        )
    rng = sampling.key_of_draws(rng, options.temperature)
    prompt = jnp.asarray(prompt, jnp.int32)
    length = prompt.shape[1] + options.max_tokens - 1
    logits, cache = prefill(decoder, params, prompt, length, memory=memory)
    return _continue(decoder, params, prompt, options, rng, logits, cache, inputs)


@functools.partial(jax.jit, static_argnames=("decoder", "options"))
def _continue(decoder, params, prompt, options: Options, rng, logits, cache, inputs):
    m = prompt.shape[1]
    state = logits, cache, inputs
    if options.beams is None:
        found = _one_by_one(decoder, params, prompt, options, rng, *state)
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
        inputs=inputs,
    )
    tokens, scores = (x[:, : options.num_texts] for x in (tokens, scores))
    return _written(tokens[:, :, m:], scores, options)


def _one_by_one(decoder, params, prompt, options, rng, logits, cache, inputs):
    """(int `[b, 1, length]`, float32 `[b, 1]`)."""
    b, m = prompt.shape
    rules, length = options.rules, m + options.max_tokens
    is_end = jnp.asarray(logit_rules.is_in(rules.eos_ids, logits.shape[1]))
    tokens = jnp.full((b, length), options.pad_id, jnp.int32).at[:, :m].set(prompt)

    def choose(logits, tokens, count, done, scores):
        found = logit_rules.apply(logits, rules, tokens, count, m, length - 1, inputs)
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
    _, tokens, _, _, scores = jax.lax.while_loop(more, body, (cache, *first))
    return tokens[:, None], scores[:, None]


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
