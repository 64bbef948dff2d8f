"""The parts of Adafactor (Shazeer & Stern 2018), matrix by matrix and layer by layer.

`optax.adafactor` takes the two largest dimensions of an array for its matrix, so that
heads and their size are never one, a projection `[embed, heads, head_dim]` is not
factored at all, and scanned layers have one norm in common. Here `PARAM_AXES` says what
the rows and columns of a parameter are, and a parameter of scanned layers,
`[layers, ...]`, is treated as if the layers were apart. On a matrix of two dimensions
both do the same.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from etc_jax.sharding import matrix_dims, path_of


def stacked_axes(path: str) -> int:
    """Leading axes that count layers: one for each "layers" on the path.

    A scanned stack keeps its parameters under that name (`layers/stack.py`).
    """
    return path.split("/").count("layers")


class FactoredState(NamedTuple):
    """Running means of squared gradients; a scalar stands where there is none.

    Attributes:
      count: updates so far.
      v_row: of a factored parameter, means over its columns, `[layers..., *rows]`.
      v_col: of a factored parameter, means over its rows, `[layers..., *columns]`.
      v: of another parameter, the squares themselves.
    """

    count: jax.Array
    v_row: Any
    v_col: Any
    v: Any


def _factors(key_path, param, min_size: int):
    """(dimensions of the rows, of the columns) if the parameter is factored."""
    dims = matrix_dims(path_of(key_path), param.ndim)
    if dims is None:
        return None
    sizes = [math.prod(param.shape[d] for d in group) for group in dims]
    return dims if min(sizes) >= min_size else None


def _apart(tuples: Any, like: Any, count: int) -> list[Any]:
    """A tree of tuples of `count` values -> `count` trees like `like`."""
    treedef = jax.tree.structure(like)
    leaves = treedef.flatten_up_to(tuples)
    return [treedef.unflatten(values[i] for values in leaves) for i in range(count)]


def scale_by_factored_rms(
    *, decay_rate: float, eps: float, min_dim_size_to_factor: int
) -> optax.GradientTransformation:
    """Divides gradients by the root of their mean squares, kept as rows and columns.

    Algorithm 4 of the paper: V is r c' / mean(r), the decay of update t is
    1 - t ** -decay_rate.

    Args:
      decay_rate: how fast the decay goes to 1; 0.8 in the paper.
      eps: added to squares.
      min_dim_size_to_factor: matrices with fewer rows or columns are not factored.
    """

    def init(params: Any) -> FactoredState:
        def one(key_path, param):
            nothing = jnp.zeros((), param.dtype)
            dims = _factors(key_path, param, min_dim_size_to_factor)
            if dims is None:
                return nothing, nothing, jnp.zeros_like(param)
            rows, columns = dims
            zeros = jnp.zeros_like(param)
            # [..., rows] and [..., columns] in place of [..., rows, columns].
            return jnp.mean(zeros, columns), jnp.mean(zeros, rows), nothing

        moments = jax.tree_util.tree_map_with_path(one, params)
        return FactoredState(jnp.zeros((), jnp.int32), *_apart(moments, params, 3))

    def update(updates, state, params=None):
        del params
        count = optax.safe_increment(state.count)
        decay = 1 - count.astype(jnp.float32) ** -decay_rate

        def one(key_path, gradient, v_row, v_col, v):
            squares = jnp.square(gradient) + eps
            dims = _factors(key_path, gradient, min_dim_size_to_factor)
            if dims is None:
                v = decay * v + (1 - decay) * squares
                return gradient * jax.lax.rsqrt(v), v_row, v_col, v
            rows, columns = dims
            v_row = decay * v_row + (1 - decay) * jnp.mean(squares, columns)
            v_col = decay * v_col + (1 - decay) * jnp.mean(squares, rows)
            # V = r c' / mean(r): the mean divides one factor only.
            by_row = jnp.expand_dims(v_row, columns)
            by_row = by_row / jnp.mean(by_row, axis=rows, keepdims=True)
            by_column = jnp.expand_dims(v_col, rows)
            scaled = gradient * jax.lax.rsqrt(by_row) * jax.lax.rsqrt(by_column)
            return scaled, v_row, v_col, v

        new = jax.tree_util.tree_map_with_path(
            one, updates, state.v_row, state.v_col, state.v
        )
        scaled, *moments = _apart(new, updates, 4)
        return scaled, FactoredState(count, *moments)

    return optax.GradientTransformation(init, update)


def _layer_rms(key_path, x: jax.Array) -> jax.Array:
    """Root of the mean square of each layer; its other dimensions are of size 1."""
    axes = tuple(range(stacked_axes(path_of(key_path)), x.ndim))
    return jnp.sqrt(jnp.mean(jnp.square(x), axis=axes, keepdims=True))


def clip_by_layer_rms(threshold: float) -> optax.GradientTransformation:
    """Scales an update down whose root mean square is above `threshold` (section 6)."""

    def clip(key_path, update):
        return update / jnp.maximum(1.0, _layer_rms(key_path, update) / threshold)

    return optax.stateless(
        lambda updates, params: jax.tree_util.tree_map_with_path(clip, updates)
    )


def scale_by_layer_rms_of_parameter(min_scale: float) -> optax.GradientTransformation:
    """Multiplies an update by the root mean square of its parameter (section 8).

    Args:
      min_scale: in place of a smaller one, so that zeros can move (eps2 in the paper).
    """

    def scale(key_path, update, param):
        return update * jnp.maximum(_layer_rms(key_path, param), min_scale)

    def update(updates, params):
        if params is None:
            raise ValueError("the scale is that of the parameters; pass params")
        return jax.tree_util.tree_map_with_path(scale, updates, params)

    return optax.stateless(update)
