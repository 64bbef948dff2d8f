"""How time and memory of one thing grow with its length."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit import harness, report
from benchmarks.kit.harness import Side, Timing


def exponents(
    lengths: Sequence[int],
    timings: Sequence[Timing],
    peaks: Mapping[str, Mapping[str, int]],
    *,
    time: str,
) -> dict[str, Any]:
    """Exponents over the lengths: 1 is linear growth.

    Args:
      lengths: that were measured.
      timings: of each, by its name.
      peaks: bytes at each, by its name; {}: they were not measured.
      time: name of the exponent of the time. `{time}_interval` is its bootstrap
        interval over rounds.
    """
    times = np.array([t.times for t in timings])

    def over(rounds) -> float:
        return harness.exponent(lengths, np.median(times[:, rounds], axis=1))

    every = np.arange(times.shape[1])
    interval = harness.bootstrap_interval(over, len(every))
    found = {time: over(every), f"{time}_interval": interval}
    for metric in ("peak_bytes", "xla_temp_bytes") if peaks else ():
        values = [peaks[str(n)][metric] for n in lengths]
        found[metric] = harness.exponent(lengths, values)
    return found


def measure(
    title: str,
    lengths: Sequence[int],
    sides: Sequence[Side],
    peak_fns: Sequence[Callable[[], dict[str, int]]],
    *,
    time: str,
    **options: Any,
) -> dict[str, Any]:
    """Times and bytes over lengths, printed and ready for JSON.

    Args:
      title: of the tables.
      lengths: to be measured.
      sides: one for each length. The oracle of the first one alone is asked, as others
        may be too long for it.
      peak_fns: bytes at each length; none: they are not measured.
      time: see `exponents`.
      **options: of `harness.compare`.
    """
    names = [str(n) for n in lengths]
    first = names[0]
    named = [
        dataclasses.replace(side, name=name, oracle=None if i else side.oracle)
        for i, (side, name) in enumerate(zip(sides, names, strict=True))
    ]
    timings = report.compared(title, named, reference=first, **options)
    peaks = {}
    if peak_fns:
        peaks = {n: peak_fn() for n, peak_fn in zip(names, peak_fns, strict=True)}
        print(report.memory_table(peaks, first), flush=True)
    found = exponents(lengths, timings, peaks, time=time)
    low, high = found[f"{time}_interval"]
    shown = [f"{time} {found[time]:.3f} ({low:.3f}-{high:.3f})"]
    shown += [f"{k} {x:.3f}" for k, x in found.items() if not k.startswith(time)]
    print("exponents:", ", ".join(shown), flush=True)
    rows = report.timing_rows(timings)
    return {"rows": rows, "exponents": found} | ({"memory": peaks} if peaks else {})
