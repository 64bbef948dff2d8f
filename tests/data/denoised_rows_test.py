"""Rows of denoised text from a cache: hosts share them, and each token comes once."""

import numpy as np
import pytest
from toy_text import assert_equal, make_cache

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.text.denoised import DenoisedRows, Denoising, Marks
from etc_jax.data.text.packing import pack
from etc_jax.data.text.reader import TextReader

INPUT, TARGET, ROWS = 130, 140, 8
KINDS = {
    "spans": Denoising("spans", Spans(0.15, "mixed", mixed_means=(2.0, 4.0))),
    "infilling": Denoising("infilling", Spans(0.3)),
    "gap_sentences": Denoising("gap_sentences", Spans(0.3), gap_choice="random"),
}
BEGIN, END, MASK = 1, 2, 3
FIRST = 104  # regular ids begin here


def make_text(seed):
    """A cache in which each token has an id of its own, and its windows."""
    cache = make_cache(40, longest=30, seed=seed)
    return cache, pack(
        cache,
        long_length=INPUT - 2,
        global_length=None,
        min_sentences=1,
        max_sentence_tokens=40,
    )


@pytest.fixture(scope="module")
def text():
    cache, plan = make_text(0)
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


def hosts_batch(texts, kind, step, count, **options):
    """{host: the rows that it reads}, by readers of their own."""
    return [
        reader_of(texts, kind, **options).batch_at(step, rows)
        for rows in np.array_split(np.arange(ROWS), count)
    ]


def text_tokens(batch, row, kind):
    """Tokens of the window of a row: what is read and what is to be written.

    Of infilling, what is to be written has them all.
    """
    sides = ("target",) if kind == "infilling" else ("input", "target")
    found = np.concatenate([batch[f"{side}_tokens"][row] for side in sides])
    return found[found >= FIRST]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_hosts_have_each_token_once_an_epoch(text, kind, count):
    cache, plan = text
    windows = plan.num_windows
    found = [[], []]  # by epoch
    for step in range(-(-2 * windows // ROWS)):
        position = step * ROWS
        for batch in hosts_batch([text], kind, step, count):
            assert not batch["cut_tokens"].any()
            for row in range(ROWS // count):
                if position < 2 * windows:
                    tokens = text_tokens(batch, row, kind)
                    found[position // windows].append(tokens)
                position += 1
    for epoch in found:
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), cache.tokens)
    # In another order.
    assert found[0][0].tolist() != found[1][0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_hosts_read_together_is_the_whole_batch(text, kind):
    texts = [text, make_text(1)]
    mixture = Mixture((2.0, 1.0), seed=11)
    for options in ({"texts": texts, "mixture": mixture}, {"texts": [text]}):
        texts, whole = options["texts"], reader_of(kind=kind, **options)
        for step in (0, 5, whole.steps_per_epoch - 1):
            for count in (1, 2, 4):
                parts = hosts_batch(**options, kind=kind, step=step, count=count)
                together = {
                    name: np.concatenate([part[name] for part in parts])
                    for name in parts[0]
                }
                assert_equal(together, whole.batch_at(step))


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
