"""Rows of text with spans of which some will be missing: for model-based denoising.

    tokens       int32 [b, n]  the whole text, between its first and its last token
    example_ids  int32 [b, n]  1; 0: padding
    span_ids     int32 [b, n]  k in candidate span k = 1, 2, ... of the row, 0 in the
                               rest of the text, -1 for its first and last token
    kept_spans   int32 [b]     how many of the spans will be missing

Which ones is decided on the device, where both sides are made (`ops.span_choice`). A
text of one token, of which none can be missing, is left out: its row stays padding.
"""

from __future__ import annotations

import math

import numpy as np

from etc_jax.data.pretraining.denoising import Spans, span_starts
from etc_jax.data.schema import Field, Schema
from etc_jax.data.text.denoised import Marks
from etc_jax.data.text.packing import PackedWindow
from etc_jax.data.text.reader import Batch, Overflow

MARK = -1

CANDIDATES = Schema(
    "model_denoising",
    fields={
        "tokens": Field("input"),
        "example_ids": Field("input"),
        "span_ids": Field("input"),
        "kept_spans": Field(),
    },
    # Targets are made of this on the device, and are tokens of a step too.
    lengths={"input": "input_length", "target": "target_length"},
    text=("input", "target"),
    marks={"input": "example_ids"},
    tables={"tokens": "vocab_size"},
)


class CandidateRows:
    """Rows of text with candidate spans; see `reader.RowBuilder`.

    Attributes:
      marks: ids that are no text.
      num_spans: candidates of a row, at most.
      num_positions: tokens of these, at most.

    Args:
      marks: see above.
      spans: the candidates.
      kept_share: of the candidates of a text that will be missing: the whole number
        below it, and one of fewer. The authors' code takes the number of the row of a
        batch that has the fewest candidates for all its rows.
      input_length: n.

    Raises:
      ValueError: if a text may miss more spans than there are sentinels, the vocabulary
        has no mask, or rows have no room for text.
    """

    schema = CANDIDATES

    def __init__(
        self, marks: Marks, spans: Spans, *, kept_share: float, input_length: int
    ):
        self.marks, self._spans, self._share = marks, spans, kept_share
        self._length = input_length
        text_length = input_length - marks.around_text
        if text_length < 2:
            raise ValueError(
                f"data.input_length is {input_length}, of which {marks.around_text} "
                "are no text; raise it, so that a span can be missing"
            )
        if marks.mask is None:
            raise ValueError(
                "the vocabulary has no mask, in place of which a generator predicts "
                "tokens; give one with a mask, or set objective.name='denoising'"
            )
        self.num_spans = spans.most(text_length)
        self.num_positions = spans.count_noise(text_length)
        marks.check_room(self._num_missing(self.num_spans), text_length)

    def _num_missing(self, count: int) -> int:
        return min(count, max(1, math.floor(self._share * count)))

    def empty(self, rows: int) -> Batch:
        """See `reader.RowBuilder`."""
        return CANDIDATES.empty(rows, {"input": self._length})

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        """See `reader.RowBuilder`."""
        if len(window.tokens) < 2:  # nothing can be missing
            return Overflow(windows=1)
        is_candidate = self._spans.draw(rng, len(window.tokens))
        starts = span_starts(is_candidate)
        numbers = np.cumsum(starts)
        whole = self.marks.around(window.tokens)
        size, start = len(whole), int(self.marks.begin is not None)
        batch["tokens"][row, :size] = whole
        batch["example_ids"][row, :size] = 1
        batch["span_ids"][row, :size] = MARK
        batch["span_ids"][row, start : size - 1] = numbers * is_candidate
        batch["kept_spans"][row] = self._num_missing(int(starts.sum()))
        return Overflow()
