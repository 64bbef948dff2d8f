"""Sides run in turn in one process: correctness first, then medians and ratios.

A time alone says little about code, since machines differ and drift. So every side
is run once a round, round after round (ABAB...), and reported as the ratio of its
median to the reference's median, with a bootstrap interval over rounds.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

BOOTSTRAP_SAMPLES = 2000
CONFIDENCE = 0.95
# Lets the thread pool of the side before go to sleep, so that it steals no time.
PAUSE_SECS = 0.05
# Of the dtype that a side computes in. Sums of rounded numbers are far off in all
# libraries; the tables show by how much.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.1}


class WrongSideError(ValueError):
    """A side that does not compute what it claims."""


@dataclasses.dataclass(frozen=True)
class Side:
    """One thing to time.

    Attributes:
      name: column of the tables.
      run: does all the work, waits for it, and returns a raw result.
      arrays: named arrays of a raw result, for the check; never timed.
      oracle: gives the arrays that this side claims to compute; None if it computes a
        function of its own, which is then only checked for finite values.
      note: what a reader must know to judge the comparison.
    """

    name: str
    run: Callable[[], Any]
    arrays: Callable[[Any], Mapping[str, np.ndarray]]
    oracle: Callable[[], Mapping[str, np.ndarray]] | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, built: Any, oracle: Callable | None = None, note: str = ""
    ) -> "Side":
        """The side of what has `run` and `arrays`."""
        return cls(name, built.run, built.arrays, oracle, note)


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one side, in seconds.

    Attributes:
      name, note: of the side.
      times: of each round.
      median, minimum: of the rounds.
      interquartile_range: 75 % quantile minus 25 % quantile.
      ratio: median divided by the reference's median; above 1 is slower.
      ratio_interval: bootstrap interval of `ratio` over rounds, 95 %.
      error: largest scaled difference from the oracle; None without an oracle.
    """

    name: str
    note: str
    times: tuple[float, ...]
    median: float
    minimum: float
    interquartile_range: float
    ratio: float
    ratio_interval: tuple[float, float]
    error: float | None


@dataclasses.dataclass(frozen=True)
class Floor:
    """One metric and its limit.

    Attributes:
      name: of the metric.
      got: what was measured.
      limit: that it is held to.
      at_most: whether the limit is the largest allowed value, or the smallest.
    """

    name: str
    got: float
    limit: float
    at_most: bool

    @property
    def holds(self) -> bool:
        # So that NaN holds nowhere.
        return self.got <= self.limit if self.at_most else self.got >= self.limit


def scaled_error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest difference, as a share of the largest expected magnitude."""
    scale = float(np.max(np.abs(want), initial=0.0))
    difference = float(np.max(np.abs(got - want), initial=0.0))
    return difference / scale if scale else difference


def check(side: Side, *, tolerance: float) -> float | None:
    """Runs a side once and compares each of its arrays with its oracle.

    Returns:
      The largest `scaled_error` over the arrays, or None without an oracle.

    Raises:
      WrongSideError: if an array is missing, has another shape, is not finite, or
        differs by more than `tolerance`.
    """
    got = side.arrays(side.run())
    for name, x in got.items():
        if not np.all(np.isfinite(x)):
            raise WrongSideError(
                f"{side.name}: {name} holds values that are not finite"
            )
    if side.oracle is None:
        return None
    want = side.oracle()
    if got.keys() != want.keys():
        raise WrongSideError(
            f"{side.name}: gives arrays {sorted(got)}, expected {sorted(want)}"
        )
    errors = {name: _compared(side.name, name, got[name], want[name]) for name in want}
    worst = max(errors, key=errors.__getitem__)
    if not errors[worst] <= tolerance:
        raise WrongSideError(
            f"{side.name}: {worst} differs from the oracle by {errors[worst]:.2e} of "
            f"its largest value, more than {tolerance:.0e}; a wrong side is not timed"
        )
    return errors[worst]


def _compared(side: str, name: str, got: np.ndarray, want: np.ndarray) -> float:
    if got.shape != want.shape:
        raise WrongSideError(
            f"{side}: {name} has shape {got.shape}, expected {want.shape}"
        )
    return scaled_error(got, want)


def interleaved(
    sides: Sequence[Side],
    *,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    pause_secs: float = PAUSE_SECS,
) -> dict[str, np.ndarray]:
    """Seconds of each side in each round, `[rounds]`; every side runs in every round.

    One untimed round goes first: caches and memory pools are then as they will stay.
    """
    times = {side.name: np.zeros(rounds) for side in sides}
    if len(times) < len(sides):
        raise ValueError(f"two sides share a name: {[side.name for side in sides]}")
    for i in range(-1, rounds):
        for side in sides:
            time.sleep(pause_secs)
            start = clock()
            side.run()
            if i >= 0:
                times[side.name][i] = clock() - start
    return times


def bootstrap_interval(
    statistic: Callable[[np.ndarray], float], rounds: int, *, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of a statistic of resampled rounds.

    Args:
      statistic: takes round numbers, with repeats, and gives the metric over them.
      rounds: how many rounds there are.
      seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, rounds, size=(BOOTSTRAP_SAMPLES, rounds))
    metrics = [statistic(draw) for draw in draws]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(metrics, [tail, 1 - tail])
    return float(low), float(high)


def ratio_interval(times: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Bootstrap interval of the ratio of medians; rounds are drawn as pairs."""
    return bootstrap_interval(
        lambda draw: float(np.median(times[draw]) / np.median(reference[draw])),
        len(times),
    )


def compare(
    sides: Sequence[Side], *, reference: str, rounds: int, tolerance: float, **options
) -> list[Timing]:
    """Checks every side, then times them in turn.

    Args:
      sides: in the order of a round.
      reference: name of the side whose median is 1.
      rounds: timed runs of each side.
      tolerance: largest `scaled_error` of a side that has an oracle.
      **options: for `interleaved`.

    Raises:
      WrongSideError: before anything is timed, if a side is wrong.
      ValueError: if no side has the name of the reference, or rounds < 1.
    """
    names = [side.name for side in sides]
    if reference not in names:
        raise ValueError(f"reference {reference!r} is not among the sides {names}")
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    errors = {side.name: check(side, tolerance=tolerance) for side in sides}
    times = interleaved(sides, rounds=rounds, **options)
    return [
        _timing(side, times[side.name], times[reference], errors[side.name])
        for side in sides
    ]


def _timing(
    side: Side, times: np.ndarray, reference: np.ndarray, error: float | None
) -> Timing:
    low, high = np.quantile(times, [0.25, 0.75])
    return Timing(
        name=side.name,
        note=side.note,
        times=tuple(times.tolist()),
        median=float(np.median(times)),
        minimum=float(np.min(times)),
        interquartile_range=float(high - low),
        ratio=float(np.median(times) / np.median(reference)),
        ratio_interval=ratio_interval(times, reference),
        error=error,
    )


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Slope of log(value) over log(length) by least squares: 1 is linear growth."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])
