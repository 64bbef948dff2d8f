"""Sizes and choices of BART-LS."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from etc_jax.base.rules import at_least
from etc_jax.config.model_fields import sized
from etc_jax.layers.patterns.blocks import Blocks, Pooled
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder.config import Side
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.pooled_block import Pool


@dataclasses.dataclass(frozen=True)
class BartLsConfig(BartConfig):
    """A BART whose encoder attends in blocks and to averages (Xiong et al. 2022).

    The mechanisms of table 1 of the paper are `overlap`, `num_globals` and
    `pooling_layers`.

    Attributes:
      max_target_length: longest target.
      block_size: tokens of a block.
      overlap: tokens see half of each neighbour of their block.
      num_globals: first tokens of each block that are global.
      pooling_layers: layers of the encoder, the last ones, that attend to averages.
      pool_kernel, pool_stride, pool_padding: places of an average, from one to the
        next, and before the first token.
    """

    max_length: int = 16384
    max_target_length: int = sized(1024)
    block_size: int = 1024
    overlap: bool = False
    num_globals: int = 0
    pooling_layers: int = sized(4)
    pool_kernel: int = 18
    pool_stride: int = 12
    pool_padding: int = 9

    @property
    def patterns(self) -> tuple[Blocks]:
        sizes = self.block_size, self.overlap, self.num_globals
        return (Blocks(pooled_block.Blocks(*sizes)),)

    @property
    def encoder_side(self) -> Side:
        sizes = self.pool_kernel, self.pool_stride, self.pool_padding
        # As in the authors' code, which pads texts to whole blocks.
        pool = Pool(*sizes, multiple=self.block_size)
        return super().encoder_side._replace(
            top_layers=self.pooling_layers,
            top_pattern=Pooled(self.patterns[0].blocks, pool),
            real_positions=True,
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(1).problems(
            self, "block_size", "pool_kernel", "pool_stride"
        )
        yield from at_least(0).problems(self, "num_globals", "pool_padding")
        if not 0 <= self.pooling_layers <= self.num_layers:
            yield (
                "pooling_layers",
                f"is {self.pooling_layers}; expected 0 to num_layers, "
                f"{self.num_layers}",
            )
        if self.num_globals > self.block_size:
            yield (
                "num_globals",
                f"is {self.num_globals}, of blocks of {self.block_size} tokens; "
                "expected 0 to so many",
            )
        if self.pool_padding > self.pool_kernel // 2:
            yield (
                "pool_padding",
                f"is {self.pool_padding}; expected half of pool_kernel "
                f"{self.pool_kernel} at most",
            )

    def problems_with(self, objective: Any, data: Any) -> Iterator[tuple[str, str]]:
        yield from super().problems_with(objective, data)
        if getattr(objective, "packed", False):
            yield (
                "objective.packed",
                f"is True, but {self.patterns[0].packing_problem}; set it to False",
            )
