"""The index-based readers of batches of MLM and CPC; keys are in `examples`."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining.examples import (
    PretrainingRows,
    PretrainingSizes,
    check_together,
)
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import Counts, PackingPlan
from etc_jax.data.text.reader import TextReader
from etc_jax.data.tokenizers.tokenizer import TokenIds

# Global tokens stand for whole sentences, as only best-fit packing has them.
PackedText = tuple[TokenCache, PackingPlan]


class PretrainingReader(TextReader):
    """Batches of one text."""

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
        shares: MaskingShares | None = None,
    ):
        """See `TextReader`.

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
            _rows([(cache, plan)], ids, sizes, shares),
            batch_size=batch_size,
            seed=seed,
            evaluation=evaluation,
        )

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the batches built so far."""
        [counts] = self.source_counts
        return counts


class MixtureReader(TextReader):
    """Training batches from several texts."""

    def __init__(
        self,
        texts: Sequence[PackedText],
        mixture: Mixture,
        ids: TokenIds,
        sizes: PretrainingSizes,
        *,
        batch_size: int,
        seed: int,
        shares: MaskingShares | None = None,
    ):
        """See `TextReader`.

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
        super().__init__(
            texts,
            _rows(texts, ids, sizes, shares),
            batch_size=batch_size,
            seed=seed,
            mixture=mixture,
        )


def _rows(
    texts: Sequence[PackedText],
    ids: TokenIds,
    sizes: PretrainingSizes,
    shares: MaskingShares | None,
) -> PretrainingRows:
    shares = shares or MaskingShares()
    for cache, plan in texts:
        check_together(cache, plan, ids, sizes, shares)
    return PretrainingRows(ids, sizes, shares)
