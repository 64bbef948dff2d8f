"""A causal Longformer token by token: the logits of the whole, from bounded caches."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.loop import Options
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.longformer.decoding import LongformerDecoder

N = 23
CONFIG = LongformerConfig(
    vocab_size=11,
    num_types=1,
    embed_dim=8,
    num_layers=4,
    num_heads=2,
    mlp_dim=16,
    max_length=64,
    attention_window=(4, 6),
    attention_dilation=(1, (1, 3)),
    causal=True,
    positions="sinusoidal",
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    initializer_range=0.3,
)
CONFIGS = {
    "sinusoidal": CONFIG,
    "learnt, unrolled": dataclasses.replace(
        CONFIG, positions="learnt", scan_layers=False, num_layers=2
    ),
    "relative, pre-norm": dataclasses.replace(
        CONFIG, positions="relative", pre_norm=True
    ),
    "none, wide": dataclasses.replace(
        CONFIG, positions="none", attention_window=(200,), attention_dilation=()
    ),
}


def tokens_of(n, seed=0):
    return np.random.default_rng(seed).integers(0, 11, size=(2, n)).astype(np.int32)


@functools.cache
def params_of(config):
    return random_params(EncoderForCausalLm(config).init, tokens_of(4))


@functools.partial(jax.jit, static_argnums=0)
def model_logits(config, params, tokens):
    """Of the whole, by the oracle."""
    dense = dataclasses.replace(config, attention="dense")
    return EncoderForCausalLm(dense).apply({"params": params}, tokens)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.full(but=["none, wide"])
def test_steps_after_prompts_of_two_lengths_give_the_logits_of_the_whole(name):
    config, tokens = CONFIGS[name], tokens_of(N)
    decoder, params = LongformerDecoder(config), params_of(CONFIGS[name])
    want = np.asarray(model_logits(config, params, tokens))
    lengths, both = np.array([9, 1], np.int32), np.arange(2)
    logits, cache = decoding.prefill(decoder, params, tokens[:, :11], N, lengths)
    for more in range(N - 9):
        at = lengths + more
        np.testing.assert_allclose(logits, want[both, at - 1], atol=1e-5)
        logits, cache = decoding.step(decoder, params, cache, tokens[both, at])


def test_without_a_prompt_steps_begin_at_the_first_token_and_end_with_the_cache():
    decoder, params, tokens = LongformerDecoder(CONFIG), params_of(CONFIG), tokens_of(N)
    want = model_logits(CONFIG, params, tokens)
    cache = decoding.init_cache(decoder, params, 2, 6)
    for position in range(6):
        token = tokens[:, position]
        logits, cache = decoding.step(decoder, params, cache, token)
        np.testing.assert_allclose(logits, want[:, position], atol=1e-5)
    logits, _ = decoding.step(decoder, params, cache, tokens[:, 6])
    assert np.isnan(logits).all()


def test_caches_are_bounded_by_windows():
    decoder = LongformerDecoder(dataclasses.replace(CONFIG, max_length=2**20))

    def rows(length):
        cache = jax.eval_shape(
            lambda: decoding.init_cache(decoder, params_of(CONFIG), 2, length)
        )
        return [x.key.shape[2] for x in cache.layers]

    # Of two steps of one place, and of three steps of three.
    assert rows(2**20) == rows(10) == [3, 10]
    assert rows(2) == [2, 2]


def test_the_likeliest_tokens_are_those_of_the_model():
    prompt, params = tokens_of(7), params_of(CONFIG)
    decoder = decoding.decoder_of("longformer", CONFIG)
    got = generation.write(decoder, params, prompt, Options(N - 6)).tokens[:, 0]
    text = np.concatenate([prompt, got], axis=1)[:, :N]
    want = np.argmax(model_logits(CONFIG, params, text), axis=-1)[:, 6:]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"causal": False}, "causal=False"),
        (
            {"positions": "learnt", "max_length": 10},
            r"length is 16, expected 1\.\.10: the model's max_length is how many pos",
        ),
    ],
)
def test_what_cannot_be_continued_is_refused(change, message):
    decoder = LongformerDecoder(dataclasses.replace(CONFIG, **change))
    with pytest.raises(ValueError, match=message):
        generation.write(decoder, {}, jnp.zeros((1, 7), int), Options(10))
