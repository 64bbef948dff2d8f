"""The longest input that one TPU chip can train on, by compiling for it.

    python -m benchmarks longest_input --size=base --long_lengths=65536,131072

Batch 1 in bfloat16, rematerialised, float32 parameters updated in place by plain
gradient descent: no moments. The paper's longest, with another set-up of that kind on
16 GB (appendix E), were 22,656 long tokens for base and 8,448 for large, with 512
global ones. No TPU is needed, libtpu compiles; see
`etc_jax.training.preflight.topology`.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.kit import report
from benchmarks.memory import tpu_compile
from etc_jax.training.preflight import device_memory, hardware, topology as topology_lib

PAPER = {"base": 22_656, "base_shared": None, "large": 8_448}
_SHOWN = 5


def measure(args: argparse.Namespace, long_length: int, limit: float) -> dict:
    """One row of the result: what a step at this length takes of a chip.

    Args:
      args: of the command line.
      long_length: n.
      limit: bytes of the chip that programs may use.
    """
    row = {"size": args.size, "long_length": long_length, "limit_bytes": limit}
    began = time.perf_counter()
    try:
        compiled, seconds = tpu_compile.compile_encoder(
            tpu_compile.config_of(args),
            long_length,
            args.global_length,
            args.topology,
            dropout=args.dropout,
            updates=True,
        )
    except jax.errors.JaxRuntimeError as error:
        refused = device_memory.too_large(error)
        if refused is None:
            raise
        seconds = time.perf_counter() - began
        row |= {"total_bytes": refused.needed, "refused": refused.message}
        return row | {"fits": False, "compile_secs": round(seconds, 1)}
    memory = device_memory.of(compiled)
    shapes = tpu_compile.float32_shapes(compiled.as_text())
    return row | {
        "fits": memory.total <= limit,
        "total_bytes": memory.total,
        "share": round(memory.total / limit, 4),
        **dataclasses.asdict(memory),
        "largest_float32": tpu_compile.largest(shapes, _SHOWN),
        "compile_secs": round(seconds, 1),
    }


def measure_all(args: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """(rows, printed and ready for JSON; 1 if one does not fit)."""
    chip = topology_lib.devices(args.topology)[0]
    limit = hardware.memory_limit(chip)
    rows = []
    for length in args.long_lengths:
        rows.append(measure(args, length, limit))
        print(json.dumps(rows[-1]), flush=True)
    fitting = [row["long_length"] for row in rows if row["fits"]]
    return {
        **report.arguments(args),
        "device_kind": chip.device_kind,
        "paper_long_length": PAPER[args.size],
        "longest_that_fits": max(
            (r["long_length"] for r in rows if r["fits"]), default=0
        ),
        "rows": rows,
    }, 0 if len(fitting) == len(rows) else 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    how = {"global_length": 512, "remat_policy": "full"}
    made = tpu_compile.parser("longest_input", __doc__, **how)
    add = made.add_argument
    add("--long_lengths", type=report.integers, default=(65_536, 131_072))
    add("--dropout", action="store_true", help="as in training")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles each length and prints a row; 1 if one does not fit."""
    options = parser()
    args = options.parse_args(argv)
    if min(args.long_lengths) < 1:
        options.error(f"--long_lengths is {args.long_lengths}; expected at least 1")
    return report.run(options, args, lambda: measure_all(args))
