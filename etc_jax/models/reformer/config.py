"""Sizes and choices of a Reformer."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.chunks import LocalChunks, LshChunks
from etc_jax.layers.stack import run_of
from etc_jax.models.config_problems import (
    DTYPES,
    bucket_problems,
    pattern_problems,
    transformer_problems,
)
from etc_jax.models.transformer_config import TransformerConfig
from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.parts.checks import dropout_rate_problem

KINDS = ("local", "lsh")
POSITIONS = ("learnt", "sinusoidal")

# Parameters of axial positions, a table for each axis.
AXIAL_TABLES = ("rows", "columns", "channels")


@dataclasses.dataclass(frozen=True)
class ReformerConfig(TransformerConfig):
    """A Reformer (Kitaev et al. 2020); the defaults are its 64k-byte language model.

    Attributes:
      vocab_size: rows of the token table.
      embed_dim: width of each of the two streams.
      num_layers: layers.
      pattern: attention of the first layers, "local" or "lsh"; they come again in the
        same order, the last time as far as there are layers.
      num_heads: of each layer.
      head_dim: of each head; None: embed_dim / num_heads.
      mlp_dim: hidden width of the feed-forward half.
      causal: a language model; otherwise every token sees both sides.
      max_length: longest sequence, if the tables of positions reach so far; see
        `position_limit`.
      positions: "learnt", by tables; "sinusoidal", sines that are added to the tokens,
        whose rows are multiplied by sqrt(embed_dim) then (Vaswani et al. 2017).
      axial_shape: two or three numbers, whose product is how many positions there are:
        of two, position p is row p // b and column p % b of a table each; None: a table
        of max_length positions.
      axial_dims: widths of these tables, in all embed_dim; None: halves.
      local_chunk_length, local_chunks_before, local_chunks_after: what a token sees in
        a local layer, see `ops.attention.lsh.ChunkNeighbors`.
      lsh_chunk_length, lsh_chunks_before, lsh_chunks_after: what a token sees among
        sorted tokens in an LSH layer.
      num_hashes: rounds of hashing.
      num_buckets: one even number, or two, which are multiplied; None: by the length
        of each sequence.
      duplicates: whether a key that is met in several rounds is counted ("count", as
        trax from 2020-04 on and transformers do) or not ("once", as the paper's code).
      rounding: "exact", or "transformers" for the float32 numbers of its Reformer; see
        `ops.attention.lsh.ROUNDINGS`.
      hash_seed: of the rotations where no key is given for them.
      activation: of the feed-forward half.
      dropout_rate: of embeddings and halves.
      attention_dropout_rate: of attention probabilities.
      lsh_attention_dropout_rate: of those of LSH layers; None: the same.
      initializer_range: standard deviation of kernels and tables.
      layer_norm_epsilon: added to variances.
      mlp_chunk_length: tokens whose feed-forward is computed at once; 0: all.
      logits_chunk_length: tokens whose logits are computed at once in the loss; 0: all.
      reversible: activations are worked out backwards from the last ones; otherwise
        all are kept.
      residual_dtype: of the two streams.
      dtype: of the computation; parameters are float32.
      attention: "auto", "xla" or "dense".
    """

    formats: ClassVar[tuple[str, ...]] = ("sequence", "text_to_text")

    vocab_size: int = sized(320)
    embed_dim: int = sized(768)
    num_layers: int = sized(12)
    # Pattern, chunks, hashes, buckets and axial tables are those of trax's
    # reformer_enwik8.gin.
    pattern: tuple[str, ...] = ("local", "local", "lsh", "local")
    num_heads: int = sized(8)
    head_dim: int | None = sized(None)
    mlp_dim: int = sized(2048)
    causal: bool = True
    max_length: int = sized(65536)
    positions: str = "learnt"
    axial_shape: tuple[int, ...] | None = sized((128, 512))
    axial_dims: tuple[int, ...] | None = sized((256, 512))
    local_chunk_length: int = 128
    local_chunks_before: int = 1
    local_chunks_after: int = 0
    lsh_chunk_length: int = 256
    lsh_chunks_before: int = 1
    lsh_chunks_after: int = 0
    num_hashes: int = 2
    num_buckets: tuple[int, ...] | None = (512,)
    duplicates: str = "count"
    rounding: str = "exact"
    hash_seed: int = free(0)
    activation: str = "relu"
    dropout_rate: float = free(0.2)
    attention_dropout_rate: float = free(0.0)
    lsh_attention_dropout_rate: float | None = free(None)
    initializer_range: float = free(0.02)
    layer_norm_epsilon: float = 1e-12
    mlp_chunk_length: int = free(0)
    logits_chunk_length: int = free(0)
    reversible: bool = free(True)
    # In bfloat16 the reversible backward pass finds other inputs than were given.
    residual_dtype: str = free("float32")
    dtype: str = free("float32")
    attention: str = free("auto")

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.positions == "sinusoidal" else 1.0

    @property
    def axial_widths(self) -> tuple[int, ...]:
        """Of the tables of positions."""
        return self.axial_dims or (self.embed_dim // 2,) * 2

    @property
    def run(self) -> tuple[str, ...]:
        """The kinds of layers of a repeat: `pattern`, unless the last is cut short."""
        return run_of(self.pattern, self.num_layers)

    @property
    def patterns(self) -> tuple[LocalChunks, ...]:
        """What tokens see in each layer of a repeat."""
        return tuple(map(self._pattern_of, self.run))

    def _pattern_of(self, kind: str) -> LocalChunks:
        names = "chunk_length", "chunks_before", "chunks_after"
        sizes = (getattr(self, f"{kind}_{name}") for name in names)
        look = lsh.ChunkNeighbors(*sizes)
        if kind == "local":
            return LocalChunks(look, self.causal)
        return LshChunks(
            look,
            self.causal,
            num_hashes=self.num_hashes,
            num_buckets=self.num_buckets,
            max_length=self.max_length,
            duplicates=self.duplicates,
            rounding=self.rounding,
        )

    @property
    def attention_dropout_rates(self) -> dict[str, float]:
        """By kind of layer."""
        lsh_rate = self.lsh_attention_dropout_rate
        rate = self.attention_dropout_rate
        return {"local": rate, "lsh": rate if lsh_rate is None else lsh_rate}

    @property
    def input_limit(self) -> tuple[str, int | None]:
        """(field that limits an input, tokens); without tables of positions None."""
        if self.positions == "sinusoidal":
            return "max_length", None
        if self.axial_shape is None:
            return "max_length", self.max_length
        # As transformers does, which reads no more than either allows.
        limits = (
            ("max_length", self.max_length),
            ("axial_shape", math.prod(self.axial_shape)),
        )
        return min(limits, key=lambda limit: limit[1])

    @property
    def position_limit(self) -> int | None:
        """Tokens that there are positions for; None: any number."""
        return self.input_limit[1]

    @property
    def chunking(self) -> tuple[int, int]:
        """(longest sequence that is one chunk everywhere, what divides longer ones)."""
        chunks = [pattern.look.chunk_length for pattern in self.patterns]
        # A multiple of the chunks of all layers, so that none pads on its own.
        return min(chunks), math.lcm(*chunks)

    def padded(self, length: int) -> int:
        """The length that a sequence is worked on at.

        Once it is longer than a chunk, a whole number of chunks of each kind of layer,
        so that no layer pads on its own.
        """
        one_chunk, multiple = self.chunking
        return length if length <= one_chunk else -(-length // multiple) * multiple

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong."""
        positive = (
            "vocab_size embed_dim num_layers num_heads head_dim mlp_dim max_length "
            "num_hashes local_chunk_length lsh_chunk_length"
        )
        yield from at_least(1).problems(self, *positive.split())
        look_fields = [f"{k}_chunks_{x}" for k in KINDS for x in ("before", "after")]
        yield from at_least(0).problems(self, *look_fields)
        yield from at_least(0, "all").problems(
            self, "mlp_chunk_length", "logits_chunk_length"
        )
        yield from transformer_problems(self)
        if problem := dropout_rate_problem(self.attention_dropout_rates["lsh"]):
            yield "lsh_attention_dropout_rate", problem
        yield from choice(lsh.DUPLICATES).problems(self, "duplicates")
        yield from choice(lsh.ROUNDINGS).problems(self, "rounding")
        yield from choice(DTYPES).problems(self, "residual_dtype")
        yield from choice(POSITIONS).problems(self, "positions")
        yield from pattern_problems(self, KINDS)
        yield from bucket_problems(self)
        yield from self._position_problems()

    def _position_problems(self) -> Iterator[tuple[str, str]]:
        if self.positions == "sinusoidal":
            if self.embed_dim % 2:
                yield (
                    "embed_dim",
                    f"is {self.embed_dim}; expected an even number: sinusoidal "
                    "positions are pairs of a sine and a cosine",
                )
            for name in ("axial_shape", "axial_dims"):
                if (value := getattr(self, name)) is not None:
                    yield (
                        name,
                        f"is {value}, but positions='sinusoidal' has no tables; set it "
                        "to None",
                    )
            return
        if self.axial_shape is None:
            if self.axial_dims is not None:
                yield "axial_dims", "is given without axial_shape; set both or neither"
            return
        axes = len(self.axial_shape)
        if not 2 <= axes <= len(AXIAL_TABLES) or min(self.axial_shape) < 1:
            yield (
                "axial_shape",
                f"is {self.axial_shape}; expected two or three numbers, 1 or more",
            )
        if self.axial_dims is None:
            if self.embed_dim % 2 or axes != 2:
                yield (
                    "axial_dims",
                    f"is None: halves of embed_dim {self.embed_dim}, but axial_shape "
                    f"is {self.axial_shape}; give the widths",
                )
        elif len(self.axial_dims) != axes or sum(self.axial_dims) != self.embed_dim:
            yield (
                "axial_dims",
                f"is {self.axial_dims}; expected {axes} widths whose sum is embed_dim "
                f"{self.embed_dim}",
            )


def duplication(**changes) -> ReformerConfig:
    """One layer for sequences of 1,024 symbols (paper, section 5.1, table 2)."""
    sizes = {
        "vocab_size": 128,
        "embed_dim": 256,
        "num_layers": 1,
        "pattern": ("lsh",),
        "num_heads": 4,
        "mlp_dim": 256,
        "max_length": 1024,
        "axial_shape": None,
        "axial_dims": None,
        "lsh_chunk_length": 64,
        "num_hashes": 4,
        "num_buckets": (32,),
        # The table was made with the paper's own code.
        "duplicates": "once",
        "dropout_rate": 0.0,
    }
    return dataclasses.replace(ReformerConfig(), **{**sizes, **changes})


def enwik8(**changes) -> ReformerConfig:
    """12 layers for 65,536 bytes (trax, reformer_enwik8.gin of 2021)."""
    sizes = {"head_dim": 64, "attention_dropout_rate": 0.2}
    return dataclasses.replace(ReformerConfig(), **{**sizes, **changes})


def imagenet64(**changes) -> ReformerConfig:
    """6 LSH layers for images of 64 x 64 x 3 bytes (trax, reformer_imagenet64.gin)."""
    sizes = {
        "vocab_size": 256,
        "embed_dim": 1024,
        "num_layers": 6,
        "pattern": ("lsh",),
        "head_dim": 64,
        "mlp_dim": 4096,
        "max_length": 12288,
        "axial_shape": (64, 64, 3),
        "axial_dims": (384, 384, 256),
        "lsh_chunk_length": 128,
        "num_buckets": (192,),
        "activation": "gelu",
        "dropout_rate": 0.0,
        "attention_dropout_rate": 0.2,
    }
    return dataclasses.replace(ReformerConfig(), **{**sizes, **changes})
