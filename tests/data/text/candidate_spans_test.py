"""Rows with candidate spans: what is drawn, in which order, and bad input."""

import numpy as np
import pytest

from etc_jax.data.pretraining.denoising import Spans
from etc_jax.data.pretraining.masking import generator
from etc_jax.data.text.candidates import CANDIDATES, MARK, CandidateRows
from etc_jax.data.text.denoised import Marks
from etc_jax.data.text.packing import PackedWindow

LENGTH = 64
SPANS = Spans(0.3125, "fixed", 3.0)
END = 2


def marks(begin=None, mask=4, sentinels=10):
    return Marks(begin, END, mask, tuple(range(900, 900 + sentinels)))


def rows_of(of_marks, length=LENGTH, share=0.2):
    return CandidateRows(of_marks, SPANS, kept_share=share, input_length=length)


def filled(rows, size, index=0):
    text = np.arange(100, 100 + size, dtype=np.int32)
    window = PackedWindow(text, text > 0, np.array([size]), *[np.ones(1, int)] * 2)
    batch = rows.empty(2)
    rows.fill(batch, 1, window, generator(7, 0, index))
    return text, batch


@pytest.mark.parametrize("begin", [None, 1])
@pytest.mark.parametrize("size", [2, 3, 20, LENGTH - 2])
def test_a_text_is_whole_and_its_spans_are_numbered(begin, size):
    rows = rows_of(marks(begin))
    for index in range(5):
        text, batch = filled(rows, size, index)
        tokens, ids, spans = (
            batch[name][1] for name in ("tokens", "example_ids", "span_ids")
        )
        whole = [*([] if begin is None else [begin]), *text, END]
        assert tokens[: len(whole)].tolist() == whole
        assert ids.tolist() == [1] * len(whole) + [0] * (LENGTH - len(whole))
        first = len(whole) - 1 - size
        want = SPANS.draw(generator(7, 0, index), size)
        np.testing.assert_array_equal(spans[first : first + size] > 0, want)
        # Numbers rise by one where a span begins, and nowhere else.
        found = spans[spans > 0]
        lengths = np.bincount(found)[1:]
        assert found.tolist() == sorted(found) and (lengths > 0).all()
        edges = np.flatnonzero(np.diff(np.r_[False, want, False].astype(int)))
        assert lengths.tolist() == (edges[1::2] - edges[::2]).tolist()
        assert (spans[:first] == MARK).all() and spans[len(whole) - 1] == MARK
        count = len(lengths)
        assert count <= rows.num_spans and len(found) <= rows.num_positions
        assert batch["kept_spans"][1] == (max(1, count // 5) if count else 0)
        # The row before it is padding.
        assert not any(np.any(array[0]) for array in batch.values())


@pytest.mark.parametrize("size", [0, 1])
def test_a_text_of_which_no_span_can_be_missing_is_left_out(size):
    rows = rows_of(marks())
    text = np.arange(100, 100 + size, dtype=np.int32)
    window = PackedWindow(text, text > 0, np.array([size]), *[np.ones(1, int)] * 2)
    batch = rows.empty(1)
    assert rows.fill(batch, 0, window, generator(7, 0, 0)).windows == 1
    assert not any(np.any(array) for array in batch.values())


def test_at_the_papers_length_candidates_are_five_times_what_is_missing():
    spans = Spans(0.0625 / 0.2, "fixed", 5.0)
    rows = CandidateRows(
        marks(sentinels=341), spans, kept_share=0.2, input_length=16_385
    )
    assert (rows.num_positions, rows.num_spans) == (5120, 1024)
    batch = rows.empty(1)
    assert batch["tokens"].shape == (1, 16_385)
    assert set(batch) == set(CANDIDATES.fields)


@pytest.mark.parametrize(
    "made, message",
    [
        (lambda: rows_of(marks(sentinels=0)), "may have 1 spans, but there are 0 sent"),
        (lambda: rows_of(marks(mask=None)), "the vocabulary has no mask"),
        (lambda: rows_of(marks(1), length=3), "input_length is 3, of which 2 are no"),
    ],
)
def test_what_cannot_be_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()
