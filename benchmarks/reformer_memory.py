"""What Reformer saves: memory against depth, memory and time against length.

    python -m benchmarks.reformer_memory --out=reformer_memory.json
    python -m benchmarks.reformer_memory --parts=length --lsh_lengths=1024,65536

    depth    a language model's loss and gradients at several depths, reversible and
             plain: XLA's temporary memory. Parameters and tokens (arguments) and
             gradients (outputs) are apart: these grow with depth in both. Depths are
             two repeats of the pattern or more: XLA undoes a loop of one
    length   one attention layer of LSH attention and one of full attention with the
             same projections, forward and backward: temporary memory, peak of a
             process of its own, seconds; the exponents of all three over the lengths
    terms    each term of the paper's tables 1 and 3 by itself (`reformer_terms`)

At the shortest length LSH attention is compared with its dense form before anything is
timed. Exit code 1 if a floor fails, 3 on a busy machine.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import floors, harness, memory, reformer_terms, report
from benchmarks.floors import Floor
from benchmarks.harness import Side
from benchmarks.memory import MIB
from benchmarks.reformer_parts import (
    KINDS,
    AttentionSizes,
    attention_arrays,
    attention_step,
    memory_of,
    model_step,
)
from etc_jax.models.reformer import ReformerConfig

PARTS = ("depth", "length", "terms")
DEPTHS = (6, 12, 24, 48)
LSH_LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
FULL_LENGTHS = (1024, 2048, 4096, 8192)
TERM_FACTORS = (1, 2, 4)
TOLERANCE = 1e-3

# Temporary memory of a reversible stack: largest over smallest, less 1. What it keeps
# of a layer are the buckets, 4 bytes for each token, head and round.
FLAT = 0.05
# What each layer of a plain stack keeps at least: the inputs of its two halves.
KEPT_STREAMS = 2
LINEAR = 1.15


def depth_config(args: argparse.Namespace, layers: int, reversible: bool):
    """A small language model of local and LSH layers in turn."""
    return ReformerConfig(
        vocab_size=256,
        embed_dim=args.depth_embed_dim,
        num_layers=layers,
        pattern=("local", "lsh"),
        num_heads=args.num_heads,
        mlp_dim=4 * args.depth_embed_dim,
        max_length=args.depth_length,
        axial_shape=None,
        axial_dims=None,
        local_chunk_length=args.depth_chunk_length,
        lsh_chunk_length=args.depth_chunk_length,
        num_buckets=None,
        num_hashes=args.num_hashes,
        dropout_rate=0.0,
        reversible=reversible,
    )


def measure_depth(args: argparse.Namespace) -> tuple[dict[str, Any], list[Floor]]:
    """Bytes of a step at each depth, printed; (ready for JSON, floors)."""
    rows = []
    for reversible in (True, False):
        for layers in args.depths:
            config = depth_config(args, layers, reversible)
            step = model_step(config, batch=1, length=args.depth_length)
            metrics = dataclasses.asdict(memory_of(step))
            rows.append({"reversible": reversible, "layers": layers, **metrics})
    print(f"\ndepth: language models of {args.depth_length} tokens, MiB")
    print(depth_table(rows), flush=True)
    stream_bytes = 4 * args.depth_length * args.depth_embed_dim
    return {"rows": rows}, depth_floors(rows, stream_bytes)


def depth_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bytes at each depth, as text."""
    head = ["stack", "layers", "temporaries", "arguments", "outputs"]
    return report.table(
        head,
        [
            [
                "reversible" if r["reversible"] else "plain",
                str(r["layers"]),
                *(f"{r[name] / MIB:.1f}" for name in head[2:]),
            ]
            for r in rows
        ],
    )


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


def length_sizes(args: argparse.Namespace, kind: str, length: int) -> AttentionSizes:
    """One point of the growth with the length."""
    return AttentionSizes(
        kind=kind,
        length=length,
        num_heads=args.num_heads,
        head_dim=args.head_dim,
        chunk_length=args.chunk_length,
        num_hashes=args.num_hashes,
        seed=args.seed,
    )


def build_run(sizes: dict[str, Any]) -> tuple[Callable, dict[str, Any]]:
    """Builder for `memory.measure`: (run, metrics) of one attention layer."""
    step = attention_step(AttentionSizes(**sizes))
    return step.run, {"xla_temp_bytes": step.temp_bytes}


def length_side(sizes: AttentionSizes, checked: bool) -> Side:
    """A point ready to be timed; with its oracle, which is quadratic, if checked."""

    def dense():
        step = attention_step(sizes, implementation="dense")
        return attention_arrays(step.run())

    step = attention_step(sizes)
    oracle = dense if checked and sizes.kind == "lsh" else None
    return Side(str(sizes.length), step.run, attention_arrays, oracle)


def measure_length(args: argparse.Namespace) -> tuple[dict[str, Any], list[Floor]]:
    """Seconds and bytes over lengths, printed; (ready for JSON, floors)."""
    results, found = [], []
    for kind in KINDS:
        lengths = getattr(args, f"{kind}_lengths")
        points = [length_sizes(args, kind, n) for n in lengths]
        sides = [length_side(sizes, not i) for i, sizes in enumerate(points)]
        timings = harness.compare(
            sides, reference=sides[0].name, rounds=args.rounds, tolerance=TOLERANCE
        )
        del sides
        peaks = {str(sizes.length): peak(sizes) for sizes in points}
        print(f"\nlength: one layer of {kind} attention, forward and backward")
        print(report.times_table(timings, str(lengths[0])))
        print(report.memory_table(peaks, str(lengths[0])), flush=True)
        series = {"seconds": [t.median for t in timings]}
        for metric in ("peak_bytes", "xla_temp_bytes"):
            series[metric] = [peaks[str(n)][metric] for n in lengths]
        exponents = {k: harness.exponent(lengths, x) for k, x in series.items()}
        print("exponents:", ", ".join(f"{k} {x:.3f}" for k, x in exponents.items()))
        rows = report.timing_rows(timings)
        results.append(
            {"kind": kind, "rows": rows, "memory": peaks, "exponents": exponents}
        )
        if kind == "lsh":
            found = [
                Floor(f"length: exponent of {k} of LSH", x, LINEAR, at_most=True)
                for k, x in exponents.items()
            ]
    return {"results": results}, found


def peak(sizes: AttentionSizes) -> dict[str, Any]:
    """`peak_bytes` and `xla_temp_bytes` of one point, in a process of its own."""
    arguments = {"sizes": dataclasses.asdict(sizes)}
    return memory.measure("benchmarks.reformer_memory:build_run", arguments)


def measure_terms(args: argparse.Namespace) -> tuple[dict[str, Any], list[Floor]]:
    """The paper's tables term by term; (ready for JSON, no floors)."""
    attention = {
        kind: AttentionSizes(
            kind=kind,
            length=args.terms_lsh_length if kind == "lsh" else args.terms_full_length,
            num_heads=args.num_heads,
            head_dim=args.terms_head_dim,
            chunk_length=args.terms_chunk_length,
            seed=args.seed,
        )
        for kind in KINDS
    }
    lengths = {"lsh": args.terms_lsh_length, "full": args.terms_full_length}
    found = reformer_terms.measure_tables(
        attention,
        lengths,
        args.terms_factors,
        args.rounds,
        num_heads=args.num_heads,
        head_dim=args.terms_head_dim,
        chunk_length=args.terms_chunk_length,
        mlp_chunk_length=args.terms_chunk_length,
        mlp_dim=args.terms_mlp_dim,
    )
    return dict(found), []


MEASURES = {"depth": measure_depth, "length": measure_length, "terms": measure_terms}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reformer_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", type=report.names(PARTS), default=PARTS)
    parser.add_argument("--rounds", type=int, default=5)
    numbers = {
        "num_heads": 8,
        "head_dim": 64,
        "num_hashes": 2,
        "chunk_length": 64,
        "seed": 0,
        "depth_length": 4096,
        "depth_embed_dim": 128,
        "depth_chunk_length": 128,
        "terms_lsh_length": 2048,
        "terms_full_length": 512,
        "terms_head_dim": 16,
        "terms_chunk_length": 128,
        "terms_mlp_dim": 256,
    }
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    lists = {
        "depths": DEPTHS,
        "lsh_lengths": LSH_LENGTHS,
        "full_lengths": FULL_LENGTHS,
        "terms_factors": TERM_FACTORS,
    }
    for name, default in lists.items():
        parser.add_argument(f"--{name}", type=report.integers, default=default)
    report.add_run_options(parser)
    args = parser.parse_args(argv)
    for name in lists:
        values = getattr(args, name)
        if name == "depths" and any(x < 4 or x % 2 for x in values):
            parser.error(f"--depths is {values}; expected even numbers from 4 on")
        if len(values) < 2 or list(values) != sorted(set(values)):
            parser.error(f"--{name} is {values}; expected two or more, growing")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    args = parse(argv)
    # Before jax starts, here and in the processes that measure memory.
    os.environ["JAX_PLATFORMS"] = "cpu"
    held: list[Floor] = []

    def work():
        metrics = {}
        for part in args.parts:
            metrics[part], more = MEASURES[part](args)
            held.extend(more)
        if held:
            print("\n" + floors.table(held), flush=True)
        return metrics | {"floors": floors.rows(held)}

    shapes = {k: v for k, v in vars(args).items() if k not in ("out", "allow_busy")}
    code = report.run(
        "reformer_memory", work, shapes=shapes, dtype="float32", args=args
    )
    return code or floors.exit_code(held)


if __name__ == "__main__":
    sys.exit(main())
