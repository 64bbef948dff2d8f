"""One transformer layer beside its peers: time, memory, and how both grow.

    python -m benchmarks.layer --out=layer.json
    python -m benchmarks.layer --scaling --out=scaling.json
    python -m benchmarks.layer --reference=longformer --sides=longformer,hf_longformer \
        --long_length=4095 --global_length=1 --radius=256 --modes=forward_backward
    python -m benchmarks.layer --reference=big_bird --sides=big_bird,hf_bigbird \
        --long_length=4095 --global_length=1 --modes=forward_backward

Every side computes the layer of `benchmarks.problem` with the same weights and the
same 32-bit inputs, on the same CPU with the same number of threads:

    etc              this library, with labels
    etc_no_labels    this library, without labels
    etc_dense        this library's dense form
    jax_dpa          jax.nn.dot_product_attention, masks and labels as a dense bias
    jax_given_bias   the same, but the bias is an input: labels are not learnt
    longformer       this library's Longformer: sequence with global tokens in it
    big_bird         this library's BigBird; sees the pairs of hf_bigbird
    hf_longformer    Hugging Face LongformerLayer, same window, same global tokens
    hf_bigbird       Hugging Face BigBirdLayer, as many tokens; sees other pairs
    torch_sdpa       PyTorch scaled_dot_product_attention over everything, no labels

Before a side is timed, its output and every gradient are compared with a dense form of
the function that it claims to compute; a wrong side ends the run. A busy machine is
refused (exit code 3).
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import harness, memory, report
from benchmarks.harness import Timing
from benchmarks.layer_sides import (
    REFERENCE,
    SIDES,
    TOLERANCE,
    make_sides,
    peak,
)
from benchmarks.problem import Sizes

MODES = {"forward": False, "forward_backward": True}
SCALING_LENGTHS = (2048, 4096, 8192, 16384)
SCALING_GLOBALS = 512


def time_sides(args: argparse.Namespace, sizes: Sizes, mode: str):
    """Times of the sides in one mode, printed."""
    sides = make_sides(args.sides, sizes, gradient=MODES[mode])
    timings = harness.compare(
        sides, reference=args.reference, rounds=args.rounds, tolerance=TOLERANCE
    )
    print(f"\n{mode}: {sizes.long_length} long + {sizes.global_length} global tokens")
    print(report.times_table(timings, args.reference), flush=True)
    return timings


def measure_sides(args: argparse.Namespace, sizes: Sizes, mode: str):
    """Peak memory of the sides in one mode, printed."""
    peaks = {name: peak(name, sizes, gradient=MODES[mode]) for name in args.sides}
    print(f"\nmemory, {mode}")
    print(report.memory_table(peaks, args.reference), flush=True)
    return peaks


def compare_layers(args: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    """Times and memory of every side, ready for JSON."""
    out: dict[str, Any] = {"reference": args.reference, "results": [], "memory": []}
    for mode in args.modes:
        timings = time_sides(args, sizes, mode)
        out["results"].append({"mode": mode, "rows": report.timing_rows(timings)})
    if args.memory:
        out["memory_calibration_error"] = memory.calibration_error()
        for mode in args.modes:
            rows = measure_sides(args, sizes, mode)
            out["memory"].append({"mode": mode, "rows": rows})
    return out


def exponents(lengths: Sequence[int], timings: Sequence[Timing]) -> dict[str, Any]:
    """Exponent of time over length, with a bootstrap interval over rounds."""
    times = np.array([t.times for t in timings])

    def over(rounds):
        return harness.exponent(lengths, np.median(times[:, rounds], axis=1))

    every = np.arange(times.shape[1])
    return {
        "time": over(every),
        "time_interval": harness.bootstrap_interval(over, len(every)),
    }


def scale_layer(args: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    """Growth of this library's layer with the long length, ready for JSON.

    The shortest length is compared with the dense form; the others are too long for
    it and are checked for finite values alone.
    """
    results = []
    at = [dataclasses.replace(sizes, long_length=n) for n in args.lengths]
    for mode in args.modes:
        gradient = MODES[mode]
        sides = [make_sides([REFERENCE], s, gradient=gradient)[0] for s in at]
        sides = [
            dataclasses.replace(
                side, name=str(s.long_length), oracle=None if i else side.oracle
            )
            for i, (side, s) in enumerate(zip(sides, at, strict=True))
        ]
        first = sides[0].name
        timings = harness.compare(
            sides, reference=first, rounds=args.rounds, tolerance=TOLERANCE
        )
        print(f"\n{mode}: {REFERENCE} with {sizes.global_length} global tokens")
        print(report.times_table(timings, first), flush=True)
        found = exponents(args.lengths, timings)
        row = {"mode": mode, "rows": report.timing_rows(timings), "exponents": found}
        if args.memory:
            peaks = {
                str(s.long_length): peak(REFERENCE, s, gradient=gradient) for s in at
            }
            print(report.memory_table(peaks, first), flush=True)
            for metric in ("peak_bytes", "xla_temp_bytes"):
                values = [peaks[str(n)][metric] for n in args.lengths]
                found[metric] = harness.exponent(args.lengths, values)
            row["memory"] = peaks
        print("exponents:", _shown(found), flush=True)
        results.append(row)
    return {"scaling": {"lengths": list(args.lengths), "results": results}}


def _shown(found: dict[str, Any]) -> str:
    low, high = found["time_interval"]
    text = f"time {found['time']:.3f} ({low:.3f}-{high:.3f})"
    for metric in ("peak_bytes", "xla_temp_bytes"):
        if metric in found:
            text += f", {metric} {found[metric]:.3f}"
    return text


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line; field names of `Sizes` are options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.layer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for field in dataclasses.fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int)
    parser.add_argument("--sides", type=report.names(SIDES), default=SIDES)
    parser.add_argument(
        "--reference", choices=SIDES, default=REFERENCE, help="what ratios are of"
    )
    parser.add_argument("--modes", type=report.names(MODES), default=tuple(MODES))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--scaling",
        action="store_true",
        help=f"{REFERENCE} alone over --lengths, with {SCALING_GLOBALS} global tokens",
    )
    parser.add_argument("--lengths", type=report.integers, default=SCALING_LENGTHS)
    report.add_run_options(parser)
    args = parser.parse_args(argv)
    if not args.scaling and args.reference not in args.sides:
        parser.error(f"--sides must name the reference {args.reference!r}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    args = parse(argv)
    # Before jax starts, here and in the processes that measure memory.
    os.environ["JAX_PLATFORMS"] = "cpu"
    given = {
        f.name: getattr(args, f.name)
        for f in dataclasses.fields(Sizes)
        if getattr(args, f.name) is not None
    }
    if args.scaling:
        given.setdefault("global_length", SCALING_GLOBALS)
        given.setdefault("long_length", min(args.lengths))
    run = scale_layer if args.scaling else compare_layers
    return report.run(
        "layer",
        lambda: run(args, Sizes(**given)),
        shapes=dataclasses.asdict(Sizes(**given)),
        dtype="float32",
        args=args,
    )


if __name__ == "__main__":
    sys.exit(main())
