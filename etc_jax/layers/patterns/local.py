"""Windows without global tokens, with or without sums of blocks (LongT5)."""

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from etc_jax import sharding
from etc_jax.layers.common import RmsNorm
from etc_jax.layers.self_attention import Pattern, Projected, SequenceInputs
from etc_jax.ops.attention import sliding_window, transient_blocks
from etc_jax.ops.attention.sliding_window import SideKeys
from etc_jax.ops.flops import pairs_between, pairs_within, projection


@dataclasses.dataclass(frozen=True)
class Local(Pattern):
    """A window (Guo et al. 2022, section 3.2.1).

    Attributes:
      radius: keys to each side.
    """

    splits_sequence: ClassVar[bool] = True
    kernel_problem: ClassVar[None] = None

    radius: int

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`."""
        return self.radius + 1

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`."""
        del per_layer
        return sliding_window.attend(
            *projected.rows,
            radius=self.radius,
            side_keys=self.side_keys(layer, projected, inputs),
            bias=inputs.bias,
            sequence_axis=sharding.sequence_axis(),
            mesh_axes=sharding.mesh_axes(),
            **layer.options(),
            example_ids=inputs.example_ids,
        )

    def side_keys(self, layer, projected, inputs) -> SideKeys | None:
        """Keys and values that all tokens see besides."""
        del layer, projected, inputs

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids = np.asarray(inputs.example_ids)
        index = np.arange(ids.shape[1])
        return pairs_within(ids, index - self.radius, index + self.radius)


@dataclasses.dataclass(frozen=True)
class TransientGlobal(Local):
    """Windows, and sums of blocks, which each layer makes anew (section 3.2.2).

    Attributes:
      block_size: tokens of a sum.
      epsilon: of the norm of the sums.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"block_bias"})

    block_size: int
    epsilon: float = 1e-6

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`: shorter than a block, a sequence has no sums."""
        return max(1, min(super().full_attention_length, self.block_size - 1))

    def side_keys(self, layer, projected: Projected, inputs) -> SideKeys:
        """Sums of blocks as keys and values, `[b, g, h, d]`."""
        blocks = transient_blocks.blocks_of(inputs.example_ids, self.block_size)
        norm = RmsNorm(self.epsilon, layer.dtype, layer.param_dtype, name="block_norm")
        # [b, n, e] -> [b, g, e] -> [b, g, h, d], by the maps of tokens.
        sums = norm(transient_blocks.block_sums(projected.x, blocks))
        bias = transient_blocks.side_bias(inputs.block_bias, blocks)
        maps = projected.maps
        return SideKeys(maps["key"](sums), maps["value"](sums), blocks.example, bias)

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`: also of tokens and sums."""
        ids = np.asarray(inputs.example_ids)
        near = super().visible_pairs(config, inputs)
        return near + pairs_between(ids, self._block_ids(ids))

    def flops(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.flops`: with keys and values of the sums."""
        sums = int(np.sum(self._block_ids(np.asarray(inputs.example_ids)) > 0))
        inner = config.num_heads * config.attention_head_dim
        maps = projection(2 * sums, config.embed_dim, inner)
        return super().flops(config, inputs) + maps

    def _block_ids(self, ids: np.ndarray) -> np.ndarray:
        """The example of each sum of a block, 0 for none: `[b, n]`."""
        block_ids = np.zeros_like(ids)
        for row, row_ids in zip(ids, block_ids, strict=True):
            names, lengths = np.unique(row[row > 0], return_counts=True)
            blocks = np.repeat(names, lengths // self.block_size)
            row_ids[: len(blocks)] = blocks
        return block_ids
