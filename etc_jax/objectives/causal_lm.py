"""Language models: each token is foretold from those before it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.models.reformer import ReformerLm
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.objectives.token_loss import mean_and_sums, streams
from etc_jax.training.job import Sums


@dataclasses.dataclass(frozen=True)
class CausalLm:
    """Parameters and loss.

    Attributes:
      model: config of the model.
    """

    model: ReformerConfig

    def init(self, rng: jax.Array) -> Any:
        """Parameters; their sizes do not depend on the length."""
        tokens = jnp.zeros((1, 1), jnp.int32)
        return ReformerLm(self.model).init(rng, tokens)["params"]

    def loss(self, params, batch, rng, deterministic: bool) -> tuple[jax.Array, Sums]:
        """Mean loss over the targets of weight 1, and figures as (sum, weight).

        Args:
          params: of `init`.
          batch: `tokens`, `targets` int `[b, n]` and `weights` `[b, n]`.
          rng: of dropout and hashing.
          deterministic: no dropout, and rotations by the model's hash_seed.

        Returns:
          (nats a token, {"loss", "bits": bits a token, "accuracy"}).
        """
        model = ReformerLm(self.model, deterministic)
        losses, hits = model.apply(
            {"params": params},
            batch["tokens"],
            batch["targets"],
            method=model.losses,
            rngs=streams(rng, deterministic),
        )
        return mean_and_sums(losses, hits, batch["weights"])
