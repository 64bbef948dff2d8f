"""Keeps a job going: starts it again when its machines were taken away."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from etc_jax.base.terminal import say
from etc_jax.launch import backend
from etc_jax.launch.backend import Answer, Backend, LaunchError, Phase, RunFn, State
from etc_jax.launch.job import FINAL_CODES, Argv, Step
from etc_jax.training.errors import CRASHED, DONE

POLL_SECS = 60.0
# Pauses before a start, doubled from one loss to the next; after a job has run for as
# long as the longest, from the shortest again.
_SHORTEST_SECS, _LONGEST_SECS = 30.0, 1800.0
_MOST_SILENCES = 10  # polls in a row without an answer


def run(argv: Argv) -> Answer:
    """Runs a program to its end, with what it prints.

    Raises:
      LaunchError: if it is not installed.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise LaunchError(f"{argv[0]} is not installed here: {error}") from error
    return Answer(done.returncode, done.stdout, done.stderr)


def give(steps: Iterable[Step], run_fn: RunFn = run) -> None:
    """Gives commands, one after the other.

    Raises:
      LaunchError: if one of them fails.
    """
    for step in steps:
        say(f"launch: {step.what}")
        backend.checked_answer(run_fn(step.argv), step.argv)


class Watch:
    """One job, which is started where it is not, and again where it was lost.

    One that had failed before the first look is run anew.

    Attributes:
      backend: with the job.

    Args:
      backend_: see there.
      run_fn: runs a program.
      clock_fn: gives seconds.
    """

    def __init__(
        self,
        backend_: Backend,
        run_fn: RunFn,
        clock_fn: Callable[[], float],
    ):
        self.backend = backend_
        self._run, self._clock = run_fn, clock_fn
        self._losses = self._silences = 0
        self._pause, self._next_start, self._shown = 0.0, -math.inf, ""

    def look(self) -> int | None:
        """Looks once, and starts the job if it is time to; its exit code at its end.

        Raises:
          LaunchError: if it could not be asked for many times in a row, or was lost, or
            could not be started, more often than it may be.
        """
        state, is_first = self._state(), not self._shown
        if str(state) != self._shown:
            self._shown = str(state)
            say(f"launch: {self.backend.job.name} {state}")
        if state.phase is Phase.ENDED and not (is_first and state.code):
            return self._ended(state)
        if state.phase is Phase.ENDED:
            self._start(self.backend.rerun())
        if state.phase is Phase.LOST:
            self._count_loss()
            self._give_all(self.backend.stop())
        is_absent = state.phase in (Phase.ABSENT, Phase.LOST)
        if is_absent and self._clock() >= self._next_start:
            self._start(self.backend.start())
        return None

    def _state(self) -> State:
        try:
            state = self.backend.state(self._run)
        except LaunchError as error:
            self._silences += 1
            if self._silences == _MOST_SILENCES:
                raise
            return State(Phase.WAITING, f"no answer: {error}")
        self._silences = 0
        return state

    def _start(self, steps: Sequence[Step]) -> None:
        if self._clock() - self._next_start > _LONGEST_SECS:  # it ran for long
            self._pause = 0.0
        self._pause = min(max(2 * self._pause, _SHORTEST_SECS), _LONGEST_SECS)
        self._next_start = self._clock() + self._pause
        try:
            give(steps, self._run)
        except LaunchError as error:
            self._count_loss()
            say(f"launch: {error}; once more in {self._pause:.0f} s")

    def _ended(self, state: State) -> int:
        code = CRASHED if state.code is None else state.code
        if code != DONE:
            why = "it was started as often as it may be"
            if code in FINAL_CODES:
                why = "the same command would end in the same way"
            say(f"launch: {why}; what it printed last:")
            self._give_all(self.backend.logs(), shows=True)
        if self.backend.is_lent:
            self._give_all(self.backend.stop())
        return code

    def _give_all(self, commands: Sequence[Argv], *, shows: bool = False) -> None:
        """Gives commands, whether or not they fail: what is gone cannot be deleted."""
        for argv in commands:
            answer = self._run(argv)
            if shows:
                say((answer.out or answer.error).rstrip())

    def _count_loss(self) -> None:
        self._losses += 1
        restarts = self.backend.job.restarts
        if self._losses > restarts:
            raise LaunchError(
                f"{self.backend.job.name} was lost, or could not be started, "
                f"{self._losses} times; --restarts is {restarts}"
            )


def babysit(
    backends: Sequence[Backend],
    *,
    run_fn: RunFn = run,
    sleep_fn: Callable[[float], None] = time.sleep,
    clock_fn: Callable[[], float] = time.monotonic,
    poll_secs: float = POLL_SECS,
    ended_fn: Callable[[Backend, int | LaunchError], None] = lambda backend, end: None,
) -> list[int]:
    """Watches jobs until all have ended, and starts them where they are not.

    Args:
      backends: each with a job.
      run_fn: runs a program.
      sleep_fn: waits, in seconds.
      clock_fn: gives seconds.
      poll_secs: between two looks.
      ended_fn: is told of each end: an exit code, or why the job was given up.

    Returns:
      The exit code of each job, 1 of one that was given up.
    """
    watches = {i: Watch(x, run_fn, clock_fn) for i, x in enumerate(backends)}
    codes: dict[int, int] = {}
    while True:
        for number, watch in list(watches.items()):
            try:
                end = watch.look()
            except LaunchError as error:
                say(f"launch: {error}", sys.stderr)
                end = error
            if end is not None:
                ended_fn(watch.backend, end)
                codes[number] = end if isinstance(end, int) else end.exit_code
                del watches[number]
        if not watches:
            return [codes[number] for number in range(len(backends))]
        sleep_fn(poll_secs)
