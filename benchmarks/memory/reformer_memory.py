"""What Reformer saves: memory against depth, memory and time against length.

    python -m benchmarks reformer_memory --out=reformer_memory.json
    python -m benchmarks reformer_memory --parts=length --lsh_lengths=1024,65536

    depth    a language model's loss and gradients at several depths, reversible and
             plain: XLA's temporary memory. Parameters and tokens (arguments) and
             gradients (outputs) are apart: these grow with depth in both. Depths are
             two repeats of the pattern or more: XLA undoes a loop of one
    length   one attention layer of LSH attention and one of full attention with the
             same projections, forward and backward: temporary memory, peak of a
             process of its own, seconds; the exponents of all three over the lengths

At the shortest length LSH attention is compared with its dense form before anything is
timed. Exit code 1 if a floor fails, 3 on a busy machine.
"""

import argparse
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit import machine, memory, report, scaling
from benchmarks.kit.harness import Floor, Side
from benchmarks.kit.memory import MIB
from benchmarks.speed.reformer_parts import (
    KINDS,
    AttentionSizes,
    attention_step,
    model_step,
    small_config,
)

DEPTHS = (6, 12, 24, 48)
LSH_LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
FULL_LENGTHS = (1024, 2048, 4096, 8192)
TOLERANCE = 1e-3

# Temporary memory of a reversible stack: largest over smallest, less 1. What it keeps
# of a layer are the buckets, 4 bytes for each token, head and round.
FLAT = 0.05
# What each layer of a plain stack keeps at least: the inputs of its two halves.
KEPT_STREAMS = 2
LINEAR = 1.15


def depth_config(args: argparse.Namespace, layers: int, reversible: bool):
    """A small language model of local and LSH layers in turn."""
    return small_config(
        embed_dim=args.depth_embed_dim,
        num_layers=layers,
        pattern=("local", "lsh"),
        num_heads=args.num_heads,
        mlp_dim=4 * args.depth_embed_dim,
        max_length=args.depth_length,
        local_chunk_length=args.depth_chunk_length,
        chunk_length=args.depth_chunk_length,
        num_hashes=args.num_hashes,
        reversible=reversible,
    )


def measure_depth(args: argparse.Namespace) -> tuple[dict[str, Any], list[Floor]]:
    """Bytes of a step at each depth, printed; (ready for JSON, floors)."""
    rows = []
    for reversible in (True, False):
        for layers in args.depths:
            config = depth_config(args, layers, reversible)
            step = model_step(config, batch=1, length=args.depth_length)
            metrics = dataclasses.asdict(step.memory)
            rows.append({"reversible": reversible, "layers": layers, **metrics})
    print(f"\ndepth: language models of {args.depth_length} tokens, MiB")
    print(depth_table(rows), flush=True)
    stream_bytes = 4 * args.depth_length * args.depth_embed_dim
    return {"rows": rows}, depth_floors(rows, stream_bytes)


def depth_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bytes at each depth, as text."""
    head = ["stack", "layers", "temporaries", "arguments", "outputs"]
    lines = []
    for r in rows:
        stack = "reversible" if r["reversible"] else "plain"
        sizes = [f"{r[name] / MIB:.1f}" for name in head[2:]]
        lines.append([stack, str(r["layers"]), *sizes])
    return report.table(head, lines)


def depth_floors(rows: Sequence[Mapping[str, Any]], stream_bytes: int) -> list[Floor]:
    """Flat if reversible; a plain stack grows by as much with every layer.

    Args:
      rows: `layers` and `temporaries` of both kinds of stack.
      stream_bytes: of one stream of the model.
    """
    _, flat = _series(rows, reversible=True)
    spread = max(flat) / min(flat) - 1
    depths, plain = _series(rows, reversible=False)
    a_layer = np.diff(plain) / np.diff(depths)
    streams = float(np.min(a_layer)) / stream_bytes
    uneven = float(np.ptp(a_layer) / np.mean(a_layer))
    return [
        Floor("depth: spread of the reversible stack", spread, FLAT, at_most=True),
        Floor(
            "depth: streams that each plain layer keeps",
            streams,
            KEPT_STREAMS,
            at_most=False,
        ),
        Floor("depth: spread of what it keeps", uneven, FLAT, at_most=True),
    ]


def _series(rows, *, reversible: bool) -> tuple[list[int], list[int]]:
    mine = [r for r in rows if r["reversible"] == reversible]
    return [r["layers"] for r in mine], [r["temporaries"] for r in mine]


def measure_length(args: argparse.Namespace) -> tuple[dict[str, Any], list[Floor]]:
    """Seconds and bytes over lengths, printed; (ready for JSON, floors)."""
    same = ("num_heads", "head_dim", "chunk_length", "num_hashes", "seed")
    results = []
    for kind in KINDS:
        lengths = getattr(args, f"{kind}_lengths")
        points = [AttentionSizes(kind, n, **report.chosen(args, same)) for n in lengths]
        found = scaling.measure(
            f"length: one layer of {kind} attention, forward and backward",
            lengths,
            [attention_side(sizes) for sizes in points],
            [functools.partial(memory.measure, attention_step, x) for x in points],
            time="seconds",
            rounds=args.rounds,
            tolerance=TOLERANCE,
        )
        results.append({"kind": kind, **found})
    [lsh] = (found["exponents"] for found in results if found["kind"] == "lsh")
    return {"results": results}, [
        Floor(f"length: exponent of {k} of LSH", lsh[k], LINEAR, at_most=True)
        for k in ("seconds", "peak_bytes", "xla_temp_bytes")
    ]


def attention_side(sizes: AttentionSizes) -> Side:
    """A layer ready to be timed; that of LSH attention has an oracle."""

    def dense():
        step = attention_step(sizes, implementation="dense")
        return step.arrays(step.run())

    oracle = dense if sizes.kind == "lsh" else None
    return Side.of(sizes.kind, attention_step(sizes), oracle)


MEASURES = {"depth": measure_depth, "length": measure_length}
NUMBERS = {
    "num_heads": 8,
    "head_dim": 64,
    "num_hashes": 2,
    "chunk_length": 64,
    "seed": 0,
    "depth_length": 4096,
    "depth_embed_dim": 128,
    "depth_chunk_length": 128,
}
SERIES = {
    "depths": DEPTHS,
    "lsh_lengths": LSH_LENGTHS,
    "full_lengths": FULL_LENGTHS,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = report.timing_parser("reformer_memory", __doc__, rounds=5)
    made.add_argument("--parts", type=report.names(MEASURES), default=tuple(MEASURES))
    report.add_numbers(made, NUMBERS)
    for name, default in SERIES.items():
        made.add_argument(f"--{name}", type=report.integers, default=default)
    return made


def parse(options: argparse.ArgumentParser, argv: Sequence[str] | None):
    """The checked arguments."""
    args = options.parse_args(argv)
    if any(x < 4 or x % 2 for x in args.depths):
        options.error(f"--depths is {args.depths}; expected even numbers from 4 on")
    for name in SERIES:
        values = getattr(args, name)
        if len(values) < 2 or list(values) != sorted(set(values)):
            options.error(f"--{name} is {values}; expected two or more, growing")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = parser()
    args = parse(options, argv)
    machine.use("cpu")

    def work():
        found = {part: MEASURES[part](args) for part in args.parts}
        metrics = {part: values for part, (values, _) in found.items()}
        floors = [floor for _, more in found.values() for floor in more]
        return {**metrics, "floors": []}, floors

    return report.run_quiet(options, args, work)
