"""Sides on jax.nn, and what all sides in JAX share: structure, biases, compiling."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit.compiled import Compiled, with_gradient
from benchmarks.speed import problem
from benchmarks.speed.problem import Sizes
from etc_jax.base.types import LabelTable, Rows
from etc_jax.structure import (
    Rules,
    Structure,
    as_columns,
    as_rows,
    builders,
    g2g,
    g2l,
    l2g,
    l2l,
)

Array = jax.Array
# As far below any logit as float32 allows without becoming -inf in a sum.
MASKED = -1e30


def rules(sizes: Sizes) -> Rules:
    """The rules of the layer; labels if `sizes` has any."""
    return Rules(radius=sizes.radius, max_distance=sizes.max_distance)


def structure(sizes: Sizes) -> Structure:
    """Documents whose sentences each have a global token."""
    one = builders.plain_text(sizes.sentence_lengths)
    return jax.tree.map(lambda x: jnp.repeat(x[None], sizes.batch_size, axis=0), one)


def label_tables(weights: Mapping[str, Array]) -> Rows | None:
    """The label tables among the weights, or None."""
    if "long_labels/embedding" not in weights:
        return None
    return Rows(
        *(
            LabelTable(weights[f"{name}/embedding"], weights[f"{name}/bias"])
            for name in problem.LABEL_TABLES
        )
    )


def dense_bias(
    query: Rows, tables: Rows | None, structure: Structure, rules: Rules
) -> Array:
    """What masks and labels add to the logits, `[b, h, g + n, g + n]`, globals first.

    Made from the pair functions and plain indexing alone, to be independent of the
    library's attention. Label logits and biases are scaled by 1 / sqrt(head_dim).
    """
    long, global_ = structure.long_tokens(), structure.global_tokens()
    tables = tables or Rows(None, None)
    return jnp.concatenate(
        [
            _row_bias(
                query.global_,
                tables.global_,
                g2g(rules, as_rows(global_), as_columns(global_)),
                g2l(rules, as_rows(global_), as_columns(long)),
            ),
            _row_bias(
                query.long,
                tables.long,
                l2g(rules, as_rows(long), as_columns(global_)),
                l2l(rules, as_rows(long), as_columns(long)),
            ),
        ],
        axis=2,
    )


def _row_bias(query: Array, table: LabelTable | None, *pieces) -> Array:
    """Bias of the rows of one softmax; pieces are (mask, label) of `[b, q, keys]`."""
    mask = jnp.concatenate([mask for mask, _ in pieces], axis=-1)[:, None]
    logits = jnp.zeros((), query.dtype)
    if table is not None:
        labels = [jnp.broadcast_to(label, mask.shape) for mask, label in pieces]
        logits = _label_logits(query, table, jnp.concatenate(labels, axis=-1))
    shape = (query.shape[0], query.shape[2], *mask.shape[2:])
    return jnp.broadcast_to(jnp.where(mask, logits, MASKED), shape)


def _label_logits(query: Array, table: LabelTable, label: Array) -> Array:
    """`[b, q, h, d]` and labels `[b, q, k]` -> scaled `[b, h, q, k]`."""
    wide = jnp.float32  # gradients of tables are sums of thousands
    by_label = jnp.einsum(
        "bqhd,vhd->bhqv", query, table.embedding, preferred_element_type=wide
    )
    bias = table.bias.astype(wide).T[None, :, None, :]
    by_label = (by_label + bias) * query.shape[-1] ** -0.5
    index = jnp.broadcast_to(
        label[:, None], (label.shape[0], query.shape[2], *label.shape[1:])
    )
    return jnp.take_along_axis(by_label, index, axis=-1)


def joined(rows: Rows) -> Array:
    """Long and global rows as one sequence along axis 1, globals first."""
    return jnp.concatenate([rows.global_, rows.long], axis=1)


def split(x: Array, global_length: int) -> Rows:
    """The inverse of `joined`."""
    return Rows(x[:, global_length:], x[:, :global_length])


def _dense(weights: Mapping[str, Array], name: str, x: Array) -> Array:
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"][None, None]


def _norm(weights: Mapping[str, Array], name: str, x: Array) -> Array:
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axis=-1, keepdims=True)
    wide = (wide - mean) * jax.lax.rsqrt(variance + problem.NORM_EPSILON)
    scale, bias = (weights[f"{name}/{kind}"][None, None] for kind in ("scale", "bias"))
    return (wide * scale + bias).astype(x.dtype)


def layer(weights: Mapping[str, Array], streams: Any, num_heads: int, attend: Callable):
    """One layer (see `problem`) over a tree of streams `[b, length, embed]`.

    Args:
      weights: as `problem.weights`.
      streams: `Rows` of long and global tokens, or one array of both.
      num_heads: of the attention.
      attend: takes query, key, value trees `[b, length, heads, head_dim]`.

    Returns:
      A tree like `streams`.
    """

    def heads(name):
        def project(x):
            return _dense(weights, name, x).reshape(*x.shape[:2], num_heads, -1)

        return jax.tree.map(project, streams)

    def rest(x, context):
        x = _dense(weights, "out", context.reshape(x.shape)) + x
        x = _norm(weights, "attention_norm", x)
        hidden = jax.nn.gelu(_dense(weights, "wi", x), approximate=False)
        return _norm(weights, "mlp_norm", _dense(weights, "wo", hidden) + x)

    context = attend(heads("query"), heads("key"), heads("value"))
    return jax.tree.map(rest, streams, context)


def dense_attend(query, key, value, *, tables, structure, rules) -> Array:
    """`jax.nn.dot_product_attention` with masks and labels as a dense bias.

    Query, key and value are joined, `[b, g + n, h, d]`, globals first.
    """
    rows = split(query, structure.global_length)
    bias = dense_bias(rows, tables, structure, rules).astype(query.dtype)
    return jax.nn.dot_product_attention(query, key, value, bias=bias)


@functools.partial(jax.jit, static_argnums=0)
def bias_at_start(sizes: Sizes, weights, x, structure) -> Array:
    """The bias of a layer's attention, to be given to it: labels are not learnt."""
    weights = jax.tree.map(jnp.asarray, weights)
    query = _dense(weights, "query", x).reshape(*x.shape[:2], sizes.num_heads, -1)
    rows = split(query, sizes.global_length)
    return dense_bias(rows, label_tables(weights), structure, rules(sizes))


def compiled(
    forward: Callable, *args: Any, gradient: bool, inputs: Sequence[str] = ()
) -> Compiled:
    """A side, with named arrays: its output and gradients, float32, globals first.

    Args:
      forward: takes weights by name, inputs, and what has no gradient.
      *args: of `forward`.
      gradient: forward and backward, or forward alone.
      inputs: names of several inputs; otherwise they are one, "inputs".
    """

    def arrays(result: Any) -> dict[str, np.ndarray]:
        output, gradients = result if gradient else (result, None)
        named = {"output": output}
        if gradient:
            own, of_inputs = gradients
            if not inputs:
                of_inputs = [of_inputs]
            pairs = zip(inputs or ["inputs"], of_inputs, strict=True)
            named |= {f"grad {name}": x for name, x in [*own.items(), *pairs]}
        return {
            name: np.asarray(joined(x) if isinstance(x, Rows) else x, np.float32)
            for name, x in named.items()
            if name != problem.ROUNDING_ONLY
        }

    run = with_gradient(forward) if gradient else forward
    return Compiled.make(run, *args, arrays=arrays)
