"""The index-based readers of batches of MLM and CPC; keys are in `examples`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class MixtureReader(TextReader):
    """Batches from one text or several."""

    def __init__(
        self,
        texts: Sequence[PackedText],
        mixture: Mixture | None,
        ids: TokenIds,
        sizes: PretrainingSizes,
        *,
        shares: MaskingShares | None = None,
        **options: Any,
    ):
        """See `TextReader`.

        Args:
          texts: (cache, plan) of each source of the mixture.
          mixture: see `TextReader`.
          ids: special ids, `Tokenizer.token_ids`; all caches have the same vocabulary.
          sizes: lengths of the batch; windows must fit in.
          shares: what is masked; None: as in the paper.
          **options: `batch_size`, `seed` and `evaluation` of `TextReader`.

        Raises:
          ValueError: if caches, plans, sizes, shares and vocabulary do not go together.
        """
        shares = shares or MaskingShares()
        for cache, plan in texts:
            check_together(cache, plan, ids, sizes, shares)
        rows = PretrainingRows(ids, sizes, shares)
        super().__init__(texts, rows, mixture=mixture, **options)


class PretrainingReader(MixtureReader):
    """Batches of one text."""

    def __init__(
        self,
        cache: TokenCache,
        plan: PackingPlan,
        ids: TokenIds,
        sizes: PretrainingSizes,
        **options: Any,
    ):
        """See `MixtureReader`, of a cache and windows of `packing.pack(cache)`."""
        super().__init__([(cache, plan)], None, ids, sizes, **options)

    @property
    def counts(self) -> Counts:
        """What became of the text, with overflow in the batches built so far."""
        [counts] = self.source_counts
        return counts
