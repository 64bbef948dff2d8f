"""Reformer as an encoder-decoder, token by token: the model over each prefix."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.loop import Options
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.sections import TextToTextConfig
from etc_jax.ops.logit_rules import Rules

FAMILY = "reformer_seq2seq"
V, PAD, START, END, N = 12, 0, 0, 1, 12
# Chunks of 4 and 6: what is longer than 4 is worked on in multiples of 12.
MIXED = ReformerSeq2SeqConfig(
    vocab_size=V,
    embed_dim=16,
    num_heads=2,
    num_layers=1,
    pattern=("local",),
    num_decoder_layers=2,
    mlp_dim=12,
    max_length=48,
    max_target_length=24,
    axial_shape=(6, 8),
    local_chunk_length=4,
    lsh_chunk_length=6,
    num_buckets=(2, 4),
    tied_logits=False,
)
CONFIGS = {
    "mixed": MIXED,
    "local": dataclasses.replace(
        MIXED, decoder_pattern=("local",), num_decoder_layers=3, tied_logits=True
    ),
    "lsh": dataclasses.replace(
        MIXED, decoder_pattern=("lsh",), num_decoder_layers=1, duplicates="once"
    ),
    # In one chunk later tokens change nothing, however many layers there are.
    "one chunk, sines, tables of their own": dataclasses.replace(
        MIXED,
        pattern=("lsh",),
        num_decoder_layers=4,
        local_chunk_length=24,
        lsh_chunk_length=24,
        positions="sinusoidal",
        axial_shape=None,
        shared_table=False,
    ),
}


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(2, V, shape).astype(np.int32)


INPUTS = tokens(2, 19)
# The second input is shorter.
INPUT_IDS = (np.arange(19)[None] < [[19], [11]]).astype(np.int32)


@functools.cache
def params_of(config):
    row = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    return random_params(ReformerSeq2Seq(config).init, row, row, spread=0.3)


@functools.partial(jax.jit, static_argnums=0)
def model_logits(config, params, inputs, input_ids, targets, ids):
    with jax.default_matmul_precision("highest"):
        return ReformerSeq2Seq(config).apply(
            {"params": params}, inputs, targets, input_ids, ids
        )


def next_logits(config, texts, inputs=INPUTS, input_ids=INPUT_IDS):
    """Of the model over whole texts, `[b, vocabulary]`; of a few lengths alone."""
    lengths = np.array([len(text) for text in texts])
    one_chunk, multiple = config.one_side(causal=True).chunking
    n = int(lengths.max())
    n = one_chunk if n <= one_chunk else -(-n // multiple) * multiple
    rows = np.zeros((len(texts), min(n, config.max_target_length)), np.int32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    ids = (np.arange(rows.shape[1])[None] < lengths[:, None]).astype(np.int32)
    found = model_logits(config, params_of(config), inputs, input_ids, rows, ids)
    return np.asarray(found)[np.arange(len(texts)), lengths - 1]


def memory_of(config, params):
    decoder = decoding.decoder_of(FAMILY, config)
    return decoder, generation.encode(decoder, params, INPUTS, INPUT_IDS)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.full(but=["mixed"])
def test_each_token_sees_what_it_would_see_if_the_text_ended_there(name):
    config, params = CONFIGS[name], params_of(CONFIGS[name])
    decoder, memory = memory_of(config, params)
    targets, both = tokens(2, N, seed=1), np.arange(2)
    lengths = np.array([5, 2], np.int32)
    logits, cache = decoding.prefill(
        decoder, params, targets[:, :7], N, lengths, memory
    )
    for more in range(N - 5 + 1):
        for i in both:  # each alone: what it is padded to depends on its length
            text = targets[i, : lengths[i] + more]
            want = next_logits(config, [text], INPUTS[i : i + 1], INPUT_IDS[i : i + 1])
            np.testing.assert_allclose(logits[i : i + 1], want, atol=1e-5)
        if more < N - 5:
            token = targets[both, lengths + more]
            logits, cache = decoding.step(decoder, params, cache, token)


def test_in_bfloat16_caches_are_of_16_bits_and_logits_of_32():
    config = dataclasses.replace(MIXED, dtype="bfloat16")
    decoder, params = decoding.decoder_of(FAMILY, config), params_of(config)

    def run():
        memory = generation.encode(decoder, params, INPUTS, INPUT_IDS)
        prompt, ones = jnp.asarray(tokens(2, 1)), jnp.ones((2,), jnp.int32)
        logits, cache = decoder.prefill(params, prompt, ones, N, memory)
        return logits, *decoder.step(params, cache, prompt[:, 0])

    first, second, cache = jax.eval_shape(run)
    assert first.dtype == second.dtype == jnp.float32
    local, hashed = cache.layers
    assert local.key.dtype == hashed.rows.key.dtype == jnp.uint16
    assert cache.memory.key.dtype == jnp.bfloat16


# --- texts ----------------------------------------------------------------------------


def log_p(config, texts, count):
    """Of the token after each of the texts, of which each input has `count`."""
    inputs, ids = (np.repeat(x, count, axis=0) for x in (INPUTS, INPUT_IDS))
    return np.asarray(jax.nn.log_softmax(next_logits(config, texts, inputs, ids)))


@pytest.mark.full
def test_a_data_set_is_answered_by_the_likeliest_tokens():
    config, m = MIXED, 6
    learner = finetuning.find(config, TextToTextConfig("text_to_text"), "text_to_text")
    batch = {"input_tokens": INPUTS, "input_example_ids": INPUT_IDS}
    batch["target_tokens"] = np.zeros((2, m), np.int32)
    found = jax.jit(learner.outputs)(params_of(config), batch)
    texts = [[START], [START]]
    for _ in range(m):
        # Three times each, as beams are: it is compiled once for both tests.
        odds = log_p(config, [text for text in texts for _ in range(3)], 3)[::3]
        for text, mine in zip(texts, odds, strict=True):
            text.append(PAD if END in text else int(mine.argmax()))
    np.testing.assert_array_equal(found, np.array(texts)[:, 1:])
    assert (found[0] != found[1]).any()


def plain_search(config, beams, most):
    """[[(score, tokens)]] of each input, the best first; nothing is kept."""
    k, of_t5x = beams.num_beams, beams.dialect == "t5x"
    live, ended = [[(0.0, [START])] * k for _ in INPUTS], [[] for _ in INPUTS]
    for count in range(1, most + 1):
        odds = log_p(config, [text for mine in live for _, text in mine], k)
        divisor = ((5 + count) / 6 if of_t5x else count) ** beams.length_penalty
        for i, mine in enumerate(live):
            # At first all beams are one.
            starts = list(enumerate(mine))[: 1 if count == 1 else k]
            new = [
                (score + odds[i * k + j, token], [*text, token])
                for j, (score, text) in starts
                for token in range(V)
            ]
            new = sorted(new, key=lambda x: -x[0])[: 2 * k]
            over = [x[1][-1] == END or (count == most and not of_t5x) for x in new]
            ended[i] += [
                (score / divisor, text)
                for rank, (score, text) in enumerate(new)
                if over[rank] and (of_t5x or rank < k)
            ]
            ended[i] = sorted(ended[i], key=lambda x: -x[0])[:k]
            goes_on = [x for x in new if x[1][-1] != END]
            live[i] = goes_on[:k]
    return [mine or live[i] for i, mine in enumerate(ended)]


@pytest.mark.parametrize("dialect", ["transformers", "t5x"])
def test_beams_are_those_of_a_plain_search_over_whole_texts(dialect):
    config, most = MIXED, 8
    params = params_of(config)
    decoder, memory = memory_of(config, params)
    # Never: it ends when nothing better can come, as a search that goes on would say.
    beams = Beams(3, 0.6, "never", dialect)
    options = Options(most, Rules(eos_ids=(END,)), beams, num_texts=3, pad_id=PAD)
    prompt = np.full((2, 1), START)
    found = generation.write(decoder, params, prompt, options, memory=memory)
    for i, want in enumerate(plain_search(config, beams, most)):
        for (score, text), got, its in zip(
            want, found.tokens[i], found.scores[i], strict=False
        ):
            assert got[: len(text) - 1].tolist() == text[1:]
            assert float(its) == pytest.approx(score, abs=1e-4)
    # Beams part and some end, or rows would not have to follow.
    assert len({tuple(text) for text in np.asarray(found.tokens[0])}) == 3


def test_beams_of_an_input_share_its_keys():
    config = MIXED
    params, prompt = params_of(config), np.full((2, 1), START)
    decoder, memory = memory_of(config, params)

    def beams():
        ones = jnp.ones((2,), jnp.int32)
        _, cache = decoder.prefill(params, prompt, ones, N, memory)
        return decoder.repeat(cache, 3)

    cache = jax.eval_shape(beams)
    # One repeat of two kinds of layer; two inputs, of 19 tokens.
    assert cache.memory.key.shape == (1, 2, 2, 2, 19, 8)
    local, hashed = cache.layers
    assert local.key.shape[:2] == hashed.rows.key.shape[:2] == (1, 6)
    assert hashed.rotations.shape == (1, 2, 8, 2, 3)


def test_a_text_that_is_too_long_is_refused():
    decoder = decoding.decoder_of(FAMILY, MIXED)
    with pytest.raises(
        ValueError, match=r"length is 25, expected 1..24: the model's m"
    ):
        generation.check(decoder, Options(25))
