"""Which sentences and words of an example are masked (Ainslie et al. 2020, app. C).

10 % of the sentences are masked whole for CPC, then 15 % of the remaining tokens, by
whole words, for MLM. Every draw comes from a counter-based generator placed by
(seed, source, epoch, index): an example is a function of these numbers.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from etc_jax.base.rules import number


@dataclasses.dataclass(frozen=True)
class MaskingShares:
    """How much is masked.

    Attributes:
      cpc: share of the sentences masked for CPC; 0: no CPC at all.
      mlm: share of the remaining tokens chosen for MLM.
      replace_by_mask, replace_by_random: shares of the chosen tokens; the rest are
        shown as they are (BERT: 80 %, 10 %, 10 %; the ETC paper does not say).
    """

    cpc: float = 0.1
    mlm: float = 0.15
    replace_by_mask: float = 0.8
    replace_by_random: float = 0.1

    def __post_init__(self):
        number(0, 1).check(**vars(self))
        if self.replace_by_mask + self.replace_by_random > 1.0:
            raise ValueError(
                f"replace_by_mask {self.replace_by_mask} + replace_by_random "
                f"{self.replace_by_random} is more than 1; lower one"
            )


def capacity(need: float, most: int, multiple: int = 8) -> int:
    """Places in a row for a need: a multiple, at least one and at most `most`."""
    return min(max(int(-(-need // multiple)) * multiple, multiple), most)


def mlm_capacity(length: int, share: float) -> int:
    """Places for masked tokens, with room to spare: 1.25 times the mean need.

    Args:
      length: tokens of a row.
      share: of them that are masked.
    """
    return capacity(1.25 * share * length, length)


EXAMPLE, PERMUTATION, POOL, DOCUMENTS = range(4)


def generator(
    seed: int, epoch: int, index: int, *, stream: int = EXAMPLE, source: int = 0
) -> np.random.Generator:
    """The generator of one example (or of another stream).

    The position is put into the high words of Philox's counter, so two positions never
    share a draw; draws count up the lowest word.

    Args:
      seed: 0 .. 2**64 - 1, and so the next two.
      epoch: pass over the data.
      index: of the example.
      stream: what is drawn: EXAMPLE, PERMUTATION, POOL or DOCUMENTS.
      source: which text of a mixture.
    """
    key = np.array([seed, stream], np.uint64)
    counter = np.array([0, source, epoch, index], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def select_cpc_sentences(
    rng: np.random.Generator, num_sentences: int, share: float
) -> np.ndarray:
    """Sentences to mask, uniform without repeats, in random order: int `[selected]`.

    Their number is `share * num_sentences` in the mean (stochastic rounding), but at
    least one of two or more sentences, and never all.
    """
    if num_sentences < 2 or not share:
        return np.zeros(0, np.int64)
    # Rounded up with the chance of the fraction.
    count = int(share * num_sentences + rng.random())
    count = min(max(count, 1), num_sentences - 1)
    return rng.permutation(num_sentences)[:count]


def select_words(
    rng: np.random.Generator, word_starts: np.ndarray, share: float, capacity: int
) -> tuple[np.ndarray, int]:
    """Chooses whole words that hold `share` of the tokens, exactly so in the mean.

    Args:
      rng: source of the draws.
      word_starts: bool `[tokens]`; the first is True.
      share: share of the tokens wanted.
      capacity: tokens chosen at most.

    Returns:
      (bool `[tokens]`: chosen; tokens that were chosen but exceed the capacity).
    """
    if not len(word_starts):
        return np.zeros(0, bool), 0
    starts = np.flatnonzero(word_starts)
    lengths = np.diff(starts, append=len(word_starts))
    order = rng.permutation(len(lengths))
    # Tokens of the first words in the drawn order: [words].
    total = np.cumsum(lengths[order])
    budget = share * len(word_starts)
    count = int(np.searchsorted(total, budget, "right"))
    if count < len(order):
        # The word across the budget is taken with the chance that makes it exact.
        missing = budget - (total[count - 1] if count else 0)
        count += bool(rng.random() * lengths[order[count]] < missing)
    # Words in the drawn order until the capacity is full: chance decides which.
    fitting = min(count, int(np.searchsorted(total, capacity, "right")))
    chosen = np.zeros(len(lengths), bool)
    chosen[order[:fitting]] = True
    overflow = int(lengths[order[fitting:count]].sum())
    return np.repeat(chosen, lengths), overflow


def corrupt(
    rng: np.random.Generator,
    targets: np.ndarray,
    shares: MaskingShares,
    *,
    mask_id: int,
    random_ids: tuple[int, int],
) -> np.ndarray:
    """What stands in place of tokens chosen for MLM: `[k]`, like `targets`.

    Args:
      rng: source of the draws; one decision per token, as in BERT.
      targets: int `[k]` original ids.
      shares: how many become the mask, a random id, or stay.
      mask_id: the mask.
      random_ids: (first, one past the last) id of regular tokens.
    """
    draw = rng.random(len(targets))
    # Drawn for every token, so that later draws do not depend on earlier ones.
    random = rng.integers(*random_ids, len(targets), dtype=targets.dtype)
    shown = np.where(
        draw < shares.replace_by_mask + shares.replace_by_random, random, targets
    )
    return np.where(draw < shares.replace_by_mask, mask_id, shown)
