"""Reformer beside transformers' Reformer: time and memory of a training step.

    python -m benchmarks.reformer_speed --out=reformer_speed.json

One language model of bytes with local and LSH layers in turn, the same weights, tokens
and rotations, float32, the same CPU and number of threads; loss, forward and backward.
Sides run in turn in one process; memory is measured in a process for each. Before
anything is timed, losses and gradients are compared: with the same buckets both
compute the same function, but a rounding error can move a token that lies between two
buckets, so that gradients are held to less than losses. A busy machine is refused (exit
code 3); exit code 1 if a floor fails.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import harness, memory, report
from benchmarks.harness import Floor, Side, Timing, WrongSideError
from benchmarks.reformer_sides import (
    REFERENCE,
    SIDES,
    JaxLm,
    LmSizes,
    TransformersLm,
    gradient_error,
    peak,
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
    want = own.run()
    error = gradient_error(other.gradients(other.run()), own.gradients(want))
    if not error <= GRADIENT_TOLERANCE:
        raise WrongSideError(
            f"transformers: gradients differ from this library's by {error:.2e} of "
            f"their norm, more than {GRADIENT_TOLERANCE:g}; a wrong side is not timed"
        )
    loss = _loss(want)
    return [
        Side("etc_jax", own.run, _loss),
        Side("transformers", other.run, _loss, lambda: loss),
    ], error


def _loss(result: tuple[Any, Any]) -> dict[str, np.ndarray]:
    return {"loss": np.asarray(result[0], np.float64)}


def measure(
    args: argparse.Namespace, sizes: LmSizes
) -> tuple[dict[str, Any], list[Floor]]:
    """Times and memory at one length, printed; (ready for JSON, floors)."""
    sides, error = make_sides(sizes)
    timings = harness.compare(
        sides, reference=REFERENCE, rounds=args.rounds, tolerance=LOSS_TOLERANCE
    )
    del sides
    peaks = {name: peak(name, sizes) for name in SIDES}
    print(f"\nloss and gradients of {sizes.length} tokens")
    print(report.times_table(timings, REFERENCE))
    print(f"gradients apart by {error:.1e} of their norm")
    print(report.memory_table(peaks, REFERENCE), flush=True)
    metrics = {
        "length": sizes.length,
        "rows": report.timing_rows(timings),
        "gradient_error": error,
        "memory": peaks,
    }
    return metrics, floors_of(sizes.length, timings, peaks)


def floors_of(length: int, timings: Sequence[Timing], peaks: dict) -> list[Floor]:
    """What this library claims at one length."""
    ratio = {t.name: t.ratio for t in timings}["transformers"]
    share = peaks[REFERENCE]["peak_bytes"] / peaks["transformers"]["peak_bytes"]
    at = f"{length} tokens:"
    return [
        Floor(f"{at} times faster than transformers", ratio, FASTER, at_most=False),
        Floor(f"{at} memory beside transformers", share, SMALLER, at_most=True),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code.

    Field names of `LmSizes` but the length are options.
    """
    options = report.timing_parser("reformer_speed", __doc__, rounds=5)
    numbers = report.defaults_of(LmSizes, "length")
    report.add_numbers(options, numbers)
    options.add_argument("--lengths", type=report.integers, default=LENGTHS)
    args = options.parse_args(argv)
    # Before jax starts, here and in the processes that measure memory.
    os.environ["JAX_PLATFORMS"] = "cpu"
    common = report.chosen(args, numbers)
    at = [LmSizes(length=n, **common) for n in args.lengths]

    def work():
        calibration = memory.calibration_error()
        found = [measure(args, sizes) for sizes in at]
        return {
            "reference": REFERENCE,
            "memory_calibration_error": calibration,
            "results": [metrics for metrics, _ in found],
        }, [floor for _, more in found for floor in more]

    shapes = common | {"lengths": list(args.lengths)}
    return report.run_quiet(options, args, work, shapes=shapes)


if __name__ == "__main__":
    sys.exit(main())
