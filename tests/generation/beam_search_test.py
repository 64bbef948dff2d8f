"""Beam search: against a search in plain Python, and models that score their texts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax import sharding
from etc_jax.generation import beam_search, decoding, loop as generation
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.loop import Options
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.longformer.decoding import LongformerDecoder
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.reformer.decoding import ReformerDecoder
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig
from etc_jax.ops.logit_rules import Rules

END, V = 1, 10


# --- T5X's dialect, on chains of tokens -----------------------------------------------


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def plain_search(odds, first, beams, most):
    """[(score, tokens)] of one input, the best first; `odds[i]` follow token i."""
    k, live, ended = beams.num_beams, [(0.0, [first])], []
    for count in range(1, most + 1):
        new = [
            (score + odds[text[-1], token], [*text, token])
            for score, text in live
            for token in range(V)
        ]
        new = sorted(new, key=lambda x: -x[0])[: 2 * k]
        over = [x for x in new if x[1][-1] == END]
        ended += [(s / penalty(count, beams.length_penalty), t) for s, t in over]
        ended = sorted(ended, key=lambda x: -x[0])[:k]
        live = [x for x in new if x[1][-1] != END][:k]
        best = live[0][0] / penalty(most, beams.length_penalty)
        if len(ended) == k and ended[-1][0] >= best:
            break
    return ended or live


@pytest.mark.parametrize("seed", range(4))
def test_t5x_s_dialect_is_a_plain_search_of_its_rules(seed):
    rng = np.random.default_rng(seed)
    most, k = 6, 3
    beams = Beams(k, float(rng.choice([0.0, 0.6, 2.0])), dialect="t5x")
    odds = rng.normal(0, 1.5, (V, V)).astype(np.float32)
    if seed == 3:  # nothing ends
        odds[:, END] = -50
    table = jax.nn.log_softmax(jnp.asarray(odds))
    prompt = np.array([[2], [4], [7]], np.int32)
    found = beam_search.search(
        lambda cache, tokens: (table[tokens], cache),
        lambda cache, parents: cache,
        jnp.repeat(table[prompt[:, 0]], k, axis=0),
        None,
        prompt,
        max_tokens=most,
        beams=beams,
        rules=Rules(eos_ids=(END,)),
    )
    for i, (tokens, scores) in enumerate(zip(*found, strict=True)):
        want = plain_search(np.asarray(table), prompt[i, 0], beams, most)
        for (score, text), got, its in zip(want, tokens, scores, strict=False):
            assert got[: len(text)].tolist() == text
            assert float(its) == pytest.approx(score, rel=1e-5)


# --- models ---------------------------------------------------------------------------

SIZES = {"vocab_size": V, "embed_dim": 8, "num_heads": 2, "mlp_dim": 8}
LONGFORMER = LongformerConfig(
    **SIZES,
    num_types=1,
    num_layers=2,
    max_length=32,
    attention_window=(4, 6),
    causal=True,
    positions="sinusoidal",
)
# In one chunk, what is written later changes nothing that was there.
REFORMER = ReformerConfig(
    **SIZES,
    num_layers=2,
    pattern=("local", "lsh"),
    max_length=32,
    axial_shape=None,
    axial_dims=None,
    local_chunk_length=32,
    lsh_chunk_length=32,
    num_buckets=(2,),
)
MODELS = {
    "longformer": (EncoderForCausalLm(LONGFORMER), LongformerDecoder(LONGFORMER)),
    "reformer": (ReformerLm(REFORMER), ReformerDecoder(REFORMER)),
}


@dataclasses.dataclass(frozen=True)
class Copying(LongformerDecoder):
    """Copies rows, in place of reading those of other beams."""

    reads_beams = False


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.full(but=["longformer"])
def test_texts_of_a_language_model_have_the_scores_that_it_gives_them(name):
    model, decoder = MODELS[name]
    prompt = np.array([[3, 5, 2], [6, 6, 8]], np.int32)
    params = random_params(model.init, prompt, spread=0.7)
    beams = Beams(3, 0.0, "never")
    options = Options(7, Rules(eos_ids=(END,)), beams, num_texts=3)
    found = generation.write(decoder, params, prompt, options)
    texts = np.concatenate([np.repeat(prompt[:, None], 3, axis=1), found.tokens], 2)
    flat = texts.reshape(6, -1)
    scores = jax.nn.log_softmax(jax.jit(model.apply)({"params": params}, flat))
    of_next = np.take_along_axis(np.asarray(scores)[:, :-1], flat[:, 1:, None], 2)
    written = np.arange(7)[None] < np.asarray(found.lengths).reshape(6, 1)
    want = np.sum(of_next[:, 2:, 0] * written, axis=1)
    np.testing.assert_allclose(np.ravel(found.scores), want, atol=1e-4)
    # They differ, and the best one is at least as likely as the likeliest tokens.
    assert len({tuple(x) for x in flat}) == 6
    options = Options(7, Rules(eos_ids=(END,)))
    greedy = generation.write(decoder, params, prompt, options)
    assert (found.scores[:, :1] >= greedy.scores - 1e-4).all()


@pytest.mark.full
def test_beams_that_read_each_other_s_rows_are_those_that_copy_them():
    model, decoder = MODELS["longformer"]
    prompt = np.array([[3, 5, 2], [6, 6, 8]], np.int32)
    params = random_params(model.init, prompt, spread=0.7)
    options = Options(12, Rules(eos_ids=(END,)), Beams(4, 1.0, "never"), num_texts=4)
    got, want = (
        generation.write(one, params, prompt, options)
        for one in (decoder, Copying(LONGFORMER))
    )
    np.testing.assert_array_equal(got.tokens, want.tokens)
    np.testing.assert_allclose(got.scores, want.scores, atol=1e-5)


BART = BartConfig(
    **SIZES, num_layers=1, num_decoder_layers=2, max_length=16, pad_id=0, eos_id=END
)


REFORMER_PAIRS = ReformerSeq2SeqConfig(
    **SIZES,
    num_layers=1,
    pattern=("local",),
    num_decoder_layers=2,
    max_length=16,
    max_target_length=16,
    axial_shape=None,
    local_chunk_length=4,
    lsh_chunk_length=4,
    num_buckets=(2,),
    eos_id=END,
)
PAIRS = {
    "bart": EncoderDecoder(BART),
    "reformer_seq2seq": ReformerSeq2Seq(REFORMER_PAIRS),
}


@pytest.mark.parametrize("family", PAIRS)
@pytest.mark.full
def test_a_mesh_writes_what_one_device_does(family):
    model = PAIRS[family]
    tokens = np.random.default_rng(0).integers(2, V, (4, 10)).astype(np.int32)
    params = random_params(model.init, tokens, tokens, spread=0.6)
    decoder = decoding.decoder_of(family, model.config)
    rules = Rules(eos_ids=(END,), no_repeat_ngram=2)
    options = Options(8, rules, Beams(2, 2.0), num_texts=2)
    prompt = np.full((4, 1), model.config.decoder_start_id)

    def write(params):
        memory = generation.encode(decoder, params, tokens)
        return generation.write(decoder, params, prompt, options, memory=memory)

    want = write(params)
    mesh = sharding.make_mesh(sharding.MeshConfig(data=4, tensor=2))
    rules = sharding.DEFAULT_RULES
    placed = jax.device_put(params, sharding.tree_shardings(params, mesh, rules))
    with jax.set_mesh(mesh), sharding.logical_rules(rules):
        got = write(placed)
    np.testing.assert_array_equal(got.tokens, want.tokens)
    np.testing.assert_allclose(got.scores, want.scores, atol=1e-5)
