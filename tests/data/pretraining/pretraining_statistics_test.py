"""Shares of 10,000 examples, each within three standard errors of the paper's.

In this text the id tells whether a token starts a word, so the words of a batch are
known without the cache. That the limits can fail is shown with shares that are off.
"""

import numpy as np
import pytest
from toy_text import cache_of, restored

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text import packing
from etc_jax.data.tokenizers.tokenizer import TokenIds

FIRST, FIRST_INNER, VOCAB_SIZE, MASK = 10, 300, 500, 3
IDS = TokenIds(
    pad=0,
    sentence=1,
    cpc_mask=2,
    mask=MASK,
    regular_ids=(FIRST, VOCAB_SIZE),
    vocab_size=VOCAB_SIZE,
)
SIZES = PretrainingSizes(160, 40, 160, 160, 40)  # room for everything
PER_BATCH = 500


@pytest.fixture(scope="module")
def text():
    """500 documents of 12 to 20 sentences of 4 to 8 tokens, and their windows."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(12, 20, 500)
    lengths = rng.integers(4, 9, sizes.sum())
    starts = rng.random(lengths.sum()) < 0.6
    starts[np.cumsum([0, *lengths[:-1]])] = True
    tokens = np.where(
        starts,
        rng.integers(FIRST, FIRST_INNER, len(starts)),
        rng.integers(FIRST_INNER, VOCAB_SIZE, len(starts)),
    )
    documents = np.split(lengths, np.cumsum(sizes)[:-1])
    cache = cache_of(documents, words=starts, tokens=tokens, vocab_size=VOCAB_SIZE)
    plan = packing.pack(cache, long_length=160, global_length=40, max_sentence_tokens=8)
    return cache, plan


def _batches(text, count, **shares):
    reader = PretrainingReader(
        *text,
        IDS,
        SIZES,
        batch_size=PER_BATCH,
        seed=7,
        shares=masking.MaskingShares(**shares),
    )
    return [reader.batch_at(step) for step in range(count)]


@pytest.fixture(scope="module")
def batches(text):
    return _batches(text, 10_000 // PER_BATCH)


def _original(batch):
    """The long tokens before MLM; sentences masked for CPC stay mask ids."""
    return restored(batch, "long_tokens")


def _flags(batch):
    """(text, masked for CPC, chosen for MLM), bool `[rows, n]` each."""
    used = batch["structure"].long_example_ids > 0
    chosen = np.zeros(used.shape, bool)
    rows, places = np.nonzero(batch["mlm_weights"])
    chosen[rows, batch["mlm_positions"][rows, places]] = True
    return used, used & (_original(batch) == MASK), chosen


def _samples(batches):
    """{what: (values that should have the mean of the second, that mean)}."""
    found = {"cpc": [], "mlm": [], "mask": [], "kept": [], "random": [], "where": []}
    again = 0.1 / (VOCAB_SIZE - FIRST)  # a random id that is the original one
    for batch in batches:
        used, cpc, chosen = _flags(batch)
        sentences = (batch["structure"].global_example_ids > 0).sum(1)
        masked = batch["cpc_weights"].sum(1)
        enough = sentences >= 10  # with fewer, one is masked all the same
        found["cpc"].append((masked - 0.1 * sentences)[enough])
        found["mlm"].append(chosen.sum(1) - 0.15 * (used & ~cpc).sum(1))
        shown, target = batch["long_tokens"][chosen], _original(batch)[chosen]
        found["mask"].append((shown == MASK) - 0.8)
        found["kept"].append((shown == target) - 0.1 - again)
        found["random"].append(((shown != MASK) & (shown != target)) - 0.1 + again)
        places = batch["cpc_positions"] + 0.5
        found["where"].append(
            (places / sentences[:, None] - 0.5)[batch["cpc_weights"] > 0]
        )
    return {name: np.concatenate(values) for name, values in found.items()}


def _off(samples):
    """Names of what is more than three standard errors from its mean."""
    return [
        name
        for name, values in samples.items()
        if abs(values.mean()) > 3 * values.std() / len(values) ** 0.5
    ]


def test_shares_are_those_of_the_paper(batches):
    samples = _samples(batches)
    assert len(samples["mlm"]) == 10_000 and len(samples["cpc"]) > 9_500
    assert len(samples["mask"]) > 100_000
    assert _off(samples) == []


@pytest.mark.parametrize(
    "shares, expected",
    [
        ({"mlm": 0.16}, "mlm"),
        ({"cpc": 0.11}, "cpc"),
        ({"replace_by_mask": 0.79}, "mask"),
        ({"replace_by_random": 0.11}, "random"),
    ],
)
def test_shares_that_are_off_by_one_percent_are_found(text, shares, expected):
    assert expected in _off(_samples(_batches(text, 4, **shares)))


def test_words_are_masked_whole(batches):
    broken = whole = 0
    for batch in batches:
        used, cpc, chosen = _flags(batch)
        inner = used & ~cpc & (_original(batch) >= FIRST_INNER)
        previous = np.roll(chosen, 1, axis=1)
        broken += (inner & (chosen != previous)).sum()
        whole += (inner & chosen).sum()
    assert broken == 0
    assert whole > 20_000  # words of several pieces


def test_a_word_masked_in_part_would_be_found(batches):
    batch = {**batches[0], "mlm_weights": batches[0]["mlm_weights"].copy()}
    used, cpc, chosen = _flags(batch)
    rows, columns = np.nonzero(chosen & (_original(batch) >= FIRST_INNER))
    place = np.flatnonzero(batch["mlm_positions"][rows[0]] == columns[0])[0]
    batch["long_tokens"] = _original(batch)
    batch["mlm_weights"][rows[0], place] = 0
    with pytest.raises(AssertionError, match="assert .* == 0"):
        test_words_are_masked_whole([batch])


def test_sentences_are_masked_whole_and_no_others(batches):
    for batch in batches[:4]:
        used, cpc, _ = _flags(batch)
        links = batch["structure"].links[..., 0]
        for row in range(0, PER_BATCH, 25):
            real = batch["cpc_weights"][row] > 0
            wanted = np.isin(links[row], batch["cpc_positions"][row][real])
            np.testing.assert_array_equal(cpc[row], wanted & used[row])


def test_random_replacements_are_uniform_over_the_regular_ids(batches):
    drawn = []
    for batch in batches:
        _, _, chosen = _flags(batch)
        shown, target = batch["long_tokens"][chosen], _original(batch)[chosen]
        drawn.append(shown[(shown != MASK) & (shown != target)])
    drawn = np.concatenate(drawn)
    assert drawn.min() == FIRST and drawn.max() == VOCAB_SIZE - 1
    counts = np.bincount(drawn, minlength=VOCAB_SIZE)[FIRST:]
    expected = len(drawn) / len(counts)
    assert expected > 25
    # Chi-square: mean of the degrees of freedom, variance twice as much.
    freedom = len(counts) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 3 * (2 * freedom) ** 0.5
