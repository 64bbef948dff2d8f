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
from flax import linen as nn

from etc_jax import registry
from etc_jax.layers.cached_attention import HashedCache, with_cache
from etc_jax.layers.chunked_attention import Sequence
from etc_jax.layers.reversible import LayerKind, TwoStreamStack
from etc_jax.models.causal_decoder import Cache, CausalDecoder
from etc_jax.models.reformer import ReformerLm
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.ops import blocking, reversible
from etc_jax.ops.attention.parts.lsh_hashing import buckets_for
from etc_jax.ops.attention.row_cache import Newest

# --- the model ------------------------------------------------------------------------


class _Parts(NamedTuple):
    """A model with parameters, and its layers for a cache."""

    config: ReformerConfig
    model: ReformerLm
    kinds: tuple[LayerKind, ...]
    repeats: int
    params: Any

    def start(self, x: jax.Array) -> jax.Array:
        return x.astype(self.config.residual_dtype)

    def logits(self, y1: jax.Array, y2: jax.Array) -> jax.Array:
        """Streams `[b, 1, e]` -> float32 `[b, vocabulary]`."""
        # [b, 1, e], twice -> [b, 1, 2 * e]
        y = self.model.encoder.final_norm(jnp.concatenate([y1, y2], axis=-1))
        return self.model.logits(y)[:, 0]


def _parts(params: Any, config: ReformerConfig, length: int) -> _Parts:
    config = _for_length(config, length)
    model = ReformerLm(config).bind({"params": params})
    stack = model.encoder.stack
    kinds = tuple(with_cache(kind, length) for kind in stack.kinds)
    return _Parts(config, model, kinds, stack.num_repeats, params["encoder"])


def _for_length(config: ReformerConfig, length: int) -> ReformerConfig:
    """The config with a number of buckets."""
    if config.num_buckets is None:
        buckets = buckets_for(length, config.lsh_chunk_length, config.max_length)
        config = dataclasses.replace(config, num_buckets=buckets)
    return config


@registry.register("decoder", "reformer")
@dataclasses.dataclass(frozen=True)
class ReformerDecoder(CausalDecoder):
    """A Reformer token by token; see `decoding.Decoder`."""

    def of_rows(self, layers: Any, change: Callable[[jax.Array], jax.Array]) -> Any:
        """See `CausalDecoder`; all sequences have the same rotations."""

        def of_layer(kept):
            if not isinstance(kept, HashedCache):
                return jax.tree.map(change, kept)
            return kept._replace(rows=jax.tree.map(change, kept.rows))

        return tuple(map(of_layer, layers))

    def init_cache(self, params: Any, batch: int, length: int) -> Cache:
        """See `decoding.Decoder`."""
        parts = _parts(params, self.config, length)
        x = jnp.zeros((batch, 1, self.config.embed_dim), self.config.residual_dtype)
        # A prompt of one token of padding leaves an empty cache.
        _, cache = _fill(parts, x, jnp.zeros((batch,), jnp.int32), length)
        return cache

    def prefill(
        self, params: Any, tokens: jax.Array, lengths: jax.Array, length: int
    ) -> tuple[jax.Array, Cache]:
        """See `decoding.Decoder`.

        In LSH attention the padding after a prompt takes part in what is cut into
        chunks.
        """
        parts = _parts(params, self.config, length)
        n = tokens.shape[1]
        tokens = blocking.pad_axis(tokens, 1, 0, parts.config.padded(n) - n)
        # [b, padded n] -> [b, padded n, e]
        x = parts.start(parts.model.encoder.embeddings(tokens))
        streams, cache = _fill(parts, x, lengths, length)
        last = (lengths - 1)[:, None, None]
        # [b, padded n, e] -> [b, 1, e]: the row of each prompt's last token.
        y1, y2 = (jnp.take_along_axis(y, last, axis=1) for y in streams)
        return parts.logits(y1, y2), cache

    def step(
        self, params: Any, cache: Cache, token: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """See `decoding.Decoder`."""
        parts = _parts(params, self.config, cache.length)
        position = cache.newest
        # [b] -> [b, e] -> [b, 1, e]
        embeddings = parts.model.encoder.embeddings
        x = embeddings.token_embedder(token) + embeddings.at(position)
        x = parts.start(x)[:, None]
        halves = [
            [_as_half(make()) for make in kind.halves.values()] for kind in parts.kinds
        ]
        layers = parts.params["stack"]["layers"]
        stacked = [
            [layers[kind.name][half] for half in kind.halves] for kind in parts.kinds
        ]
        one_chunk, multiple = parts.config.chunking
        # int32 [b]: how long the sequence so far would be, with its padding.
        length = position + 1
        whole = -(-length // multiple) * multiple
        length = jnp.where(length <= one_chunk, length, whole)  # `config.padded`

        def body(carry, inputs):
            streams, kept = carry
            layer, params = inputs
            now = Newest(position, layer, length)
            for i, of_layer in enumerate(params):
                # No keys: nothing is dropped, and rotations are in the cache.
                *streams, (mine, _) = reversible.layer(
                    halves[i], of_layer, (None, None), now, *streams, (kept[i], None)
                )
                kept = (*kept[:i], mine, *kept[i + 1 :])
            return (tuple(streams), kept), None

        repeats = jnp.arange(parts.repeats, dtype=jnp.int32)
        start = ((x, x), cache.layers)
        # Caches are carried, so that each layer writes its rows where they are.
        (streams, kept), _ = jax.lax.scan(body, start, (repeats, stacked))
        return cache.with_token(kept, parts.logits(*streams))


def _fill(parts: _Parts, x: jax.Array, lengths: jax.Array, length: int):
    """(the two streams after the stack, the cache) of a prompt's embeddings."""
    # [1, n] against lengths [b, 1]: 0 after the end of each prompt.
    token = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
    sequence = Sequence((token < lengths[:, None]).astype(jnp.int32))
    streams, _, kept = TwoStreamStack(parts.kinds, parts.repeats).apply(
        {"params": parts.params["stack"]},
        x,
        x,
        sequence,
        jax.random.key(parts.config.hash_seed),
        method="with_hidden",
    )
    # Feed-forward halves keep nothing.
    return streams, Cache(tuple(of_f for of_f, _ in kept), lengths, length)


def _as_half(half: nn.Module) -> reversible.Half:
    def apply(params, x, rng, shared, kept):
        del rng  # rotations are in the cache
        return half.apply({"params": params}, x, shared, kept)

    return apply
