"""Rows of denoised text from a cache: each token comes once, what is not lost."""

import numpy as np
import pytest
from random_params import assert_equal
from toy_text import FIRST, cache_of, make_cache

from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.text.concatenation import Concatenation
from etc_jax.data.text.denoised import DenoisedRows, Denoising, Marks
from etc_jax.data.text.packing import pack
from etc_jax.data.text.reader import TextReader
from etc_jax.objectives.jobs.pretraining_data import check_validation, look_at

INPUT, TARGET, ROWS = 130, 140, 8
KINDS = {
    "spans": Denoising("spans", Spans(0.15, "mixed", mixed_means=(2.0, 4.0))),
    "infilling": Denoising("infilling", Spans(0.3)),
    "gap_sentences": Denoising("gap_sentences", Spans(0.3), gap_choice="random"),
}
BEGIN, END, MASK = 1, 2, 3


def make_text():
    """A cache in which each token has an id of its own, and its windows."""
    cache = make_cache(40, longest=30)
    return cache, pack(
        cache,
        long_length=INPUT - 2,
        global_length=None,
        min_sentences=1,
        max_sentence_tokens=40,
    )


@pytest.fixture(scope="module")
def text():
    cache, plan = make_text()
    # The last batch of an epoch begins another one.
    assert plan.num_windows > 5 * ROWS and plan.num_windows % ROWS
    return cache, plan


def reader_of(texts, kind, **options):
    made = DenoisedRows(
        Marks(BEGIN, END, MASK, tuple(range(4, FIRST))),
        KINDS[kind],
        input_length=INPUT,
        target_length=TARGET,
    )
    return TextReader(texts, made, batch_size=ROWS, seed=11, **options)


def text_tokens(batch, row, kind):
    """Tokens of the window of a row: what is read and what is to be written.

    Of infilling, what is to be written has them all.
    """
    sides = ("target",) if kind == "infilling" else ("input", "target")
    found = np.concatenate([batch[f"{side}_tokens"][row] for side in sides])
    return found[found >= FIRST]


@pytest.mark.parametrize("kind", KINDS)
def test_each_token_comes_once_an_epoch(text, kind):
    cache, plan = text
    reader, found = reader_of([text], kind), [[], []]  # by epoch
    for step in range(-(-2 * plan.num_windows // ROWS)):
        batch = reader.batch_at(step)
        assert not batch["cut_tokens"].any()
        for row in range(ROWS):
            if (epoch := (step * ROWS + row) // plan.num_windows) < 2:
                found[epoch].append(text_tokens(batch, row, kind))
    for epoch in found:
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), cache.tokens)
    # In another order.
    assert found[0][0].tolist() != found[1][0].tolist()


def test_windows_are_missing_other_tokens_in_each_epoch(text):
    """Of every window: its input of the first epoch is not that of the second."""
    _, plan = text
    reader, seen = reader_of([text], "spans"), {}
    for step in range(-(-2 * plan.num_windows // ROWS)):
        batch = reader.batch_at(step)
        for row in range(ROWS):
            window = np.sort(text_tokens(batch, row, "spans")).tobytes()
            read = batch["input_tokens"][row].tobytes()
            seen.setdefault(window, set()).add(read)
    # Short windows may draw the same spans again.
    assert np.mean([len(inputs) > 1 for inputs in seen.values()]) > 0.95


# Windows of 8 tokens: 3 of one sentence, 3 of several; or of 1 token and of 8.
PARTS = {"gap_sentences": [[8], [8], [8], [4, 4], [2, 6], [3, 3, 2]]}
PARTS |= {"spans": [[8], [1], [8], [8]], "infilling": [[8], [1], [8]]}


@pytest.mark.parametrize("kind, left_out", [*zip(PARTS, (3, 1, 0), strict=True)])
def test_a_window_of_which_nothing_can_be_missing_is_left_out(kind, left_out):
    cache = cache_of(PARTS[kind], words=1.0)
    sizes = {"long_length": 8, "max_sentence_tokens": 8, "min_sentences": 1}
    plan = pack(cache, global_length=None, **sizes)
    windows = [plan.read(cache, i) for i in range(plan.num_windows)]
    assert sorted(map(len, (w.tokens for w in windows))) == sorted(
        map(sum, PARTS[kind])
    )
    reader = reader_of([(cache, plan)], kind, evaluation=True)
    batch, nothing = reader.batch_at(0), reader.rows.empty(ROWS)
    whole = [reader.rows.is_whole(window) for window in windows]
    assert sum(whole) == left_out
    for row, is_whole in enumerate(whole):
        # Something is to be written between the first and the last token, or nothing.
        written = batch["target_example_ids"][row].sum()
        assert written == 0 if is_whole else written > 2
        for name in batch:
            same = np.array_equal(batch[name][row], nothing[name][row])
            assert same or not is_whole, name
    [counts] = reader.source_counts
    assert (counts.examples, counts.windows_left_out) == (
        len(whole) - left_out,
        left_out,
    )
    # What is left out moves no other example.
    training = reader_of([(cache, plan)], kind)
    for step in (3, 0, 3):
        assert_equal(
            training.batch_at(step), reader_of([(cache, plan)], kind).batch_at(step)
        )


def concatenated(documents, **options):
    cache = cache_of(documents, words=1.0)
    sizes = {"long_length": 8, "max_sentence_tokens": 8, "min_sentences": 1}
    plan = Concatenation(cache, **sizes)
    return reader_of([(cache, plan)], "gap_sentences", **options)


def test_validation_text_without_an_example_is_refused():
    check_validation(concatenated([[8] * 20, [2, 6]], evaluation=True))
    with pytest.raises(ValueError, match="validation text can be missing.* raise data"):
        check_validation(concatenated([[8] * 20], evaluation=True))


def test_a_text_of_which_most_is_left_out_is_refused(caplog):
    reader = concatenated
    some = reader([[8] * 4, [2, 6] * 6])
    with caplog.at_level("INFO"):
        look_at(some)
    assert "windows left out share 0." in caplog.text
    for documents in ([[8] * 9, [2, 6]], [[8]]):
        with pytest.raises(ValueError, match="% of the windows .* raise data.input_l"):
            look_at(reader(documents))
