"""Documents that follow each other at random: what is read, when and by whom."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from random_params import assert_equal
from toy_text import FIRST, cache_of, ids_of, restored

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining import masking
from etc_jax.data.text.concatenation import Concatenation
from etc_jax.data.text.packed import CausalRows, MaskedRows
from etc_jax.data.text.reader import TextReader

LENGTH = 16


def concatenated(cache, length=LENGTH, **options):
    options = {"min_sentences": 1, "max_sentence_tokens": length} | options
    return Concatenation(cache, long_length=length, **options)


def windows_of(plan, cache, seed=3, epoch=0):
    windows = plan.in_epoch(seed, epoch)
    return [windows.read(cache, i) for i in range(plan.num_windows)]


def random_documents(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 9, rng.integers(0, 8)).tolist() for _ in range(count)]


DOCUMENTS = st.lists(
    st.lists(st.integers(1, 12), min_size=0, max_size=9), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=150)
@given(
    documents=DOCUMENTS,
    length=st.integers(12, 40),
    min_sentences=st.integers(1, 3),
    epoch=st.integers(0, 5),
)
def test_an_epoch_is_a_plain_row_of_whole_documents(
    documents, length, min_sentences, epoch
):
    documents.append([2] * 3)  # one at least is kept
    cache = cache_of(documents)
    plan = concatenated(cache, length, min_sentences=min_sentences)
    bounds = np.cumsum([0, *map(sum, documents)]).tolist()
    sentence_starts = set(np.cumsum([0, *itertools.chain(*documents)]).tolist())
    words = cache.word_starts(0, cache.num_tokens)
    owner = np.repeat(np.arange(len(documents)), np.diff(bounds))
    kept = {i for i, d in enumerate(documents) if len(d) >= min_sentences}
    row, seen_in = [], collections.Counter()
    windows = windows_of(plan, cache, epoch=epoch)
    for window in windows:
        places = (window.tokens - FIRST).tolist()
        row += places
        # A sentence ends where the next one begins, and at the borders of the window.
        starts = [
            i for i, x in enumerate(places) if not i or places[i] in sentence_starts
        ]
        assert window.lengths.tolist() == np.diff([*starts, len(places)]).tolist()
        assert window.documents.tolist() == owner[[places[i] for i in starts]].tolist()
        firsts = list(dict.fromkeys(window.documents.tolist()))
        assert window.piece_ids.tolist() == [
            firsts.index(d) + 1 for d in window.documents
        ]
        seen_in.update(firsts)
        expected = words[places]
        expected[0] = True
        assert window.word_starts.tolist() == expected.tolist()
    # Whole documents, each of those that are kept once.
    order, start = [], 0
    while start < len(row):
        document = int(owner[row[start]])
        whole = list(range(bounds[document], bounds[document + 1]))
        assert row[start : start + len(whole)] == whole
        order.append(document)
        start += len(whole)
    assert sorted(order) == sorted(kept)
    assert all(len(w.tokens) == length for w in windows[:-1])
    assert 1 <= len(windows[-1].tokens) <= length
    for document, count in seen_in.items():
        assert count <= -(-sum(documents[document]) // length) + 1
    counts = plan.counts
    assert counts.tokens == len(row)
    assert counts.tokens + counts.tokens_dropped == cache.num_tokens
    assert (counts.documents, counts.windows) == (len(kept), len(windows))
    assert counts.documents + counts.documents_dropped == len(documents)


@pytest.mark.parametrize(
    "documents, sizes",
    [
        ([[5]], [5]),
        ([[], [5], []], [5]),
        ([[16]], [16]),
        ([[8], [4, 4], [16], [3, 13]], [16, 16, 16]),
        ([[10] * 5], [16, 16, 16, 2]),
        ([[1]] * 17, [16, 1]),
    ],
)
def test_the_last_window_has_what_is_left(documents, sizes):
    cache = cache_of(documents)
    found = windows_of(concatenated(cache), cache)
    assert [len(w.tokens) for w in found] == sizes
    assert [int(w.lengths.sum()) for w in found] == sizes


def test_long_sentences_are_cut_and_a_border_cuts_what_is_there():
    cache = cache_of([[10]], words=1.0)
    plan = concatenated(cache, 4, max_sentence_tokens=3)
    # 10 tokens are 3, 3, 2 and 2; borders are after 4 and 8.
    assert [w.lengths.tolist() for w in windows_of(plan, cache)] == [
        [3, 1],
        [2, 2],
        [2],
    ]
    assert (plan.counts.sentences_of_text, plan.counts.sentences_split) == (1, 1)


def test_every_order_is_as_likely_as_any_other():
    cache = cache_of([[1], [1], [1]])
    plan, seen = concatenated(cache), collections.Counter()
    for epoch in range(1200):
        [window] = windows_of(plan, cache, epoch=epoch)
        seen[tuple(window.documents.tolist())] += 1
    # Each of six a sixth of the time, within four standard deviations.
    assert len(seen) == 6 and all(abs(n - 200) < 52 for n in seen.values())


def test_an_order_is_that_of_seed_epoch_and_source():
    cache = cache_of(random_documents(50))
    plan = concatenated(cache)

    def order(*place):
        return tuple(plan.in_epoch(*place).documents.tolist())

    places = [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0), (0, 0, 1)]
    found = [order(*place) for place in places]
    assert len(set(found)) == len(places)
    assert found == [order(*place) for place in places]
    again = concatenated(cache)
    assert again.in_epoch(0, 2).documents.tolist() == list(found[2])


def test_a_window_has_as_many_documents_as_chance_gives_it():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 400)
    cache = cache_of([[n] for n in sizes])
    plan, epochs = concatenated(cache, 64), 25
    found = [
        sum(w.piece_ids[-1] for w in windows_of(plan, cache, epoch=epoch))
        for epoch in range(epochs)
    ]
    # Each document is one piece, and one more for each border that is inside of one.
    # A border is at the end of a document by chance.
    borders, total = plan.num_windows - 1, int(sizes.sum())
    at_an_end = (len(sizes) - 1) / (total - 1)
    mean = len(sizes) + borders * (1 - at_an_end)
    deviation = np.sqrt(borders * at_an_end * (1 - at_an_end) / epochs)
    assert abs(np.mean(found) - mean) < 4 * deviation


# --- readers --------------------------------------------------------------------------


def reader_of(caches, rows=None, **options):
    rows = rows or CausalRows(ids_of(caches[0]), length=LENGTH)
    texts = [(cache, concatenated(cache)) for cache in caches]
    return TextReader(texts, rows, batch_size=8, seed=5, **options)


def tokens_of(batch, row):
    return batch["tokens"][row][batch["example_ids"][row] > 0].tolist()


@pytest.fixture(scope="module")
def cache():
    return cache_of(random_documents(60))


def test_every_epoch_has_each_token_once(cache):
    reader, epochs = reader_of([cache]), [[], [], []]
    size = reader.num_examples
    for step in range(-(-3 * size // 8)):
        batch = reader.batch_at(step)
        for row in range(8):
            if (epoch := (8 * step + row) // size) < 3:
                epochs[epoch].append(tokens_of(batch, row))
    for windows in epochs:
        assert len(windows) == size
        assert sorted(itertools.chain(*windows)) == cache.tokens.tolist()
    # Windows of another epoch are others. (Within a document one may come again.)
    assert len({tuple(w) for windows in epochs for w in windows}) > 2.9 * size


def test_no_token_predicts_the_first_one_of_the_next_document(cache):
    batch = reader_of([cache]).batch_at(0)
    ends = set(cache.sentence_offsets[cache.document_offsets[1:]].tolist())
    for tokens, targets, weights in zip(
        batch["tokens"], batch["targets"], batch["target_weights"], strict=True
    ):
        for token, target in zip(
            tokens[weights > 0], targets[weights > 0], strict=True
        ):
            assert target == token + 1
            assert int(token) + 1 - FIRST not in ends


def test_rows_of_masked_words_have_the_same_text(cache):
    shares = masking.MaskingShares(mlm=0.3)
    sizes = {"length": LENGTH, "capacity": LENGTH}
    masked = MaskedRows(ids_of(cache), **sizes, shares=shares)
    batch, plain = (reader_of([cache], rows).batch_at(2) for rows in (masked, None))
    assert (batch["tokens"] != plain["tokens"]).any()
    np.testing.assert_array_equal(restored(batch), plain["tokens"])
    np.testing.assert_array_equal(batch["example_ids"], plain["example_ids"])


def test_an_evaluation_reads_each_token_once_in_one_order(cache):
    first, again = (reader_of([cache], evaluation=True) for _ in range(2))
    found = []
    for step in range(first.steps_per_epoch):
        batch = first.batch_at(step)
        assert_equal(batch, again.batch_at(step))
        found += [token for row in range(8) for token in tokens_of(batch, row)]
    assert found != sorted(found) == cache.tokens.tolist()


def test_a_mixture_reads_each_text_epoch_by_epoch():
    many, few = random_documents(60), random_documents(20, seed=1)
    border = FIRST + sum(map(sum, many))
    size = border + sum(map(sum, few))
    caches = [
        cache_of(many, vocab_size=size),
        cache_of(few, vocab_size=size, tokens=range(border, size)),
    ]
    mixture = Mixture((3.0, 1.0), seed=5)
    reader, found = reader_of(caches, mixture=mixture), collections.defaultdict(list)
    sizes = [concatenated(cache).num_windows for cache in caches]
    for step in range(2 * sum(sizes) // 4):
        batch = reader.batch_at(step)
        for row in range(8):
            source, index = mixture.locate(8 * step + row)
            found[source, index // sizes[source]] += tokens_of(batch, row)
    for source, epoch in itertools.product((0, 1), (0, 1)):
        assert sorted(found[source, epoch]) == caches[source].tokens.tolist()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"length": 0}, "long_length is 0; expected 1 or more"),
        ({"max_sentence_tokens": 17}, "max_sentence_tokens is 17, more than long_leng"),
        ({"max_sentence_tokens": 0}, "max_sentence_tokens is 0; expected 1 or more"),
        ({"min_sentences": 0}, "min_sentences is 0; expected 1 or more"),
        ({"min_sentences": 4}, "none of 2 documents has 4 sentences; give longer"),
    ],
)
def test_lengths_out_of_range_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        concatenated(cache_of([[2] * 3, []]), **options)
