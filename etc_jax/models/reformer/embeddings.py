"""Embeddings of a Reformer: tokens, and positions by tables, axial ones or sines."""

import math

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import Embed, sinusoids, truncated_normal
from etc_jax.layers.dropout import Dropout
from etc_jax.models.reformer.config import AXIAL_TABLES, ReformerConfig
from etc_jax.ops import blocking


class AxialPositions(nn.Module):
    """A position as a place in a table of each axis, the last one fastest.

    Of two axes (a, b), position p is row p // b of one table and column p % b of the
    other.

    Attributes:
      shape: rows of the tables, two or three.
      dims: their widths.
      stddev: of the tables' truncated normal.
    """

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    stddev: float

    def setup(self):
        init = truncated_normal(self.stddev)
        sizes = zip(AXIAL_TABLES, self.shape, self.dims, strict=False)
        for name, *size in sizes:
            setattr(self, name, self.param(name, init, tuple(size)))

    def _tables(self) -> list[jax.Array]:
        return [getattr(self, name) for name in AXIAL_TABLES[: len(self.shape)]]

    def __call__(self, length: int) -> jax.Array:
        """`[length, sum of dims]` for positions 0..length - 1."""
        # Rows of the first table that `length` positions reach.
        used = -(-length // math.prod(self.shape[1:]))
        grid = (used, *self.shape[1:])
        tables = []
        for axis, table in enumerate(self._tables()):
            table = table[:used] if axis == 0 else table
            others = [i for i in range(len(grid)) if i != axis]
            tables.append(
                # [size, dim] -> [*grid, dim], the same along all other axes.
                jnp.broadcast_to(
                    jnp.expand_dims(table, others), (*grid, table.shape[1])
                )
            )
        # [*grid, e] -> [positions of the grid, e] -> [length, e]
        return jnp.concatenate(tables, axis=-1).reshape(math.prod(grid), -1)[:length]

    def at(self, positions: jax.Array) -> jax.Array:
        """`[..., sum of dims]` for positions int `[...]`."""
        # [...] -> a place in each table, [...] each.
        indices = jnp.unravel_index(positions, self.shape)
        # [..., dim] of each table.
        rows = [
            jnp.asarray(table)[index]
            for table, index in zip(self._tables(), indices, strict=True)
        ]
        return jnp.concatenate(rows, axis=-1)


class ReformerPositions(nn.Module):
    """Positions are added to rows of tokens, with dropout.

    Attributes:
      config: of the model.
      deterministic: no dropout.
    """

    config: ReformerConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        if c.positions == "sinusoidal":
            return
        if c.axial_shape is None:
            self.position_embedder = self.table(c.max_length)
        else:
            self.position_embedder = AxialPositions(
                c.axial_shape, c.axial_widths, c.initializer_range
            )

    def table(self, rows: int) -> Embed:
        c = self.config
        init = truncated_normal(c.initializer_range)
        return Embed(rows, c.embed_dim, embedding_init=init, dtype=c.compute_dtype)

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array | None = None) -> jax.Array:
        """`[b, n, e]` -> the same shape.

        Args:
          x: rows of tokens.
          positions: int `[b, n]`; None: places in the row.
        """
        c, n = self.config, x.shape[1]
        drop = Dropout(c.dropout_rate, deterministic=self.deterministic)
        if c.positions == "sinusoidal":
            if positions is None:
                positions = jnp.arange(n, dtype=jnp.int32)[None]
            # Of the sum (Vaswani et al. 2017, section 5.4).
            return drop(x + self.at(positions))
        x = drop(x)
        if positions is not None:
            return x + drop(self.at(positions))
        num_rows = min(n, c.position_limit)  # what follows is padding
        if c.axial_shape is None:
            rows = self.position_embedder(jnp.arange(num_rows, dtype=jnp.int32))
        else:
            rows = self.position_embedder(num_rows).astype(c.compute_dtype)
        # [num_rows, e] -> [n, e]
        rows = blocking.pad_axis(rows, 0, 0, n - num_rows)
        # [b, n, e] + [1, n, e]
        return x + drop(rows[None])

    def at(self, positions: jax.Array) -> jax.Array:
        """The rows of positions: int `[b, n]` -> `[b, n, e]`; no dropout."""
        c = self.config
        if c.positions == "sinusoidal":
            return sinusoids(positions, c.embed_dim).astype(c.compute_dtype)
        if c.axial_shape is None:
            return self.position_embedder(positions)
        return self.position_embedder.at(positions).astype(c.compute_dtype)


class ReformerEmbeddings(ReformerPositions):
    """Tokens + positions, with dropout."""

    def setup(self):
        self.token_embedder = self.table(self.config.vocab_size)
        super().setup()

    def __call__(
        self, tokens: jax.Array, positions: jax.Array | None = None
    ) -> jax.Array:
        """int `[b, n]` -> `[b, n, e]`; see `ReformerPositions`."""
        x = self.token_embedder(tokens) * self.config.token_scale
        return super().__call__(x, positions)
