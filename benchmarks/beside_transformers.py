"""This library beside transformers: the same weights and inputs on the same CPU.

Sides run in turn in one process; memory is measured in a process for each.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import harness, machine, memory, report
from benchmarks.harness import Floor, Side
from etc_jax.conversion import hugging_face

SIDES = ("etc_jax", "transformers")
REFERENCE = "etc_jax"


def load(params: Any, config: Any) -> Any:
    """The model in PyTorch, by the class that its folder names.

    Args:
      params: of this library.
      config: of the model.
    """
    # Read when PyTorch's thread pool starts: idle threads sleep instead of spinning,
    # which would take time from the side that runs next.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    import transformers

    torch.set_num_threads(machine.num_threads())
    with tempfile.TemporaryDirectory() as folder:
        hugging_face.save(folder, params, config)
        theirs = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, theirs.architectures[0])
        return kind.from_pretrained(folder)


def times(
    what: str,
    sides: Sequence[Side],
    *,
    rounds: int,
    tolerance: float,
    faster: float,
    **options: Any,
) -> tuple[list[dict[str, Any]], Floor]:
    """Times of both sides, printed; (rows for JSON, how much faster this one is).

    Args:
      what: is timed.
      sides: of the names `SIDES`.
      rounds: timed runs of each.
      tolerance: see `harness.compare`.
      faster: how many times, at least.
      **options: see `harness.interleaved`.
    """
    options |= {"rounds": rounds, "tolerance": tolerance}
    timings = harness.compare(sides, reference=REFERENCE, **options)
    print(f"\n{what}")
    print(report.times_table(timings, REFERENCE), flush=True)
    ratio = {t.name: t.ratio for t in timings}["transformers"]
    name = f"{what}: times faster than transformers"
    return report.timing_rows(timings), Floor(name, ratio, faster, at_most=False)


def peaks(
    what: str, peak_fn: Callable[[str], Mapping[str, Any]], *, smaller: float
) -> tuple[dict[str, Mapping[str, Any]], Floor]:
    """Peak memory of both sides, printed; (for JSON, this one's share).

    Args:
      what: is measured.
      peak_fn: name of a side -> what `memory.measure` gives.
      smaller: share of the other's memory, at most.
    """
    found = {name: peak_fn(name) for name in SIDES}
    print(report.memory_table(found, REFERENCE), flush=True)
    share = found[REFERENCE]["peak_bytes"] / found["transformers"]["peak_bytes"]
    name = f"{what}: memory beside transformers"
    return found, Floor(name, share, smaller, at_most=True)


def run(
    options: argparse.ArgumentParser,
    args: argparse.Namespace,
    at: Sequence[Any],
    measure_fn: Callable[[Any], tuple[dict[str, Any], list[Floor]]],
    shapes: Mapping[str, Any],
) -> int:
    """Measures at each of some sizes; returns the exit code, see `report.run_quiet`.

    Args:
      options: the command line.
      args: its arguments.
      at: the sizes.
      measure_fn: sizes -> (for JSON, floors).
      shapes: of what is measured, for the file.
    """
    # Before jax starts, here and in the processes that measure memory.
    os.environ["JAX_PLATFORMS"] = "cpu"

    def work():
        calibration = memory.calibration_error()
        found = [measure_fn(sizes) for sizes in at]
        return {
            "reference": REFERENCE,
            "memory_calibration_error": calibration,
            "results": [metrics for metrics, _ in found],
        }, [floor for _, more in found for floor in more]

    return report.run_quiet(options, args, work, shapes=shapes)
