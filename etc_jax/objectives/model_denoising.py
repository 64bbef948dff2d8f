"""Model-based denoising: the missing spans are those that a generator predicts worst.

Many spans of a text are masked, and an encoder-only model, the generator, predicts
them. The spans with the highest mean loss stay missing, and the others are restored.
The encoder-decoder then learns span corruption (Xiong et al. 2022, section 2.3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.data.text.candidates import MARK, CandidateRows
from etc_jax.objectives.losses.tokens import streams, token_sums
from etc_jax.objectives.masked_lm import MaskedLm
from etc_jax.objectives.seq2seq import Seq2Seq
from etc_jax.ops import span_choice
from etc_jax.training.job import HELPERS, Sums

GENERATOR = "generator"


@dataclasses.dataclass(frozen=True)
class ModelDenoising:
    """Parameters and loss.

    Attributes:
      written: of the encoder-decoder.
      generator: the model that chooses.
      generator_weight: of the generator's loss; 0: it is frozen.
      rows: of the batches: their ids and bounds.
      target_length: m, tokens of a target; more of it is cut off.
    """

    written: Seq2Seq
    generator: MaskedLm
    generator_weight: float
    rows: CandidateRows
    target_length: int

    @property
    def loss_weights(self) -> dict[str, float]:
        """See `Job.loss_weights`."""
        written = _renamed(self.written.loss_weights)
        return {**written, "mlm_loss": self.generator_weight}

    def init(self, rng: jax.Array) -> Any:
        """Parameters from a scalar key; below `HELPERS` those of the generator."""
        written, generator = jax.random.split(rng)
        helpers = {GENERATOR: self.generator.init(generator)}
        return {**self.written.init(written), HELPERS: helpers}

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Losses of the encoder-decoder and of the generator, and metrics.

        Each of both is a mean over tokens. In the authors' code they are sums over the
        tokens of a batch, the second one brought to the number of the first: the same,
        up to a factor. How many tokens the encoder-decoder writes depends on the spans
        that the generator chooses, so that with `train.accumulation_steps` the
        generator reads each microbatch twice.

        Args:
          params: of `init`.
          batch: see `data.text.candidates`.
          rng: of dropout and hashing.
          deterministic: as in evaluation; see `Seq2Seq.loss`.

        Returns:
          {"seq2seq_loss" and the other metrics of `Seq2Seq.loss`, "mlm_loss",
          "mlm_accuracy": of the tokens of all candidates, "candidate_loss",
          "kept_loss": the mean loss of candidate spans, and of those that are missing,
          by the generator}, as (sum, weight).
        """
        params = dict(params)
        generator = params.pop(HELPERS)[GENERATOR]
        rngs = (None, None) if deterministic else jax.random.split(rng)
        losses, hits, spans = self._predicted(generator, batch, rngs[0], deterministic)
        mlm = token_sums(losses, hits, (spans > 0).astype(jnp.float32))
        means = span_choice.span_means(
            jax.lax.stop_gradient(losses), spans, self.rows.num_spans
        )
        missing = span_choice.hardest(means, batch["kept_spans"])
        written = self.written.loss(
            params, self.sides(batch, missing), rngs[1], deterministic
        )
        return {
            **_renamed(written),
            "mlm_loss": mlm["loss"],
            "mlm_accuracy": mlm["accuracy"],
            "candidate_loss": _mean_of(means, means > -jnp.inf),
            "kept_loss": _mean_of(means, missing),
        }

    def _predicted(self, params, batch, rng, deterministic):
        """(loss, whether it is the likeliest, number of its span) of each candidate.

        Each is `[b, p]`.
        """
        if not self.generator_weight:
            params, deterministic = jax.lax.stop_gradient(params), True
        positions, spans = span_choice.positions_of(
            batch["span_ids"], self.rows.num_positions
        )
        tokens = batch["tokens"]
        module = self.generator.module(self.generator.model, deterministic)
        losses, hits = module.apply(
            {"params": params},
            jnp.where(batch["span_ids"] > 0, self.rows.marks.mask, tokens),
            batch["example_ids"],
            positions,
            jnp.take_along_axis(tokens, positions, axis=1),
            method=module.masked_losses,
            rngs=streams(rng, deterministic),
        )
        return losses, hits, spans

    def sides(self, batch, missing: jax.Array) -> dict[str, jax.Array]:
        """A batch of `data.text.pairs`, of the spans that are missing.

        Args:
          batch: see `data.text.candidates`.
          missing: bool `[b, s]`, of the candidate spans.
        """
        sentinels = jnp.array(self.rows.marks.sentinels, batch["tokens"].dtype)
        corrupted = span_choice.corrupt(
            batch["tokens"],
            batch["example_ids"],
            batch["span_ids"],
            missing,
            sentinels,
            batch["span_ids"] == MARK,
            self.target_length,
        )
        return {
            "input_tokens": corrupted.input,
            "input_example_ids": _ids(corrupted.input_sizes, corrupted.input.shape[1]),
            "target_tokens": corrupted.target,
            "target_example_ids": _ids(corrupted.target_sizes, self.target_length),
            "cut_tokens": jnp.maximum(corrupted.target_sizes - self.target_length, 0),
        }


def _renamed(of_written: Mapping[str, Any]) -> dict[str, Any]:
    """What is of the encoder-decoder, by the names that it has beside a generator."""
    names = {"loss": "seq2seq_loss"}
    return {names.get(name, name): value for name, value in of_written.items()}


def _ids(sizes: jax.Array, length: int) -> jax.Array:
    """int32 `[b, length]`: 1 in the first `sizes` places of each row, then 0."""
    return (jnp.arange(length)[None] < sizes[:, None]).astype(jnp.int32)


def _mean_of(means: jax.Array, chosen: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(sum, number) of the spans that are chosen."""
    return jnp.sum(jnp.where(chosen, means, 0)), jnp.sum(chosen, dtype=jnp.float32)
