"""Vectors of texts: a query is nearer to the passage that answers it than to others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base import registry
from etc_jax.base.rules import Problem, more_than
from etc_jax.config.sections import FinetuningConfig
from etc_jax.conversion.formats.native import family_of
from etc_jax.data.schema import Field, Schema
from etc_jax.formats import sequence
from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX, TOKENS, TYPES
from etc_jax.loading import pooling
from etc_jax.loading.text_encoder import TextEncoder, text_encoder_of
from etc_jax.models.encoder.heads import EncoderForTexts
from etc_jax.objectives.learners.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.learners.finetuning import Sums
from etc_jax.objectives.losses.contrastive import (
    Comparison,
    compare,
    contrastive_losses,
)
from etc_jax.objectives.r3f import Choice


@dataclasses.dataclass(frozen=True)
class RetrievalConfig(FinetuningConfig):
    """Options of vectors of texts.

    Attributes:
      pooling: "mean" of all tokens, "cls", the first token, or "global", the mean of
        the global tokens; vectors then get length 1.
      temperature: by which the cosines are divided.
      symmetric: the loss is the mean of that of the queries and that of the passages,
        which are to find their queries.
    """

    pooling: str = "mean"
    temperature: float = 0.05
    symmetric: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from more_than(0).problems(self, "temperature")


class TextVectors(NamedTuple):
    """float32 `[b, e]`, `[b, e]` and `[b, k, e]`, of length 1."""

    query: jax.Array
    passage: jax.Array
    negatives: jax.Array


@registry.register("learner", "retrieval/sequence")
class SequenceRetrieval(EncoderFinetuning):
    """In-batch contrastive learning: outputs are `TextVectors`.

    A query is compared with the passages and hard negatives of all rows of a batch,
    whatever devices they are on; of a batch in parts, with those of its part.
    """

    section = RetrievalConfig
    hub_task = "sentence-similarity"
    schema: ClassVar[Schema] = dataclasses.replace(
        sequence.SCHEMA.extended(
            {
                "query": Field(shape=(1,), padding=-1),
                "negatives": Field(shape=(1, 1), padding=-1),
            }
        ),
        optional=frozenset({"negatives"}),
    )

    @property
    def problem(self) -> str | None:
        try:
            pooling.check(self.objective.pooling, self.text_encoder)
        except ValueError as error:
            return f"objective.{error}"
        longest = self.text_encoder.max_length
        length = self.options.query_length
        if longest is not None and length > longest:
            return f"query_length is {length}, but the model reads {longest} tokens"
        return None

    @property
    def text_encoder(self) -> TextEncoder:
        """How the model reads texts by themselves, in `etc_jax.load` too."""
        return text_encoder_of(family_of(self.model), self.model)

    def module(self, deterministic: bool) -> EncoderForTexts:
        return EncoderForTexts(self.model, deterministic)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        # Of a Longformer the first token is global, unless it is causal.
        with_globals = self.model.has_globals and self.text_encoder.num_globals > 0
        return (
            {
                name: {
                    k: x for k, x in one.items() if with_globals or k != GLOBAL_INDEX
                }
                for name, one in self._texts(batch).items()
            },
        )

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        del batch
        return {}

    def flops_inputs(self, batch: Any) -> None:
        del batch  # queries and hard negatives are beside the passages

    def _texts(self, batch: Any) -> dict[str, dict[str, jax.Array]]:
        """Batches of the text encoder, by what the texts are."""
        passage = jnp.where(batch[EXAMPLE_IDS] > 0, batch[TOKENS], -1)
        ids_of = {"query": batch["query"], "passage": passage}
        if (negatives := batch.get("negatives")) is not None:
            # [b, k, n] -> [b * k, n]
            ids_of["negatives"] = negatives.reshape(-1, negatives.shape[-1])
        return {name: self._batch(ids) for name, ids in ids_of.items()}

    def _batch(self, ids: jax.Array) -> dict[str, jax.Array]:
        """Of ids `[b, n]`, -1 for padding; see `FlatEncoder.batch`."""
        real = ids >= 0
        index = jnp.arange(self.text_encoder.num_globals)[None]
        lengths = jnp.sum(real, axis=1, keepdims=True)
        return {
            TOKENS: jnp.where(real, ids, 0),
            TYPES: jnp.zeros_like(ids),
            EXAMPLE_IDS: real.astype(jnp.int32),
            GLOBAL_INDEX: jnp.where(index < lengths, index, -1),
        }

    def _apply(self, params, batch, rng) -> TextVectors:
        rows, texts = super()._apply(params, batch, rng), self._texts(batch)
        vectors = {
            name: pooling.normalized(
                pooling.pooled(
                    self.text_encoder, rows[name], one, self.objective.pooling
                )
            )
            for name, one in texts.items()
        }
        b, e = vectors["query"].shape
        negatives = vectors.get("negatives", jnp.zeros((0, e), jnp.float32))
        return TextVectors(
            vectors["query"], vectors["passage"], negatives.reshape(b, -1, e)
        )

    def _comparison(self, outputs: TextVectors, batch: Any) -> Comparison:
        return compare(
            *outputs,
            query_keys=batch["labels"]["query_key"],
            passage_keys=batch["labels"]["passage_keys"],
            weights=batch["weights"],
            temperature=self.objective.temperature,
        )

    def losses(self, outputs: TextVectors, batch: Any) -> tuple[jax.Array, Sums]:
        logits, weights = self._comparison(outputs, batch), batch["weights"]
        losses = contrastive_losses(logits.queries)
        if self.objective.symmetric:
            losses = (losses + contrastive_losses(logits.passages)) / 2
        right = jnp.argmax(logits.queries, axis=-1) == jnp.arange(len(weights))
        accuracy = (jnp.sum(right * weights), jnp.sum(weights))
        return jnp.sum(losses * weights), {"accuracy": accuracy}

    def distributions(self, outputs: TextVectors, batch: Any) -> list[Choice]:
        logits = self._comparison(outputs, batch)
        if not self.objective.symmetric:
            return [Choice(logits.queries)]
        return [Choice(logits.queries, 0.5), Choice(logits.passages, 0.5)]
