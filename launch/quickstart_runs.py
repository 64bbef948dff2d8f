"""Commands of the quickstart run to their end, and what a run leaves in its folder."""

import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from etc_jax.base.whole_files import write_whole
from etc_jax.training.errors import PREEMPTED

RECORD = "quickstart.json"
LOG = "messages.txt"
_POLL_SECS = 0.2
_GRACE_SECS = 120
# Without news from a command, the user hears after so long that it goes on.
_QUIET_SECS = 10
_LOG_LINES_SHOWN = 20

# Metrics of a run that a progress line shows.
_SHOWN = {
    "mlm_loss": "loss of masked words {:.2f}",
    "cpc_accuracy": "masked sentences found {:.0%}",
    "accuracy": "answers right {:.0%}",
}


class QuickstartError(Exception):
    """A command did not come to its end."""


def say(text: str) -> None:
    """Tells the user something, apart from the report."""
    print(f"quickstart: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of the training command.

    Attributes:
      exit_code: of the training command; negative: killed by that signal.
      secs: wall time from start to end, setting up and compiling included.
      stopped_by: "half-way" or "user"; None if nothing stopped it.
      saved_step: of the newest checkpoint at the end; None if there is none.
      metrics_lines: whole lines of the metrics file at the end.
      metrics_sha256: of these lines.
    """

    exit_code: int
    secs: float
    stopped_by: str | None
    saved_step: int | None
    metrics_lines: int
    metrics_sha256: str

    @property
    def stopped_half_way(self) -> bool:
        return self.stopped_by == "half-way" and self.exit_code == PREEMPTED


class Workdir:
    """What a run leaves in its folder, read while it may be written."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    def _json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else None

    def config(self) -> dict[str, Any] | None:
        """The config of the run; None before it has begun."""
        run = self._json("run.json")
        return None if run is None else run["config"]

    def saved_step(self) -> int | None:
        """Step of the newest checkpoint."""
        last = self._json("last_checkpoint.json")
        return None if last is None else last["step"]

    def all_steps_saved(self) -> bool:
        """Whether a checkpoint has the last step."""
        config = self.config()
        return config is not None and self.saved_step() == config["train"]["num_steps"]

    def final_report(self) -> dict[str, Any] | None:
        """Metrics of the finished run; None before its end."""
        return self._json("final_report.json")

    def metrics_text(self) -> list[str]:
        """The lines of the metrics file, but for one that is being written."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """The reports of one kind, "train" or "eval", in order."""
        lines = map(json.loads, self.metrics_text())
        return [line for line in lines if line["kind"] == kind]

    def metrics_stamp(self) -> tuple[int, int] | None:
        """Differs once the metrics file was written or replaced."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return None
        stat = path.stat()
        return stat.st_ino, stat.st_mtime_ns

    def record(self) -> dict[str, Any]:
        """What the quickstart noted about this run: launches, and facts at its end."""
        return self._json(RECORD) or {"launches": [], "facts": None}

    def launches(self) -> list[Launch]:
        """The launches so far, in order."""
        return [Launch(**launch) for launch in self.record()["launches"]]

    def note(self, **changes: Any) -> None:
        """Replaces entries of the record."""
        text = json.dumps(self.record() | changes, indent=2)
        write_whole(self.folder / RECORD, f"{text}\n")


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# --- progress -------------------------------------------------------------------------


class Progress:
    """Says how far a command is: at each report of its run, and now and then without.

    Args:
      name: of what the command does.
      workdir: of the run that it trains; None: it trains none.
    """

    def __init__(self, name: str, workdir: Workdir | None = None):
        self._name, self._workdir = name, workdir
        self._stamp = workdir and workdir.metrics_stamp()
        self._began = self._said = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._step: int | None = None

    def look(self) -> None:
        """Says what is new."""
        now = time.monotonic()
        if self._workdir and self._workdir.metrics_stamp() != self._stamp:
            self._stamp = self._workdir.metrics_stamp()
            lines = self._workdir.metrics("train")
            if lines and lines[-1]["step"] != self._step:
                self._tell(self._line(lines[-1], now), now)
        elif now - self._said >= _QUIET_SECS:
            self._tell(f"at work for {now - self._began:.0f} s", now)

    def _tell(self, text: str, now: float) -> None:
        self._said = now
        say(f"{self._name}: {text}")

    def _line(self, line: dict[str, Any], now: float) -> str:
        self._step = step = line["step"]
        total = self._workdir.config()["train"]["num_steps"]
        parts = [f"step {step} of {total}"]
        parts += [x.format(line[k]) for k, x in _SHOWN.items() if k in line]
        if self._first is None:
            self._first = (step, now)
        elif step > self._first[0]:
            secs = (now - self._first[1]) / (step - self._first[0]) * (total - step)
            parts.append(f"{secs / 60:.1f} min left")
        return ", ".join(parts)


# --- commands -------------------------------------------------------------------------


def _half_done(workdir: Workdir) -> bool:
    config, lines = workdir.config(), workdir.metrics("train")
    if config is None or not lines:
        return False
    return 2 * lines[-1]["step"] >= config["train"]["num_steps"]


def _start(command: Sequence[str], log: pathlib.Path) -> subprocess.Popen:
    """Starts a command whose messages go to a file.

    It is in a process group of its own, so that Ctrl-C reaches it once, through here.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as messages:
        messages.write(f"$ {' '.join(map(str, command))}\n".encode())
        messages.flush()
        return subprocess.Popen(
            command, start_new_session=True, stdout=messages, stderr=messages
        )


def _watch(
    command: Sequence[str],
    log: pathlib.Path,
    look_fn: Callable[[subprocess.Popen], None],
) -> tuple[int, bool]:
    """Runs a command to its end, and looks at it all the time.

    Returns:
      (exit code, whether the user stopped it; it has been asked to save then).
    """
    child, stopped = _start(command, log), False
    try:
        while child.poll() is None:
            look_fn(child)
            time.sleep(_POLL_SECS)
    except KeyboardInterrupt:
        stopped = True
        say("interrupted; waiting for the command to end")
        _end(child)
    finally:
        _kill(child)
    return child.returncode, stopped


def supervise(
    command: Sequence[str],
    workdir: Workdir,
    *,
    name: str,
    log: pathlib.Path,
    stop_half_way: bool,
) -> Launch:
    """Runs the training command to its end, or until it was asked to stop.

    Args:
      command: what to run.
      workdir: where it writes.
      name: of what it does, for lines of progress.
      log: file for its messages.
      stop_half_way: send SIGTERM when half of the steps are done.

    Returns:
      The `Launch`. A KeyboardInterrupt ends it with `stopped_by` "user".
    """
    began, before = time.monotonic(), workdir.metrics_stamp()
    progress, asked = Progress(name, workdir), False

    def look(child: subprocess.Popen) -> None:
        nonlocal asked
        progress.look()
        # An unchanged file is that of an earlier launch, and its signal handler may
        # not be there yet.
        running = workdir.metrics_stamp() != before
        if stop_half_way and not asked and running and _half_done(workdir):
            say("half of the steps are done; stopping the run with SIGTERM")
            asked = True
            child.send_signal(signal.SIGTERM)

    code, by_user = _watch(command, log, look)
    lines = workdir.metrics_text()
    return Launch(
        exit_code=code,
        secs=time.monotonic() - began,
        stopped_by="user" if by_user else "half-way" if asked else None,
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


def _failed(name: str, code: int, expected: str, log: pathlib.Path) -> QuickstartError:
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
    print(*lines, sep="\n", file=sys.stderr)
    return QuickstartError(
        f"{name}: exit code {code}, expected {expected}; the last messages are above, "
        f"all of them in {log}"
    )


def train(
    command: Sequence[str],
    workdir: Workdir,
    *,
    name: str,
    log: pathlib.Path,
    stop_half_way: bool = False,
) -> None:
    """Launches the run until it is done.

    Args:
      command: what trains.
      workdir: where it writes, and where its launches are noted.
      name: of what it does, for lines of progress.
      log: file for its messages.
      stop_half_way: stop it once on the way.

    Raises:
      QuickstartError: if it ends in another way.
      KeyboardInterrupt: if the user stopped it; the child has ended by then.
    """
    while True:
        launches = workdir.launches()
        stop = stop_half_way and not any(x.stopped_half_way for x in launches)
        launch = supervise(command, workdir, name=name, log=log, stop_half_way=stop)
        workdir.folder.mkdir(parents=True, exist_ok=True)
        workdir.note(launches=[dataclasses.asdict(x) for x in [*launches, launch]])
        if launch.stopped_by == "user":
            raise KeyboardInterrupt
        if launch.exit_code == 0:
            return
        if launch.exit_code != PREEMPTED or launch.stopped_by is None:
            expected = f"0, or {PREEMPTED} where it was asked to stop"
            raise _failed(name, launch.exit_code, expected, log)
        say(
            f"exit code {PREEMPTED}: the run saved step {launch.saved_step}; starting "
            "the same command again"
        )


def finish(command: Sequence[str], *, name: str, log: pathlib.Path) -> None:
    """Runs a command that leaves whole files or none, so that it may be killed.

    Args:
      command: what to run.
      name: of what it does, for lines of progress.
      log: file for its messages.

    Raises:
      QuickstartError: if it fails.
      KeyboardInterrupt: if the user stopped it; the child has ended by then.
    """
    say(name)
    progress = Progress(name)
    code, by_user = _watch(command, log, lambda child: progress.look())
    if by_user:
        raise KeyboardInterrupt
    if code:
        raise _failed(name, code, "0", log)
