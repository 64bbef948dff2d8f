"""Index-based readers of text that is packed into windows.

A batch is a function of the step: nothing is kept between batches, so the state of
the data in a checkpoint is the step alone, and resuming is exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np

from etc_jax.base.rules import choice
from etc_jax.data.epochs import (
    BatchRows,
    Permutations,
    check_draws,
    check_step,
    positions,
)
from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining import masking
from etc_jax.data.schema import Schema
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.concatenation import Concatenation
from etc_jax.data.text.packing import Counts, PackedWindow, pack

Batch = dict[str, Any]


class Overflow(NamedTuple):
    """What of a window is not learnt.

    Attributes:
      mlm: tokens that were chosen to be masked and had no room.
      cpc: sentences that were chosen and had no room.
      windows: 1 if nothing of the window can be missing: its row stays padding.
    """

    mlm: int = 0
    cpc: int = 0
    windows: int = 0


class RowBuilder(Protocol):
    """How windows of text become rows of a batch.

    Attributes:
      schema: of the batch.
    """

    schema: Schema

    def empty(self, rows: int) -> Batch:
        """A batch of padding, with zero weights."""

    def fill(
        self, batch: Batch, row: int, window: PackedWindow, rng: np.random.Generator
    ) -> Overflow:
        """Writes a window into a row of an empty batch.

        Args:
          batch: of `empty`.
          row: which row.
          window: the text.
          rng: `masking.generator` of this example.
        """


class EpochWindows(Protocol):
    """The windows of one epoch."""

    def read(self, cache: TokenCache, index: int) -> PackedWindow:
        """Gathers the text of one window from the cache."""


class Plan(Protocol):
    """Which text shares a window, such as `packing.PackingPlan`.

    Attributes:
      num_windows: of an epoch.
      counts: what is in them and what was left out.
    """

    num_windows: int
    counts: Counts

    def in_epoch(self, seed: int, epoch: int, source: int = 0) -> EpochWindows:
        """The windows of an epoch, a function of the arguments.

        Args:
          seed: of the run.
          epoch: 0, 1, ...
          source: which text of a mixture.
        """


Text = tuple[TokenCache, Plan]
Packing = Literal["best_fit", "concatenated"]


def planned(
    cache: TokenCache,
    packing: Packing,
    *,
    global_length: int | None = None,
    **options: Any,
) -> Plan:
    """Which text of a cache shares a window.

    Args:
      cache: the text.
      packing: see `source_configs.TextConfig`.
      global_length: see `packing.pack`; concatenated text has no global tokens.
      **options: of `packing.pack`, or of `concatenation.Concatenation`.

    Raises:
      ValueError: if the options do not go with the text or with each other.
    """
    if packing == "best_fit":
        return pack(cache, global_length=global_length, **options)
    choice(get_args(Packing)).check(packing=packing)
    if global_length is not None:
        raise ValueError(
            f"global_length is {global_length}, but concatenated text has no global "
            "tokens; leave it out, or set packing='best_fit'"
        )
    return Concatenation(cache, **options)


class _ExampleId(NamedTuple):
    """Which example: a window of an epoch of a source."""

    source: int
    epoch: int
    window: int


class _Source:
    """The windows of one text, in epochs that are each shuffled anew."""

    def __init__(
        self,
        cache: TokenCache,
        plan: Plan,
        *,
        seed: int,
        number: int,
        first_document: int,
    ):
        self.cache, self.plan = cache, plan
        self._seed, self._number = seed, number
        self._first_document = first_document
        self._permutation = Permutations(plan.num_windows, seed=seed, source=number)
        # Windows, MLM and CPC overflow, windows that were left out.
        self._built = np.zeros(4, np.int64)

    def shuffled(self, index: int) -> _ExampleId:
        """The example at an index of the endless row of epochs."""
        return _ExampleId(self._number, *self._permutation.locate(index))

    def read(self, example: _ExampleId) -> tuple[PackedWindow, np.random.Generator]:
        """The text of an example, and the generator of its masks."""
        rng = masking.generator(
            self._seed, example.epoch, example.window, source=self._number
        )
        windows = self.plan.in_epoch(self._seed, example.epoch, self._number)
        window = windows.read(self.cache, example.window)
        # Documents of two texts must not share a number.
        documents = window.documents + self._first_document
        return window._replace(documents=documents), rng

    def count(self, overflow: Overflow) -> None:
        """Notes one window that was built."""
        self._built += (1, *overflow)

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the examples built so far."""
        windows, mlm, cpc, left_out = self._built.tolist()
        return dataclasses.replace(
            self.plan.counts,
            examples=windows - left_out,
            windows_left_out=left_out,
            mlm_overflow_tokens=mlm,
            cpc_overflow_sentences=cpc,
        )


class TextReader:
    """Builds the batch of any step from the windows of one text or of several.

    In training, the batch of step s holds the positions `s * batch_size` and on of
    the endless row of epochs, each a new permutation of the windows with new masks.
    In evaluation there is the first epoch alone, its windows in order, always with the
    same masks, and the rows that are left in the last batch are padding with zero
    weights.

    Of several texts, position p of the data is example i of text t, with (t, i) =
    `mixture.locate(p)`, and the examples of a text are its epochs, one after the other.
    So a text of small weight is not finished when another one begins its second epoch.

    Attributes:
      rows: how windows become rows.
      described_rows: of a batch, by which a report describes the data; None: all.
    """

    described_rows: BatchRows = None

    def __init__(
        self,
        texts: Sequence[Text],
        rows: RowBuilder,
        *,
        batch_size: int,
        seed: int,
        mixture: Mixture | None = None,
        evaluation: bool = False,
    ):
        """See the class.

        Args:
          texts: (cache, plan) of each.
          rows: how windows become rows.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations and masks.
          mixture: whose weights are those of `texts`, in the same order; None: there is
            one text.
          evaluation: one fixed epoch of one text instead of endless ones.

        Raises:
          ValueError: if a number is out of range, or texts and mixture do not go
            together.
        """
        check_draws(batch_size, seed)
        number = 1 if mixture is None else len(mixture.rates)
        if len(texts) != number:
            raise ValueError(
                f"the mixture has {number} weights, but there are {len(texts)} texts; "
                "give one weight for each"
            )
        self.rows, self._batch_size = rows, batch_size
        self._mixture, self._evaluation = mixture, evaluation
        # CPC leaves out negatives of the same document: numbers differ over texts.
        first_documents = np.cumsum([0] + [cache.num_documents for cache, _ in texts])
        self._sources = [
            _Source(
                cache, plan, seed=seed, number=i, first_document=int(first_documents[i])
            )
            for i, (cache, plan) in enumerate(texts)
        ]

    @property
    def schema(self) -> Schema:
        """Of the batches."""
        return self.rows.schema

    @property
    def num_examples(self) -> int:
        """Windows of an epoch; of several texts, of an epoch of each."""
        return sum(source.plan.num_windows for source in self._sources)

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every window was seen: the last one may begin a new epoch."""
        return -(-self.num_examples // self._batch_size)

    @property
    def source_counts(self) -> tuple[Counts, ...]:
        """What became of each text, with overflow in the batches built so far."""
        return tuple(source.counts for source in self._sources)

    def batch_at(self, step: int, rows: BatchRows = None) -> dict[str, Any]:
        """The batch of one step by its schema, `[b, ...]`, whatever was read before.

        Args:
          step: 0, 1, ...; in evaluation below `steps_per_epoch`.
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        if self._evaluation:
            check_step(step, self.steps_per_epoch)
        row_positions = positions(step, self._batch_size, rows)
        batch = self.rows.empty(len(row_positions))
        for row, position in enumerate(row_positions):
            if (example := self._example_at(position)) is not None:
                source = self._source(example.source)
                window, rng = source.read(example)
                source.count(self.rows.fill(batch, row, window, rng))
        return batch

    def _source(self, number: int) -> _Source:
        return self._sources[number]

    def _example_at(self, position: int) -> _ExampleId | None:
        if self._evaluation:
            return _ExampleId(0, 0, position) if position < self.num_examples else None
        if self._mixture is None:
            return self._sources[0].shuffled(position)
        source, index = self._mixture.locate(position)
        return self._sources[source].shuffled(index)


class RowReader(TextReader):
    """Batches of which each row has a part of one text of its own.

    Row r of a batch of B rows is of `cache.part(r, B)`: at step s it holds window s of
    the endless row of epochs of that part. Hosts that share a batch plan the windows of
    their rows alone: those of the whole of a very large text would fill the memory of
    each. On more or fewer hosts the rows stay the same; with another batch size they do
    not.

    Attributes:
      num_examples: None: nobody plans all of the text.
    """

    num_examples = steps_per_epoch = None
    described_rows = slice(0, 16)

    def __init__(
        self,
        cache: TokenCache,
        plan_fn: Callable[[TokenCache], Plan],
        rows: RowBuilder,
        *,
        batch_size: int,
        seed: int,
    ):
        """See the class.

        Args:
          cache: the text.
          plan_fn: from a part to its windows; a function of a module, or a partial of
            one, where other processes build batches.
          rows: how windows become rows.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations and masks.

        Raises:
          ValueError: if a number is out of range, or the text has fewer documents than
            a batch has rows; while reading, if a part has no window.
        """
        check_draws(batch_size, seed)
        if cache.num_documents < batch_size:
            raise ValueError(
                f"{cache.path} has {cache.num_documents} documents, too few for "
                f"{batch_size} rows that each have some of their own; unset "
                "data.part_per_row"
            )
        self.rows, self._batch_size = rows, batch_size
        self._evaluation = False
        self._cache, self._plan_fn, self._seed = cache, plan_fn, seed
        self._opened: dict[int, _Source] = {}

    @property
    def source_counts(self) -> tuple[Counts, ...]:
        """What became of each part that was read so far."""
        return tuple(source.counts for source in self._opened.values())

    def _source(self, number: int) -> _Source:
        if number not in self._opened:
            part = self._cache.part(number, self._batch_size)
            first, _ = self._cache.part_borders(number, self._batch_size)
            self._opened[number] = _Source(
                part,
                self._plan_fn(part),
                seed=self._seed,
                number=number,
                first_document=first,
            )
        return self._opened[number]

    def _example_at(self, position: int) -> _ExampleId:
        step, row = divmod(position, self._batch_size)
        return self._source(row).shuffled(step)
