"""Sizes and choices of encoder-decoders: BART, T5 and what grew from them."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.full import Causal, Full
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import REMAT_POLICIES
from etc_jax.models.config_problems import transformer_problems
from etc_jax.models.sled.config import SledConfig
from etc_jax.models.transformer_config import TransformerConfig


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
class EncoderDecoderConfig(TransformerConfig):
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
      attention: "auto", "xla", "mosaic" (kernels for TPUs) or "dense".
      sled: windows by which the encoder reads inputs longer than `max_length`.
    """

    formats: ClassVar[tuple[str, ...]] = ("text_to_text",)

    # Choices that a family makes, unless it has a field of that name.
    # How positions are encoded: "learnt", by tables; "relative", by a bias of logits.
    positions: ClassVar[str] = "learnt"
    position_kinds: ClassVar[tuple[str, ...]] = ("learnt", "relative")
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
    def logits_scale(self) -> float:
        """What the rows are multiplied by that become logits."""
        return 1.0

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What the encoder's tokens see in each layer of a run that is repeated."""
        return (Full(),)

    @property
    def text_globals(self) -> int:
        """First tokens of a plain text that are global."""
        return int(self.has_globals)

    @property
    def encoder_side(self) -> Side:
        sizes = self.num_layers, self.num_heads, self.mlp_dim, self.max_length
        return Side(*sizes, self.patterns, False, self.attention_dropout_rate)

    @property
    def decoder_side(self) -> Side:
        return Side(
            self.num_decoder_layers,
            self.num_heads,
            self.mlp_dim,
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
            "max_length max_target_length head_dim"
        )
        yield from at_least(1).problems(self, *positive.split())
        yield from at_least(0, "all").problems(self, "logits_chunk_length")
        yield from transformer_problems(self)
        yield from choice(REMAT_POLICIES).problems(self, "remat_policy")
        yield from choice(self.position_kinds).problems(self, "positions")
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


def sizes(width: int, mlp: int, layers: int, heads: int) -> dict[str, Any]:
    """Fields of a model with as many layers in the decoder as in the encoder."""
    return {
        "embed_dim": width,
        "mlp_dim": mlp,
        "num_layers": layers,
        "num_decoder_layers": layers,
        "num_heads": heads,
    }
