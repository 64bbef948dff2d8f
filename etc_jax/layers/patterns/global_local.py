"""Global-local attention (ETC), with its projections and label tables."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import sharding, structure as st
from etc_jax.base.types import LabelTable, Pieces, Rows
from etc_jax.layers.common import truncated_normal
from etc_jax.layers.projections import HeadProjections
from etc_jax.layers.self_attention import Pattern
from etc_jax.ops.attention import global_local
from etc_jax.ops.flops import attention, pairs_between, pairs_within, projection

# Which projection serves each piece: the official sharing modes (paper, section 3.2).
# x2y: queries of x, keys and values of y. Names are those of the official variables,
# such as l2l_key_projection.
_OWN = Pieces("l2l", "l2g", "g2g", "g2l")
_SHARED_KV = Pieces("l2l", "l2l", "g2g", "g2g")
_SHARED_QKV = Pieces("l2l", "l2l", "l2l", "l2l")


@dataclasses.dataclass(frozen=True)
class GlobalLocal(Pattern):
    """A long and a global input (Ainslie et al. 2020, section 3.2).

    What its layers are given of a batch is a `Structure`.

    Attributes:
      rules: radius, clipping distance, hard masks.
      num_labels: rows of the label tables; None for no labels.
      share_kv: l2g uses the key and value projections of l2l, g2l those of g2g.
      share_qkv: one query, key and value projection for everything; implies share_kv.
      share_out: one output projection for long and global rows.
      block_size, chunk_blocks: see `ops.attention.global_local.attend`.
    """

    splits_sequence: ClassVar[bool] = True
    kernel_problem: ClassVar[None] = None

    rules: st.Rules
    num_labels: int | None
    share_kv: bool = False
    share_qkv: bool = False
    share_out: bool = False
    block_size: int | None = None
    chunk_blocks: int | None = None

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`; of long tokens."""
        return self.rules.radius + 1

    def module(self, *, name: str, **options: Any) -> nn.Module:
        """See `Pattern.module`; called with `Rows` and a `Structure`."""
        return GlobalLocalAttention(pattern=self, name=name, **options)

    def visible_pairs(self, config: Any, inputs: st.Structure) -> float:
        """See `Pattern.visible_pairs`: those of all four pieces."""
        del config
        # [b, n], [b, g]; 0 is padding.
        rules, structure = self.rules, inputs
        long_ids = np.asarray(structure.long_example_ids)
        global_ids = np.asarray(structure.global_example_ids)
        index = np.arange(long_ids.shape[1])
        groups = long_ids
        if structure.long_segment_ids is not None:
            segments = np.asarray(structure.long_segment_ids).astype(np.int64)
            # One number for each example and segment; padding stays 0.
            wide = segments - segments.min(initial=0)
            groups = long_ids * (1 + wide.max(initial=0)) + wide
            groups = np.where(long_ids > 0, groups + 1, 0)
        pairs = pairs_within(groups, index - rules.radius, index + rules.radius)
        pairs += pairs_between(global_ids, global_ids)
        tied = _tied(rules, structure)
        between = pairs_between(long_ids, global_ids)
        if rules.hard_l2g:
            pairs += _hard(tied, long_ids, global_ids, structure.exempt_l2g, side=1)
        else:
            pairs += between
        if rules.hard_g2l:
            pairs += _hard(tied, global_ids, long_ids, structure.exempt_g2l, side=2)
        else:
            pairs += between
        return pairs

    def flops(self, config: Any, inputs: st.Structure) -> float:
        """See `Pattern.flops`: with a product of each query with its label table."""
        inner = config.num_heads * config.attention_head_dim
        ids = inputs.long_example_ids, inputs.global_example_ids
        tokens = sum(int(np.sum(np.asarray(x) > 0)) for x in ids)
        # Query, output, and keys and values for long and for global queries.
        matrices = 4 if self.share_qkv else 6
        maps = projection(matrices * tokens, config.embed_dim, inner)
        labels = projection(tokens, inner, self.num_labels or 0)
        return maps + labels + attention(self.visible_pairs(config, inputs), config)


def _tied(rules: st.Rules, structure: st.Structure) -> np.ndarray:
    """(row, long token, global token) of ties that open hard masks, each once."""
    links = np.asarray(structure.links)
    # [b, n, columns] -> those whose links open hard masks.
    columns = [c for c in range(links.shape[-1]) if rules.links[c].opens]
    links = links[..., columns]
    # [ties, 3]; a pair that two columns tie is one.
    row, i, column = np.nonzero(links >= 0)
    tied = np.unique(np.stack([row, i, links[row, i, column]], axis=1), axis=0)
    long_ids = np.asarray(structure.long_example_ids)[tied[:, 0], tied[:, 1]]
    global_ids = np.asarray(structure.global_example_ids)[tied[:, 0], tied[:, 2]]
    return tied[(long_ids == global_ids) & (long_ids > 0)]


def _hard(tied, query_ids, key_ids, exempt, *, side: int) -> int:
    """Pairs under a hard mask; queries are column `side` of the ties."""
    if exempt is None:
        return len(tied)
    exempt = np.asarray(exempt)
    # Exempt queries see all of their example, tied or not.
    bound = ~exempt[tied[:, 0], tied[:, side]]
    free = pairs_between(np.where(exempt, query_ids, 0), key_ids)
    return int(bound.sum()) + free


class RelativePositionLabels(nn.Module):
    """The relative-position labels of one softmax.

    Attributes:
      num_labels, num_heads, head_dim: table sizes.
    """

    num_labels: int
    num_heads: int
    head_dim: int
    param_dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self) -> LabelTable:
        shape = (self.num_labels, self.num_heads)
        return LabelTable(
            # [labels, h, d]
            # 0.5 is the official spread of label embeddings.
            self.param(
                "embedding",
                truncated_normal(0.5),
                (*shape, self.head_dim),
                self.param_dtype,
            ),
            # [labels, h]
            self.param("bias", nn.initializers.zeros, shape, self.param_dtype),
        )


class GlobalLocalAttention(HeadProjections):
    """Multi-head attention of a long and a global input (paper, section 3.2).

    Both rows read the layer's input, so the long rows do not see what the global rows
    become in the same layer.

    Attributes:
      pattern: who sees whom, and which projections serve whom.
    """

    pattern: GlobalLocal

    def _pieces(self, x: Rows, kind: str) -> Pieces:
        """Keys or values of the four pieces; shared projections are called once."""
        names = _OWN
        if self.pattern.share_kv:
            names = _SHARED_KV
        if self.pattern.share_qkv:
            names = _SHARED_QKV
        modules, done = {}, {}
        out = []
        for piece, name in zip(Pieces._fields, names, strict=True):
            # The last letter says whose rows the keys are made of.
            side = "long" if piece[2] == "l" else "global_"
            if name not in modules:
                modules[name] = self.to_heads(f"{name}_{kind}")
            if (name, side) not in done:
                # [b, n or g, e] -> [b, n or g, h, d]
                done[name, side] = modules[name](getattr(x, side))
            out.append(done[name, side])
        return Pieces(*out)

    @nn.compact
    def __call__(
        self, x: Rows, structure, layer: jax.Array | None = None, state: None = None
    ) -> tuple[Rows, None]:
        """`Rows` of `[b, n, e]` and `[b, g, e]` -> (the same shapes, None).

        Args:
          x: the layer's input.
          structure: `Structure` or `ExplicitStructure` of the batch.
          layer: not read.
          state: not read.
        """
        del layer, state
        pattern, project = self.pattern, self.to_heads("long_query")
        other = project if pattern.share_qkv else self.to_heads("global_query")
        # [b, n, e] -> [b, n, h, d]; [b, g, e] -> [b, g, h, d]
        query = Rows(project(x.long), other(x.global_))
        tables = None
        if pattern.num_labels is not None:
            sizes = (
                pattern.num_labels,
                self.num_heads,
                self.head_dim,
                self.param_dtype,
            )
            # One table for each softmax: l2l with l2g, g2g with g2l. The official code
            # shares them in no mode.
            tables = Rows(
                RelativePositionLabels(*sizes, name="long_labels")(),
                RelativePositionLabels(*sizes, name="global_labels")(),
            )
        options = self.options()
        # The products of ETC are always divided by sqrt(head_dim).
        del options["scale"]
        # Rows of [b, n, h, d] and [b, g, h, d].
        out = global_local.attend(
            query,
            self._pieces(x, "key"),
            self._pieces(x, "value"),
            tables,
            structure,
            pattern.rules,
            block_size=pattern.block_size,
            chunk_blocks=pattern.chunk_blocks,
            sequence_axis=sharding.sequence_axis(),
            mesh_axes=sharding.mesh_axes(),
            **options,
        )
        width = x.long.shape[-1]
        long_out = self.output(width, "long_out")
        global_out = long_out
        if not pattern.share_out:
            global_out = self.output(width, "global_out")
        # [b, n, h, d] -> [b, n, e]; [b, g, h, d] -> [b, g, e]
        return jax.tree.map(lambda f, y: f(y), Rows(long_out, global_out), out), None
