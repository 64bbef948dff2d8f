"""Attention over chunks that fills a cache with a prompt, and reads it in steps.

A layer of these is called with a `Sequence`; it then attends as the one that it is made
of and gives the cache of the prompt. If the sequence has a `newest` token, it is given
the caches of all repeats of the layer besides, and gives them with one token more.
Parameters and rotations are those of the layer that it is made of.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.block import AttentionHalf
from etc_jax.layers.chunked_attention import (
    ChunkedAttention,
    LocalAttention,
    LshAttention,
    Sequence,
)
from etc_jax.layers.cross_attention import MemoryProjections
from etc_jax.layers.reversible import LayerKind
from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.lsh_decoding import (
    LshCache,
    local_cache,
    local_step,
    lsh_cache,
    lsh_step,
)
from etc_jax.ops.attention.parts.lsh_hashing import factors_of, hash_vectors
from etc_jax.ops.attention.row_cache import RowCache


class HashedCache(NamedTuple):
    """Of LSH layers.

    Attributes:
      rows: see `LshCache`.
      rotations: of each layer, `[layers, h, d, rounds, half]`.
    """

    rows: LshCache
    rotations: jax.Array


class CachedLocalAttention(LocalAttention):
    """Local attention with a cache; see the module.

    Attributes:
      cache_length: longest sequence that there will be.
    """

    cache_length: int = 0

    @nn.compact
    def __call__(
        self, x, shared: Sequence, per_layer=None, cache: RowCache | None = None
    ):
        """`[b, n, e]` -> (the same shape, cache); n is 1 in a step."""
        del per_layer
        # [b, n, e] -> [b, n, h, d], three times.
        rows = [self.project(name)(x) for name in ("query", "key", "value")]
        if shared.newest is not None:
            # [b, 1, h, d] over what this layer's cache holds.
            out, cache = local_step(*rows, cache, shared.newest, look=self.look)
        else:
            out = lsh.local(*rows, **self.options(shared))
            # Keys and values alone, [b, cache rows, h, d].
            cache = local_cache(
                *rows[1:], _lengths(shared), look=self.look, length=self.cache_length
            )
        # [b, n, h, d] -> [b, n, e]
        return self.output(x.shape[-1])(out), cache


class CachedLshAttention(LshAttention):
    """LSH attention with a cache; see the module. It needs `num_buckets`.

    Attributes:
      cache_length: longest sequence that there will be.
    """

    cache_length: int = 0

    @nn.compact
    def __call__(
        self, x, shared: Sequence, per_layer=None, cache: HashedCache | None = None
    ):
        """`[b, n, e]` -> (the same shape, cache); n is 1 in a step."""
        del per_layer
        # [b, n, e] -> [b, n, h, d], twice: queries are keys.
        rows = [self.project(name)(x) for name in ("query_key", "value")]
        attend = self._prompt if shared.newest is None else self._step
        out, cache = attend(rows, shared, cache)
        # [b, n, h, d] -> [b, n, e]
        return self.output(x.shape[-1])(out), cache

    def _step(self, rows, sequence: Sequence, hashed: HashedCache):
        now = sequence.newest
        # [layers, h, d, rounds, half] -> [h, d, rounds, half]: those of the prompt, as
        # buckets of other rotations say nothing of each other.
        rotations = hashed.rotations[now.layer]
        # [b, 1, h, d] -> int32 [b, h, rounds, 1]
        buckets = hash_vectors(rows[0], rotations, self.num_buckets)
        out, cache = lsh_step(
            *rows,
            buckets,
            hashed.rows,
            now,
            look=self.look,
            duplicates=self.duplicates,
            rounding=self.rounding,
        )
        return out, HashedCache(cache, hashed.rotations)

    def _prompt(self, rows, sequence: Sequence, hashed: None):
        del hashed
        # [h, d, rounds, half]
        factors = factors_of(self.num_buckets)
        rotations = self.rotations(factors)
        # [b, n, h, d] -> int32 [b, h, rounds, n]
        # Also of a prompt of one chunk, which is attended whole: there will be more.
        buckets = hash_vectors(rows[0], rotations, factors)
        out = self.attend(rows, buckets, factors, sequence)
        # Keys and values [b, length, h, d], sorted numbers [b, h, rounds, length].
        cache = lsh_cache(
            *rows,
            buckets,
            _lengths(sequence),
            num_buckets=math.prod(factors),
            length=self.cache_length,
        )
        return out, HashedCache(cache, rotations)


_CACHED: dict[type[ChunkedAttention], type[ChunkedAttention]] = {
    LocalAttention: CachedLocalAttention,
    LshAttention: CachedLshAttention,
}


def _lengths(sequence: Sequence) -> jax.Array:
    return jnp.sum(sequence.example_ids > 0, axis=1, dtype=jnp.int32)


def _as_one_of(subclass: type[nn.Module], plain: nn.Module, **more: Any) -> nn.Module:
    """The module as one of a subclass of its own."""
    # Linen's own two fields belong to the module, not to its copy.
    fields = {field.name for field in dataclasses.fields(plain)} - {"parent", "name"}
    return subclass(**{name: getattr(plain, name) for name in fields}, **more)


def with_cache(kind: LayerKind, length: int) -> LayerKind:
    """A layer of a stack with attention that has a cache.

    Args:
      kind: whose first half is an `AttentionHalf` of local or LSH attention.
      length: longest sequence that there will be.
    """
    (attention_name, make), *others = kind.halves.items()
    half = make()
    plain = half.attention("attention")

    def attention(name: str) -> nn.Module:
        options = {"cache_length": length, "name": name}
        return _as_one_of(_CACHED[type(plain)], plain, **options)

    def cached() -> AttentionHalf:
        # Names and norms stay, so that the parameters of the plain layer fit.
        return half.clone(attention=attention)

    return LayerKind(kind.name, {attention_name: cached, **dict(others)})


def memory_projections(kind: LayerKind) -> MemoryProjections:
    """What makes the keys and values of a layer's cross-attention, by its parameters.

    Args:
      kind: with a half "cross", a `CrossAttentionHalf`.
    """
    plain = kind.halves["cross"]().cross_attention("cross_attention")
    return _as_one_of(MemoryProjections, plain, parent=None)


def change_rows(
    layers: tuple[Any, ...], change: Callable[[jax.Array], jax.Array]
) -> tuple[Any, ...]:
    """Changes all arrays `[layers, b, ...]` of layers' states.

    All sequences of a batch have the same rotations, which stay.
    """

    def of_layer(state):
        if not isinstance(state, HashedCache):
            return jax.tree.map(change, state)
        return state._replace(rows=jax.tree.map(change, state.rows))

    return tuple(map(of_layer, layers))
