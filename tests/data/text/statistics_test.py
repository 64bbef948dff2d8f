"""Figures of a text and of batches, by hand."""

import json

import numpy as np
import pytest
from toy_text import (
    AMPLE,
    G,
    N,
    cache_of,
    ids_of,
    make_cache,
    make_plan,
    make_reader,
)

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.pretraining.readers import MixtureReader
from etc_jax.data.text import statistics
from etc_jax.data.text.statistics import (
    describe_batches,
    log_frequencies,
    unigram_entropy,
    unmasked_tokens,
)

NO_CPC = MaskingShares(cpc=0.0)


def test_log_frequencies_of_a_hand_made_text():
    got = log_frequencies(np.array([[0, 2], [2, 2]]), 4)
    np.testing.assert_allclose(got, np.log(np.array([2, 1, 4, 1]) / 8), rtol=1e-6)


def test_unigram_entropy_of_known_texts():
    assert unigram_entropy(np.array([7, 7, 7])) == 0.0
    uniform = np.repeat(np.arange(100, dtype=np.uint16), 5)
    assert unigram_entropy(uniform) == pytest.approx(np.log(100))
    skewed = unigram_entropy(np.array([1, 1, 1, 2]))
    assert skewed == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    with pytest.raises(ValueError, match="of no tokens is not defined"):
        unigram_entropy(np.zeros(0, np.uint16))


def test_unigram_entropy_does_not_depend_on_chunks(monkeypatch):
    tokens = np.random.default_rng(0).integers(0, 300, 5000)
    whole = unigram_entropy(tokens)
    monkeypatch.setattr(statistics, "_CHUNK_TOKENS", 7)
    assert unigram_entropy(tokens) == pytest.approx(whole, rel=1e-12)


@pytest.fixture(scope="module")
def cache():
    return make_cache(30, longest=60)


@pytest.mark.parametrize("shares", [MaskingShares(), NO_CPC])
def test_unmasked_tokens_are_those_of_the_text(cache, shares):
    plan = make_plan(cache)
    sizes = AMPLE if shares.cpc else PretrainingSizes(N, G, N)
    reader = make_reader(
        cache,
        plan,
        sizes,
        shares=shares,
        evaluation=True,
        batch_size=plan.num_windows + 3,  # and rows of padding
    )
    kept = np.concatenate(
        [
            cache.tokens[plan.segment_offsets[a] : plan.segment_offsets[b]]
            for _, a, b in plan.pieces
        ]
    )
    found = unmasked_tokens(reader.batch_at(0), reader.schema)
    np.testing.assert_array_equal(np.sort(found), np.sort(kept))


def _hand_made():
    """Nine sentences of 10 tokens in one document, three of 30 in another.

    Every tenth token is 105.
    """
    tokens = np.full(180, 104)
    tokens[::10] = 105
    documents = [[10] * 9, [30] * 3]
    cache = cache_of(documents, words=1.0, tokens=tokens, vocab_size=110)
    return cache, make_plan(cache, max_sentence_tokens=9)


def test_figures_of_a_hand_made_text():
    cache, plan = _hand_made()
    reader = make_reader(cache, plan, evaluation=True, batch_size=4)
    metrics = describe_batches(reader, 1)
    # How much is masked is drawn.
    for name in ("cpc_long_padded_share", "cpc_global_padded_share"):
        assert 0 < metrics.pop(name) < 1
    assert metrics == {
        "documents": 1,
        "documents_dropped_share": 0.5,
        "tokens_dropped_share": 0.5,
        "sentences_cut_share": 1.0,
        "examples": 1,
        "windows_left_out_share": 0.0,
        "long_padded_share": pytest.approx(1 - 90 / (4 * N)),
        "global_padded_share": pytest.approx(1 - 18 / (4 * G)),
        "mlm_overflow_share": 0.0,
        "cpc_overflow_share": 0.0,
        "lowest_id": 104,
        "highest_id": 105,
    }
    assert json.loads(json.dumps(metrics)) == metrics


def test_overflow_is_a_share_of_what_was_chosen(cache):
    plan = make_plan(cache)
    tight = PretrainingSizes(N, G, 16, 24, 2)
    reader = make_reader(cache, plan, tight)
    metrics = describe_batches(reader, 3)
    counts = reader.counts
    assert counts.examples == metrics["examples"] == 24
    batches = [reader.batch_at(step) for step in range(3)]
    for kind, lost in (
        ("mlm", counts.mlm_overflow_tokens),
        ("cpc", counts.cpc_overflow_sentences),
    ):
        had_room = sum(b[f"{kind}_weights"].sum() for b in batches)
        share = lost / (lost + had_room)
        assert metrics[f"{kind}_overflow_share"] == pytest.approx(share)
        assert share > 0


def test_figures_of_a_mixture_are_of_all_texts(cache):
    texts = [_hand_made(), _hand_made()]
    reader = MixtureReader(
        texts,
        Mixture([1.0, 1.0], seed=0),
        ids_of(texts[0][0]),
        PretrainingSizes(N, G, N),
        batch_size=4,
        seed=0,
        shares=NO_CPC,
    )
    metrics = describe_batches(reader, 2)
    assert metrics["documents"] == 2 and metrics["tokens_dropped_share"] == 0.5
    assert "cpc_overflow_share" not in metrics


def test_no_batch_is_an_error(cache):
    with pytest.raises(ValueError, match="count is 0; expected 1"):
        describe_batches(make_reader(cache, make_plan(cache)), 0)
