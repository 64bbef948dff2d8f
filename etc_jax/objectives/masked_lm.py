"""Masked language modelling of one sequence of tokens (Devlin et al. 2018).

Of the tokens, 15 % are chosen; a model that sees both sides says what they were. The
vocabulary's logits are worked out at these places alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.tokens import streams, token_sums
from etc_jax.training.job import MEAN_LOSS, Sums

# The kind under which families register their modules.
MODELS = "masked_lm_model"


class MaskedModel(Protocol):
    """A module of a family of encoders that this objective trains.

    Registered as `@registry.register("masked_lm_model", FAMILY)` on a Linen class that
    is made by `(config, deterministic)`. The config has `vocab_size` and `max_length`.
    """

    def __call__(self, tokens: jax.Array) -> Any:
        """int `[b, n]`; makes every parameter in `init`."""

    def masked_losses(
        self,
        tokens: jax.Array,
        example_ids: jax.Array,
        positions: jax.Array,
        targets: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Cross entropy of some tokens.

        Args:
          tokens: int `[b, n]`, masks applied.
          example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other.
          positions: int `[b, p]`, in 0..n - 1.
          targets: int `[b, p]`.

        Returns:
          (float32 `[b, p]` in nats, bool `[b, p]`: whether a target is the likeliest).
        """


@dataclasses.dataclass(frozen=True)
class MaskedLm:
    """Parameters and loss.

    Attributes:
      model: config of the model.
      module: the class registered for its family; see `MaskedModel`.
    """

    loss_weights: ClassVar[Mapping[str, float]] = MEAN_LOSS

    model: Any
    module: type

    def init(self, rng: jax.Array) -> Any:
        """Parameters from a scalar key; their sizes do not depend on the length."""
        tokens = jnp.zeros((1, 1), jnp.int32)
        return self.module(self.model).init(rng, tokens)["params"]

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Loss and metrics of the places of weight 1, as (sum, weight).

        Args:
          params: of `init`.
          batch: see `data.text.packed`.
          rng: of dropout and hashing.
          deterministic: neither of both is drawn.

        Returns:
          {"loss": in nats, "bits": the loss in bits, "accuracy", "overflow": share of
          the chosen tokens that had no room}.
        """
        module = self.module(self.model, deterministic)
        names = ("tokens", "example_ids", "mlm_positions", "mlm_targets")
        losses, hits = module.apply(
            {"params": params},
            *(batch[name] for name in names),
            method=module.masked_losses,
            rngs=streams(rng, deterministic),
        )
        sums = token_sums(losses, hits, batch["mlm_weights"])
        left_out = jnp.sum(batch["mlm_overflow"]).astype(jnp.float32)
        sums["overflow"] = (left_out, left_out + sums["loss"][1])
        return sums
