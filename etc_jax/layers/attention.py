"""Global-local attention with its projections and label tables."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding, structure as st
from etc_jax.base.types import LabelTable, Pieces, Rows
from etc_jax.layers.common import Dense, truncated_normal
from etc_jax.ops.attention import global_local

# Which projection serves each piece: the official sharing modes (paper, section 3.2).
# x2y: queries of x, keys and values of y. Names are those of the official variables,
# such as l2l_key_projection.
_OWN = Pieces("l2l", "l2g", "g2g", "g2l")
_SHARED_KV = Pieces("l2l", "l2l", "g2g", "g2g")
_SHARED_QKV = Pieces("l2l", "l2l", "l2l", "l2l")


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


class GlobalLocalAttention(nn.Module):
    """Multi-head attention of a long and a global input (paper, section 3.2).

    Both rows read the layer's input, so the long rows do not see what the global rows
    become in the same layer.

    Attributes:
      num_heads, head_dim: of every projection.
      num_labels: rows of the label tables; None for no labels.
      rules: radius, clipping distance, hard masks.
      share_kv: l2g uses the key and value projections of l2l, g2l those of g2g.
      share_qkv: one query, key and value projection for everything; implies share_kv.
      share_out: one output projection for long and global rows.
      stddev: of the kernels' truncated normal.
      dropout_rate: of attention probabilities.
      implementation: see `ops.attention.global_local.attend`.
      block_size, chunk_blocks: see `ops.attention.global_local.attend`.
    """

    num_heads: int
    head_dim: int
    num_labels: int | None
    rules: st.Rules
    share_kv: bool = False
    share_qkv: bool = False
    share_out: bool = False
    stddev: float = 0.02
    dropout_rate: float = 0.0
    implementation: str = "auto"
    block_size: int | None = None
    chunk_blocks: int | None = None
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32

    def _project(self, name: str):
        return Dense(
            (self.num_heads, self.head_dim),
            self.stddev,
            self.dtype,
            param_dtype=self.param_dtype,
            name=name,
        )

    def _pieces(self, x: Rows, kind: str) -> Pieces:
        """Keys or values of the four pieces; shared projections are called once."""
        names = _OWN
        if self.share_kv:
            names = _SHARED_KV
        if self.share_qkv:
            names = _SHARED_QKV
        modules, done = {}, {}
        out = []
        for piece, name in zip(Pieces._fields, names, strict=True):
            # The last letter says whose rows the keys are made of.
            side = "long" if piece[2] == "l" else "global_"
            if name not in modules:
                modules[name] = self._project(f"{name}_{kind}")
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
        project = self._project("long_query")
        other = project if self.share_qkv else self._project("global_query")
        # [b, n, e] -> [b, n, h, d]; [b, g, e] -> [b, g, h, d]
        query = Rows(project(x.long), other(x.global_))
        tables = None
        if self.num_labels is not None:
            sizes = (self.num_labels, self.num_heads, self.head_dim, self.param_dtype)
            # One table for each softmax: l2l with l2g, g2g with g2l. The official code
            # shares them in no mode.
            tables = Rows(
                RelativePositionLabels(*sizes, name="long_labels")(),
                RelativePositionLabels(*sizes, name="global_labels")(),
            )
        drop = self.dropout_rate > 0 and not self.deterministic
        # Rows of [b, n, h, d] and [b, g, h, d].
        out = global_local.attend(
            query,
            self._pieces(x, "key"),
            self._pieces(x, "value"),
            tables,
            structure,
            self.rules,
            implementation=self.implementation,
            dropout_rate=self.dropout_rate,
            dropout_rng=self.make_rng("dropout") if drop else None,
            block_size=self.block_size,
            chunk_blocks=self.chunk_blocks,
            sequence_axis=sharding.sequence_axis(),
            shards=sharding.ways("batch", "heads"),
            mesh_axes=sharding.mesh_axes(),
        )

        def output(name: str):
            return Dense(
                (x.long.shape[-1],),
                self.stddev,
                self.dtype,
                axes=2,
                param_dtype=self.param_dtype,
                name=name,
            )

        long_out = output("long_out")
        global_out = long_out if self.share_out else output("global_out")
        # [b, n, h, d] -> [b, n, e]; [b, g, h, d] -> [b, g, e]
        return jax.tree.map(lambda f, y: f(y), Rows(long_out, global_out), out), None
