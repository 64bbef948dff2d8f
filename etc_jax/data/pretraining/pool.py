"""The CPC evaluation pool: fixed sentences of validation text, each masked once."""

from __future__ import annotations

import numpy as np

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import (
    Batch,
    PretrainingSizes,
    check_together,
    empty_batch,
    fill_row,
    fitting_sentences,
)
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import PackedWindow, PackingPlan
from etc_jax.data.tokenizers.tokenizer import TokenIds

# Windows of a large text that are looked at for each sentence of the pool.
_WINDOWS_PER_SENTENCE = 16
# Shorter sentences are too much alike to be distinguished.
_MIN_TOKENS = 8


def cpc_pool(
    cache: TokenCache,
    plan: PackingPlan,
    ids: TokenIds,
    sizes: PretrainingSizes,
    *,
    batch_size: int,
    count: int = 256,
    seed: int = 0,
    shares: masking.MaskingShares | None = None,
) -> list[Batch]:
    """Batches in which a fixed pool of sentences, and no other, is masked for CPC.

    For measuring how often the prediction for a masked sentence finds its own target
    among all targets of the pool. Documents are drawn on in turn, so that the pool
    comes from as many as there are, up to half as many as sentences (of very much text,
    those of some windows drawn at random are looked at); no sentence occurs twice. At
    most a share `shares.cpc` of an example's sentences is masked (one at least), so a
    window may serve several examples. MLM masks are applied as in training.

    Args:
      cache: the validation text.
      plan: its windows.
      ids: special ids.
      sizes: lengths of the batch.
      batch_size: rows of a batch; rows left in the last one are padding.
      count: sentences of the pool: the sum of all `cpc_weights`.
      seed: of the choice and of the MLM masks.
      shares: what is masked; None: as in the paper.

    Raises:
      ValueError: if there are not that many eligible sentences.
    """
    shares = shares or masking.MaskingShares()
    check_together(cache, plan, ids, sizes, shares)
    if not sizes.has_cpc:
        raise ValueError("a CPC pool needs CPC: shares.cpc and the cpc_ lengths are 0")
    drawn = _some_windows(plan.num_windows, _WINDOWS_PER_SENTENCE * count, seed)
    windows = {i: plan.read(cache, i) for i in drawn}
    pool = _choose_pool(windows, sizes, count, seed)
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


def _some_windows(num_windows: int, most: int, seed: int) -> list[int]:
    """All windows, or `most` of them drawn at random, in order."""
    if num_windows <= most:
        return list(range(num_windows))
    rng = masking.generator(seed, 0, 1, stream=masking.POOL)
    return np.sort(rng.choice(num_windows, most, replace=False)).tolist()


def _choose_pool(
    windows: dict[int, PackedWindow], sizes, count, seed
) -> list[tuple[int, int]]:
    """(window, sentence) of each sentence of the pool."""
    by_document: dict[int, list[tuple[int, int]]] = {}
    seen: set[bytes] = set()
    for w, window in windows.items():
        if len(window.lengths) < 2:
            continue  # masking its only sentence would leave nothing to predict from
        ends = np.cumsum(window.lengths)
        for s, (end, length) in enumerate(zip(ends, window.lengths, strict=True)):
            # Equal sentences could not be distinguished as targets.
            text = window.tokens[end - length : end].tobytes()
            if _MIN_TOKENS <= length <= sizes.cpc_long_length and text not in seen:
                seen.add(text)
                by_document.setdefault(int(window.documents[s]), []).append((w, s))
    total = sum(map(len, by_document.values()))
    if total < count:
        raise ValueError(
            f"a CPC pool of {count} needs as many different sentences of {_MIN_TOKENS} "
            f"to {sizes.cpc_long_length} tokens in the validation text, got {total}; "
            "raise data.validation_fraction or use more text"
        )
    return _in_turn(by_document, count, seed)


def _in_turn(by_document, count, seed) -> list[tuple[int, int]]:
    """`count` values, one of each document in turn, both in random order."""
    rng = masking.generator(seed, 0, 0, stream=masking.POOL)
    documents = [by_document[d] for d in sorted(by_document)]
    order = rng.permutation(len(documents))
    # Half as many documents as values, if that is enough: most of them give several,
    # so that sentences of one document can be distinguished from those of others.
    enough = np.searchsorted(np.cumsum([len(documents[d]) for d in order]), count) + 1
    shuffled = [
        [documents[d][i] for i in rng.permutation(len(documents[d]))]
        for d in order[: max(count // 2, enough)]
    ]
    rounds = max(map(len, shuffled))
    # One sentence of each document, then the second of each, ...
    in_turn = (x[turn] for turn in range(rounds) for x in shuffled if turn < len(x))
    return [value for value, _ in zip(in_turn, range(count), strict=False)]


def _pool_examples(
    pool, windows: dict[int, PackedWindow], sizes, share
) -> list[tuple[int, np.ndarray]]:
    """(window, sentences to mask) of each example, in the order of windows."""
    waiting: dict[int, list[int]] = {}
    for w, s in pool:
        waiting.setdefault(w, []).append(s)
    examples = []
    for w in sorted(waiting):
        left = np.array(waiting[w])
        # As in training, which masks no larger share of a window.
        most = max(1, int(share * len(windows[w].lengths)))
        while len(left):
            chosen = fitting_sentences(left[:most], windows[w].lengths, sizes)
            examples.append((w, chosen))
            left = left[~np.isin(left, chosen)]
    return examples
