"""What a reader may do with a damaged file: read it, or refuse it in its own words."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import resource
import time
import traceback
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from repository import ROOT

from etc_jax.training.errors import RunError

_OURS = ROOT / "etc_jax"
# Of a command line: its other errors are faults of the program.
CLEAN = (RunError, ValueError, OSError)
_LONGEST = 4000
# Tiny inputs are read in milliseconds; tracing a model takes a second or two.
_SECONDS = 20.0
_MEGABYTES = 400


@dataclasses.dataclass
class Count:
    """Outcomes of trials."""

    fine: int = 0
    refused: int = 0

    def __str__(self) -> str:
        trials = self.fine + self.refused
        return f"{trials} trials: {self.fine} read, {self.refused} refused, 0 others"


def megabytes() -> float:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def trial(work: Callable[[], object], count: Count, what: str) -> None:
    """Runs a reader and fails unless it reads, or refuses with an error of its own.

    An error is one of the project's own if the project raises it: what numpy or the
    JSON module say of a value names neither the file nor what was expected.

    Args:
      work: the reader on damaged files.
      count: of outcomes, added to.
      what: of the damage, for the failure.
    """
    before, start = megabytes(), time.process_time()
    try:
        work()
        count.fine += 1
    except CLEAN as error:
        count.refused += 1
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = pathlib.Path(last.filename).is_relative_to(_OURS)
        # What the system says of a file names it.
        own |= isinstance(error, OSError) and error.filename is not None
        assert own, f"{what}: {error!r} comes from {last.filename}:{last.lineno}"
        told = str(error)
        assert told and len(told) <= _LONGEST, f"{what}: {told[:200]!r}"
        assert not any(ord(c) < 32 and c != "\n" for c in told), f"{what}: {told!r}"
    spent, grown = time.process_time() - start, megabytes() - before
    assert spent < _SECONDS, f"{what}: {spent:.1f} s of CPU"
    assert grown < _MEGABYTES, f"{what}: {grown:.0f} MB"


def run_trials(check: Callable[[random.Random, Count], None], trials: int) -> Count:
    """Runs a check with so many seeds, the same each time; counts the outcomes.

    Args:
      check: (source of randomness, count to add to); fails by an assertion.
      trials: how many.
    """
    count = Count()

    @settings(
        max_examples=trials,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        # What is drawn is a seed, of which there is no simpler one.
        phases=[Phase.generate],
    )
    @given(st.randoms(use_true_random=False, note_method_calls=False))
    def each(rng):
        # Long draws from hypothesis would be slow.
        check(random.Random(rng.getrandbits(64)), count)

    each()
    print(count)
    return count
