"""Reformer as an encoder-decoder (Kitaev et al. 2020, section 5.2), both reversible.

A layer of the decoder has three halves: self-attention, cross-attention, feed-forward.
Rows are means of the two streams, which a norm follows, as in trax. The gradient of the
encoder's rows is summed over the halves of the decoder that read them.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import numpy as np
from flax import linen as nn

from etc_jax.config.model_fields import free, sized
from etc_jax.layers.common import LayerNorm
from etc_jax.layers.encoder import positions_of
from etc_jax.layers.patterns.chunks import LocalChunks, hash_key
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.encoder import flops as encoder_flops
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig, Side
from etc_jax.models.encoder_decoder.flops import cross_attention
from etc_jax.models.reformer import flops as reformer_flops
from etc_jax.models.reformer.body import make_stack
from etc_jax.models.reformer.config import POSITIONS, ReformerConfig
from etc_jax.models.reformer.embeddings import ReformerPositions
from etc_jax.ops import blocking

# Fields of one side's `ReformerConfig` -> those of the decoder here.
_DECODER_FIELDS = {
    "num_layers": "num_decoder_layers",
    "pattern": "decoder_pattern",
    "max_length": "max_target_length",
}


@dataclasses.dataclass(frozen=True)
class ReformerSeq2SeqConfig(EncoderDecoderConfig):
    """An encoder-decoder of two Reformers; see `ReformerConfig` too.

    Attributes:
      max_target_length: longest target; the decoder has a table of its positions.
      pattern, decoder_pattern: see `ReformerConfig`.
      head_dim: of each head; None: embed_dim / num_heads.
      positions: of both; see `ReformerConfig`.
      axial_shape, axial_dims: of the positions of the encoder; None: a table.
      local_chunk_length, lsh_chunk_length: tokens of a chunk, of a local layer and of
        sorted tokens in an LSH layer.
      local_chunks_before, lsh_chunks_before: chunks before its own that a token sees.
      local_chunks_after, lsh_chunks_after: of the encoder; in the decoder nothing comes
        after.
      num_hashes: rounds of hashing.
      num_buckets: one even number, or two, which are multiplied; None: by the length
        of each sequence.
      duplicates: whether a key that is met in several rounds is counted, "count" or
        "once".
      rounding: "exact", or "transformers" for the float32 numbers of its Reformer.
      hash_seed: of the rotations where no key is given for them.
      attention_dropout_rate: of attention probabilities.
      layer_norm_epsilon: added to variances.
      mlp_chunk_length: tokens whose feed-forward is computed at once; 0: all.
      reversible: activations are worked out backwards from the last ones; otherwise
        all are kept.
      residual_dtype: of the two streams.
      tied_logits: logits are by the token table that the decoder reads, not by a matrix
        of their own.
      shared_table: the decoder reads the token table of the encoder, not its own.
    """

    # A reversible stack is scanned and keeps no activations.
    scan_layers: ClassVar[bool] = True
    remat_policy: ClassVar[str] = "none"
    logits_bias: ClassVar[bool] = True
    position_kinds: ClassVar[tuple[str, ...]] = POSITIONS

    embed_dim: int = 512
    num_heads: int = 8
    mlp_dim: int = 2048
    max_length: int = 16384
    max_target_length: int = sized(1024)
    activation: str = "relu"
    pad_id: int = 0
    decoder_start_id: int = 0
    eos_id: int = 1
    pattern: tuple[str, ...] = ("local", "lsh")
    decoder_pattern: tuple[str, ...] = ("local", "lsh")
    head_dim: int | None = sized(None)
    positions: str = "learnt"
    axial_shape: tuple[int, ...] | None = sized((128, 128))
    axial_dims: tuple[int, ...] | None = sized(None)
    local_chunk_length: int = 64
    local_chunks_before: int = 1
    local_chunks_after: int = 1
    lsh_chunk_length: int = 64
    lsh_chunks_before: int = 1
    lsh_chunks_after: int = 1
    num_hashes: int = 2
    num_buckets: tuple[int, ...] | None = None
    duplicates: str = "count"
    rounding: str = "exact"
    hash_seed: int = free(0)
    attention_dropout_rate: float = free(0.0)
    layer_norm_epsilon: float = 1e-6
    mlp_chunk_length: int = free(0)
    reversible: bool = free(True)
    residual_dtype: str = free("float32")
    tied_logits: bool = sized(True)
    shared_table: bool = sized(True)

    @property
    def token_scale(self) -> float:
        return self.one_side(causal=True).token_scale

    @property
    def position_limit(self) -> int | None:
        return self.one_side(causal=False).position_limit

    @property
    def patterns(self) -> tuple[LocalChunks, ...]:
        return self.one_side(causal=False).patterns

    def one_side(self, causal: bool) -> ReformerConfig:
        """The decoder, which is causal, or the encoder."""
        names = [field.name for field in dataclasses.fields(ReformerConfig)]
        values = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if causal:
            values |= {
                name: getattr(self, field) for name, field in _DECODER_FIELDS.items()
            }
            values |= {"axial_shape": None, "axial_dims": None}
            values |= {"local_chunks_after": 0, "lsh_chunks_after": 0}
        return ReformerConfig(**values, causal=causal)

    def problems(self) -> Iterator[tuple[str, str]]:
        problems = list(super().problems())
        yield from problems
        reported = {name for name, _ in problems}
        for name, problem in self.one_side(causal=False).problems():
            if name not in reported:
                yield name, problem
        # What both sides have is reported of the encoder.
        for name, problem in self.one_side(causal=True).problems():
            if (field := _DECODER_FIELDS.get(name)) and field not in reported:
                yield field, problem


class ReformerSide(nn.Module):
    """The encoder or the decoder: rows of the token table to rows.

    Attributes:
      config: of this side.
      deterministic: no dropout.
    """

    config: ReformerConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        self.embeddings = ReformerPositions(c, self.deterministic)
        self.stack = make_stack(c, self.deterministic, cross_attention=c.causal)
        self.final_norm = LayerNorm(c.layer_norm_epsilon, c.compute_dtype)

    def __call__(self, x: jax.Array, inputs: SequenceInputs) -> jax.Array:
        """`[b, n, e]` of the token table -> the same shape; see `OneSide`."""
        c, n = self.config, x.shape[1]
        ids = inputs.example_ids
        x = self.start(x, positions_of(ids, False)).astype(c.residual_dtype)
        # [b, n, e] -> [b, padded n, e]
        x, ids = (blocking.pad_axis(a, 1, 0, c.padded(n) - n) for a in (x, ids))
        shared = SequenceInputs(ids, memory=inputs.memory)
        # Both streams begin as the embeddings.
        return self.finish(self.stack(x, x, shared, hash_key(self, c.hash_seed)))[:, :n]

    def start(self, x: jax.Array, positions: jax.Array) -> jax.Array:
        """Rows of tokens `[b, n, e]` with those of their positions, int `[b, n]`."""
        return self.embeddings(x, positions)

    def finish(self, streams: tuple[jax.Array, jax.Array]) -> jax.Array:
        """The streams after the last layer -> rows `[b, n, e]`."""
        y1, y2 = streams
        return self.final_norm((y1 + y2) / 2)


class ReformerSeq2Seq(EncoderDecoder):
    """Text to text by two Reformers; see `EncoderDecoder`."""

    config: ReformerSeq2SeqConfig

    def make_side(self, side: Side) -> ReformerSide:
        """See `EncoderDecoder`."""
        return ReformerSide(self.config.one_side(side.causal), self.deterministic)


class ReformerSeq2SeqFlops:
    """See `useful_flops.Flops`; inputs are a pair, of the encoder and the decoder."""

    causal_logits = staticmethod(encoder_flops.causal_logits)

    @staticmethod
    def body(
        config: ReformerSeq2SeqConfig, inputs: tuple[SequenceInputs, SequenceInputs]
    ) -> float:
        """Of encoder and decoder on a batch in numpy: what each of them reads."""
        source, target = inputs
        memory, ids = (np.asarray(x.example_ids) for x in inputs)
        encoder, decoder = (config.one_side(causal) for causal in (False, True))
        cross = cross_attention(decoder, memory, ids)
        return (
            reformer_flops.body(encoder, source)
            + reformer_flops.body(decoder, target)
            + decoder.num_layers * cross
        )
