"""Sizes and choices of an ETC model."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax import structure as st
from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.chunks import LshChunks
from etc_jax.layers.patterns.flat import Flat
from etc_jax.layers.patterns.global_local import GlobalLocal
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import REMAT_POLICIES, run_of
from etc_jax.models.config_problems import (
    bucket_problems,
    pattern_problems,
    transformer_problems,
)
from etc_jax.models.transformer_config import TransformerConfig
from etc_jax.ops.attention.lsh import ChunkNeighbors

KINDS = ("global_local", "lsh")


@dataclasses.dataclass(frozen=True)
class EtcConfig(TransformerConfig):
    """An ETC encoder; the defaults are the paper's base model (section 4.1).

    Attributes:
      vocab_size: rows of the token table.
      num_types: rows of the token-type table (official: segment vocabulary).
      embed_dim: hidden width.
      embedding_dim: width of the token table, projected when it differs from
        `embed_dim`; None: equal.
      num_layers, num_heads, mlp_dim: sizes of the stack.
      head_dim: size of one head; None: embed_dim / num_heads.
      radius: long tokens seen on each side (r).
      max_distance: clipping distance of relative-position labels (k); 0: no labels.
      num_labels: rows of each label table, at least 2k + 4; None when k is 0.
      max_positions: rows of the absolute position tables; 0: none.
      activation: of the feed-forward block, a name of `layers.common.ACTIVATIONS`.
      dropout_rate: of embeddings and residual branches.
      attention_dropout_rate: of attention probabilities.
      initializer_range: standard deviation of kernels and tables.
      layer_norm_epsilon: added to variances.
      share_mlp: one feed-forward block for long and global tokens.
      share_kv: l2g shares key and value projections with l2l, g2l with g2g.
      share_qkv: one query, key and value projection for everything.
      share_out: one attention output projection for long and global tokens.
      pre_norm: norms before instead of after each block; there is no final norm.
      hard_g2l: global tokens see only the long tokens linked to them.
      hard_l2g: long tokens see only the global tokens they are linked to.
      parent_labels: labels of (child -> parent, parent -> child) global tokens.
      pattern: attention of the first layers, which come again in the same order, the
        last time as far as there are layers: "global_local", or "lsh", which sees both
        inputs as one sequence (`layers.patterns.flat`).
      reversible: two streams, of which the backward pass works out all activations
        from the last ones (`ops.reversible`); the output is the norm of their mean.
        Needs pre_norm.
      lsh_chunk_length: sorted tokens that see each other, and those of the chunk
        before.
      num_hashes: rounds of hashing in an LSH layer.
      num_buckets: of an LSH layer: one even number, or two, which are multiplied;
        None: by the length of each input.
      hash_seed: of the rotations of LSH layers where no key is given for them.
      scan_layers: compile one layer and loop; else unroll.
      remat_policy: what layers keep for the backward pass, a name of
        `layers.stack.REMAT_POLICIES`.
      dtype: of the computation; parameters are float32.
      attention: "auto", "xla", "pallas" (kernels for NVIDIA GPUs), "mosaic" (kernels
        for TPUs) or "dense".
      attention_block_size, attention_chunk_blocks: see
        `ops.attention.global_local.attend`; None: chosen for the device.
      logits_chunk_length: masked tokens of a row whose logits over the vocabulary are
        computed at once in the loss; 0: all.
    """

    formats: ClassVar[tuple[str, ...]] = ("structured",)

    vocab_size: int = sized(30522)
    # The official segment vocabulary; without types, 1 (long) and 0 (global) are read.
    num_types: int = sized(16)
    embed_dim: int = sized(768)
    embedding_dim: int | None = sized(None)
    num_layers: int = sized(12)
    num_heads: int = sized(12)
    head_dim: int | None = sized(None)
    mlp_dim: int = sized(3072)
    # r and k of the base model (paper, section 4.1).
    radius: int = 84
    max_distance: int = 12
    # Official size; 2k + 4 = 28 are read: offsets, unlinked, linked, other segment.
    num_labels: int | None = sized(32)
    max_positions: int = sized(0)
    # The tanh approximation, as in the official code.
    activation: str = "gelu"
    dropout_rate: float = free(0.1)
    attention_dropout_rate: float = free(0.1)
    initializer_range: float = free(0.02)
    layer_norm_epsilon: float = 1e-12
    share_mlp: bool = sized(True)
    share_kv: bool = sized(False)
    # The paper's base model shares none, although the official class says True here.
    share_qkv: bool = sized(False)
    share_out: bool = sized(False)
    pre_norm: bool = False
    # As in the released models, which were trained with CPC.
    hard_g2l: bool = True
    hard_l2g: bool = False
    parent_labels: tuple[int, int] | None = None
    pattern: tuple[str, ...] = ("global_local",)
    reversible: bool = False
    lsh_chunk_length: int = 64
    num_hashes: int = 2
    num_buckets: tuple[int, ...] | None = None
    hash_seed: int = free(0)
    scan_layers: bool = sized(True)
    remat_policy: str = free("none")
    dtype: str = free("float32")
    attention: str = free("auto")
    attention_block_size: int | None = free(None)
    attention_chunk_blocks: int | None = free(None)
    logits_chunk_length: int = free(0)

    @property
    def rules(self) -> st.Rules:
        """The structure rules of the model."""
        return st.Rules(
            radius=self.radius,
            max_distance=self.max_distance,
            hard_g2l=self.hard_g2l,
            hard_l2g=self.hard_l2g,
            parent_labels=self.parent_labels,
        )

    @property
    def run(self) -> tuple[str, ...]:
        """The kinds of layers of a repeat: `pattern`, unless the last is cut short."""
        return run_of(self.pattern, self.num_layers)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What tokens see in each layer of a repeat."""
        return tuple(map(self._pattern_of, self.run))

    def _pattern_of(self, kind: str) -> Pattern:
        if kind == "global_local":
            return GlobalLocal(
                self.rules,
                self.num_labels,
                share_kv=self.share_kv,
                share_qkv=self.share_qkv,
                share_out=self.share_out,
                block_size=self.attention_block_size,
                chunk_blocks=self.attention_chunk_blocks,
            )
        chunks = LshChunks(
            ChunkNeighbors(self.lsh_chunk_length),
            num_hashes=self.num_hashes,
            num_buckets=self.num_buckets,
            hash_seed=self.hash_seed,
        )
        return Flat(chunks)

    @property
    def token_dim(self) -> int:
        """Width of the token table."""
        return self.embed_dim if self.embedding_dim is None else self.embedding_dim

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong."""
        positive = (
            "vocab_size num_types embed_dim embedding_dim num_layers num_heads "
            "head_dim mlp_dim radius lsh_chunk_length num_hashes"
        )
        yield from at_least(1).problems(self, *positive.split())
        yield from at_least(0).problems(self, "max_distance", "max_positions")
        yield from at_least(0, "all").problems(self, "logits_chunk_length")
        yield from transformer_problems(self)
        yield from choice(REMAT_POLICIES).problems(self, "remat_policy")
        yield from pattern_problems(self, KINDS)
        yield from bucket_problems(self)
        if self.radius >= 1 and self.max_distance >= 0:
            yield from self._label_problems()
        if self.reversible:
            yield from self._reversible_problems()

    def _label_problems(self) -> Iterator[tuple[str, str]]:
        try:
            self.rules.check_vocabulary(self.num_labels)
        except ValueError as error:
            yield "num_labels", str(error)

    def _reversible_problems(self) -> Iterator[tuple[str, str]]:
        needs = {"pre_norm": True, "scan_layers": True, "remat_policy": "none"}
        for name, value in needs.items():
            got = getattr(self, name)
            if got != value:
                yield name, f"is {got!r}; reversible needs {value!r}"


def base(**changes) -> EtcConfig:
    """12 layers of 768, r = 84, k = 12: 166M parameters with BERT's vocabulary."""
    return dataclasses.replace(EtcConfig(), **changes)


def base_shared(**changes) -> EtcConfig:
    """Base with all attention projections shared (paper, tables 2-4): 109M."""
    return base(share_qkv=True, share_out=True, **changes)


def large(**changes) -> EtcConfig:
    """24 layers of 1024, r = 169, k = 24: 558M with RoBERTa's vocabulary (table 8)."""
    sizes = {
        "vocab_size": 50265,
        "embed_dim": 1024,
        "num_layers": 24,
        "num_heads": 16,
        "mlp_dim": 4096,
        "radius": 169,
        "max_distance": 24,
        # 2k + 4, without spare rows.
        "num_labels": 52,
    }
    return base(**{**sizes, **changes})
