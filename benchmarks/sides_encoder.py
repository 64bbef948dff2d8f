"""Sides of the layer benchmark that are layers of Longformer and BigBird."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import problem
from benchmarks.problem import Sizes
from etc_jax.layers.block import Block
from etc_jax.layers.common import LayerNorm, Mlp
from etc_jax.layers.self_attention import (
    SelfAttention,
    SequenceInputs,
    Sparse,
    Window,
)

SIDES = ("longformer", "big_bird")
ORACLE = "big_bird_dense"


def params_of(weights: Mapping[str, Any], num_heads: int, *, with_globals: bool):
    """The weights of the problem as parameters of `Block`.

    Args:
      weights: of `problem.weights`.
      num_heads: of the attention.
      with_globals: whether global tokens are projected apart, with the same weights.
    """

    def pair(name, kernel=None, bias=None):
        found = {part: weights[f"{name}/{part}"] for part in ("kernel", "bias")}
        if kernel is not None:
            found = {
                "kernel": found["kernel"].reshape(kernel),
                "bias": found["bias"].reshape(bias),
            }
        return found

    embed = weights["out/bias"].shape[0]
    heads = ((embed, num_heads, -1), (num_heads, -1))
    attention = {name: pair(name, *heads) for name in ("query", "key", "value")}
    if with_globals:
        attention |= {f"{name}_global": x for name, x in attention.items()}
    attention["out"] = pair("out", (num_heads, -1, embed), (embed,))
    norms = {
        name: {part: weights[f"{name}/{part}"] for part in ("scale", "bias")}
        for name in problem.NORMS
    }
    mlp = {name: pair(name) for name in ("wi", "wo")}
    return {"attention": attention, "mlp": mlp, **norms}


def layer(
    weights: Mapping[str, Any], x: jax.Array, *, name: str, sizes: Sizes
) -> jax.Array:
    """The layer over `[1, global + long, embed]`, global tokens first.

    Args:
      weights: of `problem.weights`, without labels.
      x: of `problem.inputs`.
      name: of `SIDES`, or `ORACLE`, which looks at all pairs.
      sizes: of the problem. BigBird has as many tokens, of which none is global.
    """
    float32 = jnp.dtype(jnp.float32)
    sparse = Sparse(sizes.bigbird_block_size, sizes.bigbird_random_blocks)
    pattern = Window(sizes.radius) if name == "longformer" else sparse
    implementation = "dense" if name == ORACLE else "xla"

    def attention(name):
        return SelfAttention(
            sizes.num_heads,
            sizes.head_dim,
            pattern=pattern,
            implementation=implementation,
            name=name,
        )

    def mlp(name):
        return Mlp(sizes.mlp_dim, "gelu_exact", 0.02, float32, name=name)

    def norm(name):
        return LayerNorm(problem.NORM_EPSILON, float32, name=name)

    module = Block(attention=attention, mlp=mlp, norm=norm, dropout_rate=0.0)
    index = None
    if name == "longformer":
        index = jnp.arange(sizes.global_length)[None]
    inputs = SequenceInputs(jnp.ones(x.shape[:2], jnp.int32), index)
    params = params_of(weights, sizes.num_heads, with_globals=name == "longformer")
    return module.apply({"params": params}, x, inputs)[0]
