"""Rows of corrupted text and of what is missing in it, for encoder-decoders.

A batch is one of `data.text.pairs`, with one example a row: the documents of a window
follow each other, and see each other. A window of which nothing can be missing is left
out: its row stays padding. It is a single sentence, or a single token of spans.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Literal, NamedTuple

import numpy as np

from etc_jax.data.pretraining import denoising
from etc_jax.data.pretraining.denoising import Corrupted, GapChoice, Spans
from etc_jax.data.text.packing import PackedWindow
from etc_jax.data.text.pairs import SCHEMA, cut_to
from etc_jax.data.text.reader import Batch, Overflow
from etc_jax.data.tokenizers.base import Tokenizer

Kind = Literal["spans", "infilling", "gap_sentences"]
_SENTINEL = re.compile(r"<extra_id_(\d+)>")


@dataclasses.dataclass(frozen=True)
class Denoising:
    """What is missing, and how it is marked.

    Attributes:
      kind: "spans": see `denoising.span_corruption`; "infilling": the whole text is to
        be written; "gap_sentences": whole sentences are.
      spans: of the first; the other kinds read its share and its mean length.
      permute_sentences: of infilling: sentences are read in a random order.
      gap_choice: see `denoising.choose_sentences`.
      unique_tokens: see there.
    """

    kind: Kind = "spans"
    spans: Spans = Spans()
    permute_sentences: bool = True
    gap_choice: GapChoice = "independent"
    unique_tokens: bool = True


class Marks(NamedTuple):
    """Ids that are no text.

    Attributes:
      begin: of the first token of a text; None: there is none.
      end: of the last one.
      mask: the one id for all that is missing; None: there is none.
      sentinels: of missing spans, in order.
    """

    begin: int | None
    end: int
    mask: int | None
    sentinels: tuple[int, ...]

    @property
    def around_text(self) -> int:
        """Tokens that a text is put between."""
        return 1 + (self.begin is not None)

    def around(self, ids: np.ndarray) -> np.ndarray:
        """A text, int `[t]`, between its first and its last token: int32."""
        begin = [] if self.begin is None else [self.begin]
        return np.concatenate([begin, ids, [self.end]]).astype(np.int32)

    def check_room(self, need: int, length: int) -> None:
        """Raises ValueError if a text of `length` tokens needs more sentinels."""
        if need > len(self.sentinels):
            lacking = need - len(self.sentinels)
            raise ValueError(
                f"a text of {length} tokens may have {need} spans, but there are "
                f"{len(self.sentinels)} sentinels; add {lacking} to the vocabulary and "
                f"the model (etc-jax grow --sentinels={lacking}), or "
                "rows to a new model (model.vocab_size)"
            )


def sentinels_of(tokenizer: Tokenizer, rows: int) -> tuple[int, ...]:
    """The sentinels of a vocabulary, in order.

    They are `<extra_id_0>` and on, as T5 has them. A vocabulary without these has the
    rows of the model's table that come after it, as those of BART-LS.

    Args:
      tokenizer: of the text.
      rows: of the model's token table.
    """
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    by_number = {
        int(match[1]): i
        for i, piece in enumerate(pieces)
        if (match := _SENTINEL.fullmatch(piece))
    }
    if by_number:
        return tuple(by_number[i] for i in sorted(by_number))
    return tuple(range(tokenizer.vocab_size, rows))


def next_sentinels(tokenizer: Tokenizer, count: int) -> list[str]:
    """Names of sentinels after those that a vocabulary has."""
    count_now = len(sentinels_of(tokenizer, tokenizer.vocab_size))
    return [f"<extra_id_{i}>" for i in range(count_now, count_now + count)]


class DenoisedRows:
    """Rows of corrupted text; see `reader.RowBuilder`.

    Args:
      marks: ids that are no text.
      task: what is missing.
      input_length: n, positions of what is read.
      target_length: m, positions of what is to be written; more of it is cut off.

    Raises:
      ValueError: if a text may have more spans than there are sentinels, or the
        vocabulary has no mask.
    """

    schema = SCHEMA

    def __init__(
        self, marks: Marks, task: Denoising, *, input_length: int, target_length: int
    ):
        self._marks, self._task = marks, task
        self.input_length, self.target_length = input_length, target_length
        if task.kind == "spans":
            marks.check_room(task.spans.most(self.text_length), self.text_length)
        elif marks.mask is None:
            raise ValueError(
                f"objective.kind={task.kind!r} puts a mask where text is missing, but "
                "the vocabulary has none; give one with a mask, or learn spans"
            )

    @property
    def text_length(self) -> int:
        """Tokens of a text, so that what is read of it has room."""
        return self.input_length - self._marks.around_text

    def empty(self, rows: int) -> Batch:
        """See `reader.RowBuilder`."""
        lengths = {"input": self.input_length, "target": self.target_length}
        batch = SCHEMA.empty(rows, {"global": 0, **lengths})
        del batch["global_index"]
        return batch

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        """See `reader.RowBuilder`."""
        if self.is_whole(window):
            return Overflow(windows=1)
        corrupted, batch["cut_tokens"][row] = self.example(window, rng)
        for side, ids in corrupted._asdict().items():
            batch[f"{side}_tokens"][row, : len(ids)] = ids
            batch[f"{side}_example_ids"][row, : len(ids)] = 1
        return Overflow()

    def is_whole(self, window: PackedWindow) -> bool:
        """Whether nothing of a window can be missing: it is a single part.

        Infilling writes the whole text, whatever is missing.
        """
        parts = {"spans": window.tokens, "gap_sentences": window.lengths}
        kind = self._task.kind
        return kind in parts and len(parts[kind]) < 2

    def example(
        self, window: PackedWindow, rng: np.random.Generator
    ) -> tuple[Corrupted, int]:
        """(what is read and what is to be written, tokens that had no room).

        Both are int32, with their first and last tokens, and without padding.

        Args:
          window: the text, of which something can be missing; see `is_whole`.
          rng: of the draws.
        """
        whole = [self._marks.around(ids) for ids in self._corrupted(window, rng)]
        fitting = map(cut_to, whole, (self.input_length, self.target_length))
        corrupted = Corrupted(*fitting)
        return corrupted, sum(map(len, whole)) - sum(map(len, corrupted))

    def _corrupted(self, window: PackedWindow, rng) -> Corrupted:
        task, tokens, spans = self._task, window.tokens, self._task.spans
        if task.kind == "spans":
            missing = spans.draw(rng, len(tokens))
            return denoising.span_corruption(tokens, missing, self._marks.sentinels)
        if task.kind == "infilling":
            read = tokens
            if task.permute_sentences:
                read = denoising.in_another_order(rng, tokens, window.lengths)
            read = denoising.infilling(
                rng,
                read,
                share=spans.density,
                mean_length=spans.mean_length,
                mask=self._marks.mask,
            )
            return Corrupted(read, tokens)
        chosen = denoising.choose_sentences(
            rng,
            tokens,
            window.lengths,
            # At least one is to be written, of two or more.
            count=max(1, round(spans.density * len(window.lengths))),
            how=task.gap_choice,
            unique=task.unique_tokens,
        )
        return denoising.gap_sentences(tokens, window.lengths, chosen, self._marks.mask)
