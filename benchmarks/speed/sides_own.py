"""This library's layers with the weights of `problem`: ETC, Longformer, BigBird."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from benchmarks.speed import problem
from benchmarks.speed.problem import Sizes
from benchmarks.speed.sides_jax import label_tables
from etc_jax.base.types import Rows
from etc_jax.layers.block import Block
from etc_jax.layers.common import LayerNorm, Mlp
from etc_jax.layers.patterns.block_sparse import BlockSparse
from etc_jax.layers.patterns.global_local import GlobalLocal
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.self_attention import (
    SelfAttention,
    SequenceInputs,
)
from etc_jax.models.etc.body import STREAMS
from etc_jax.structure import Rules, Structure

Weights = Mapping[str, jax.Array]
# Layers over one sequence; the last one is an oracle, which looks at all pairs.
ENCODERS = ("longformer", "big_bird", "big_bird_dense")


def etc(
    weights: Weights,
    streams: Rows,
    structure: Structure,
    *,
    rules: Rules,
    sizes: Sizes,
    implementation: str,
) -> Rows:
    """The layer of ETC, every projection shared.

    Args:
      weights: of `problem.weights`.
      streams: long and global tokens, `[batch, length, embed]`.
      structure: of the input.
      rules: who sees whom.
      sizes: of the problem.
      implementation: of the attention.
    """
    tables = label_tables(weights)

    def attention(name: str) -> nn.Module:
        num_labels = tables and tables.long.bias.shape[0]
        pattern = GlobalLocal(rules, num_labels, share_qkv=True, share_out=True)
        return pattern.module(
            num_heads=sizes.num_heads,
            head_dim=sizes.head_dim,
            implementation=implementation,
            dtype=streams.long.dtype,
            name=name,
        )

    heads = _heads(weights, sizes)
    names = {"long_query": "query", "l2l_key": "key", "l2l_value": "value"}
    params = {own: heads[name] for own, name in names.items()}
    params["long_out"] = heads["out"]
    if tables:
        labels = zip(problem.LABEL_TABLES, tables, strict=True)
        params |= {name: table._asdict() for name, table in labels}
    params = {"attention": params, **_rest(weights)}
    norm = params.pop("attention_norm")
    params |= {f"{stream}_attention_norm": norm for stream in ("long", "global")}
    module = _block(attention, sizes, streams.long.dtype, **STREAMS)
    return module.apply({"params": params}, streams, structure)[0]


def encoder(weights: Weights, x: jax.Array, *, name: str, sizes: Sizes) -> jax.Array:
    """The layer over `[batch, global + long, embed]`, global tokens first.

    Args:
      weights: of `problem.weights`, without labels.
      x: of `problem.inputs`.
      name: of `ENCODERS`. Longformer projects global tokens apart, with the same
        weights; BigBird has as many tokens, of which none is global.
      sizes: of the problem.
    """
    is_longformer = name == "longformer"
    sparse = BlockSparse(sizes.bigbird_block_size, sizes.bigbird_random_blocks)
    pattern = SlidingWindow(sizes.radius) if is_longformer else sparse
    implementation = "dense" if name.endswith("_dense") else "auto"

    def attention(name: str) -> nn.Module:
        heads = sizes.num_heads, sizes.head_dim
        how = {"implementation": implementation, "dtype": x.dtype, "name": name}
        return SelfAttention(*heads, pattern=pattern, **how)

    heads = _heads(weights, sizes)
    index = None
    if is_longformer:
        heads |= {f"{name}_global": heads[name] for name in ("query", "key", "value")}
        shape = (sizes.batch_size, sizes.global_length)
        index = jnp.broadcast_to(jnp.arange(sizes.global_length), shape)
    inputs = SequenceInputs(jnp.ones(x.shape[:2], jnp.int32), index)
    params = {"attention": heads, **_rest(weights)}
    block = _block(attention, sizes, x.dtype)
    return block.apply({"params": params}, x, inputs)[0]


def _block(
    attention: Callable[[str], nn.Module], sizes: Sizes, dtype, **streams: Any
) -> Block:
    def mlp(name: str) -> nn.Module:
        return Mlp(sizes.mlp_dim, "gelu_exact", 0.02, dtype, name=name)

    def norm(name: str) -> nn.Module:
        return LayerNorm(problem.NORM_EPSILON, dtype, name=name)

    return Block(attention, mlp, norm, **streams)


def _heads(weights: Weights, sizes: Sizes) -> dict[str, dict[str, jax.Array]]:
    """Projections: kernels `[e, h, d]`, that of the output `[h, d, e]`."""
    split, e = (sizes.num_heads, sizes.head_dim), sizes.embed_dim
    shapes = dict.fromkeys(("query", "key", "value"), ((e, *split), split))
    shapes["out"] = ((*split, e), (e,))
    return {
        name: {
            "kernel": weights[f"{name}/kernel"].reshape(kernel),
            "bias": weights[f"{name}/bias"].reshape(bias),
        }
        for name, (kernel, bias) in shapes.items()
    }


def _rest(weights: Weights) -> dict[str, Any]:
    """Norms and the feed-forward."""

    def parts(name: str, *kinds: str) -> dict[str, jax.Array]:
        return {kind: weights[f"{name}/{kind}"] for kind in kinds}

    norms = {name: parts(name, "scale", "bias") for name in problem.NORMS}
    return {"mlp": {n: parts(n, "kernel", "bias") for n in ("wi", "wo")}, **norms}
