"""Language models: each token is predicted from the ones before it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from etc_jax.config.sections import R3fConfig
from etc_jax.objectives import r3f
from etc_jax.objectives.losses.tokens import streams, token_sums
from etc_jax.ops.chunked_loss import FactoredLogits
from etc_jax.ops.divergence import of_vocabulary
from etc_jax.training.job import Sums


class CausalModel(Protocol):
    """A module of a family of language models that this objective trains.

    Registered as `@registry.register("causal_lm_model", FAMILY)` on a Linen class that
    is made by `(config, deterministic)`. The config has `causal`, which is True for
    every model that is trained, and `vocab_size`.
    """

    def __call__(self, tokens: jax.Array) -> Any:
        """int `[b, n]`; makes every parameter in `init`."""

    def factored_logits(
        self, tokens: jax.Array, example_ids: jax.Array | None = None
    ) -> FactoredLogits:
        """Logits of what follows each token, given it and those before it.

        Args:
          tokens: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other. None: every row is one.
        """


@dataclasses.dataclass(frozen=True)
class CausalLm:
    """Parameters and loss.

    Attributes:
      model: config of the model.
      module: the class registered for its family; see `CausalModel`.
      r3f: see `objectives.r3f`; all tokens that are read have noise.
    """

    model: Any
    module: type
    r3f: R3fConfig = R3fConfig()

    def init(self, rng: jax.Array) -> Any:
        """Parameters from a scalar key; their sizes do not depend on the length."""
        tokens = jnp.zeros((1, 1), jnp.int32)
        return self.module(self.model).init(rng, tokens)["params"]

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """See `Job.loss_weights`."""
        return r3f.loss_weights(self.r3f)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Loss and metrics of the targets of weight 1, as (sum, weight).

        Args:
          params: of `init`.
          batch: see `data.text.packed`.
          rng: of dropout and hashing.
          deterministic: no dropout, and rotations by the model's hash_seed.

        Returns:
          {"loss": in nats, "bits": the loss in bits, "accuracy", and "r3f" where the
          loss has its term}.
        """
        module = self.module(self.model, deterministic)

        def predicted(rng, noise=contextlib.nullcontext):
            with noise():
                return module.apply(
                    {"params": params},
                    batch["tokens"],
                    batch.get("example_ids"),
                    method=module.factored_logits,
                    rngs=streams(rng, deterministic),
                )

        clean, weights = predicted(rng), batch["target_weights"]
        sums = token_sums(*clean.cross_entropy(batch["targets"]), weights)
        if deterministic or not self.r3f.weight:
            return sums
        noisy = predicted(*r3f.second_pass(self.r3f, rng))
        return sums | r3f.term(of_vocabulary(clean, noisy), weights)
