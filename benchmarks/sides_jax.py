"""Sides in JAX: this library's attention, its dense form, and jax.nn's own."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import problem, sides_encoder
from benchmarks.problem import Sizes
from etc_jax import builders
from etc_jax.layers.attention import GlobalLocalAttention
from etc_jax.layers.block import Block
from etc_jax.layers.common import LayerNorm, Mlp
from etc_jax.models.etc import STREAMS
from etc_jax.structure import Rules, Structure, as_columns, as_rows, g2g, g2l, l2g, l2l
from etc_jax.types import LabelTable, Rows

Array = jax.Array
# As far below any logit as float32 allows without becoming -inf in a sum.
MASKED = -1e30
_OF_ENCODERS = (*sides_encoder.SIDES, sides_encoder.ORACLE)


def rules(sizes: Sizes) -> Rules:
    """The rules of the layer; labels if `sizes` has any."""
    return Rules(radius=sizes.radius, max_distance=sizes.max_distance)


def structure(sizes: Sizes) -> Structure:
    """One document whose sentences each have a global token, batch size 1."""
    one = builders.plain_text(sizes.sentence_lengths)
    return jax.tree.map(lambda x: jnp.asarray(x)[None], one)


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
    by_label = jnp.einsum("bqhd,vhd->bhqv", query, table.embedding)
    by_label = (by_label + table.bias.T[None, :, None, :]) * query.shape[-1] ** -0.5
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
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    x = (x - mean) * jax.lax.rsqrt(variance + problem.NORM_EPSILON)
    return (
        x * weights[f"{name}/scale"][None, None] + weights[f"{name}/bias"][None, None]
    )


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


def layer_params(weights: Mapping[str, Array], num_heads: int) -> dict[str, Any]:
    """The weights as parameters of ETC's `Block` with every projection shared."""

    def pair(name, kernel, bias):
        return {
            "kernel": weights[f"{name}/kernel"].reshape(kernel),
            "bias": weights[f"{name}/bias"].reshape(bias),
        }

    def norm(name):
        return {part: weights[f"{name}/{part}"] for part in ("scale", "bias")}

    embed = weights["out/bias"].shape[0]
    heads = ((embed, num_heads, -1), (num_heads, -1))
    attention = {
        "long_query": pair("query", *heads),
        "l2l_key": pair("key", *heads),
        "l2l_value": pair("value", *heads),
        "long_out": pair("out", (num_heads, -1, embed), (embed,)),
    }
    if tables := label_tables(weights):
        for name, table in zip(problem.LABEL_TABLES, tables, strict=True):
            attention[name] = table._asdict()
    return {
        "attention": attention,
        "long_attention_norm": norm("attention_norm"),
        "global_attention_norm": norm("attention_norm"),
        "mlp": {
            "wi": {part: weights[f"wi/{part}"] for part in ("kernel", "bias")},
            "wo": {part: weights[f"wo/{part}"] for part in ("kernel", "bias")},
        },
        "mlp_norm": norm("mlp_norm"),
    }


def etc_layer(weights, streams: Rows, structure, *, rules, num_heads, implementation):
    """This library's own layer."""
    tables = label_tables(weights)
    embed = weights["out/bias"].shape[0]

    def attention(name):
        return GlobalLocalAttention(
            num_heads=num_heads,
            head_dim=embed // num_heads,
            num_labels=tables and tables.long.bias.shape[0],
            rules=rules,
            share_qkv=True,
            share_out=True,
            implementation=implementation,
            name=name,
        )

    def mlp(name):
        width = weights["wi/bias"].shape[0]
        return Mlp(width, "gelu_exact", 0.02, jnp.dtype(jnp.float32), name=name)

    def norm(name):
        return LayerNorm(problem.NORM_EPSILON, jnp.dtype(jnp.float32), name=name)

    module = Block(attention, mlp, norm, **STREAMS)
    params = layer_params(weights, num_heads)
    return module.apply({"params": params}, streams, structure)[0]


def dpa_layer(weights, x: Array, structure, *, rules, num_heads):
    """The layer with `jax.nn.dot_product_attention` and a dense bias."""
    tables = label_tables(weights)

    def attend(query, key, value):
        rows = split(query, structure.global_length)
        bias = dense_bias(rows, tables, structure, rules)
        return jax.nn.dot_product_attention(query, key, value, bias=bias)

    return layer(weights, x, num_heads, attend)


def given_bias_layer(weights, x: Array, bias: Array, *, num_heads):
    """The layer with `jax.nn.dot_product_attention` and a bias that is an input."""
    attend = functools.partial(jax.nn.dot_product_attention, bias=bias)
    return layer(weights, x, num_heads, attend)


def with_gradient(forward: Callable) -> Callable:
    """`(output, (weights' gradient, inputs' gradient))` of the sum of squares."""

    def loss(weights, streams, *rest):
        output = forward(weights, streams, *rest)
        total = sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(output))
        return total, output

    def run(*args):
        (_, output), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(*args)
        return output, gradients

    return run


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled function and its arguments.

    Attributes:
      temp_bytes: XLA's own count of temporary memory.
    """

    call: Callable
    args: tuple
    temp_bytes: int

    @classmethod
    def make(cls, fn: Callable, *args) -> "Compiled":
        args = jax.block_until_ready(jax.tree.map(jnp.asarray, args))
        call = jax.jit(fn).lower(*args).compile()
        return cls(call, args, call.memory_analysis().temp_size_in_bytes)

    def run(self):
        """One call, waited for."""
        return jax.block_until_ready(self.call(*self.args))


def build_layer(name: str, sizes: Sizes, *, gradient: bool) -> Compiled:
    """Compiles one layer side.

    Args:
      name: one of `layer_sides.JAX_SIDES`, or an oracle that is not timed:
        etc_dense_no_labels, etc_dense_full (no labels, every token sees every token),
        big_bird_dense.
      sizes: of the layer.
      gradient: forward and backward, or forward alone.
    """
    if name.endswith(("_no_labels", "_full")) or name in _OF_ENCODERS:
        sizes = dataclasses.replace(sizes, max_distance=0)
    if name.endswith("_full"):
        sizes = dataclasses.replace(sizes, radius=sizes.long_length)
    weights, x, st = problem.weights(sizes), problem.inputs(sizes), structure(sizes)
    common = {"num_heads": sizes.num_heads}
    if name == "jax_given_bias":
        forward = functools.partial(given_bias_layer, **common)
        bias = _bias_at_start(sizes, weights, x, st)
        args = ({k: w for k, w in weights.items() if "labels" not in k}, x, bias)
    elif name in _OF_ENCODERS:
        forward = functools.partial(sides_encoder.layer, name=name, sizes=sizes)
        args = (weights, x)
    elif name == "jax_dpa":
        forward = functools.partial(dpa_layer, rules=rules(sizes), **common)
        args = (weights, x, st)
    else:
        implementation = "dense" if name.startswith("etc_dense") else "xla"
        forward = functools.partial(
            etc_layer, rules=rules(sizes), implementation=implementation, **common
        )
        args = (weights, split(x, sizes.global_length), st)
    return Compiled.make(with_gradient(forward) if gradient else forward, *args)


@functools.partial(jax.jit, static_argnums=0)
def _bias_at_start(sizes: Sizes, weights, x, structure) -> Array:
    weights = jax.tree.map(jnp.asarray, weights)
    query = _dense(weights, "query", x).reshape(*x.shape[:2], sizes.num_heads, -1)
    rows = split(query, sizes.global_length)
    return dense_bias(rows, label_tables(weights), structure, rules(sizes))


def layer_arrays(result: Any, *, gradient: bool) -> dict[str, np.ndarray]:
    """Named arrays of a raw result, globals first: outputs, then gradients."""
    output, gradients = result if gradient else (result, None)
    arrays = {"output": output}
    if gradients is not None:
        arrays["grad inputs"] = gradients[1]
        arrays |= {f"grad {name}": x for name, x in gradients[0].items()}
    return {
        name: np.asarray(joined(x) if isinstance(x, Rows) else x)
        for name, x in arrays.items()
        if name != problem.ROUNDING_ONLY
    }
