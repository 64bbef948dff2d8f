"""Reformer as a language model, one token after the other from a cache.

Each token sees what it would see if the sequence ended with it. In LSH attention this
is not what a forward pass over a longer sequence shows it, as later tokens move the
borders of sorted chunks there (see `ops.attention.lsh_decoding`). Later tokens change
nothing in local layers that look at one chunk before their own, or none, and none
after it, and where a sequence, padded (`ReformerConfig.padded`), is one chunk. If all
layers are like that, one forward pass gives the logits of all places; if all but the
last one are, `ReformerLm` over the tokens so far gives those of the newest.

The number of buckets does not change while decoding: without `config.num_buckets` it
follows from the length that the cache is made for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.layers.cached_stack import CachedStack, Streams
from etc_jax.layers.patterns.chunks import change_rows
from etc_jax.layers.self_attention import Memory, SequenceInputs
from etc_jax.models.causal_decoder import (
    Cache,
    CausalDecoder,
    last_rows,
    prompt_ids,
)
from etc_jax.models.reformer.body import ReformerLm, make_stack
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.ops import blocking
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.parts.lsh_hashing import buckets_for
from etc_jax.ops.attention.row_cache import Newest

# --- layers ---------------------------------------------------------------------------


class ReformerLayers(NamedTuple):
    """The layers of a causal Reformer, with caches.

    Attributes:
      config: of the Reformer.
      stack: of its layers.
    """

    config: ReformerConfig
    stack: CachedStack

    @classmethod
    def of(
        cls,
        config: ReformerConfig,
        params: Any,
        length: int,
        cross_attention: bool = False,
    ) -> ReformerLayers:
        """Those of a model.

        Args:
          config: of the Reformer.
          params: of its stack.
          length: longest sequence that there will be.
          cross_attention: see `make_stack`.
        """
        config = _for_length(config, length)
        stack = make_stack(config, True, cross_attention, cache_length=length)
        return cls(config, CachedStack.of(stack, params))

    def memory_rows(self, memory: Memory) -> MemoryRows:
        """See `CachedStack`."""
        return self.stack.memory_rows(memory)

    def fill(
        self, x: jax.Array, example_ids: jax.Array, memory: MemoryRows | None = None
    ) -> tuple[Streams, tuple[Any, ...]]:
        """Runs a prompt; see `CachedStack.fill`.

        In LSH attention the padding after a prompt takes part in what is cut into
        chunks.

        Args:
          x: `[b, n, e]`, embeddings.
          example_ids: int `[b, n]`, 0 after the end of each prompt.
          memory: what cross-attention reads.
        """
        n = x.shape[1]
        x = x.astype(self.config.residual_dtype)
        # [b, n, ...] -> [b, padded n, ...]
        x, ids = (
            blocking.pad_axis(a, 1, 0, self.config.padded(n) - n)
            for a in (x, example_ids)
        )
        rng = jax.random.key(self.config.hash_seed)
        return self.stack.fill(x, SequenceInputs(ids), rng, memory)

    def step(self, x: jax.Array, cache: Cache) -> tuple[Streams, tuple[Any, ...]]:
        """Runs one token more, `[b, 1, e]`; see `CachedStack.step`."""
        position = cache.newest
        one_chunk, multiple = self.config.chunking
        # int32 [b]: how long the sequence so far would be, with its padding.
        length = position + 1
        whole = -(-length // multiple) * multiple
        length = jnp.where(length <= one_chunk, length, whole)  # `config.padded`
        shared = SequenceInputs(None, newest=Newest(position, 0, length))
        x = x.astype(self.config.residual_dtype)
        return self.stack.step(x, shared, cache.layers, cache.memory)


def _for_length(config: ReformerConfig, length: int) -> ReformerConfig:
    """The config with a number of buckets."""
    if config.num_buckets is None:
        buckets = buckets_for(length, config.lsh_chunk_length, config.max_length)
        config = dataclasses.replace(config, num_buckets=buckets)
    return config


# --- the model ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ReformerDecoder(CausalDecoder):
    """A Reformer token by token; see `decoding.Decoder`."""

    def of_rows(self, layers: Any, change: Callable[[jax.Array], jax.Array]) -> Any:
        """Changes all arrays `[layers, b, ...]` of the layers' states."""
        return change_rows(layers, change)

    def init_cache(self, params: Any, batch: int, length: int) -> Cache:
        """An empty cache; see `decoding.Decoder`."""
        x = jnp.zeros((batch, 1, self.config.embed_dim))
        # A prompt of one token of padding leaves an empty cache.
        nothing = jnp.zeros((batch, 1), jnp.int32)
        _, states = self._layers(params, length).fill(x, nothing)
        return Cache(states, nothing[:, 0], length)

    def prefill(
        self, params: Any, tokens: jax.Array, lengths: jax.Array, length: int
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after a prompt, cache); see `decoding.Decoder`."""
        model = self._model(params)
        x = model.encoder.embeddings(tokens)
        ids = prompt_ids(tokens, lengths)
        streams, states = self._layers(params, length).fill(x, ids)
        last = last_rows(streams, lengths)
        return self._logits(model, last), Cache(states, lengths, length)

    def step(
        self, params: Any, cache: Cache, token: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """(logits `[b, vocabulary]` after `token`, cache); see `decoding.Decoder`."""
        model = self._model(params)
        # [b] -> [b, 1, e]
        x = model.encoder.embeddings(token[:, None], cache.newest[:, None])
        streams, states = self._layers(params, cache.length).step(x, cache)
        return cache.with_token(states, self._logits(model, streams))

    def _model(self, params: Any) -> ReformerLm:
        return ReformerLm(self.config).bind({"params": params})

    def _layers(self, params: Any, length: int) -> ReformerLayers:
        return ReformerLayers.of(self.config, params["encoder"]["stack"], length)

    def _logits(self, model: ReformerLm, streams: Streams) -> jax.Array:
        """Streams `[b, 1, e]` -> float32 `[b, vocabulary]`."""
        # [b, 1, e], twice -> [b, 1, 2 * e]
        y = model.encoder.final_norm(jnp.concatenate(streams, axis=-1))
        return model.logits(y)[:, 0]
