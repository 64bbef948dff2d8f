"""Sizes and choices of BigBird."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import sized
from etc_jax.layers.patterns.block_sparse import MOMENTS, BlockSparse
from etc_jax.layers.patterns.full import Full
from etc_jax.layers.self_attention import Pattern
from etc_jax.models.encoder.config import EncoderConfig


@dataclasses.dataclass(frozen=True)
class BigBirdConfig(EncoderConfig):
    """A BigBird (Zaheer et al. 2020): BERT with block-sparse attention.

    Attributes:
      pattern: "block_sparse", or "full": all tokens see each other.
      block_size: tokens of a block.
      num_globals: tokens in front of every sequence that are global, and the blocks are
        those of the others (BigBird-ETC). 0: the first and the last block are global
        (BigBird-ITC, as in the released models).
      num_random_blocks: blocks that each block sees besides its neighbours and what is
        global. With num_globals = 0, sequences of 5 blocks and twice as many are
        attended whole.
      random_blocks: when they are those drawn, as for the released models or after
        global tokens (`parts.random_blocks`): in "training", as transformers
        does, "always", as Google's code does, or "never"; else they are the first
        block, so many times, and with num_globals none. Where they are given with an
        input, they are those.
      rescale_embeddings: rows of the token table are multiplied by sqrt(embed_dim).
      projection_bias: queries, keys and values have a bias, as all other maps do.
    """

    dropout_first: ClassVar[bool] = True
    # Of question answering: a feed-forward block before the logits.
    answer_mlp: ClassVar[bool] = True

    vocab_size: int = 50358
    max_length: int = 4096
    # The tanh approximation ("gelu_new").
    activation: str = "gelu"
    pattern: str = "block_sparse"
    # Blocks as in the released models, of the internal form.
    block_size: int = 64
    num_globals: int = 0
    num_random_blocks: int = 3
    random_blocks: str = "training"
    rescale_embeddings: bool = False
    projection_bias: bool = sized(True)

    @property
    def label_activation(self) -> str:
        return self.activation

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.rescale_embeddings else 1.0

    @property
    def text_globals(self) -> int:
        return self.num_globals

    @property
    def patterns(self) -> tuple[Pattern]:
        if self.pattern == "full":
            return (Full(),)
        sparse = BlockSparse(
            self.block_size,
            self.num_random_blocks,
            self.num_globals,
            self.random_blocks,
            self.max_length,
        )
        return (sparse,)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(1).problems(self, "block_size")
        yield from at_least(0).problems(self, "num_random_blocks", "num_globals")
        if self.num_globals > self.max_length:
            yield (
                "num_globals",
                f"is {self.num_globals}; expected max_length, {self.max_length}, or "
                "fewer",
            )
        yield from choice(("block_sparse", "full")).problems(self, "pattern")
        yield from MOMENTS.problems(self, "random_blocks")
