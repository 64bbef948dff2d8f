"""The loss of model-based denoising: against the same, step by step in numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_seq2seq
from mean_loss import loss_of
from trees import assert_close

from etc_jax.data.pretraining.denoising import Spans, span_corruption
from etc_jax.data.pretraining.masking import generator
from etc_jax.data.text import pairs
from etc_jax.data.text.candidates import CandidateRows
from etc_jax.data.text.denoised import Marks
from etc_jax.data.text.packing import PackedWindow
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.objectives.masked_lm import MaskedLm
from etc_jax.objectives.model_denoising import ModelDenoising
from etc_jax.objectives.seq2seq import Seq2Seq
from etc_jax.training.job import HELPERS

N, M = 32, 7
# Of each text; the last row is padding.
SIZES = (N - 2, 19, 6, 1, 0)
MARKS = Marks(begin=1, end=3, mask=4, sentinels=tuple(range(40, 50)))
ROWS = CandidateRows(MARKS, Spans(0.5, "fixed", 2.0), kept_share=0.4, input_length=N)
WRITTEN = Seq2Seq(
    toy_seq2seq.ToySeq2SeqConfig(vocab_size=50, dropout_rate=0.0),
    toy_seq2seq.ToySeq2Seq,
)
GENERATOR = MaskedLm(
    RobertaConfig(
        vocab_size=40,
        embed_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=8,
        max_length=N,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        initializer_range=0.5,
        logits_chunk_length=4,
    ),
    EncoderForMaskedLm,
)


def task(weight=0.5):
    return ModelDenoising(WRITTEN, GENERATOR, weight, ROWS, M)


def make_batch(sizes=SIZES):
    batch = ROWS.empty(len(sizes) + 1)
    rng = np.random.default_rng(0)
    for row, size in enumerate(sizes):
        text = rng.integers(5, 40, size).astype(np.int32)
        window = PackedWindow(text, text > 0, np.array([size]), *[np.ones(1, int)] * 2)
        ROWS.fill(batch, row, window, generator(1, 0, row))
    return batch


BATCH = make_batch()


@pytest.fixture(scope="module")
def params():
    return jax.jit(task().init)(jax.random.key(0))


@functools.partial(jax.jit, static_argnums=0)
def both(weight, params, batch):
    """((loss, metrics), gradient)."""
    fn = functools.partial(loss_of(task(weight)), rng=jax.random.key(1))
    return jax.value_and_grad(
        lambda p: fn(p, batch, deterministic=False), has_aux=True
    )(params)


@jax.jit
def log_probs(params, batch):
    """Of the generator, for all tokens of the text as it reads it."""
    read = jnp.where(batch["span_ids"] > 0, MARKS.mask, batch["tokens"])
    module = EncoderForMaskedLm(GENERATOR.model)
    logits = module.apply({"params": params}, read, batch["example_ids"])
    return jax.nn.log_softmax(logits)


def by_hand(params, batch):
    """(losses of candidates, {(row, span): mean}, spans kept, a batch of pairs)."""
    said = np.asarray(log_probs(params[HELPERS]["generator"], batch), np.float64)
    count = len(batch["tokens"])
    made = pairs.SCHEMA.empty(count, {"input": N, "target": M, "global": 0})
    del made["global_index"]
    losses, means, kept = [], {}, set()
    for row in range(count):
        size = int(batch["example_ids"][row].sum())
        tokens, spans = batch["tokens"][row, :size], batch["span_ids"][row, :size]
        mine = {}
        for k in range(1, spans.max(initial=0) + 1):
            found = [-said[row, i, tokens[i]] for i in np.flatnonzero(spans == k)]
            losses += found
            mine[k] = np.mean(found)
        order = sorted(mine, key=lambda k, m=mine: -m[k])
        top = order[: max(1, int(0.4 * len(mine)))]
        means |= {(row, k): x for k, x in mine.items()}
        kept |= {(row, k) for k in top}
        if not size:
            continue
        sides = span_corruption(
            tokens[1:-1], np.isin(spans[1:-1], top), MARKS.sentinels
        )
        for side, ids in zip(("input", "target"), sides, strict=True):
            whole = np.array([MARKS.begin, *ids, MARKS.end])
            cut = pairs.cut_to(whole, {"input": N, "target": M}[side])
            made[f"{side}_tokens"][row, : len(cut)] = cut
            made[f"{side}_example_ids"][row, : len(cut)] = 1
            made["cut_tokens"][row] += len(whole) - len(cut)
    return losses, means, kept, made


@jax.jit
def of_pairs(params, batch):
    return jax.value_and_grad(
        lambda p: loss_of(WRITTEN)(p, batch, jax.random.key(2), False), has_aux=True
    )(params)


def mean(pair):
    return float(pair[0]) / float(pair[1])


def test_it_is_denoising_of_the_spans_that_the_generator_finds_hardest(params):
    (loss, sums), grad = both(0.5, params, BATCH)
    losses, means, kept, made = by_hand(params, BATCH)
    # Some spans are kept, some are not, and a target has no room.
    assert 3 < len(kept) < len(means) and made["cut_tokens"].any()
    written = {k: x for k, x in params.items() if k != HELPERS}
    (want, metrics), want_grad = of_pairs(written, made)
    assert float(loss) == pytest.approx(float(want) + 0.5 * np.mean(losses), rel=1e-5)
    assert mean(sums["seq2seq_loss"]) == pytest.approx(float(want), rel=1e-6)
    for name in ("bits", "accuracy", "cut_share"):
        np.testing.assert_allclose(sums[name], metrics[name], rtol=1e-6)
    assert mean(sums["mlm_loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    assert sums["mlm_loss"][1] == len(losses)
    assert mean(sums["candidate_loss"]) == pytest.approx(
        np.mean(list(means.values())), rel=1e-5
    )
    assert mean(sums["kept_loss"]) == pytest.approx(
        np.mean([means[key] for key in kept]), rel=1e-5
    )
    assert mean(sums["kept_loss"]) > mean(sums["candidate_loss"])
    # The encoder-decoder learns from these alone.
    grad = {k: x for k, x in grad.items() if k != HELPERS}
    assert_close(grad, want_grad, rtol=1e-4, atol=1e-6)


def test_the_generator_learns_from_its_own_loss_alone(params):
    _, grad = both(0.5, params, BATCH)
    places = BATCH["span_ids"] > 0

    def own(generator):
        said = log_probs(generator, BATCH)
        each = jnp.take_along_axis(said, BATCH["tokens"][..., None], axis=2)[..., 0]
        return -0.5 * jnp.sum(jnp.where(places, each, 0)) / places.sum()

    want = jax.grad(own)(params[HELPERS]["generator"])
    got = grad[HELPERS]["generator"]
    assert any(np.any(x) for x in jax.tree.leaves(got))
    assert_close(got, want, rtol=1e-4, atol=1e-6)


def test_a_frozen_generator_has_no_gradient_and_no_loss(params):
    (loss, sums), grad = both(0.0, params, BATCH)
    assert not any(np.any(x) for x in jax.tree.leaves(grad[HELPERS]))
    assert float(loss) == pytest.approx(mean(sums["seq2seq_loss"]), rel=1e-6)
    (_, joint), _ = both(0.5, params, BATCH)
    np.testing.assert_allclose(sums["mlm_loss"], joint["mlm_loss"], rtol=1e-6)


def test_padding_alone_gives_no_loss_and_finite_gradients(params):
    empty = jax.tree.map(np.zeros_like, BATCH)
    (loss, _), grad = both(0.5, params, empty)
    assert float(loss) == 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grad))
