"""Encoder-decoders: a target is predicted token by token from an input.

Training is by teacher forcing: the decoder reads the target itself, one place later, in
place of what it would have written (Williams & Zipser 1989; Raffel et al. 2020,
section 2.1).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from etc_jax import sharding
from etc_jax.config.sections import R3fConfig
from etc_jax.objectives import r3f
from etc_jax.objectives.losses.tokens import streams, token_sums
from etc_jax.ops.chunked_loss import FactoredLogits
from etc_jax.ops.divergence import of_vocabulary
from etc_jax.training.job import Sums

# The kind under which families register their modules.
MODELS = "seq2seq_model"


class Seq2SeqModel(Protocol):
    """A module of a family of encoder-decoders that this objective trains.

    Registered as `@registry.register("seq2seq_model", FAMILY)` on a Linen class that
    is made by `(config, deterministic)`. The config has `pad_id`, `decoder_start_id`,
    `eos_id` and `vocab_size`, and "text_to_text" among its `formats`.
    """

    def __call__(
        self,
        input_tokens: jax.Array,
        decoder_tokens: jax.Array,
        input_example_ids: jax.Array | None = None,
        target_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
    ) -> jax.Array:
        """float32 logits `[b, m, vocabulary]`; makes every parameter in `init`."""

    def encode(
        self,
        input_tokens: jax.Array,
        input_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
    ) -> Any:
        """What the decoder reads of the input.

        Args:
          input_tokens: int `[b, n]`, what the encoder reads.
          input_example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other. None: every row is one.
          global_index: int `[b, g]`, places of the input that are global, -1 for none;
            None: what the model does by itself.
        """

    def factored_logits(
        self,
        memory: Any,
        decoder_tokens: jax.Array,
        target_example_ids: jax.Array | None = None,
    ) -> FactoredLogits:
        """Logits of each target, given its input and the targets before it.

        Args:
          memory: of `encode`.
          decoder_tokens: int `[b, m]`, what the decoder reads: see `shifted_right`.
          target_example_ids: int `[b, m]`; a target sees the input of the same number.
        """


def shifted_right(
    targets: jax.Array, example_ids: jax.Array, *, start_id: int, pad_id: int
) -> jax.Array:
    """What the decoder reads: each target one place later, `start_id` before the first.

    Of packed examples each begins with `start_id` anew: nothing of one leads over to
    the next. The last token of an example is learnt, but read by nothing.

    Args:
      targets: int `[b, m]`.
      example_ids: int `[b, m]`, equal for the neighbours of one example; 0: padding.
      start_id: `</s>` for BART, the padding's id for T5.
      pad_id: what stands in padding.

    Returns:
      int `[b, m]`, of the type of `targets`.
    """
    before = jnp.roll(targets, 1, axis=1)
    is_first = example_ids != jnp.roll(example_ids, 1, axis=1)
    # The last token of a row, which rolls in, may be of the same number.
    is_first |= jnp.arange(targets.shape[1])[None] == 0
    read = jnp.where(is_first, start_id, before)
    return jnp.where(example_ids > 0, read, pad_id).astype(targets.dtype)


@dataclasses.dataclass(frozen=True)
class Seq2Seq:
    """Parameters and loss.

    Attributes:
      model: config of the model.
      module: the class registered for its family; see `Seq2SeqModel`.
      label_smoothing, z_loss: of the training loss; see
        `ops.chunked_loss.cross_entropy`. As dropout, they are left out of evaluation.
      r3f: see `objectives.r3f`; the tokens that the encoder reads have noise.
    """

    model: Any
    module: type
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    r3f: R3fConfig = R3fConfig()

    def init(self, rng: jax.Array) -> Any:
        """Parameters from a scalar key; their sizes do not depend on the lengths."""
        tokens = jnp.zeros((1, 1), jnp.int32)
        return self.module(self.model, True).init(rng, tokens, tokens)["params"]

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """See `Job.loss_weights`."""
        return r3f.loss_weights(self.r3f)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Loss and metrics of the tokens of targets, as (sum, weight).

        Args:
          params: of `init`.
          batch: see `data.text.pairs`.
          rng: of dropout and hashing.
          deterministic: as in evaluation: no dropout, smoothing, z-loss or R3F.

        Returns:
          {"loss": in nats, "bits": the loss in bits, "accuracy", "cut_share": the share
          of the pairs' tokens that had no room, where the batch says it, and "r3f"
          where the loss has its term}.
        """
        predicted = functools.partial(self._predicted, params, batch, deterministic)
        targets, ids = batch["target_tokens"], batch["target_example_ids"]
        extra = {"label_smoothing": self.label_smoothing, "z_loss": self.z_loss}
        clean, weights = predicted(rng), (ids > 0).astype(jnp.float32)
        with sharding.whole_sequences():
            losses = clean.cross_entropy(targets, **({} if deterministic else extra))
        sums = token_sums(*losses, weights)
        if self.r3f.weight and not deterministic:
            noisy = predicted(*r3f.second_pass(self.r3f, rng))
            with sharding.whole_sequences():
                apart = of_vocabulary(clean, noisy)
            sums |= r3f.term(apart, weights)
        if "cut_tokens" in batch:
            cut = jnp.sum(batch["cut_tokens"]).astype(jnp.float32)
            used = jnp.sum(batch["input_example_ids"] > 0) + jnp.sum(ids > 0)
            sums["cut_share"] = (cut, cut + used)
        return sums

    def _predicted(
        self, params, batch, deterministic: bool, rng, noise=contextlib.nullcontext
    ) -> FactoredLogits:
        """Logits of targets; what the encoder reads is read in the context `noise`."""
        module, c = self.module(self.model, deterministic), self.model
        input_ids, target_ids = batch["input_example_ids"], batch["target_example_ids"]
        inputs = jnp.where(input_ids > 0, batch["input_tokens"], c.pad_id)
        starts = {"start_id": c.decoder_start_id, "pad_id": c.pad_id}
        written = shifted_right(batch["target_tokens"], target_ids, **starts)

        def passed(module):
            with noise():
                memory = module.encode(inputs, input_ids, batch.get("global_index"))
            return module.factored_logits(memory, written, target_ids)

        rngs = streams(rng, deterministic)
        return module.apply({"params": params}, method=passed, rngs=rngs)
