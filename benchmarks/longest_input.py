"""The longest input that one TPU chip can train on, by compiling for it.

    python -m benchmarks.longest_input --size=base --long_lengths=65536,131072

Batch 1 in bfloat16, rematerialised, float32 parameters updated in place by plain
gradient descent: no moments. The paper's longest, with another set-up of that kind on
16 GB (appendix E), were 22,656 long tokens for base and 8,448 for large, with 512
global ones. No TPU is needed, libtpu compiles; see
`etc_jax.training.preflight.topology`.
"""

import argparse
import dataclasses
import json
import math
import sys
import time

import jax

from benchmarks.tpu_compile import compile_encoder, float32_shapes
from etc_jax.models import etc
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import device_memory, hardware
from etc_jax.training.preflight import topology as topology_lib

PAPER = {"base": 22_656, "large": 8_448}
_SHOWN = 5


def measure(args: argparse.Namespace, long_length: int, limit: float) -> dict:
    """One row of the result: what a step at this length takes of a chip.

    Args:
      args: of the command line.
      long_length: n.
      limit: bytes of the chip that programs may use.
    """
    config = getattr(etc, args.size)(
        dtype="bfloat16",
        remat_policy=args.remat_policy,
        attention_block_size=128,
        attention_chunk_blocks=args.chunk_blocks,
    )
    row = {"size": args.size, "long_length": long_length, "limit_bytes": limit}
    began = time.perf_counter()
    try:
        compiled, seconds = compile_encoder(
            config,
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
    shapes = sorted(float32_shapes(compiled.as_text()), key=math.prod, reverse=True)
    return row | {
        "fits": memory.total <= limit,
        "total_bytes": memory.total,
        "share": round(memory.total / limit, 4),
        **dataclasses.asdict(memory),
        "largest_float32": shapes[:_SHOWN],
        "compile_secs": round(seconds, 1),
    }


def _lengths(text: str) -> list[int]:
    lengths = [int(part) for part in text.split(",")]
    if min(lengths) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: lengths must be at least 1")
    return lengths


def _parse(argv):
    parser = argparse.ArgumentParser(prog="benchmarks.longest_input")
    parser.add_argument("--size", choices=tuple(PAPER), default="base")
    parser.add_argument("--long_lengths", type=_lengths, default=[65_536, 131_072])
    parser.add_argument("--global_length", type=int, default=512)
    parser.add_argument("--topology", default="v5e:1x1")
    parser.add_argument("--remat_policy", default="full")
    parser.add_argument("--chunk_blocks", type=int, default=8)
    parser.add_argument("--dropout", action="store_true", help="as in training")
    parser.add_argument("--out", help="JSON file to write")
    return parser.parse_args(argv)


def main(argv=None) -> int:
    """Compiles each length and prints a row; 1 if one does not fit."""
    args = _parse(argv)
    try:
        chip = topology_lib.devices(args.topology)[0]
        limit = hardware.memory_limit(chip)
        rows = []
        for length in args.long_lengths:
            rows.append(measure(args, length, limit))
            print(json.dumps(rows[-1]), flush=True)
    except UserError as error:
        print(f"benchmarks.longest_input: {error}", file=sys.stderr)
        return error.exit_code
    longest = max((row["long_length"] for row in rows if row["fits"]), default=0)
    result = {
        **vars(args),
        "device_kind": chip.device_kind,
        "paper_long_length": PAPER[args.size],
        "longest_that_fits": longest,
        "rows": rows,
    }
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 0 if all(row["fits"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
