"""Self-attention of one sequence, and the protocol of what its tokens see."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.projections import HeadProjections
from etc_jax.ops.attention import row_cache
from etc_jax.ops.attention.bias import BiasFn
from etc_jax.ops.attention.memory_rows import MemoryRows
from etc_jax.ops.attention.parts.checks import KERNELS
from etc_jax.ops.attention.row_cache import Newest
from etc_jax.ops.flops import attention, projection


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
      rotations: of `lsh_hashing.draw_rotations`, for all LSH layers; None: each layer
        draws its own.
      memory: of an encoder, for a decoder's cross-attention; of a decoder with a cache
        the keys and values of all layers.
      newest: where a step of one token more is, which has no `example_ids`; None: this
        is no step.
      positions: int `[b, n]` of tokens in their examples; None: they count as the
        sequence does.
    """

    example_ids: jax.Array | None
    global_index: jax.Array | None = None
    bias: BiasFn | None = None
    block_bias: BiasFn | None = None
    rotations: jax.Array | None = None
    memory: Memory | MemoryRows | None = None
    newest: Newest | None = None
    positions: jax.Array | None = None


class Projected(NamedTuple):
    """What a layer makes of its input.

    Attributes:
      x: `[b, n, e]`, the input.
      maps: of each of `Pattern.projections`: `[b, m, e]` -> `[b, m, h, d]`.
      rows: `[b, n, h, d]` of `x` by these maps; see `Pattern.placed`.
    """

    x: jax.Array
    maps: Mapping[str, Callable[[jax.Array], jax.Array]]
    rows: tuple[jax.Array, ...]


def lengths_of(inputs: SequenceInputs) -> jax.Array:
    """Real tokens of each row: int32 `[b]`."""
    # [b, n] -> [b]
    return jnp.sum(inputs.example_ids > 0, axis=1, dtype=jnp.int32)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What the tokens of a layer see, and all that follows from it.

    A subclass is a frozen dataclass of its sizes with `attend` and `visible_pairs`; the
    rest has defaults of a pattern that promises nothing.

    Attributes:
      reads: what it reads of an input beside its examples: names of `SequenceInputs`,
        or "random_blocks", which each layer is given for itself.
      projections: maps of all tokens to heads: queries, keys, values.
      more_projections: names of further ones, of some tokens or for them.
      splits_sequence: it works where a sequence is split over devices.
      kernel_problem: why its attention does not run as kernels; None: it does.
      packing_problem: why rows of a packed example are not those of it alone, although
        it sees no other one; None: they are.
      full_attention_length: the longest sequence whose tokens all see each other (or
        all before them); None: any.
      reach: how far back a token sees, as `row_cache.step` takes it, {} for all; None:
        tokens see later ones, so that there are no steps from a cache.
    """

    reads: ClassVar[frozenset[str]] = frozenset()
    projections: ClassVar[tuple[str, ...]] = ("query", "key", "value")
    more_projections: ClassVar[tuple[str, ...]] = ()
    splits_sequence: ClassVar[bool] = False
    kernel_problem: ClassVar[str | None] = "there are no kernels"
    packing_problem: ClassVar[str | None] = None
    full_attention_length: ClassVar[int | None] = 1
    reach: ClassVar[dict[str, Any] | None] = None

    def module(self, *, name: str, **options: Any) -> nn.Module:
        """The attention of a layer; called as `SelfAttention`, with its options."""
        return SelfAttention(pattern=self, name=name, **options)

    def placed(
        self, rows: tuple[jax.Array, ...], inputs: SequenceInputs
    ) -> tuple[jax.Array, ...]:
        """Rows with what their positions do to them: nothing, unless they are rotary.

        Args:
          rows: `[b, n, h, d]` of each of `projections`.
          inputs: of the batch.
        """
        del inputs
        return rows

    def run(
        self,
        layer: SelfAttention,
        projected: Projected,
        inputs: SequenceInputs,
        per_layer: Any = None,
        state: Any = None,
    ) -> tuple[jax.Array, Any]:
        """(`attend`, the state of the layer): of `cache`, where there will be steps.

        Args:
          layer: see `attend`.
          projected: see `attend`.
          inputs: see `attend`.
          per_layer: see `attend`.
          state: of an earlier call on the same input; None: there was none.
        """
        del state
        out = self.attend(layer, projected, inputs, per_layer)
        if layer.cache_length is None:
            return out, None
        return out, self.cache(projected, inputs, layer.cache_length)

    def cache(self, projected: Projected, inputs: SequenceInputs, length: int) -> Any:
        """What steps read of a prompt, without the axis of layers.

        Args:
          projected: of the prompt.
          inputs: of the prompt.
          length: longest sequence that there will be.
        """
        rows = length
        if self.reach:
            rows = row_cache.window_rows(**self.reach, length=length)
        # Keys and values alone, [b, rows, h, d].
        return row_cache.fill(*projected.rows[1:], lengths_of(inputs), rows)

    def attend(
        self,
        layer: SelfAttention,
        projected: Projected,
        inputs: SequenceInputs,
        per_layer: Any = None,
    ) -> jax.Array:
        """What the tokens of a sequence read: `[b, n, h, d]`.

        Args:
          layer: whose `options()` go to an attention of `ops.attention`; parameters
            beside those of the projections are made as in its compact method.
          projected: of the layer's input.
          inputs: of the batch.
          per_layer: what this layer alone is given; None: nothing.
        """
        raise NotImplementedError

    def step(
        self,
        layer: SelfAttention,
        projected: Projected,
        inputs: SequenceInputs,
        state: Any,
        **options: Any,
    ) -> tuple[jax.Array, Any]:
        """The same of the newest token, `[b, 1, h, d]`, and the state with it.

        Args:
          layer: see `attend`.
          projected: of the newest token.
          inputs: with `newest`.
          state: of `cache`, of all repeats of this layer.
          **options: further ones of `row_cache.step`.
        """
        return row_cache.step(
            *projected.rows,
            state,
            inputs.newest,
            bias=inputs.bias,
            scale=layer.scale,
            **self.reach,
            **options,
        )

    def draw(
        self, length: int, num_layers: int, num_heads: int, deterministic: bool
    ) -> np.ndarray | None:
        """What each layer alone is given where an input says nothing: `[layers, ...]`.

        Args:
          length: of the sequences.
          num_layers: of the stack.
          num_heads: of each layer.
          deterministic: no dropout.
        """

    def padding_limit(self, length: int) -> int | None:
        """The longest padded length with the same rows as `length`; None: any."""

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """Pairs of query and key that see each other, a mean over heads.

        Args:
          config: of the model.
          inputs: in numpy.
        """
        raise NotImplementedError

    def flops(self, config: Any, inputs: SequenceInputs) -> float:
        """Useful FLOPs of a layer's attention, with its maps; see `visible_pairs`."""
        tokens = int(np.sum(np.asarray(inputs.example_ids) > 0))
        inner = config.num_heads * config.attention_head_dim
        # The output has a map as well.
        maps = (len(self.projections) + 1) * tokens
        pairs = self.visible_pairs(config, inputs)
        return projection(maps, config.embed_dim, inner) + attention(pairs, config)


def drawn(patterns: tuple[Pattern, ...], *sizes: Any) -> np.ndarray | None:
    """What the layers of a stack are given, of the first pattern that draws it.

    Args:
      patterns: of a run of layers.
      *sizes: see `Pattern.draw`.
    """
    for pattern in patterns:
        if (per_layer := pattern.draw(*sizes)) is not None:
            return per_layer
    return None


class SelfAttention(HeadProjections):
    """Multi-head attention inside a sequence.

    Attributes:
      pattern: what tokens see.
      cache_length: longest sequence that will be decoded, where no token sees a later
        one: a prompt then leaves a cache, and a step reads it; None: neither.
    """

    pattern: Pattern
    cache_length: int | None = None

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        inputs: SequenceInputs,
        per_layer: Any = None,
        state: Any = None,
    ) -> tuple[jax.Array, Any]:
        """`[b, n, e]` -> (the same shape, state); n is 1 in a step.

        Args:
          x: the layer's input.
          inputs: of the batch.
          per_layer: see `Pattern.draw`; None: nothing was drawn.
          state: of an earlier call, see `Pattern.run`; in a step, the caches of all
            repeats of this layer.

        Raises:
          ValueError: if a sequence is split over devices that must be whole.
        """
        maps = {name: self.to_heads(name) for name in self.pattern.projections}
        # [b, n, e] -> [b, n, h, d], of each.
        rows = tuple(to_heads(x) for to_heads in maps.values())
        projected = Projected(x, maps, self.pattern.placed(rows, inputs))
        if inputs.newest is not None:
            # [b, 1, h, d] over the rows of this layer's cache.
            out, state = self.pattern.step(self, projected, inputs, state)
        else:
            self._check()
            out, state = self.pattern.run(self, projected, inputs, per_layer, state)
        # [b, n, h, d] -> [b, n, e]
        return self.joined(out, x.shape[-1]), state

    def _check(self) -> None:
        pattern, name = self.pattern, type(self.pattern).__name__
        if sharding.sequence_axis() is not None and not pattern.splits_sequence:
            raise ValueError(
                f"mesh.sequence is more than 1, but attention of the pattern {name} "
                "does not work on a split sequence; split over data, fsdp or tensor"
            )
        if self.implementation in KERNELS and pattern.kernel_problem:
            raise ValueError(
                f'attention is "{self.implementation}", but of the pattern {name} '
                f'{pattern.kernel_problem}; use "auto" or "xla"'
            )
