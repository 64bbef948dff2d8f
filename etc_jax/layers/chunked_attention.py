"""LSH attention and local attention of Reformer, with their projections."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.common import Dense
from etc_jax.layers.self_attention import Memory
from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.parts.lsh_hashing import (
    Buckets,
    buckets_for,
    draw_rotations,
    factors_of,
    hash_vectors,
)
from etc_jax.ops.attention.row_cache import Newest


class Sequence(NamedTuple):
    """What every layer gets of a batch.

    Attributes:
      example_ids: int `[b, n]`: 0 is padding, packed examples do not see each other.
      rotations: of `lsh_hashing.draw_rotations`, for all LSH layers; None: each layer
        draws its own, see `hash_key`.
      layer: int scalar, number of the layer; None: it draws nothing by it.
      memory: what the cross-attention of a decoder reads; None: there is none.
      newest: where a step of a cache is, whose only row is the newest token's; then
        `example_ids` are not read, and may be None.
    """

    example_ids: jax.Array | None
    rotations: jax.Array | None = None
    layer: jax.Array | None = None
    memory: Memory | MemoryRows | None = None
    newest: Newest | None = None


def hash_key(module: nn.Module, seed: int, layer: jax.Array | None = None) -> jax.Array:
    """A scalar key of rotations: of rng stream "lsh", "dropout", or of `seed`.

    Args:
      module: that draws; a stack of layers gives each of them streams of its own.
      seed: where there is no stream.
      layer: number of the layer, for a key of its own by `seed`; None: that of `seed`.
    """
    # A stream draws anew in each call, as in training; the seed alone gives the same
    # rotations each time.
    for stream in ("lsh", "dropout"):
        if module.has_rng(stream):
            return module.make_rng(stream)
    key = jax.random.key(seed)
    return key if layer is None else jax.random.fold_in(key, layer)


class ChunkedAttention(nn.Module):
    """What both kinds of attention have; projections have no bias (trax).

    Attributes:
      num_heads, head_dim: of every projection.
      look: chunks that a token sees.
      causal: no key after the query.
      stddev: of the kernels' truncated normal.
      dropout_rate: of attention probabilities.
      implementation: see `ops.attention.lsh.attend`.
    """

    num_heads: int
    head_dim: int
    look: lsh.ChunkNeighbors
    causal: bool = False
    stddev: float = 0.02
    dropout_rate: float = 0.0
    implementation: str = "auto"
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32

    def project(self, name: str) -> Dense:
        """`[b, n, e]` -> `[b, n, h, d]`."""
        return Dense(
            (self.num_heads, self.head_dim),
            self.stddev,
            self.dtype,
            param_dtype=self.param_dtype,
            use_bias=False,
            name=name,
        )

    def output(self, width: int) -> Dense:
        """`[b, n, h, d]` -> `[b, n, width]`."""
        return Dense(
            (width,),
            self.stddev,
            self.dtype,
            axes=2,
            param_dtype=self.param_dtype,
            use_bias=False,
            name="out",
        )

    def options(self, sequence: Sequence) -> dict[str, Any]:
        """What both functions of `ops.attention.lsh` take."""
        if sharding.sequence_axis() is not None:
            raise ValueError(
                "mesh.sequence is more than 1, but attention over chunks does not "
                "work on a split sequence; split over data, fsdp or tensor"
            )
        drop = self.dropout_rate > 0 and not self.deterministic
        return {
            "look": self.look,
            "causal": self.causal,
            "example_ids": sequence.example_ids,
            "implementation": self.implementation,
            "dropout_rate": self.dropout_rate,
            "dropout_rng": self.make_rng("dropout") if drop else None,
            "shards": sharding.ways("batch", "heads"),
        }


class LocalAttention(ChunkedAttention):
    """Attention over the chunks around one's own."""

    @nn.compact
    def __call__(
        self, x: jax.Array, sequence: Sequence, per_layer=None, state: None = None
    ):
        """`[b, n, e]` -> (the same shape, None)."""
        del per_layer, state
        # [b, n, e] -> [b, n, h, d], three times.
        rows = [self.project(name)(x) for name in ("query", "key", "value")]
        out = lsh.local(*rows, **self.options(sequence))
        # [b, n, h, d] -> [b, n, e]
        return self.output(x.shape[-1])(out), None


class LshAttention(ChunkedAttention):
    """LSH attention with one projection for queries and keys.

    Attributes:
      num_hashes: rounds of hashing.
      num_buckets: even number of buckets or two factors; None: by the length of the
        sequence (`lsh_hashing.buckets_for`).
      max_length: longest sequence, which that depends on.
      duplicates: of `lsh.DUPLICATES`.
      rounding: of `lsh.ROUNDINGS`.
      hash_seed: see `hash_key`.
    """

    num_hashes: int = 1
    num_buckets: Buckets | None = None
    max_length: int | None = None
    duplicates: str = "count"
    rounding: str = "exact"
    hash_seed: int = 0

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        sequence: Sequence,
        per_layer: None = None,
        state: jax.Array | None = None,
    ):
        """`[b, n, e]` -> (the same shape, unsigned buckets `[b, h, rounds, n]`).

        Args:
          x: the layer's input.
          sequence: of the batch.
          per_layer: not read.
          state: buckets to take in place of hashing.
        """
        del per_layer
        # [b, n, e] -> [b, n, h, d], twice: queries are keys.
        rows = [self.project(name)(x) for name in ("query_key", "value")]
        factors, buckets = self.factors(x.shape[1]), state
        # A sequence of one chunk is attended whole and needs no buckets.
        if buckets is None and x.shape[1] > self.look.chunk_length:
            rotations = sequence.rotations
            if rotations is None:
                rotations = self.rotations(factors, sequence.layer)
            # [b, n, h, d] -> int32 [b, h, rounds, n]
            buckets = hash_vectors(rows[0], rotations, factors)
            # A reversible stack keeps them of every layer.
            buckets = buckets.astype(np.min_scalar_type(math.prod(factors) - 1))
        out = self.attend(rows, buckets, factors, sequence)
        # [b, n, h, d] -> [b, n, e]
        return self.output(x.shape[-1])(out), buckets

    def attend(self, rows, buckets, factors, sequence: Sequence) -> jax.Array:
        """`lsh.attend` of projected rows: `[b, n, h, d]`."""
        return lsh.attend(
            *rows,
            buckets,
            num_buckets=math.prod(factors),
            duplicates=self.duplicates,
            rounding=self.rounding,
            **self.options(sequence),
        )

    def factors(self, length: int) -> tuple[int, ...]:
        """Factors of the number of buckets for a sequence."""
        if self.num_buckets is not None:
            return factors_of(self.num_buckets)
        return buckets_for(length, self.look.chunk_length, self.max_length)

    def rotations(
        self, factors: tuple[int, ...], layer: jax.Array | None = None
    ) -> jax.Array:
        """`[h, d, rounds, half]`, drawn anew; see `draw_rotations` and `hash_key`."""
        sizes = (self.num_heads, self.head_dim, self.num_hashes)
        # [h, d, rounds, half the sum of factors]: a bucket is an axis with its sign.
        return draw_rotations(hash_key(self, self.hash_seed, layer), *sizes, factors)
