"""Commands of the quickstart run to their end, as a cluster would run them."""

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from etc_jax.training.errors import PREEMPTED
from launch.quickstart_record import Launch, Workdir, digest

_POLL_SECS = 0.2
_GRACE_SECS = 120


class QuickstartError(Exception):
    """A command did not come to its end."""


def say(text: str) -> None:
    """Tells the user something, apart from the report."""
    print(f"quickstart: {text}", file=sys.stderr, flush=True)


def _half_done(workdir: Workdir) -> bool:
    config, lines = workdir.config(), workdir.metrics("train")
    if config is None or not lines:
        return False
    return 2 * lines[-1]["step"] >= config["train"]["num_steps"]


def supervise(
    command: Sequence[str], workdir: Workdir, *, stop_half_way: bool
) -> Launch:
    """Runs the training command to its end, or until it was asked to stop.

    The child is in a process group of its own, so that Ctrl-C reaches it once, through
    here.

    Args:
      command: what to run; its output is shown as it comes.
      workdir: where it writes.
      stop_half_way: send SIGTERM when half of the steps are done.

    Returns:
      The `Launch`. A KeyboardInterrupt ends it with `stopped_by` "user".
    """
    began, before = time.monotonic(), workdir.metrics_stamp()
    stopped_by = None
    child = subprocess.Popen(command, start_new_session=True)
    try:
        while child.poll() is None:
            # An unchanged file is that of an earlier launch, and its signal handler
            # may not be there yet.
            running = workdir.metrics_stamp() != before
            if stop_half_way and not stopped_by and running and _half_done(workdir):
                say("half of the steps are done; stopping the run with SIGTERM")
                stopped_by = "half-way"
                child.send_signal(signal.SIGTERM)
            time.sleep(_POLL_SECS)
    except KeyboardInterrupt:
        stopped_by = "user"
        say("interrupted; waiting for the run to save")
        _end(child)
    finally:
        _kill(child)
    lines = workdir.metrics_text()
    return Launch(
        exit_code=child.returncode,
        secs=time.monotonic() - began,
        stopped_by=stopped_by,
        saved_step=workdir.saved_step(),
        metrics_lines=len(lines),
        metrics_sha256=digest(lines),
    )


def _end(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_GRACE_SECS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        say("killing the command; it continues from what it has saved")
        _kill(child)


def _kill(child: subprocess.Popen) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()


def train(
    command: Sequence[str], workdir: Workdir, *, stop_half_way: bool = False
) -> None:
    """Launches the run until it is done.

    Args:
      command: what trains.
      workdir: where it writes, and where its launches are noted.
      stop_half_way: stop it once on the way.

    Raises:
      QuickstartError: if it ends in another way.
      KeyboardInterrupt: if the user stopped it; the child has ended by then.
    """
    while True:
        launches = workdir.launches()
        stop = stop_half_way and not any(x.stopped_half_way for x in launches)
        launch = supervise(command, workdir, stop_half_way=stop)
        if not workdir.folder.is_dir():
            raise QuickstartError(f"training ended with exit code {launch.exit_code}")
        workdir.note(launches=[dataclasses.asdict(x) for x in [*launches, launch]])
        if launch.stopped_by == "user":
            raise KeyboardInterrupt
        if launch.exit_code == 0:
            return
        if launch.exit_code != PREEMPTED or launch.stopped_by is None:
            raise QuickstartError(
                f"training ended with exit code {launch.exit_code}, expected 0, or "
                f"{PREEMPTED} where it was asked to stop; its messages are above"
            )
        say(
            f"exit code {PREEMPTED}: the run saved step {launch.saved_step}; starting "
            "the same command again"
        )


def finish(command: Sequence[str]) -> None:
    """Runs a command that leaves whole files or none, so that it may be killed.

    Raises:
      QuickstartError: if it fails.
      KeyboardInterrupt: if the user stopped it; the child has ended by then.
    """
    child = subprocess.Popen(command, start_new_session=True)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        _end(child)
        raise
    finally:
        _kill(child)
    if code:
        module = command[command.index("-m") + 1] if "-m" in command else command[0]
        raise QuickstartError(
            f"{module} ended with exit code {code}, expected 0; its messages are above"
        )
