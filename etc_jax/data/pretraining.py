"""The index-based reader of pre-training batches, and the CPC evaluation pool.

A batch is a function of the step: nothing is kept between batches, so the state of
the data in a checkpoint is the step alone, and resuming is exact.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from etc_jax.data import masking
from etc_jax.data.cache import TokenCache
from etc_jax.data.examples import (
    Batch,
    PretrainingSizes,
    Window,
    empty_batch,
    fill_row,
    fitting_sentences,
    read_window,
)
from etc_jax.data.packing import Counts, PackingPlan
from etc_jax.data.tokenizer import TokenIds


class PretrainingReader:
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
          ValueError: if cache, plan, sizes and vocabulary do not go together.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, got {seed}")
        _check_together(cache, plan, ids, sizes)
        self._cache, self._plan, self._ids, self._sizes = cache, plan, ids, sizes
        self._batch_size, self._seed = batch_size, seed
        self._evaluation = evaluation
        self._shares = shares or masking.MaskingShares()
        self._examples = self._mlm_overflow = self._cpc_overflow = 0
        # Steps walk through epochs, so two permutations serve every batch.
        self._permutation = functools.lru_cache(maxsize=2)(self._make_permutation)

    @property
    def num_examples(self) -> int:
        """Windows of an epoch."""
        return self._plan.num_windows

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every window was seen: the last one may begin a new epoch."""
        return -(-self.num_examples // self._batch_size)

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the batches built so far."""
        return dataclasses.replace(
            self._plan.counts,
            examples=self._examples,
            mlm_overflow_tokens=self._mlm_overflow,
            cpc_overflow_sentences=self._cpc_overflow,
        )

    def batch_at(
        self, step: int, rows: slice | Sequence[int] | np.ndarray | None = None
    ) -> Batch:
        """The batch of one step, whatever was read before.

        Args:
          step: 0, 1, ...; in evaluation below `steps_per_epoch`.
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        if step < 0 or (self._evaluation and step >= self.steps_per_epoch):
            limit = (
                f"0..{self.steps_per_epoch - 1}" if self._evaluation else "0 or more"
            )
            raise IndexError(f"no batch for step {step}; expected {limit}")
        picked = np.arange(self._batch_size)
        if rows is not None:
            picked = picked[rows if isinstance(rows, slice) else np.array(rows, int)]
        batch = empty_batch(len(picked), self._sizes, self._ids)
        for row, offset in enumerate(picked.tolist()):
            position = step * self._batch_size + offset
            epoch, place = divmod(position, self.num_examples)
            if not self._evaluation:
                self._fill(batch, row, epoch, int(self._permutation(epoch)[place]))
            elif not epoch:
                self._fill(batch, row, 0, place)
        return batch

    def _make_permutation(self, epoch: int) -> np.ndarray:
        rng = masking.generator(self._seed, epoch, 0, stream=masking.PERMUTATION)
        return rng.permutation(self.num_examples)

    def _fill(self, batch: Batch, row: int, epoch: int, index: int) -> None:
        window = read_window(self._cache, self._plan, index)
        rng = masking.generator(self._seed, epoch, index)
        selected = masking.select_cpc_sentences(
            rng, len(window.lengths), self._shares.cpc
        )
        fitting = fitting_sentences(selected, window.lengths, self._sizes)
        self._examples += 1
        self._cpc_overflow += len(selected) - len(fitting)
        self._mlm_overflow += fill_row(
            batch, row, window, fitting, rng, ids=self._ids, shares=self._shares
        )


def _check_together(cache, plan, ids, sizes) -> None:
    if plan.sentence_offsets[-1] != cache.num_tokens:
        raise ValueError(
            f"the plan covers {plan.sentence_offsets[-1]} tokens, but {cache.path} has "
            f"{cache.num_tokens}; make the plan from this cache"
        )
    if ids.vocab_size != cache.header["vocab_size"]:
        raise ValueError(
            f"ids are of a vocabulary of {ids.vocab_size}, but {cache.path} was made "
            f"with one of {cache.header['vocab_size']}; use the same tokenizer"
        )
    for name in ("long_length", "global_length"):
        got, room = getattr(plan, name), getattr(sizes, name)
        if got > room:
            raise ValueError(
                f"the plan packs windows of {name} {got}, but sizes.{name} is {room}; "
                "pack with the sizes of the batch"
            )


def cpc_pool(
    cache: TokenCache,
    plan: PackingPlan,
    ids: TokenIds,
    sizes: PretrainingSizes,
    *,
    batch_size: int,
    count: int = 256,
    seed: int = 0,
    min_sentence_tokens: int = 8,
    shares: masking.MaskingShares | None = None,
) -> list[Batch]:
    """Batches in which a fixed pool of sentences, and no other, is masked for CPC.

    For measuring how often the prediction for a masked sentence finds its own target
    among all targets of the pool. Documents are drawn on in turn, so that the pool
    comes from as many as there are; no sentence occurs twice. At most a share
    `shares.cpc` of an example's sentences is masked (one at least), so a window may
    serve several examples. MLM masks are applied as in training.

    Args:
      cache: the held-back text.
      plan: its windows.
      ids: special ids.
      sizes: lengths of the batch.
      batch_size: rows of a batch; rows left in the last one are padding.
      count: sentences of the pool: the sum of all `cpc_weights`.
      seed: of the choice and of the MLM masks.
      min_sentence_tokens: shorter sentences, too much alike, are not eligible.
      shares: what is masked; None: as in the paper.

    Raises:
      ValueError: if there are not that many eligible sentences.
    """
    _check_together(cache, plan, ids, sizes)
    shares = shares or masking.MaskingShares()
    windows = [read_window(cache, plan, i) for i in range(plan.num_windows)]
    pool = _choose_pool(windows, sizes, count, seed, min_sentence_tokens)
    examples = _pool_examples(pool, windows, sizes, shares.cpc)
    batches = []
    for start in range(0, len(examples), batch_size):
        batch = empty_batch(batch_size, sizes, ids)
        for row, (index, chosen) in enumerate(examples[start : start + batch_size]):
            # The number of the example takes the place of the epoch in its seed.
            rng = masking.generator(seed, start + row, index, stream=masking.POOL)
            fill_row(batch, row, windows[index], chosen, rng, ids=ids, shares=shares)
        batches.append(batch)
    return batches


def _choose_pool(
    windows: list[Window], sizes, count, seed, min_tokens
) -> list[tuple[int, int]]:
    """(window, sentence) of each sentence of the pool."""
    by_document: dict[int, list[tuple[int, int]]] = {}
    seen: set[bytes] = set()
    for w, window in enumerate(windows):
        if len(window.lengths) < 2:
            continue  # masking its only sentence would leave nothing to predict from
        ends = np.cumsum(window.lengths)
        for s, (end, length) in enumerate(zip(ends, window.lengths, strict=True)):
            text = window.tokens[end - length : end].tobytes()
            if min_tokens <= length <= sizes.cpc_long_length and text not in seen:
                seen.add(text)
                by_document.setdefault(int(window.documents[s]), []).append((w, s))
    total = sum(map(len, by_document.values()))
    if total < count:
        raise ValueError(
            f"a CPC pool of {count} needs as many different sentences of {min_tokens} "
            f"to {sizes.cpc_long_length} tokens, got {total}; lower count or give more "
            "held-back text"
        )
    return _in_turn(by_document, count, seed)


def _in_turn(by_document, count, seed) -> list[tuple[int, int]]:
    """`count` values, one of each document in turn, both in random order."""
    rng = masking.generator(seed, 0, 0, stream=masking.POOL)
    documents = [by_document[d] for d in sorted(by_document)]
    shuffled = [
        [documents[d][i] for i in rng.permutation(len(documents[d]))]
        for d in rng.permutation(len(documents))
    ]
    rounds = max(map(len, shuffled))
    in_turn = (x[turn] for turn in range(rounds) for x in shuffled if turn < len(x))
    return [value for value, _ in zip(in_turn, range(count), strict=False)]


def _pool_examples(
    pool, windows: list[Window], sizes, share
) -> list[tuple[int, np.ndarray]]:
    """(window, sentences to mask) of each example, in the order of windows."""
    waiting: dict[int, list[int]] = {}
    for w, s in pool:
        waiting.setdefault(w, []).append(s)
    examples = []
    for w in sorted(waiting):
        left = np.array(waiting[w])
        most = max(1, int(share * len(windows[w].lengths)))
        while len(left):
            chosen = fitting_sentences(left[:most], windows[w].lengths, sizes)
            examples.append((w, chosen))
            left = left[~np.isin(left, chosen)]
    return examples
