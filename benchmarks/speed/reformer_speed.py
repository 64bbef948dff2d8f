"""Reformer beside transformers' Reformer: time and memory of a training step.

    python -m benchmarks reformer_speed --out=reformer_speed.json

One language model of bytes with local and LSH layers in turn, the same weights, tokens
and rotations, float32, the same CPU and number of threads; loss, forward and backward.
Sides run in turn in one process; memory is measured in a process for each. Before
anything is timed, losses and gradients are compared: with the same buckets both
compute the same function, but a rounding error can move a token that lies between two
buckets, so that gradients are held to less than losses. A busy machine is refused (exit
code 3); exit code 1 if a floor fails.
"""

import argparse
import functools
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import beside_transformers, report
from benchmarks.kit.harness import Floor, Side
from benchmarks.speed.reformer_sides import (
    JaxLm,
    LmSizes,
    TransformersLm,
    gradient_error,
)

LENGTHS = (4096, 16384)
# Of the loss; and of all gradients together, see the module.
LOSS_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 0.05

# How many times the time of this library, and which share of the other's memory.
FASTER = 2.0
SMALLER = 0.7


def make_sides(sizes: LmSizes) -> tuple[list[Side], float]:
    """(sides ready to be compared, how far their gradients are apart).

    Raises:
      WrongSideError: if the gradients are not those of one function.
    """
    other = TransformersLm(sizes)
    own = JaxLm(sizes, other.rotations())

    def distance(mine: Any, theirs: Any) -> float:
        return gradient_error(theirs, mine)

    return beside_transformers.step_sides(
        own, other, distance, tolerance=GRADIENT_TOLERANCE
    )


def measure(
    args: argparse.Namespace, sizes: LmSizes
) -> tuple[dict[str, Any], list[Floor]]:
    """Times and memory at one length, printed; (ready for JSON, floors)."""
    what = f"loss and gradients of {sizes.length} tokens"
    sides, error = make_sides(sizes)
    rows, speed = beside_transformers.times(
        what, sides, rounds=args.rounds, tolerance=LOSS_TOLERANCE, faster=FASTER
    )
    print(f"gradients apart by {error:.1e} of their norm")
    del sides
    peaks, more = beside_transformers.peaks(
        what, "benchmarks.speed.reformer_sides:build_run", sizes, smaller=SMALLER
    )
    metrics = {
        "length": sizes.length,
        "rows": rows,
        "gradient_error": error,
        "memory": peaks,
    }
    return metrics, [speed, *more]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code.

    Field names of `LmSizes` but the length are options.
    """
    options = report.timing_parser("reformer_speed", __doc__, rounds=5)
    numbers = report.defaults_of(LmSizes, "length")
    report.add_numbers(options, numbers)
    options.add_argument("--lengths", type=report.integers, default=LENGTHS)
    args = options.parse_args(argv)
    common = report.chosen(args, numbers)
    at = [LmSizes(length=n, **common) for n in args.lengths]
    shapes = common | {"lengths": list(args.lengths)}
    measure_at = functools.partial(measure, args)
    return beside_transformers.run(options, args, at, measure_at, shapes)
