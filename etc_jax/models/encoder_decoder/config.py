"""Sizes and choices of encoder-decoders: BART, T5 and what grew from them."""

# One file: each family is the changes to the one before it.

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.full import Causal, Full
from etc_jax.layers.patterns.local import Local, TransientGlobal
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import REMAT_POLICIES, run_of
from etc_jax.models.config_problems import (
    transformer_problems,
    window_problems,
)
from etc_jax.models.sled.config import SledConfig
from etc_jax.ops.attention.parts.checks import dropout_rate_problem


class Side(NamedTuple):
    """What differs between the encoder and the decoder of one model.

    Attributes:
      num_layers, num_heads, mlp_dim: of the stack.
      max_length: longest sequence.
      patterns: what tokens see in each layer of a run that is repeated.
      causal: no key after the query.
      attention_dropout_rate: of attention probabilities.
      top_layers: of the layers, those at the end whose tokens see something else.
      top_pattern: what they see.
      real_positions: padding has no position, see `layers.encoder.positions_of`.
    """

    num_layers: int
    num_heads: int
    mlp_dim: int
    max_length: int
    patterns: tuple[Pattern, ...]
    causal: bool
    attention_dropout_rate: float
    top_layers: int = 0
    top_pattern: Pattern = None
    real_positions: bool = False


class Spreads(NamedTuple):
    """Standard deviations that parameters begin with.

    Attributes:
      table: of the token table.
      query, projection, out: of attention; keys and values have one.
      wi, wo: of the feed-forward block.
      bias: of the numbers of relative positions.
      logits: of a matrix of the logits' own.
    """

    table: float
    query: float
    projection: float
    out: float
    wi: float
    wo: float
    bias: float
    logits: float


@dataclasses.dataclass(frozen=True)
class EncoderDecoderConfig:
    """What all of them have.

    Attributes:
      vocab_size: rows of the token table, which encoder and decoder share unless
        `shared_table` says otherwise.
      embed_dim: width.
      num_layers, num_decoder_layers: layers of the encoder, of the decoder.
      num_heads: of each layer.
      head_dim: of each head; None: embed_dim / num_heads, of each side.
      mlp_dim: hidden width of the feed-forward blocks.
      max_length: longest input; the longest target too, unless a family has its own.
        Without tables of positions it limits nothing; see `position_limit`.
      activation: of the feed-forward blocks.
      dropout_rate: of embeddings and residual branches.
      initializer_range: standard deviation of kernels and tables.
      logits_chunk_length: tokens whose logits are computed at once in the loss; 0: all.
      pad_id: token of padding.
      decoder_start_id: first token that the decoder is given.
      eos_id: token that ends a target.
      scan_layers: whether layers are compiled once; otherwise one by one.
      remat_policy: what a layer keeps for its backward pass, of `stack.REMAT_POLICIES`.
      dtype: of the computation; parameters are float32.
      attention: "auto", "xla" or "dense".
      sled: windows by which the encoder reads inputs longer than `max_length`.
    """

    formats: ClassVar[tuple[str, ...]] = ("text_to_text",)

    # Choices that a family makes, unless it has a field of that name.
    # How positions are encoded: "learnt", by tables; "relative", by a bias of logits.
    positions: ClassVar[str] = "learnt"
    # Row of position 0 in its table.
    position_offset: ClassVar[int] = 0
    embed_norm: ClassVar[bool] = True
    pre_norm: ClassVar[bool] = False
    final_norm: ClassVar[bool] = False
    # Norms without mean and bias.
    rms_norm: ClassVar[bool] = False
    use_bias: ClassVar[bool] = True
    gated: ClassVar[bool] = False
    # Of the products of queries and keys; None: 1 / sqrt(head_dim).
    attention_scale: ClassVar[float | None] = None
    # The decoder reads the token table of the encoder, or one of its own.
    shared_table: ClassVar[bool] = True
    # Logits by the token table of the decoder, or by a matrix of their own.
    tied_logits: ClassVar[bool] = True
    # A number for each token is added to the logits.
    logits_bias: ClassVar[bool] = False
    # Dropout after the last norm of a stack as well.
    final_dropout: ClassVar[bool] = False
    num_decoder_heads: ClassVar[int | None] = None
    decoder_mlp_dim: ClassVar[int | None] = None
    # Texts begin with the first token of the vocabulary, such as <s>.
    begin_token: ClassVar[bool] = False
    # Tokens of generation: the first and the last one; None: any.
    forced_bos_id: ClassVar[int | None] = None
    forced_eos_id: ClassVar[int | None] = None

    # `sized` fields show in shapes or paths of parameters, `free` ones change nothing
    # that was learnt, and all others must agree at `init_from`.
    vocab_size: int = sized(50265)
    embed_dim: int = sized(768)
    num_layers: int = sized(6)
    num_decoder_layers: int = sized(6)
    num_heads: int = sized(12)
    head_dim: int | None = sized(None)
    mlp_dim: int = sized(3072)
    max_length: int = sized(1024)
    activation: str = "gelu_exact"
    dropout_rate: float = free(0.1)
    initializer_range: float = free(0.02)
    logits_chunk_length: int = free(0)
    pad_id: int = 1
    decoder_start_id: int = 2
    eos_id: int = 2
    scan_layers: bool = sized(True)
    remat_policy: str = free("none")
    dtype: str = free("float32")
    attention: str = free("auto")
    sled: SledConfig = free(SledConfig())

    @property
    def max_target_length(self) -> int:
        """Longest target."""
        return self.max_length

    @property
    def position_limit(self) -> int | None:
        """Tokens that the encoder has positions for; None: any number."""
        return self.max_length if self.positions == "learnt" else None

    @property
    def longest_target(self) -> int | None:
        """Tokens that the decoder has positions for; None: any number."""
        return self.max_target_length if self.positions == "learnt" else None

    @property
    def input_limit(self) -> tuple[str, int | None]:
        """(field that limits an input, tokens); None: inputs of any length."""
        if self.sled.window:
            return "sled.input_length", self.sled.input_length
        return "max_length", self.position_limit

    @property
    def longest_input(self) -> int | None:
        """Tokens of the longest input; None: any number."""
        return self.input_limit[1]

    @property
    def attention_head_dim(self) -> int:
        """Size of one head of the encoder."""
        return self.head_dim or self.embed_dim // self.num_heads

    @property
    def compute_dtype(self) -> jnp.dtype:
        return jnp.dtype(self.dtype)

    @property
    def token_scale(self) -> float:
        """What the rows of the token table are multiplied by."""
        return 1.0

    @property
    def logits_scale(self) -> float:
        """What the rows are multiplied by that become logits."""
        return 1.0

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What the encoder's tokens see in each layer of a run that is repeated."""
        return (Full(),)

    @property
    def has_globals(self) -> bool:
        """Whether tokens of an input may be global."""
        return "global_index" in self.patterns[0].reads

    @property
    def encoder_side(self) -> Side:
        sizes = self.num_layers, self.num_heads, self.mlp_dim, self.max_length
        return Side(*sizes, self.patterns, False, self.attention_dropout_rate)

    @property
    def decoder_side(self) -> Side:
        return Side(
            self.num_decoder_layers,
            self.num_decoder_heads or self.num_heads,
            self.decoder_mlp_dim or self.mlp_dim,
            self.max_target_length,
            (Causal(),),
            True,
            self.attention_dropout_rate,
        )

    def spreads(self, side: Side) -> Spreads:
        """Of one side's parameters."""
        del side
        return Spreads(*[self.initializer_range] * len(Spreads._fields))

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong."""
        positive = (
            "vocab_size embed_dim num_layers num_decoder_layers num_heads mlp_dim "
            "max_length max_target_length num_decoder_heads decoder_mlp_dim head_dim"
        )
        yield from at_least(1).problems(self, *positive.split())
        yield from at_least(0, "all").problems(self, "logits_chunk_length")
        yield from transformer_problems(self)
        yield from choice(REMAT_POLICIES).problems(self, "remat_policy")
        for name in ("pad_id", "decoder_start_id", "eos_id"):
            if not 0 <= (value := getattr(self, name)) < self.vocab_size:
                yield (
                    name,
                    f"is {value}; expected a row of the token table, 0 to "
                    f"{self.vocab_size - 1}",
                )
        for field, message in self.sled.field_problems():
            yield f"sled.{field}", message
        if self.sled.window:
            yield from self._sled_problems()

    def _sled_problems(self) -> Iterator[tuple[str, str]]:
        """What windows ask of the rest."""
        if self.has_globals:
            yield (
                "sled.window",
                f"is {self.sled.window}, but this encoder has global tokens, which see "
                "the whole input; take an encoder of short texts",
            )
        limit = self.position_limit
        if limit is not None and self.sled.encoded_length > limit:
            yield (
                "sled.window",
                f"is {self.sled.window}, with prefix_length {self.sled.prefix_length} "
                f"more than the {limit} tokens (max_length) that the encoder "
                "reads; lower one of them",
            )

    def problems_with(self, objective: Any, data: Any) -> Iterator[tuple[str, str]]:
        """(path, message) for what asks more of the model than it has."""
        longest = self.longest_target
        if longest is not None and data.target_length > longest:
            yield (
                "data.target_length",
                f"is {data.target_length}, more than the {longest} tokens that the "
                "decoder writes at most; lower it, or take a model of longer targets",
            )
        prefix_length = getattr(data, "prefix_length", self.sled.prefix_length)
        if getattr(data, "prefix_every", 0):
            # Each block has it among its tokens.
            prefix_length = 0
        if prefix_length != self.sled.prefix_length:
            yield (
                "data.prefix_length",
                f"is {prefix_length}, but model.sled.prefix_length is "
                f"{self.sled.prefix_length}; the model expects the prefix in the first "
                "places of an input: set both to one number",
            )
        if self.sled.window and getattr(objective, "packed", False):
            yield (
                "objective.packed",
                "is True, but the windows of model.sled are of one pair a row; set it "
                "to False",
            )
        if getattr(objective, "global_tokens", 0) and not self.has_globals:
            yield (
                "objective.global_tokens",
                f"is {objective.global_tokens}, but this encoder has no global tokens, "
                "as that of a LED; set it to 0",
            )


@dataclasses.dataclass(frozen=True)
class BartConfig(EncoderDecoderConfig):
    """A BART (Lewis et al. 2020); by its switches an mBART or what is between.

    Attributes:
      num_decoder_heads: heads of the decoder; None: as many as the encoder's.
      decoder_mlp_dim: hidden width of the decoder; None: as the encoder's.
      attention_dropout_rate: of attention probabilities.
      activation_dropout_rate: of the hidden layer of the feed-forward blocks.
      layer_norm_epsilon: added to variances.
      scale_embedding: rows of the token table are multiplied by sqrt(embed_dim).
      embed_norm: a norm of the embeddings.
      pre_norm: norms before the branches of a layer, not after them.
      final_norm: a norm after the last layer.
      bos_id, forced_bos_id, forced_eos_id: for generation; None: there is none.
    """

    position_offset: ClassVar[int] = 2
    logits_bias: ClassVar[bool] = True
    begin_token: ClassVar[bool] = True

    num_decoder_heads: int | None = sized(None)
    decoder_mlp_dim: int | None = sized(None)
    attention_dropout_rate: float = free(0.0)
    activation_dropout_rate: float = free(0.0)
    layer_norm_epsilon: float = 1e-5
    scale_embedding: bool = False
    embed_norm: bool = sized(True)
    pre_norm: bool = False
    final_norm: bool = sized(False)
    bos_id: int | None = free(0)
    forced_bos_id: int | None = free(None)
    forced_eos_id: int | None = free(2)

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.scale_embedding else 1.0

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if problem := dropout_rate_problem(self.activation_dropout_rate):
            yield "activation_dropout_rate", problem
        heads = self.num_decoder_heads
        divides = self.head_dim or not heads or heads < 0 or not self.embed_dim % heads
        if not divides:
            yield (
                "num_decoder_heads",
                f"{heads} does not divide embed_dim {self.embed_dim}; change one",
            )


@dataclasses.dataclass(frozen=True)
class LedConfig(BartConfig):
    """A Longformer encoder-decoder (Beltagy et al. 2020, section 7).

    Attributes:
      max_target_length: longest target.
      attention_window: keys that a token of the encoder sees on both sides together, an
        even number; one for all layers, or one for each of a run of layers that is
        repeated, the last time as far as there are layers.
      encoder_attention_dropout_rate: of attention probabilities of the encoder; None:
        as the decoder's.
    """

    # Its tables have no rows before that of position 0.
    position_offset: ClassVar[int] = 0

    max_length: int = 16384
    max_target_length: int = sized(1024)
    forced_eos_id: int | None = None
    attention_window: tuple[int, ...] = (1024,)
    encoder_attention_dropout_rate: float | None = free(None)

    @property
    def encoder_side(self) -> Side:
        side, rate = super().encoder_side, self.encoder_attention_dropout_rate
        return side if rate is None else side._replace(attention_dropout_rate=rate)

    @property
    def patterns(self) -> tuple[SlidingWindow, ...]:
        # Both sides together -> one side.
        windows = [SlidingWindow(width // 2) for width in self.attention_window]
        return run_of(windows, self.num_layers)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from window_problems(self)
        if problem := dropout_rate_problem(self.encoder_side.attention_dropout_rate):
            yield "encoder_attention_dropout_rate", problem


@dataclasses.dataclass(frozen=True)
class T5Config(EncoderDecoderConfig):
    """A T5 (Raffel et al. 2020); v1.1 is gated, with logits of their own, unscaled.

    Attributes:
      head_dim: of each head.
      num_buckets, max_distance: of relative positions, see `ops.attention.bias.bucket`.
      max_length: `n_positions` of transformers, which nothing depends on: positions
        are relative, so that inputs and targets have any length.
      layer_norm_epsilon: added to mean squares.
      initializer_range: multiplies the standard deviations of T5, which are those of
        the sizes of the maps.
      gated: the feed-forward blocks are gated (Shazeer 2020).
      tied_logits: logits are by the token table, not by a matrix of their own.
      scaled_logits: rows are divided by sqrt(embed_dim) before they become logits.
    """

    positions: ClassVar[str] = "relative"
    embed_norm: ClassVar[bool] = False
    pre_norm: ClassVar[bool] = True
    final_norm: ClassVar[bool] = True
    rms_norm: ClassVar[bool] = True
    use_bias: ClassVar[bool] = False
    # The kernel of queries begins the smaller for it.
    attention_scale: ClassVar[float] = 1.0
    final_dropout: ClassVar[bool] = True

    vocab_size: int = 32128
    num_layers: int = 12
    num_decoder_layers: int = 12
    max_length: int = 512
    activation: str = "relu"
    initializer_range: float = 1.0
    pad_id: int = 0
    decoder_start_id: int = 0
    eos_id: int = 1
    head_dim: int = sized(64)
    num_buckets: int = sized(32)
    max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    gated: bool = sized(False)
    tied_logits: bool = sized(True)
    scaled_logits: bool = True

    @property
    def attention_dropout_rate(self) -> float:
        """Of attention probabilities: one rate for all."""
        return self.dropout_rate

    @property
    def activation_dropout_rate(self) -> float:
        """Of the hidden layer of the feed-forward blocks."""
        return self.dropout_rate

    @property
    def logits_scale(self) -> float:
        return self.embed_dim**-0.5 if self.scaled_logits else 1.0

    def spreads(self, side: Side) -> Spreads:
        """As T5 begins: 1 / sqrt(inputs), queries of products without a scale."""
        width = self.embed_dim
        inputs = Spreads(
            table=1,
            query=width * self.head_dim,
            projection=width,
            out=side.num_heads * self.head_dim,
            wi=width,
            wo=side.mlp_dim,
            bias=width,
            logits=width,
        )
        return Spreads(*(self.initializer_range * size**-0.5 for size in inputs))

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.num_buckets < 4:
            yield (
                "num_buckets",
                f"is {self.num_buckets}; expected 4 or more: the encoder has half of "
                "them for each side, and of that half for single distances",
            )
        yield from at_least(1).problems(self, "max_distance")


@dataclasses.dataclass(frozen=True)
class LongT5Config(T5Config):
    """A LongT5 (Guo et al. 2022): T5 v1.1 with local attention in its encoder.

    Attributes:
      encoder_attention: "local", windows; "transient_global", windows and the sums of
        blocks.
      radius: keys to each side.
      block_size: tokens of a sum.
    """

    max_length: int = 16384
    activation: str = "gelu"
    gated: bool = True
    tied_logits: bool = False
    scaled_logits: bool = False
    encoder_attention: str = sized("transient_global")
    radius: int = 127
    block_size: int = 16

    @property
    def patterns(self) -> tuple[Local]:
        if self.encoder_attention == "local":
            return (Local(self.radius),)
        sums = self.block_size, self.layer_norm_epsilon
        return (TransientGlobal(self.radius, *sums),)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(0, "itself alone").problems(self, "radius")
        yield from at_least(1).problems(self, "block_size")
        kinds = choice(("local", "transient_global"))
        yield from kinds.problems(self, "encoder_attention")
