"""Language models: each token is predicted from the ones before it."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.tokens import mean_and_sums, streams
from etc_jax.training.job import Sums


class CausalModel(Protocol):
    """A module of a family of language models that this objective trains.

    Registered as `@registry.register("causal_lm_model", FAMILY)` on a Linen class that
    is made by `(config, deterministic)`. The config has `causal`, which is True for
    every model that is trained, and `vocab_size`.
    """

    def __call__(self, tokens: jax.Array) -> Any:
        """int `[b, n]`; makes every parameter in `init`."""

    def losses(
        self,
        tokens: jax.Array,
        targets: jax.Array,
        example_ids: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """Cross entropy of each target, given its token and those before it.

        Args:
          tokens: int `[b, n]`.
          targets: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other. None: every row is one.

        Returns:
          (float32 `[b, n]` in nats, bool `[b, n]`: whether a target is the likeliest).
        """


@dataclasses.dataclass(frozen=True)
class CausalLm:
    """Parameters and loss.

    Attributes:
      model: config of the model.
      module: the class registered for its family; see `CausalModel`.
    """

    model: Any
    module: type

    def init(self, rng: jax.Array) -> Any:
        """Parameters; their sizes do not depend on the length."""
        tokens = jnp.zeros((1, 1), jnp.int32)
        return self.module(self.model).init(rng, tokens)["params"]

    def loss(self, params, batch, rng, deterministic: bool) -> tuple[jax.Array, Sums]:
        """Mean loss over the targets of weight 1, and metrics as (sum, weight).

        Args:
          params: of `init`.
          batch: see `data.text.packed`.
          rng: of dropout and hashing.
          deterministic: no dropout, and rotations by the model's hash_seed.

        Returns:
          (nats a token, {"loss", "bits": bits a token, "accuracy"}).
        """
        module = self.module(self.model, deterministic)
        losses, hits = module.apply(
            {"params": params},
            batch["tokens"],
            batch["targets"],
            batch.get("example_ids"),
            method=module.losses,
            rngs=streams(rng, deterministic),
        )
        return mean_and_sums(losses, hits, batch["target_weights"])
