"""Self-attention of encoders with one sequence: of everything, windows or blocks."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import sharding
from etc_jax.base.types import LabelTable
from etc_jax.layers.common import Dense, RmsNorm, sinusoids, truncated_normal
from etc_jax.layers.projections import HeadProjections
from etc_jax.ops import sequence
from etc_jax.ops.attention import (
    block_sparse,
    full,
    pooled_block,
    row_cache,
    sliding_window,
    transient_blocks,
)
from etc_jax.ops.attention.bias import BiasFn
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.pooled_block import Blocks, Pool
from etc_jax.ops.attention.row_cache import Newest, RowCache
from etc_jax.ops.attention.sliding_window import Globals, SideKeys


class AttentionWindow(NamedTuple):
    """What the tokens of a layer see; see `sliding_window.attend`.

    Attributes:
      radius: keys to each side.
      dilation: places from one key to the next, of all heads or of each.
      causal: no key after the query.
    """

    radius: int
    dilation: int | tuple[int, ...] = 1
    causal: bool = False


class Sparse(NamedTuple):
    """Blocks that a layer's tokens see; see `block_sparse.attend`.

    Attributes:
      block_size: tokens of a block.
      num_random: blocks that each block sees besides.
      num_globals: tokens in front that are global; 0: the first and the last block are.
    """

    block_size: int
    num_random: int
    num_globals: int = 0

    @property
    def full_attention_length(self) -> int:
        """The longest sequence that is attended whole.

        Behind global tokens these are two blocks, which see each other anyway.
        """
        if self.num_globals:
            return self.num_globals + 2 * self.block_size
        return (5 + 2 * self.num_random) * self.block_size

    def num_drawing(self, length: int) -> int:
        """Blocks of a sequence that see others at random."""
        return block_sparse.drawing_blocks(length, self.block_size, self.num_globals)

    def undrawn(self, length: int) -> jax.Array | None:
        """int `[1, drawing blocks, num_random]` in place of random blocks; None: none.

        The first block, so many times, as in transformers. Behind global tokens, which
        transformers does not know: nothing.
        """
        if self.num_globals:
            return None
        return jnp.zeros((1, self.num_drawing(length), self.num_random), jnp.int32)


class Causal(NamedTuple):
    """A layer whose tokens see all before them and themselves (a decoder's)."""


class Local(NamedTuple):
    """A window without global tokens; with sums of blocks, if any (Guo et al. 2022).

    Attributes:
      radius: keys to each side.
      block_size: tokens of a sum, which each layer makes anew; None: no sums.
      epsilon: of the norm of the sums.
    """

    radius: int
    block_size: int | None = None
    epsilon: float = 1e-6


class Pooled(NamedTuple):
    """Blocks, and behind them attention to averages of their rows (Xiong et al. 2022).

    Attributes:
      blocks: see `pooled_block.attend`.
      pool: see `pooled_block.attend_pooled`.
    """

    blocks: Blocks
    pool: Pool


Pattern = AttentionWindow | Sparse | Causal | Local | Blocks | Pooled | None


class Memory(NamedTuple):
    """What cross-attention reads.

    Attributes:
      rows: `[b, n, e]` of an encoder.
      example_ids: int `[b, n]`; 0 is padding.
    """

    rows: jax.Array
    example_ids: jax.Array


class SequenceInputs(NamedTuple):
    """What every layer gets of a batch.

    Attributes:
      example_ids: int `[b, n]`; 0 is padding, packed examples do not see each other.
      global_index: int `[b, g]`, where global tokens stand, -1 for none; None: no
        token is global.
      bias: function of offsets, added to all logits; None: 0.
      block_bias: the same of offsets in blocks, of sums of blocks.
      memory: of an encoder, for a decoder's cross-attention; of a decoder with a cache
        the keys and values of all layers.
      newest: where a step of one token more is, which has no `example_ids`; None: this
        is no step.
    """

    example_ids: jax.Array | None
    global_index: jax.Array | None = None
    bias: BiasFn | None = None
    block_bias: BiasFn | None = None
    memory: Memory | MemoryRows | None = None
    newest: Newest | None = None


class SelfAttention(HeadProjections):
    """Multi-head attention inside a sequence.

    Of everything (Devlin et al. 2018), of windows and global tokens (Beltagy et al.
    2020), of blocks (Zaheer et al. 2020; Xiong et al. 2022), or of windows and sums of
    blocks (Guo et al. 2022).

    Attributes:
      pattern: what tokens see; None: each other, and none is global.
      relative: causal windows encode the offset of a key by products of queries and
        maps of sines of offsets (Dai et al. 2019, section 3.3).
      cache_length: longest sequence that will be decoded, where no token sees a later
        one: a prompt then leaves a cache, and a step reads it; None: neither.
    """

    pattern: Pattern = None
    relative: bool = False
    cache_length: int | None = None

    def _globals(self, x: jax.Array, index: jax.Array | None) -> Globals | None:
        if index is None and self.is_initializing() and not self.relative:
            # The projections are there whether a batch has global tokens or not.
            index = jnp.zeros((x.shape[0], 1), jnp.int32)
        if index is None:
            return None
        # [b, n, e] -> [b, g, e]; -1 reads row 0, which counts nowhere.
        rows = sequence.take_rows(x, jnp.maximum(index, 0), sharding.sequence_axis())
        return Globals(
            index,
            # [b, g, h, d] of these tokens, then [b, n, h, d] of all, twice.
            self.project("query_global", rows),
            self.project("key_global", x),
            self.project("value_global", x),
        )

    def _check_mesh(self, inputs: SequenceInputs) -> None:
        steps = self.pattern.dilation
        differ = not isinstance(steps, int) and len(set(steps)) > 1
        split = [sharding.ways(axis) > 1 for axis in ("batch", "heads", "length")]
        if differ and all(split) and inputs.global_index is not None:
            # XLA's partitioner ends the process with a failed check.
            raise ValueError(
                "heads of different dilation, with global tokens, do not work on a "
                "mesh that splits batch, heads and sequence; leave mesh.tensor or "
                "mesh.sequence at 1"
            )

    def _of_whole(self, rows, random_blocks, bias, options) -> jax.Array:
        """Attention that needs the whole sequence on each device."""
        if sharding.sequence_axis() is not None:
            raise ValueError(
                "mesh.sequence is more than 1, but attention of all tokens to all, or "
                "of blocks, does not work on a split sequence; split over data, fsdp "
                "or tensor"
            )
        n = rows[0].shape[1]
        if isinstance(self.pattern, Causal):
            return full.attend(*rows, causal=True, bias=bias, **options)
        if self.pattern is None or n <= self.pattern.full_attention_length:
            # As transformers: what counts sees no padding, but a loss over all places,
            # as of spans there, depends on its rows.
            return full.attend(*rows, padding_sees=True, bias=bias, **options)
        if random_blocks is None:
            # [1, drawing blocks, num_random], or None.
            random_blocks = self.pattern.undrawn(n)
        return block_sparse.attend(
            *rows,
            block_size=self.pattern.block_size,
            num_globals=self.pattern.num_globals,
            random_blocks=random_blocks,
            **options,
        )

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        inputs: SequenceInputs,
        random_blocks: jax.Array | None = None,
        cache: RowCache | None = None,
    ) -> tuple[jax.Array, RowCache | None]:
        """`[b, n, e]` -> (the same shape, cache or None); n is 1 in a step.

        Args:
          x: the layer's input.
          inputs: of the batch.
          random_blocks: of a `Sparse` pattern, see `block_sparse.attend`; None: see
            `Sparse.undrawn`.
          cache: in a step, the caches of all repeats of this layer.

        Raises:
          ValueError: if a sequence is split over devices that must be whole.
        """
        # [b, n, e] -> [b, n, h, d]: queries, keys, values.
        maps = {name: self.to_heads(name) for name in ("query", "key", "value")}
        rows = [to_heads(x) for to_heads in maps.values()]
        offsets = None
        if self.relative:
            rows[0], offsets = self._of_offsets(rows[0], x.shape[-1])
        if inputs.newest is not None:
            # [b, 1, h, d] over the rows of this layer's cache.
            out, cache = row_cache.step(
                *rows,
                cache,
                inputs.newest,
                offsets=offsets,
                bias=inputs.bias,
                scale=self.scale,
                **self._reach(),
            )
        else:
            side_keys = self._side_keys(x, maps, inputs)
            out = self._attend(x, rows, offsets, side_keys, inputs, random_blocks)
            cache = self._cache(rows, inputs)
        # [b, n, h, d] -> [b, n, e]
        return self.joined(out, x.shape[-1]), cache

    def _side_keys(self, x, maps, inputs: SequenceInputs) -> SideKeys | None:
        """Sums of blocks as keys and values of all tokens."""
        if not isinstance(self.pattern, Local) or self.pattern.block_size is None:
            return None
        blocks = transient_blocks.blocks_of(inputs.example_ids, self.pattern.block_size)
        norm = RmsNorm(
            self.pattern.epsilon, self.dtype, self.param_dtype, name="block_norm"
        )
        # [b, n, e] -> [b, g, e] -> [b, g, h, d], by the maps of tokens.
        sums = norm(transient_blocks.block_sums(x, blocks))
        bias = transient_blocks.side_bias(inputs.block_bias, blocks)
        return SideKeys(maps["key"](sums), maps["value"](sums), blocks.example, bias)

    def _reach(self) -> dict[str, Any]:
        """How far back a token sees, where it does not see all."""
        if isinstance(self.pattern, Causal):
            return {}
        return {"radius": self.pattern.radius, "dilation": self.pattern.dilation}

    def _cache(self, rows, inputs: SequenceInputs) -> RowCache | None:
        if self.cache_length is None:
            return None
        # [b, n] -> int32 [b]
        lengths = jnp.sum(inputs.example_ids > 0, axis=1, dtype=jnp.int32)
        size = self.cache_length
        if reach := self._reach():
            size = row_cache.window_rows(**reach, length=size)
        # Keys and values alone, [b, size, h, d].
        return row_cache.fill(*rows[1:], lengths, size)

    def _of_offsets(self, query: jax.Array, width: int):
        """(queries with what they ask of any key, products of offsets).

        The logit is (q + u) . key + (q + v) . E, with E of the offset: of q + u in
        place of q it is that query's product with the key and E, and (v - u) . E.
        """
        radius, steps = self.pattern.radius, self.pattern.dilation
        steps = (steps,) * self.num_heads if isinstance(steps, int) else steps
        shape = (self.num_heads, self.head_dim)
        u, v = (
            self.param(name, truncated_normal(self.stddev), shape, self.param_dtype)
            for name in ("key_bias", "offset_bias")
        )
        dense = Dense(
            shape,
            self.stddev,
            self.dtype,
            param_dtype=self.param_dtype,
            use_bias=False,
            name="offset",
        )
        # [1, 2 * radius + 1], in steps of the dilation.
        offset = jnp.arange(-radius, radius + 1, dtype=jnp.int32)[None]
        # E of each head: [2 * radius + 1, h, d]
        embedding = jnp.zeros((2 * radius + 1, *shape), self.dtype)
        for step in dict.fromkeys(steps):
            # bool [1, h, 1]: the heads of this dilation.
            of_step = np.array([s == step for s in steps])[None, :, None]
            # [2 * radius + 1, width] -> [2 * radius + 1, h, d]; one map for all steps.
            products = dense(sinusoids(offset * step, width)[0])
            embedding = jnp.where(of_step, products, embedding)
        wide = embedding.astype(jnp.promote_types(self.dtype, jnp.float32))
        # (v - u) . E, summed in float32: [2 * radius + 1, h]
        bias = jnp.einsum("vhd,hd->vh", wide, (v - u).astype(wide.dtype))
        # [b, n, h, d] + [1, 1, h, d]
        query = query + u.astype(query.dtype)[None, None]
        return query, LabelTable(embedding, bias)

    def _attend(
        self, x, rows, offsets, side_keys, inputs: SequenceInputs, random_blocks
    ) -> jax.Array:
        """`[b, n, h, d]` of the layer's input and of its queries, keys and values."""
        options = self.options() | {"example_ids": inputs.example_ids}
        if isinstance(self.pattern, Local):
            return sliding_window.attend(
                *rows,
                radius=self.pattern.radius,
                side_keys=side_keys,
                bias=inputs.bias,
                sequence_axis=sharding.sequence_axis(),
                mesh_axes=sharding.mesh_axes(),
                **options,
            )
        if isinstance(self.pattern, Blocks):
            return pooled_block.attend(
                *rows,
                blocks=self.pattern,
                sequence_axis=sharding.sequence_axis(),
                **options,
            )
        if isinstance(self.pattern, AttentionWindow):
            self._check_mesh(inputs)
            return sliding_window.attend(
                *rows,
                **self.pattern._asdict(),
                globals_=self._globals(x, inputs.global_index),
                offsets=offsets,
                bias=inputs.bias,
                sequence_axis=sharding.sequence_axis(),
                mesh_axes=sharding.mesh_axes(),
                **options,
            )
        return self._of_whole(rows, random_blocks, inputs.bias, options)
