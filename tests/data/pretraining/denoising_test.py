"""What is missing from texts: its share, its spans, and that nothing is lost."""

import numpy as np
import pytest
from toy_text import reconstructed

from etc_jax.data.pretraining import denoising
from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.pretraining.masking import generator

SENTINELS = tuple(range(10_000, 14_000))
# As the papers have them: T5, BART-LS' table 3 at 16k, its code, BART-like lengths.
KINDS = {
    "T5": (512, Spans(0.15, "fixed", 3.0)),
    "average 5": (16_384, Spans(0.0625, "fixed", 5.0)),
    "mixed": (16_384, Spans(0.0625, "mixed")),
    "poisson": (1024, Spans(0.3, "poisson", 3.0)),
}
EACH = pytest.mark.parametrize("name", KINDS)


def span_lengths(missing):
    edges = np.flatnonzero(np.diff(np.r_[False, missing, False].astype(int)))
    return edges[1::2] - edges[::2]


def draws(name, count):
    length, spans = KINDS[name]
    for i in range(count):
        yield spans.draw(generator(7, 0, i), length)


@EACH
def test_a_text_comes_back_from_what_is_read_and_what_is_written(name):
    for i, missing in enumerate(draws(name, 20)):
        text = np.random.default_rng(i).integers(0, 9000, len(missing))
        found = denoising.span_corruption(text, missing, SENTINELS)
        np.testing.assert_array_equal(reconstructed(found, SENTINELS), text)
        # Sentinels in order in both, each once.
        count = len(span_lengths(missing))
        for side in found:
            marks = side[np.isin(side, SENTINELS)]
            np.testing.assert_array_equal(marks, SENTINELS[:count])
        assert not np.isin(found.target[0], text) and len(found.input) < len(text)


def test_a_text_as_raffel_et_al_show_it():
    """Figure 2: 'Thank you for inviting me to your party last week .'"""
    text = np.arange(11)
    missing = np.isin(text, (2, 3, 8))
    read, written = denoising.span_corruption(text, missing, (100, 99, 98))
    assert read.tolist() == [0, 1, 100, 4, 5, 6, 7, 99, 9, 10]
    assert written.tolist() == [100, 2, 3, 99, 8]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("lengths", ["fixed", "mixed", "poisson"])
def test_short_texts(length, lengths):
    spans = Spans(0.3, lengths, 3.0)
    for i in range(50):
        missing = spans.draw(generator(0, 0, i), length)
        assert len(missing) == length
        assert missing.sum() == (0 if length < 2 else spans.count_noise(length))
        if length >= 2:
            assert len(span_lengths(missing)) <= spans.most(length)


def test_too_few_sentinels_are_refused():
    with pytest.raises(ValueError, match="2 spans are missing, but there are 1 sent"):
        missing = np.array([0, 1, 0, 1], bool)
        denoising.span_corruption(np.arange(4), missing, (9,))


@pytest.mark.parametrize("n", [1, 2, 9, 400])
def test_infilling_replaces_spans_by_one_mask_each(n):
    mask, gone, masks, empty = -1, 0, 0, 0
    rounds = 10_000 // n
    for i in range(rounds):
        text = np.arange(n)
        read = denoising.infilling(
            generator(5, n, i), text, share=0.3, mean_length=3.0, mask=mask
        )
        kept = read[read != mask]
        # What is left is in its order, and masks do not touch.
        assert (np.diff(kept) > 0).all()
        assert not ((read[1:] == mask) & (read[:-1] == mask)).any()
        gone += n - len(kept)
        masks += int((read == mask).sum())
        around = np.r_[-1, kept, n]
        places = np.flatnonzero(read == mask)
        for place in places:
            before = read[place - 1] if place else -1
            after = read[place + 1] if place + 1 < len(read) else n
            empty += after - before == 1
        assert len(around) == len(kept) + 2
    if n == 400:
        assert gone == rounds * 120
        # Poisson(3): the mean of spans, and the share of empty ones, exp(-3).
        assert abs(gone / masks - 3) < 0.2
        assert abs(empty / masks - np.exp(-3)) < 0.03


def test_sentences_in_another_order():
    text, lengths = np.arange(12), np.array([3, 5, 1, 3])
    parts = [p.tolist() for p in np.split(text, np.cumsum(lengths)[:-1])]
    orders = set()
    for i in range(200):
        found = denoising.in_another_order(generator(1, 0, i), text, lengths).tolist()
        firsts = [p for x in found for p in parts if p[0] == x]
        assert sum(firsts, []) == found and sorted(found) == text.tolist()
        orders.add(tuple(found))
    assert len(orders) == 24


# --- gap sentences --------------------------------------------------------------------


def f1(chosen, rest, unique):
    """ROUGE-1 F1 of two lists of tokens, counted by hand."""
    if unique:
        chosen, rest = set(chosen), set(rest)
        common = len(chosen & rest)
    else:
        common = sum(min(chosen.count(t), rest.count(t)) for t in set(chosen))
    return 2 * common / (len(chosen) + len(rest)) if chosen and rest else 0.0


def by_hand(parts, count, how, unique):
    def score(numbers):
        mine = [t for i in numbers for t in parts[i]]
        rest = [t for i, p in enumerate(parts) if i not in numbers for t in p]
        return f1(mine, rest, unique)

    if how == "independent":
        order = sorted(range(len(parts)), key=lambda i: -score([i]))
        return sorted(order[:count])
    chosen = []
    for _ in range(count):
        left = [i for i in range(len(parts)) if i not in chosen]
        chosen.append(max(left, key=lambda i: score([*chosen, i])))
    return sorted(chosen)


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("how", ["independent", "sequential"])
def test_principal_sentences_are_those_of_rouge(how, unique):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 9, rng.integers(2, 9))
        text = rng.integers(0, 12, lengths.sum())
        parts = [p.tolist() for p in np.split(text, np.cumsum(lengths)[:-1])]
        count = int(rng.integers(1, len(lengths) + 1))
        got = denoising.choose_sentences(
            rng, text, lengths, count=count, how=how, unique=unique
        )
        want = by_hand(parts, min(count, len(parts) - 1), how, unique)
        np.testing.assert_array_equal(np.flatnonzero(got), want)


def test_gaps_are_masks_and_what_is_to_be_written():
    text, lengths = np.arange(9), np.array([2, 3, 4])
    found = denoising.gap_sentences(text, lengths, np.array([True, False, True]), 77)
    assert found.input.tolist() == [77, 2, 3, 4, 77]
    assert found.target.tolist() == [0, 1, 5, 6, 7, 8]
    found = denoising.gap_sentences(text, lengths, np.zeros(3, bool), 77)
    assert found.input.tolist() == text.tolist() and not len(found.target)


def test_lead_and_random_sentences():
    text, lengths = np.arange(20), np.full(10, 2)
    rng = np.random.default_rng(0)
    lead = denoising.choose_sentences(rng, text, lengths, count=3, how="lead")
    assert np.flatnonzero(lead).tolist() == [0, 1, 2]
    total = np.zeros(10)
    for i in range(2000):
        total += denoising.choose_sentences(
            generator(2, 0, i), text, lengths, count=3, how="random"
        )
    # Each with a chance of 0.3, within four standard deviations.
    assert (np.abs(total - 600) < 4 * (2000 * 0.21) ** 0.5).all()
    with pytest.raises(ValueError, match="how is 'best'; expected one of independent"):
        denoising.choose_sentences(rng, text, lengths, count=3, how="best")
