"""Stacks of two streams: reversible, or with all activations kept for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import ACTIVATIONS, Dense, LayerNorm, as_rows
from etc_jax.ops import blocking, reversible

# Makes a module called as (x, shared, kept), giving (y, kept); see `reversible.Half`.
MakeHalf = Callable[[], nn.Module]


class AttentionHalf(nn.Module):
    """f of a layer: attention of the norm, with dropout; the residual is the stack's.

    Attributes:
      norm: makes the norm, given its name.
      attention: makes the attention, given its name; called as (x, shared, kept) and
        giving (y, what is to be kept).
      dropout_rate: of the result.
    """

    norm: Callable[[str], LayerNorm]
    attention: Callable[[str], nn.Module]
    dropout_rate: float = 0.0
    deterministic: bool = True

    @nn.compact
    def __call__(self, x, shared, kept=None):
        y = self.norm("attention_norm")(x)
        y, kept = self.attention("attention")(y, shared, kept)
        drop = nn.Dropout(self.dropout_rate, name="dropout")
        return drop(y, deterministic=self.deterministic), kept


class _Mlp(nn.Module):
    """Dense, dropout, activation, dense, dropout; the order of trax."""

    mlp_dim: int
    activation: str
    stddev: float
    dropout_rate: float
    deterministic: bool
    dtype: jnp.dtype
    param_dtype: jnp.dtype

    @nn.compact
    def __call__(self, carry, x):
        """(nothing, `[b, n, e]`) -> the same; a body of `nn.scan`."""
        sizes = (self.stddev, self.dtype, 1, self.param_dtype)

        def drop(y, name):
            dropout = nn.Dropout(self.dropout_rate, name=name)
            return dropout(y, deterministic=self.deterministic)

        y = Dense((self.mlp_dim,), *sizes, name="wi")(as_rows(x))
        y = ACTIVATIONS[self.activation](drop(y, "hidden_dropout"))
        y = Dense((x.shape[-1],), *sizes, name="wo")(y)
        return carry, drop(y, "dropout").reshape(x.shape)


class MlpHalf(nn.Module):
    """g of a layer: feed-forward of the norm, some tokens at a time.

    Attributes:
      norm: makes the norm, given its name.
      mlp_dim: hidden width.
      activation: a name of `ACTIVATIONS`.
      stddev: of the kernels' truncated normal.
      dropout_rate: behind each of the two maps.
      chunk_length: tokens whose hidden layer exists at once; 0: all. Dropout draws
        otherwise with another one.
    """

    norm: Callable[[str], LayerNorm]
    mlp_dim: int
    activation: str = "relu"
    stddev: float = 0.02
    dropout_rate: float = 0.0
    chunk_length: int = 0
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, shared, kept=None):
        del shared
        n, size = x.shape[1], self.chunk_length
        whole = not size or n <= size
        mlp = _Mlp
        if not whole:
            mlp = nn.scan(
                nn.remat(_Mlp, prevent_cse=False),
                variable_broadcast="params",
                split_rngs={"params": False, "dropout": True},
                in_axes=1,
                out_axes=1,
            )
        mlp = mlp(
            self.mlp_dim,
            self.activation,
            self.stddev,
            self.dropout_rate,
            self.deterministic,
            self.dtype,
            self.param_dtype,
            name="mlp",
        )
        y = self.norm("mlp_norm")(x)
        if whole:
            return mlp(None, y)[1], kept
        y = blocking.pad_axis(y, 1, 0, -n % size)
        y = blocking.blocks(y, y.shape[1] // size, 1)
        return blocking.unblock(mlp(None, y)[1], 1)[:, :n], kept


class LayerKind(NamedTuple):
    """One layer of a repeat.

    Attributes:
      name: of its parameters.
      f: makes its first half, with `parent=None`; what the module reads beside its
        arguments is not traced.
      g: makes its second half, likewise.
    """

    name: str
    f: MakeHalf
    g: MakeHalf


class TwoStreamStack(nn.Module):
    """Repeats of some layers over two streams; see `ops.reversible`.

    Parameters lie under "layers", those of each layer of a repeat under its name, "f"
    and "g" there, stacked on a leading axis of repeats.

    Attributes:
      kinds: the layers of a repeat, of different names.
      num_repeats: how many.
      reversible: whether the backward pass works inputs out from outputs; otherwise
        all activations are kept.
    """

    kinds: Sequence[LayerKind]
    num_repeats: int
    reversible: bool = True

    def __call__(self, x1: Any, x2: Any, shared: Any, rng: jax.Array):
        """(streams, what all halves are told, key) -> the streams behind the stack.

        Args:
          x1: first stream.
          x2: second stream, of the same shapes.
          shared: see `ops.reversible.layer`.
          rng: key that the halves' streams "dropout" and "lsh" come from.
        """
        stack = reversible.stack if self.reversible else reversible.plain_stack
        return stack(*self._parts(x1, shared, rng), shared, x1, x2)

    def with_hidden(self, x1: Any, x2: Any, shared: Any, rng: jax.Array):
        """(streams, second stream behind each layer, what each half kept)."""
        layers, params, rngs = self._parts(x1, shared, rng)
        return reversible.layers_apart(layers, params, rngs, shared, x1, x2)

    @nn.compact
    def _parts(self, x, shared, rng):
        """(halves, their params, their keys)."""
        pairs = [(kind.f(), kind.g()) for kind in self.kinds]
        shape = (len(pairs), 2, self.num_repeats)

        def init(init_rng):
            keys = jax.random.split(init_rng, shape)

            def of(half, keys):
                return jax.vmap(lambda rng: _init(half, rng, x, shared))(keys)

            return {
                kind.name: {"f": of(f, keys[i, 0]), "g": of(g, keys[i, 1])}
                for i, (kind, (f, g)) in enumerate(zip(self.kinds, pairs, strict=True))
            }

        found = self.param("layers", init)
        params = [(found[kind.name]["f"], found[kind.name]["g"]) for kind in self.kinds]
        keys = jax.random.split(rng, shape)
        rngs = [(keys[i, 0], keys[i, 1]) for i in range(len(pairs))]
        layers = [tuple(map(_as_function, pair)) for pair in pairs]
        return layers, params, rngs


def _streams(rng: jax.Array) -> dict[str, jax.Array]:
    dropout, lsh = jax.random.split(rng)
    return {"dropout": dropout, "lsh": lsh}


def _init(half: nn.Module, rng: jax.Array, x, shared) -> Any:
    rng, other = jax.random.split(rng)
    return half.init({"params": rng, **_streams(other)}, x, shared)["params"]


def _as_function(half: nn.Module) -> reversible.Half:
    def apply(params, x, rng, shared, kept):
        return half.apply({"params": params}, x, shared, kept, rngs=_streams(rng))

    return apply
