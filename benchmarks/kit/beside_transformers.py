"""This library beside transformers: the same weights and inputs on the same CPU.

Sides run in turn in one process; memory is measured in a process for each.
"""

import argparse
import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit import harness, machine, memory, report
from benchmarks.kit.harness import Floor, Side, WrongSideError
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


def global_mask(config: Any, tokens: Any) -> dict[str, Any]:
    """What a model in PyTorch is given beside tokens `[b, n]`: the first is global.

    {} where the model has no global tokens.
    """
    if not config.has_globals:
        return {}
    mask = tokens.new_zeros(tokens.shape)
    mask[:, 0] = 1
    return {"global_attention_mask": mask}


def step_sides(
    own: Any, other: Any, distance_fn: Callable[[Any, Any], float], *, tolerance: float
) -> tuple[list[Side], float]:
    """(sides of a training step, how far their gradients are apart).

    Args:
      own: this library's; its `run` gives what `gradients` takes, the loss first.
      other: the same of transformers.
      distance_fn: (gradients of this library, those of transformers) -> distance as a
        share of their norm.
      tolerance: of the distance.

    Raises:
      WrongSideError: if the gradients are not those of one function.
    """
    result = own.run()
    error = distance_fn(own.gradients(result), other.gradients(other.run()))
    if not error <= tolerance:
        raise WrongSideError(
            f"transformers: gradients differ from this library's by {error:.2e} of "
            f"their norm, more than {tolerance:g}; a wrong side is not timed"
        )
    loss = _loss(result)
    return [
        Side("etc_jax", own.run, _loss),
        Side("transformers", other.run, _loss, lambda: loss),
    ], error


def _loss(result: tuple[Any, Any]) -> dict[str, np.ndarray]:
    return {"loss": np.asarray(result[0], np.float64)}


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
    what: str, builder: str, sizes: Any, *, smaller: float, faster: float | None = None
) -> tuple[dict[str, Mapping[str, Any]], list[Floor]]:
    """Peak memory of each side in its own process, printed; (for JSON, the share).

    Where a call takes minutes, its time in these processes stands for that of `times`.

    Args:
      what: is measured.
      builder: for `memory.measure`, of the arguments `name`, a side, and `sizes`.
      sizes: a dataclass of what JSON can hold.
      smaller: share of the other's memory, at most.
      faster: how many times as fast, at least; None: no time is wanted.
    """
    given = dataclasses.asdict(sizes)
    found = {
        name: memory.measure(builder, {"name": name, "sizes": given}) for name in SIDES
    }
    print(report.memory_table(found, REFERENCE), flush=True)
    share = found[REFERENCE]["peak_bytes"] / found["transformers"]["peak_bytes"]
    name = f"{what}: memory beside transformers"
    floors = [Floor(name, share, smaller, at_most=True)]
    if faster is not None:
        own, other = (found[name]["call_seconds"] for name in SIDES)
        print(f"one call each: {own:.1f} s here, {other:.1f} s in transformers")
        name = f"{what}: times faster than transformers"
        floors.append(Floor(name, other / own, faster, at_most=False))
    return found, floors


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
