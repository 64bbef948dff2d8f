"""The fixed pool of sentences that CPC is evaluated on."""

import collections

import numpy as np
import pytest
from random_params import assert_equal
from toy_text import AMPLE, N, cache_of, ids_of, make_cache, make_plan, original

from etc_jax.data.pretraining import pool
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.pretraining.pool import cpc_pool
from etc_jax.data.text.packing import PackingPlan


@pytest.fixture(scope="module")
def cache():
    return make_cache(100, longest=60)


@pytest.fixture(scope="module")
def plan(cache):
    return make_plan(cache)


@pytest.mark.parametrize("count", [40, 256])
def test_pool_masks_exactly_its_sentences(cache, plan, count):
    batches = cpc_pool(
        cache, plan, ids_of(cache), AMPLE, batch_size=8, count=count, seed=1
    )
    assert sum(b["cpc_weights"].sum() for b in batches) == count
    sentences, documents = [], []
    for b in batches:
        assert b["long_tokens"].shape == (8, N)
        masked = (b["global_tokens"] == 2).sum(1)
        total = (b["global_tokens"] > 0).sum(1)
        np.testing.assert_array_equal(masked, b["cpc_weights"].sum(1))
        assert (masked <= np.maximum(1, 0.1 * total)).all()
        documents += b["cpc_documents"][b["cpc_weights"] > 0].tolist()
        for row in np.flatnonzero(masked):
            original(b, row)  # checks that masked sentences are mask ids
            own = b["cpc_structure"].links[row, :, 0]
            text = b["cpc_long_tokens"][row]
            sentences += [tuple(text[own == j]) for j in range(masked[row])]
    assert len(set(sentences)) == count and min(map(len, sentences)) >= 8
    kept = plan.counts.documents
    assert len(set(documents)) >= min(count // 2, kept) - 5  # some have none so long
    again = cpc_pool(
        cache, plan, ids_of(cache), AMPLE, batch_size=8, count=count, seed=1
    )
    assert_equal(batches, again)


@pytest.mark.parametrize(
    "sizes, count, taken",
    [
        ([3] * 300, 256, [2] * 128),
        ([1] * 300, 256, [1] * 256),  # of one sentence each: as many as it takes
        ([1, 9, 1, 1], 12, [1, 1, 1, 9]),
        ([5, 5], 1, [1]),
    ],
)
def test_half_as_many_documents_as_sentences_are_drawn_on(sizes, count, taken):
    by_document = {d: [(d, s) for s in range(n)] for d, n in enumerate(sizes)}
    chosen = pool._in_turn(by_document, count, seed=3)
    assert len(set(chosen)) == count
    numbers = collections.Counter(d for d, _ in chosen).values()
    assert sorted(numbers) == taken


def test_pool_larger_than_the_text_is_an_error(cache, plan):
    with pytest.raises(ValueError, match="a CPC pool of 1000000 needs"):
        cpc_pool(cache, plan, ids_of(cache), AMPLE, batch_size=8, count=10**6)


def test_pool_takes_a_repeated_sentence_once():
    tokens = np.tile(np.arange(104, 114), 20)  # one sentence 20 times
    tokens[:10] += 10  # and another one
    cache = cache_of([[10] * 10] * 2, words=1.0, tokens=tokens)
    plan = make_plan(cache)
    (batch,) = cpc_pool(cache, plan, ids_of(cache), AMPLE, batch_size=8, count=2)
    assert batch["cpc_weights"].sum() == 2
    with pytest.raises(
        ValueError, match="256 tokens in the validation text, got 2; raise data.validat"
    ):
        cpc_pool(cache, plan, ids_of(cache), AMPLE, batch_size=8, count=3)


def test_of_much_text_some_windows_are_looked_at(cache, plan, monkeypatch):
    monkeypatch.setattr(pool, "_WINDOWS_PER_SENTENCE", 2)
    read = []

    def read_window(plan, cache, index):
        read.append(index)
        return window(plan, cache, index)

    window = PackingPlan.read
    monkeypatch.setattr(PackingPlan, "read", read_window)
    batches = cpc_pool(cache, plan, ids_of(cache), AMPLE, batch_size=8, count=5)
    assert sum(b["cpc_weights"].sum() for b in batches) == 5
    assert len(set(read)) == len(read) == 10 < plan.num_windows


def test_without_cpc_there_is_no_pool(cache, plan):
    with pytest.raises(ValueError, match="a CPC pool needs CPC"):
        cpc_pool(
            cache,
            plan,
            ids_of(cache),
            PretrainingSizes(N, 40, 64),
            batch_size=8,
            shares=MaskingShares(cpc=0.0),
        )
