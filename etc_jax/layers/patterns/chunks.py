"""Chunks of a sequence, or of tokens sorted by buckets (Reformer)."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from flax import linen as nn

from etc_jax.layers.self_attention import (
    Pattern,
    Projected,
    SequenceInputs,
    lengths_of,
)
from etc_jax.ops.attention import lsh, lsh_decoding
from etc_jax.ops.attention.lsh_decoding import LshCache
from etc_jax.ops.attention.parts.lsh_hashing import (
    Buckets,
    buckets_for,
    draw_rotations,
    factors_of,
    hash_vectors,
)
from etc_jax.ops.flops import pairs_within


@dataclasses.dataclass(frozen=True)
class LocalChunks(Pattern):
    """The chunks around one's own; see `lsh.local`.

    Attributes:
      look: chunks that a token sees.
      causal: no key after the query.
    """

    packing_problem: ClassVar[str] = (
        "the chunks of its layers are those of a row, whatever lies in it"
    )

    look: lsh.ChunkNeighbors
    causal: bool = False

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`."""
        return self.look.chunk_length

    def options(self, layer, inputs: SequenceInputs) -> dict[str, Any]:
        """What both functions of `ops.attention.lsh` take."""
        chunks = {"look": self.look, "causal": self.causal}
        return layer.options() | chunks | {"example_ids": inputs.example_ids}

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`."""
        del per_layer
        return lsh.local(*projected.rows, **self.options(layer, inputs))

    def step(self, layer, projected: Projected, inputs: SequenceInputs, state):
        """See `Pattern.step`."""
        del layer
        rows, newest = projected.rows, inputs.newest
        return lsh_decoding.local_step(*rows, state, newest, look=self.look)

    def cache(self, projected: Projected, inputs: SequenceInputs, length: int):
        """See `Pattern.cache`."""
        # Keys and values alone, [b, cache rows, h, d].
        return lsh_decoding.local_cache(
            *projected.rows[1:], lengths_of(inputs), look=self.look, length=length
        )

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids = np.asarray(inputs.example_ids)
        look, index = self.look, np.arange(ids.shape[1])
        # [n]: the chunk of each token, and the first and last place it looks at.
        chunk = index // look.chunk_length
        first = (chunk - look.before) * look.chunk_length
        last = (chunk + 1 + look.after) * look.chunk_length - 1
        return pairs_within(ids, first, index if self.causal else last)


class HashedCache(NamedTuple):
    """Of LSH layers.

    Attributes:
      rows: see `LshCache`.
      rotations: of each layer, `[layers, h, d, rounds, half]`.
    """

    rows: LshCache
    rotations: jax.Array


@dataclasses.dataclass(frozen=True)
class LshChunks(LocalChunks):
    """Chunks of tokens sorted by their buckets; see `lsh.attend`.

    One projection serves queries and keys. The state of a layer is its buckets,
    unsigned `[b, h, rounds, n]`, which a call may be given in place of hashing.

    Attributes:
      num_hashes: rounds of hashing.
      num_buckets: even number of buckets or two factors; None: by the length of the
        sequence (`lsh_hashing.buckets_for`).
      max_length: longest sequence, which that depends on.
      duplicates: of `lsh.DUPLICATES`.
      rounding: of `lsh.ROUNDINGS`.
      hash_seed: see `hash_key`.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"rotations"})
    projections: ClassVar[tuple[str, ...]] = ("query_key", "value")

    num_hashes: int = 1
    num_buckets: Buckets | None = None
    max_length: int | None = None
    duplicates: str = "count"
    rounding: str = "exact"
    hash_seed: int = 0

    def run(self, layer, projected, inputs, per_layer=None, state=None):
        """See `Pattern.run`; `per_layer` is the number of the layer, see `hash_key`."""
        # [b, n, h, d], of which queries are keys.
        query_key, n = projected.rows[0], projected.x.shape[1]
        factors, buckets = self._factors(n), state
        rotations, cached = inputs.rotations, layer.cache_length is not None
        # A sequence of one chunk is attended whole and needs no buckets, unless there
        # will be more.
        if cached or (buckets is None and n > self.look.chunk_length):
            if rotations is None:
                rotations = self._rotations(layer, factors, per_layer)
            # [b, n, h, d] -> int32 [b, h, rounds, n]
            buckets = hash_vectors(query_key, rotations, factors)
            # A reversible stack keeps them of every layer.
            buckets = buckets.astype(np.min_scalar_type(math.prod(factors) - 1))
        options = self.options(layer, inputs)
        # Keys have length 1, and the products no other scale.
        del options["scale"]
        out = lsh.attend(
            *projected.rows,
            buckets,
            num_buckets=math.prod(factors),
            duplicates=self.duplicates,
            rounding=self.rounding,
            **options,
        )
        if not cached:
            return out, buckets
        # Keys and values [b, length, h, d], sorted numbers [b, h, rounds, length].
        rows = lsh_decoding.lsh_cache(
            *projected.rows,
            buckets,
            lengths_of(inputs),
            num_buckets=math.prod(factors),
            length=layer.cache_length,
        )
        return out, HashedCache(rows, rotations)

    def step(self, layer, projected: Projected, inputs: SequenceInputs, state):
        """See `Pattern.step`; it needs `num_buckets`."""
        del layer
        now = inputs.newest
        # [layers, h, d, rounds, half] -> [h, d, rounds, half]: those of the prompt, as
        # buckets of other rotations say nothing of each other.
        rotations = state.rotations[now.layer]
        # [b, 1, h, d] -> int32 [b, h, rounds, 1]
        buckets = hash_vectors(projected.rows[0], rotations, self.num_buckets)
        out, rows = lsh_decoding.lsh_step(
            *projected.rows,
            buckets,
            state.rows,
            now,
            look=self.look,
            duplicates=self.duplicates,
            rounding=self.rounding,
        )
        return out, HashedCache(rows, state.rotations)

    def _factors(self, length: int) -> tuple[int, ...]:
        """Factors of the number of buckets for a sequence."""
        if self.num_buckets is not None:
            return factors_of(self.num_buckets)
        return buckets_for(length, self.look.chunk_length, self.max_length)

    def _rotations(self, layer, factors: tuple[int, ...], number) -> jax.Array:
        sizes = (layer.num_heads, layer.head_dim, self.num_hashes)
        # [h, d, rounds, half the sum of factors]: a bucket is an axis with its sign.
        return draw_rotations(hash_key(layer, self.hash_seed, number), *sizes, factors)

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`.

        What the paper counts (Kitaev et al. 2020, table 1): `num_hashes` rounds of all
        tokens of the chunks that are looked at, causal or not, without hashing.
        """
        look = self.look
        seen = look.chunk_length * (1 + look.before + look.after)
        # [b, n] -> [b]
        tokens = np.sum(np.asarray(inputs.example_ids) > 0, axis=1)
        return self.num_hashes * int(np.sum(tokens * np.minimum(seen, tokens)))


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
