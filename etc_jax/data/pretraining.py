"""The index-based readers of pre-training batches.

A batch is a function of the step: nothing is kept between batches, so the state of
the data in a checkpoint is the step alone, and resuming is exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.data import masking
from etc_jax.data.cache import TokenCache
from etc_jax.data.epochs import (
    BatchRows,
    Permutations,
    check_draws,
    check_step,
    positions,
)
from etc_jax.data.examples import (
    Batch,
    PretrainingSizes,
    Window,
    build_row,
    check_together,
    empty_batch,
    read_window,
)
from etc_jax.data.mixture import Mixture
from etc_jax.data.packing import Counts, PackingPlan
from etc_jax.data.tokenizer import TokenIds


class _Place(NamedTuple):
    """Where the text of an example stands."""

    source: int
    epoch: int
    window: int


class _Source:
    """The windows of one text, in epochs that are each shuffled anew."""

    def __init__(
        self,
        cache: TokenCache,
        plan: PackingPlan,
        *,
        seed: int,
        number: int,
        first_document: int,
    ):
        self.cache, self.plan = cache, plan
        self._seed, self._number = seed, number
        self._first_document = first_document
        self._permutation = Permutations(plan.num_windows, seed=seed, source=number)
        self._built = np.zeros(3, np.int64)  # examples, MLM and CPC overflow

    def shuffled(self, index: int) -> _Place:
        """The place of one example of the endless row of epochs."""
        return _Place(self._number, *self._permutation.locate(index))

    def read(self, place: _Place) -> tuple[Window, np.random.Generator]:
        """The text of a place, and the generator of its masks."""
        rng = masking.generator(
            self._seed, place.epoch, place.window, source=self._number
        )
        window = read_window(self.cache, self.plan, place.window)
        # Documents of two texts must not share a number.
        documents = window.documents + self._first_document
        return window._replace(documents=documents), rng

    def count(self, mlm_overflow: int, cpc_overflow: int) -> None:
        """Notes one example that was built."""
        self._built += (1, mlm_overflow, cpc_overflow)

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the examples built so far."""
        examples, mlm, cpc = self._built.tolist()
        return dataclasses.replace(
            self.plan.counts,
            examples=examples,
            mlm_overflow_tokens=mlm,
            cpc_overflow_sentences=cpc,
        )


class _Reader:
    """What the readers share: `_place` says what each position of the data holds."""

    def __init__(
        self,
        texts: Sequence[tuple[TokenCache, PackingPlan]],
        ids: TokenIds,
        sizes: PretrainingSizes,
        *,
        batch_size: int,
        seed: int,
        shares: masking.MaskingShares | None,
    ):
        check_draws(batch_size, seed)
        shares = shares or masking.MaskingShares()
        for cache, plan in texts:
            check_together(cache, plan, ids, sizes, shares)
        self._ids, self._sizes, self._shares = ids, sizes, shares
        self._batch_size = batch_size
        first = np.cumsum([0] + [cache.num_documents for cache, _ in texts])
        self._sources = [
            _Source(cache, plan, seed=seed, number=i, first_document=int(first[i]))
            for i, (cache, plan) in enumerate(texts)
        ]

    @property
    def source_counts(self) -> tuple[Counts, ...]:
        """What became of each text, with overflow in the batches built so far."""
        return tuple(source.counts for source in self._sources)

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """The batch of one step, whatever was read before.

        Args:
          step: 0, 1, ...; in evaluation below `steps_per_epoch`.
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        places = positions(step, self._batch_size, rows)
        batch = empty_batch(len(places), self._sizes, self._ids)
        for row, position in enumerate(places):
            place = self._place(position)
            if place is not None:
                self._build(batch, row, place)
        return batch

    def _place(self, position: int) -> _Place | None:
        raise NotImplementedError

    def _build(self, batch: Batch, row: int, place: _Place) -> None:
        source = self._sources[place.source]
        window, rng = source.read(place)
        build_row(
            batch,
            row,
            window,
            rng,
            ids=self._ids,
            shares=self._shares,
            sizes=self._sizes,
        )
        cpc = int(batch["cpc_overflow"][row]) if self._sizes.has_cpc else 0
        source.count(int(batch["mlm_overflow"][row]), cpc)


class PretrainingReader(_Reader):
    """Builds the batch of any step; keys and shapes are in `examples`.

    In training, the batch of step s holds the positions `s * batch_size` and on of
    the endless row of epochs, each a new permutation of the windows with new masks.
    In evaluation there is one epoch, in order, always with the same masks, and the
    rows that are left in the last batch are padding with zero weights.
    """

    def __init__(
        self,
        cache: TokenCache,
        plan: PackingPlan,
        ids: TokenIds,
        sizes: PretrainingSizes,
        *,
        batch_size: int,
        seed: int,
        evaluation: bool = False,
        shares: masking.MaskingShares | None = None,
    ):
        """See the class.

        Args:
          cache: the text.
          plan: windows, of `packing.pack(cache)`.
          ids: special ids, `Tokenizer.token_ids`.
          sizes: lengths of the batch; windows must fit in.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations and masks.
          evaluation: one fixed epoch instead of endless ones.
          shares: what is masked; None: as in the paper.

        Raises:
          ValueError: if cache, plan, sizes, shares and vocabulary do not go together.
        """
        super().__init__(
            [(cache, plan)],
            ids,
            sizes,
            batch_size=batch_size,
            seed=seed,
            shares=shares,
        )
        self._evaluation = evaluation

    @property
    def num_examples(self) -> int:
        """Windows of an epoch."""
        return self._sources[0].plan.num_windows

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every window was seen: the last one may begin a new epoch."""
        return -(-self.num_examples // self._batch_size)

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the batches built so far."""
        return self._sources[0].counts

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        if self._evaluation:
            check_step(step, self.steps_per_epoch)
        return super().batch_at(step, rows)

    batch_at.__doc__ = _Reader.batch_at.__doc__

    def _place(self, position: int) -> _Place | None:
        if not self._evaluation:
            return self._sources[0].shuffled(position)
        return _Place(0, 0, position) if position < self.num_examples else None


class MixtureReader(_Reader):
    """Training batches from several texts; keys and shapes are in `examples`.

    Position p of the data is example i of text t, with (t, i) = `mixture.locate(p)`,
    and the examples of a text are its epochs, one after the other, each a new
    permutation with new masks of its own. So a text of small weight is not finished
    when another one begins its second epoch.
    """

    def __init__(
        self,
        texts: Sequence[tuple[TokenCache, PackingPlan]],
        mixture: Mixture,
        ids: TokenIds,
        sizes: PretrainingSizes,
        *,
        batch_size: int,
        seed: int,
        shares: masking.MaskingShares | None = None,
    ):
        """See the class.

        Args:
          texts: (cache, plan) of each source of the mixture.
          mixture: whose weights are those of `texts`, in the same order.
          ids: special ids; all caches have the same vocabulary.
          sizes: lengths of the batch; windows must fit in.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations and masks.
          shares: what is masked; None: as in the paper.

        Raises:
          ValueError: if caches, plans, sizes, shares and vocabulary do not go together.
        """
        if len(texts) != len(mixture.rates):
            raise ValueError(
                f"the mixture has {len(mixture.rates)} weights, but there are "
                f"{len(texts)} texts; give one weight for each"
            )
        super().__init__(
            texts, ids, sizes, batch_size=batch_size, seed=seed, shares=shares
        )
        self._mixture = mixture

    def _place(self, position: int) -> _Place:
        source, index = self._mixture.locate(position)
        return self._sources[source].shuffled(index)
