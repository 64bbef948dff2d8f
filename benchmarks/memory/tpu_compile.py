"""What one TPU chip, which need not be there, would hold to train an ETC encoder.

    python -m benchmarks tpu_compile --size=base --long_lengths=4096 --out=tpu.json
    python -m benchmarks tpu_compile --updates --size=base --long_lengths=65536,131072

libtpu compiles forward + backward of one input for a real topology on any x86 machine;
see `etc_jax.training.preflight.topology`. The compiled text is searched for float32
arrays that a linear form must not have: all pairs `[n, n]`, or a whole local band
`[n, 2r+1]` of every head. Exit code 1 if there is one, or a length does not fit.

--updates asks for the longest input that a chip can train on: float32 parameters are
updated in place by plain gradient descent, without moments, and by default all layers
are computed again and there are 512 global tokens. The paper's longest, with another
set-up of that kind on 16 GB (appendix E), were 22,656 long tokens for base and 8,448
for large.

libtpu takes a machine-wide lock: run one such compile at a time.
"""

import argparse
import dataclasses
import json
import math
import re
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.kit import report
from etc_jax import structure as st
from etc_jax.models.etc import config as etc_config
from etc_jax.models.etc.body import Etc
from etc_jax.training.preflight import device_memory, hardware, topology as topology_lib

LEARNING_RATE = 1e-3
PAPER = {"base": 22_656, "base_shared": None, "large": 8_448}
# --updates -> what is not said.
DEFAULTS = {
    False: {"global_length": 230, "remat_policy": "attention"},
    True: {"global_length": 512, "remat_policy": "full"},
}
_SHOWN = 10


def compile_encoder(
    config: etc_config.EtcConfig,
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
    mesh = jax.sharding.Mesh(topology_lib.devices(topology)[:1], ("data",))
    layout = jax.NamedSharding(mesh, jax.P())

    def on_chip(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)

    tokens = jax.ShapeDtypeStruct((1, long_length), jnp.int32)
    globals_ = jax.ShapeDtypeStruct((1, global_length), jnp.int32)
    links = jax.ShapeDtypeStruct((1, long_length, 1), jnp.int16)
    inputs = (tokens, globals_, st.Structure(tokens, globals_, links))
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(Etc(config).init, key, *inputs)
    model = Etc(config, deterministic=not dropout)

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
    # Of the mesh, kernels learn which chip they are for.
    with jax.set_mesh(mesh):
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


def config_of(args: argparse.Namespace) -> etc_config.EtcConfig:
    """The encoder that the options ask for, in bfloat16."""
    return getattr(etc_config, args.size)(
        dtype="bfloat16",
        attention=args.attention,
        remat_policy=args.remat_policy,
        attention_block_size=128,
        attention_chunk_blocks=args.chunk_blocks,
    )


def measure(args: argparse.Namespace, long_length: int, limit: float) -> dict[str, Any]:
    """One row of the result: what a step at this length takes of a chip.

    Args:
      args: of the command line.
      long_length: n.
      limit: bytes of the chip that programs may use.
    """
    config = config_of(args)
    row = {"size": args.size, "long_length": long_length, "limit_bytes": limit}
    began = time.perf_counter()
    try:
        compiled, seconds = compile_encoder(
            config,
            long_length,
            args.global_length,
            args.topology,
            dropout=args.dropout,
            updates=args.updates,
        )
    except jax.errors.JaxRuntimeError as error:
        refused = device_memory.too_large(error)
        if refused is None:
            raise
        seconds = time.perf_counter() - began
        row |= {"total_bytes": refused.needed, "refused": refused.message}
        return row | {"fits": False, "compile_secs": round(seconds, 1)}
    memory = device_memory.of(compiled)
    shapes = float32_shapes(compiled.as_text())
    return row | {
        "fits": memory.total <= limit,
        "total_bytes": memory.total,
        "share": round(memory.total / limit, 4),
        **dataclasses.asdict(memory),
        "largest_float32": sorted(shapes, key=math.prod, reverse=True)[:_SHOWN],
        "forbidden_float32": quadratic_shapes(shapes, config, long_length),
        "compile_secs": round(seconds, 1),
    }


def measure_all(args: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """(rows, printed and ready for JSON; 1 if one is not as it must be)."""
    chip = topology_lib.devices(args.topology)[0]
    limit = hardware.memory_limit(chip)
    rows = []
    for length in args.long_lengths:
        rows.append(measure(args, length, limit))
        print(json.dumps(rows[-1]), flush=True)
    fitting = [row["long_length"] for row in rows if row["fits"]]
    forbidden = any(row.get("forbidden_float32") for row in rows)
    return {
        **report.arguments(args),
        "device_kind": chip.device_kind,
        "paper_long_length": PAPER[args.size],
        "longest_that_fits": max(fitting, default=0),
        "rows": rows,
    }, 1 if forbidden or len(fitting) < len(rows) else 0


def parse(argv: Sequence[str] | None):
    """(the command line, its checked arguments)."""
    options = report.parser("tpu_compile", __doc__)
    add = options.add_argument
    add("--size", choices=tuple(PAPER), default="base")
    add("--long_lengths", type=report.integers, default=(4096,))
    add("--updates", action="store_true", help="parameters, see above")
    add("--dropout", action="store_true", help="as in training")
    add("--global_length", type=int)
    add("--topology", default="v5e:1x1")
    add("--attention", default="auto", help="such as xla: without kernels")
    add("--remat_policy")
    add("--chunk_blocks", type=int, default=8)
    args = options.parse_args(argv)
    for name, default in DEFAULTS[args.updates].items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    if min(args.long_lengths) < 1:
        options.error(f"--long_lengths is {args.long_lengths}; expected at least 1")
    return options, args


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles each length and prints a row; 1 see above, 2 without a compiler."""
    options, args = parse(argv)
    return report.run(options, args, lambda: measure_all(args))
