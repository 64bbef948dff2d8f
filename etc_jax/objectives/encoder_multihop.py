"""Fine-tuning encoders of one sequence on questions over several documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.models.encoder_multihop import EncoderForCandidates
from etc_jax.objectives import candidates
from etc_jax.objectives.batch_checks import missing_entries, wrong_padded_places
from etc_jax.objectives.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.finetuning import Sums

CANDIDATES = "candidates"


@registry.register("finetuning", "wikihop_longformer")
class WikihopLongformer(EncoderFinetuning):
    """One of the candidates: outputs are float32 `[b, m]`, a logit for each.

    A batch has `candidates` too, int32 `[b, m]`: places of their tokens, -1 for none.
    """

    def module(self, deterministic: bool) -> EncoderForCandidates:
        return EncoderForCandidates(self.model, deterministic)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), batch[CANDIDATES])

    def smallest_batch(self) -> dict[str, Any]:
        return {**super().smallest_batch(), CANDIDATES: jnp.zeros((1, 1), jnp.int32)}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        yield from super().wrong_inputs(batch)
        if missing := missing_entries(batch, [CANDIDATES]):
            yield from missing
            return
        yield from wrong_padded_places(batch, CANDIDATES, "long_tokens")

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        total, hits, examples = candidates.choice(
            outputs,
            batch[CANDIDATES] >= 0,
            batch["labels"]["candidate"],
            batch["weights"],
        )
        return total, {"accuracy": (hits, examples)}
