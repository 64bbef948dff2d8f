"""Compiles forward + backward of an ETC encoder for a TPU that need not be there.

    python -m benchmarks tpu_compile --size=base --long_length=4096 --out=tpu.json

libtpu compiles for a real topology on any x86 machine. The table shows what one chip
would hold; the compiled text is searched for float32 arrays that a linear form must
not have: all pairs `[n, n]`, or a whole local band `[n, 2r+1]` of every head.

libtpu takes a machine-wide lock: run one such compile at a time.
"""

import argparse
import math
import re
import time
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.kit import report
from etc_jax import structure as st
from etc_jax.models.etc import body as etc
from etc_jax.training.preflight import topology as topology_lib

LEARNING_RATE = 1e-3


def compile_encoder(
    config: etc.EtcConfig,
    long_length: int,
    global_length: int,
    topology: str,
    *,
    dropout: bool = False,
    updates: bool = False,
) -> tuple[jax.stages.Compiled, float]:
    """The compiled gradient step of one input on one chip of a topology.

    Args:
      config: of the encoder.
      long_length: n.
      global_length: g.
      topology: a name that libtpu knows, such as v5e:1x1.
      dropout: whether it acts, at the rates of the config.
      updates: plain gradient descent in place, instead of returning gradients.

    Returns:
      (compiled, seconds of compiling).

    Raises:
      UserError: if libtpu is not to be had, or knows no such topology.
    """
    chip = topology_lib.devices(topology)[0]
    layout = jax.sharding.SingleDeviceSharding(chip)

    def on_chip(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)

    tokens = jax.ShapeDtypeStruct((1, long_length), jnp.int32)
    globals_ = jax.ShapeDtypeStruct((1, global_length), jnp.int32)
    links = jax.ShapeDtypeStruct((1, long_length, 1), jnp.int16)
    inputs = (tokens, globals_, st.Structure(tokens, globals_, links))
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(etc.Etc(config).init, key, *inputs)
    model = etc.Etc(config, deterministic=not dropout)

    def loss(params, key, *inputs):
        outputs = model.apply(params, *inputs, rngs={"dropout": key})
        return sum(jnp.mean(x.astype(jnp.float32) ** 2) for x in outputs)

    def update(params, key, *inputs):
        value, grads = jax.value_and_grad(loss)(params, key, *inputs)
        new = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)
        return new, value

    step = jax.jit(jax.value_and_grad(loss))
    if updates:
        step = jax.jit(update, donate_argnums=0)
    lowered = step.lower(*jax.tree.map(on_chip, (params, key, *inputs)))
    began = time.perf_counter()
    return lowered.compile(), time.perf_counter() - began


def float32_shapes(text: str) -> set[tuple[int, ...]]:
    """Shapes of every float32 array in a compiled program's text."""
    return {
        tuple(int(size) for size in match.split(",") if size)
        for match in re.findall(r"\bf32\[([\d,]*)\]", text)
    }


def quadratic_shapes(shapes, config, n: int) -> list[tuple[int, ...]]:
    """The shapes of `[n, n]` arrays and of whole local bands of all heads."""
    window = (config.attention_block_size or 128) + 2 * config.radius
    band = config.num_heads * n * (2 * config.radius + 1)
    widths = {2 * config.radius + 1, window}
    return sorted(
        shape
        for shape in shapes
        if sum(size >= n for size in shape) > 1
        and shape.count(n) > 1
        or (math.prod(shape) >= band and widths & set(shape))
    )


def parser(
    module: str, text: str, *, global_length: int, remat_policy: str
) -> argparse.ArgumentParser:
    """The options of an encoder and a topology; see `config_of`."""
    made = report.parser(module, text)
    add = made.add_argument
    add("--size", choices=("base", "base_shared", "large"), default="base")
    add("--global_length", type=int, default=global_length)
    add("--topology", default="v5e:1x1")
    add("--remat_policy", default=remat_policy)
    add("--chunk_blocks", type=int, default=8)
    return made


def config_of(args: argparse.Namespace) -> etc.EtcConfig:
    """The encoder that the options of `parser` ask for, in bfloat16."""
    return getattr(etc, args.size)(
        dtype="bfloat16",
        remat_policy=args.remat_policy,
        attention_block_size=128,
        attention_chunk_blocks=args.chunk_blocks,
    )


def largest(shapes: Collection[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    """The largest ones, in order."""
    return sorted(shapes, key=math.prod, reverse=True)[:count]


def measure(args: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """(what a chip would hold, printed and ready for JSON; 1 for a forbidden array)."""
    config = config_of(args)
    sizes = args.long_length, args.global_length
    compiled, seconds = compile_encoder(config, *sizes, args.topology)
    memory = compiled.memory_analysis()
    shapes = float32_shapes(compiled.as_text())
    forbidden = quadratic_shapes(shapes, config, args.long_length)
    row = {
        **report.arguments(args),
        "compile_secs": round(seconds, 1),
        "parameter_bytes": memory.argument_size_in_bytes,
        "gradient_bytes": memory.output_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "largest_float32": largest(shapes, 10),
        "forbidden_float32": forbidden,
    }
    for name, value in row.items():
        print(f"{name:18} {value}")
    return row, 1 if forbidden else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles, prints and writes; 1 for a forbidden array, 2 without a compiler."""
    how = {"global_length": 230, "remat_policy": "attention"}
    options = parser("tpu_compile", __doc__, **how)
    options.add_argument("--long_length", type=int, default=4096)
    args = options.parse_args(argv)
    return report.run(options, args, lambda: measure(args))
