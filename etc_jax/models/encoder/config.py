"""Sizes and choices of encoders with one sequence: BERT and what grew from it."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax.numpy as jnp

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.block_sparse import MOMENTS, BlockSparse
from etc_jax.layers.patterns.full import Full
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import REMAT_POLICIES, run_of
from etc_jax.models.config_problems import (
    transformer_problems,
    window_problems,
)


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """What all of them have; the defaults are those of BERT base.

    Attributes:
      vocab_size: rows of the token table.
      num_types: rows of the token-type table.
      embed_dim: width.
      num_layers: layers.
      num_heads: of each layer.
      head_dim: of each head; None: embed_dim / num_heads.
      mlp_dim: hidden width of the feed-forward block.
      max_length: longest sequence that has positions.
      activation: of feed-forward and MLM head.
      dropout_rate: of embeddings and residual branches.
      attention_dropout_rate: of attention probabilities.
      initializer_range: standard deviation of kernels and tables.
      layer_norm_epsilon: added to variances.
      logits_chunk_length: tokens whose logits are computed at once in the loss; 0: all.
      scan_layers: whether layers are compiled once; otherwise one by one.
      remat_policy: what a layer keeps for its backward pass, of `stack.REMAT_POLICIES`.
      dtype: of the computation; parameters are float32.
      attention: "auto", "xla", "pallas" (kernels for NVIDIA GPUs) or "dense".
    """

    formats: ClassVar[tuple[str, ...]] = ("sequence",)

    # Row of position 0 in its table; the rows before it are those of padding.
    position_offset: ClassVar[int] = 0
    # How positions are encoded: by a table, unless a family has a choice.
    positions: ClassVar[str] = "learnt"

    # `sized` fields show in shapes or paths of parameters, `free` ones change nothing
    # that was learnt, and all others must agree at `init_from`.
    vocab_size: int = sized(30522)
    num_types: int = sized(2)
    embed_dim: int = sized(768)
    num_layers: int = sized(12)
    num_heads: int = sized(12)
    head_dim: int | None = sized(None)
    mlp_dim: int = sized(3072)
    max_length: int = sized(512)
    # BERT's is the gelu of the error function, not its tanh approximation.
    activation: str = "gelu_exact"
    dropout_rate: float = free(0.1)
    attention_dropout_rate: float = free(0.1)
    initializer_range: float = free(0.02)
    layer_norm_epsilon: float = 1e-12
    logits_chunk_length: int = free(0)
    scan_layers: bool = sized(True)
    remat_policy: str = free("none")
    dtype: str = free("float32")
    attention: str = free("auto")

    # Dropout before the norm of the embeddings.
    dropout_first: ClassVar[bool] = False
    answer_mlp: ClassVar[bool] = False
    # Whether queries, keys and values have one.
    projection_bias: ClassVar[bool] = True
    pre_norm: ClassVar[bool] = False

    @property
    def label_activation(self) -> str | None:
        """Of the layer before the labels of a sequence; None: the pooler is there."""
        return None

    @property
    def token_scale(self) -> float:
        """What the rows of the token table are multiplied by."""
        return 1.0

    @property
    def attention_head_dim(self) -> int:
        """Size of one head."""
        return self.head_dim or self.embed_dim // self.num_heads

    @property
    def num_positions(self) -> int:
        """Rows of the position table."""
        return self.max_length + self.position_offset

    @property
    def position_limit(self) -> int | None:
        """Tokens that there are positions for; None: any number."""
        return self.max_length if self.positions == "learnt" else None

    @property
    def input_limit(self) -> tuple[str, int | None]:
        """(field that limits an input, tokens); without a table of positions None."""
        return "max_length", self.position_limit

    @property
    def compute_dtype(self) -> jnp.dtype:
        return jnp.dtype(self.dtype)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What tokens see in each layer of a run that is repeated."""
        return (Full(),)

    @property
    def has_globals(self) -> bool:
        """Whether tokens of an input may be global."""
        return "global_index" in self.patterns[0].reads

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong."""
        positive = (
            "vocab_size num_types embed_dim num_layers num_heads head_dim mlp_dim "
            "max_length"
        )
        yield from at_least(1).problems(self, *positive.split())
        yield from at_least(0, "all").problems(self, "logits_chunk_length")
        yield from transformer_problems(self)
        yield from choice(REMAT_POLICIES).problems(self, "remat_policy")


@dataclasses.dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """A BERT (Devlin et al. 2018)."""


@dataclasses.dataclass(frozen=True)
class RobertaConfig(EncoderConfig):
    """A RoBERTa (Liu et al. 2019): BERT with positions that skip padding.

    Attributes:
      pad_id: token of padding, whose number is also that of its row of positions.
    """

    # What released RoBERTas have instead of BERT's.
    vocab_size: int = 50265
    num_types: int = 1
    layer_norm_epsilon: float = 1e-5
    pad_id: int = 1

    @property
    def label_activation(self) -> str:
        return "tanh"

    @property
    def position_offset(self) -> int:
        # Padding has row pad_id, and positions begin after it.
        return self.pad_id + 1

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(0).problems(self, "pad_id")


POSITIONS = ("learnt", "sinusoidal", "relative", "none")


@dataclasses.dataclass(frozen=True)
class LongformerConfig(RobertaConfig):
    """A Longformer (Beltagy et al. 2020): RoBERTa with windows and global tokens.

    Attributes:
      attention_window: keys that a token sees on both sides together, an even number,
        as Hugging Face counts (allenai's code counts one side); one for all layers, or
        one for each of a run of layers that is repeated, the last time as far as there
        are layers.
      attention_dilation: places from one key of a window to the next, for each layer of
        the run: a number, or one for each head. Empty: 1.
      causal: no key after the query.
      positions: "learnt", max_length rows of a table; "sinusoidal", sines that are
        added to the tokens, whose rows are multiplied by sqrt(embed_dim) then (Vaswani
        et al. 2017); "relative", causal windows with products of queries and maps of
        sines of offsets (Dai et al. 2019, section 3.3); "none", causal windows alone
        give the order. Without a table parameters fit any length: nothing is cut to
        max_length or refused for it.
      pre_norm: norms before the branches of a layer, and one after the last layer.
    """

    formats: ClassVar[tuple[str, ...]] = ("sequence", "text_to_text")

    # The released models: 4096 positions, windows of 256 tokens to each side.
    max_length: int = 4096
    attention_window: tuple[int, ...] = (512,)
    attention_dilation: tuple[int | tuple[int, ...], ...] = ()
    causal: bool = False
    positions: str = "learnt"
    pre_norm: bool = sized(False)

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.positions == "sinusoidal" else 1.0

    @property
    def patterns(self) -> tuple[SlidingWindow, ...]:
        steps = self.attention_dilation or (1,) * len(self.attention_window)
        relative = self.positions == "relative"
        windows = [
            # Both sides together -> one side.
            SlidingWindow(width // 2, step, self.causal, relative)
            for width, step in zip(self.attention_window, steps, strict=True)
        ]
        return run_of(windows, self.num_layers)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self._position_problems()
        yield from window_problems(self)
        run = len(self.attention_window)
        if self.attention_dilation and len(self.attention_dilation) != run:
            yield (
                "attention_dilation",
                f"is {self.attention_dilation}; expected one entry for each of the "
                f"{run} of attention_window",
            )
        for step in self.attention_dilation:
            steps = (step,) * self.num_heads if isinstance(step, int) else tuple(step)
            if len(steps) != self.num_heads or min(steps, default=0) < 1:
                yield (
                    "attention_dilation",
                    f"has {step!r}; expected a number of 1 or more, or one for each of "
                    f"the {self.num_heads} heads",
                )

    def _position_problems(self) -> Iterator[tuple[str, str]]:
        yield from choice(POSITIONS).problems(self, "positions")
        if self.positions in ("sinusoidal", "relative") and self.embed_dim % 2:
            yield (
                "embed_dim",
                f"is {self.embed_dim}; expected an even number: positions are "
                "pairs of a sine and a cosine",
            )
        if self.positions == "relative" and not self.causal:
            yield (
                "positions",
                "is 'relative', which causal windows alone have; set causal=True, or "
                "choose other positions",
            )
        if self.positions == "none" and not self.causal:
            yield (
                "positions",
                "is 'none', but a window that looks both ways does not tell the order "
                "of its tokens; set causal=True, or choose other positions",
            )


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
