"""Keeps a job going: starts it again when its machines were taken away."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

from etc_jax.base.terminal import say
from etc_jax.launch import backend
from etc_jax.launch.backend import Answer, Backend, LaunchError, Phase, State
from etc_jax.launch.job import FINAL_CODES, Argv
from etc_jax.training.errors import CRASHED, DONE

POLL_SECS = 60.0
# Pauses before a start, doubled from one loss to the next; after a job has run for as
# long as the longest, from the shortest again.
_SHORTEST_SECS, _LONGEST_SECS = 30.0, 1800.0
_MOST_SILENCES = 10  # polls in a row without an answer


def run(argv: Argv, **options: Any) -> Answer:
    """Runs a program to its end, with what it prints.

    Raises:
      LaunchError: if it is not installed.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        raise LaunchError(f"{argv[0]} is not installed here: {error}") from error
    return Answer(done.returncode, done.stdout, done.stderr)


def start(backend_: Backend, run_fn: Callable[[Argv], Answer] = run) -> None:
    """Gives the commands that start a job.

    Raises:
      LaunchError: if one of them fails.
    """
    for step in backend_.start():
        say(f"launch: {step.what}")
        backend.checked_answer(run_fn(step.argv), step.argv)


def babysit(
    backend_: Backend,
    *,
    run_fn: Callable[[Argv], Answer] = run,
    sleep_fn: Callable[[float], None] = time.sleep,
    clock_fn: Callable[[], float] = time.monotonic,
    poll_secs: float = POLL_SECS,
) -> int:
    """Watches a job until it ends, and starts it when it is not there.

    Args:
      backend_: with the job.
      run_fn: runs a program.
      sleep_fn: waits, in seconds.
      clock_fn: gives seconds.
      poll_secs: between two looks.

    Returns:
      The exit code of the job.

    Raises:
      LaunchError: if the job could not be started or asked for many times in a row, or
        was lost more often than it may be.
    """
    losses, pause, began, shown, silences = 0, 0.0, clock_fn(), "", 0
    while True:
        try:
            state = backend_.state(run_fn)
            silences = 0
        except LaunchError as error:
            silences += 1
            if silences == _MOST_SILENCES:
                raise
            state = State(Phase.WAITING, f"no answer: {error}")
        if str(state) != shown:
            shown = str(state)
            say(f"launch: {backend_.job.name} {shown}")
        if state.phase is Phase.ENDED:
            return _ended(state)
        if state.phase in (Phase.ABSENT, Phase.LOST):
            if state.phase is Phase.LOST:
                losses += 1
                _check_losses(losses, backend_.job.restarts)
                for argv in backend_.stop():
                    run_fn(argv)  # what is gone already cannot be deleted
            if clock_fn() - began > _LONGEST_SECS:
                pause = 0.0
            sleep_fn(pause)
            pause = min(max(2 * pause, _SHORTEST_SECS), _LONGEST_SECS)
            began = clock_fn()
            try:
                start(backend_, run_fn)
            except LaunchError as error:
                losses += 1
                _check_losses(losses, backend_.job.restarts)
                say(f"launch: {error}; once more in {pause:.0f} s")
                continue
        sleep_fn(poll_secs)


def _check_losses(losses: int, restarts: int) -> None:
    if losses > restarts:
        raise LaunchError(
            f"the job was lost, or could not be started, {losses} times; --restarts is "
            f"{restarts}"
        )


def _ended(state: State) -> int:
    code = CRASHED if state.code is None else state.code
    if code in FINAL_CODES:
        say("launch: the same command would end in the same way; see its log")
    elif code != DONE:
        say("launch: it was started as often as it may be; see its log")
    return code
