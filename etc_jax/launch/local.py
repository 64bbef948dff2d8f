"""Several processes on this machine, that meet on loopback.

    etc-jax launch local --processes=2 [--devices_per_process=4] -- \\
        train --config=NAME --workdir=FOLDER [--config.FIELD=VALUE]

What stands after -- is the command of each, without `etc-jax`. With
--devices_per_process each has so many simulated CPU devices; without, what jax finds.
Lines of output begin with the number of their process.

SIGTERM and SIGINT go on to all processes, which save and end. When one has ended, the
others have --grace_secs to do so too, and are killed then. If this launcher is killed,
so are they (on Linux). With --restarts=N all of them are started again, up to N times,
when one was killed, crashed, or saved and ended by itself (17): they go on from the
newest checkpoint.

Exit codes: that of the first process that failed (2 something given is wrong; 3 the
loss is not finite; 4 no usable checkpoint is left; 17 interrupted and saved, run it
again; 128 + N killed by signal N), else 0.
"""

import argparse
import functools
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from etc_jax.base import child_process
from etc_jax.cli import command_line
from etc_jax.training.errors import (
    CORRUPT_CHECKPOINT,
    DONE,
    NOT_FINITE,
    PREEMPTED,
    USER_ERROR,
)

_PROG = "etc-jax launch local"
_POLL_SECS = 0.1
_DEVICES_FLAG = "--xla_force_host_platform_device_count"
# After these the same command would end in the same way.
_FINAL = (DONE, USER_ERROR, NOT_FINITE, CORRUPT_CHECKPOINT)
# Which code says most, where several processes end at once.
_TELLING = (*_FINAL[1:], PREEMPTED)


def environments(
    environ: Mapping[str, str],
    *,
    processes: int,
    devices_per_process: int | None,
    port: int,
) -> list[dict[str, str]]:
    """The variables of each process.

    Args:
      environ: those of this one.
      processes: how many.
      devices_per_process: simulated CPU devices of each; None: as jax finds them.
      port: on loopback, where they meet.
    """
    common = dict(environ)
    if devices_per_process is not None:
        flags = re.sub(rf"{_DEVICES_FLAG}=\d+", "", environ.get("XLA_FLAGS", ""))
        common["XLA_FLAGS"] = f"{flags} {_DEVICES_FLAG}={devices_per_process}".strip()
        common["JAX_PLATFORMS"] = "cpu"
    return [
        {
            **common,
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
            "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}",
            "JAX_NUM_PROCESSES": str(processes),
            "JAX_PROCESS_ID": str(process),
        }
        for process in range(processes)
    ]


def exit_code(codes: Sequence[int]) -> int:
    """What a launcher exits with, of processes that ended at the same time.

    Args:
      codes: as `subprocess` gives them: -N for a signal.
    """
    for code in _TELLING:
        if code in codes:
            return code
    failed = [code for code in codes if code != DONE]
    if not failed:
        return DONE
    return failed[0] if failed[0] > 0 else 128 - failed[0]


class Processes:
    """The processes of one run; use it with `with`, which leaves none running."""

    def __init__(self):
        self._children: list[subprocess.Popen] = []
        self._readers: list[threading.Thread] = []
        self._signals: list[int] = []

    def start(
        self, command: Sequence[str], environs: Sequence[Mapping[str, str]]
    ) -> None:
        """Starts `command`, a list of arguments, once for each environment."""
        for number, environ in enumerate(environs):
            child = subprocess.Popen(
                child_process.tied(command),
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A group of their own: Ctrl-C reaches them once, through here.
                start_new_session=True,
            )
            self._children.append(child)
            for source, target in (
                (child.stdout, sys.stdout),
                (child.stderr, sys.stderr),
            ):
                arguments = (number, source, target)
                reader = threading.Thread(target=_show, args=arguments, daemon=True)
                reader.start()
                self._readers.append(reader)
        for received in tuple(self._signals):  # some children were not there yet
            self._send(received)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *exc) -> None:
        self._kill()
        for child in self._children:
            child.wait()
        for reader in self._readers:
            reader.join(timeout=5)  # a grandchild may hold the pipe open

    def signal(self, number: int) -> None:
        """Sends a signal to all that still run, or are going to."""
        self._signals.append(number)
        self._send(number)

    def _send(self, number: int) -> None:
        for child in self._children:
            if child.poll() is None:
                child.send_signal(number)

    def wait(self, *, grace_secs: float) -> int:
        """Waits for the end of all; returns the launcher's exit code.

        Args:
          grace_secs: how long the others may go on when one has ended.
        """
        ended: dict[int, int] = {}
        first, deadline = DONE, None
        while len(ended) < len(self._children):
            time.sleep(_POLL_SECS)
            now = {
                number: child.returncode
                for number, child in enumerate(self._children)
                if number not in ended and child.poll() is not None
            }
            first_end = bool(now) and not ended
            ended |= now
            if first == DONE:
                first = exit_code(list(now.values()))
            if first_end:
                deadline = time.monotonic() + grace_secs
            left = [n for n in range(len(self._children)) if n not in ended]
            if left and deadline is not None and time.monotonic() > deadline:
                _say(f"killing {left}, {grace_secs:.0f} s after the first end")
                self._kill()
                deadline = None
        _say("exit codes: " + ", ".join(f"[{n}] {ended[n]}" for n in sorted(ended)))
        return first

    def _kill(self) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()


def _show(number: int, source: IO[bytes], target: IO[str]) -> None:
    with source:
        for line in source:
            text = line.decode(errors="replace").rstrip("\n")
            target.write(f"[{number}] {text}\n")
            target.flush()


def _say(text: str) -> None:
    print(f"{_PROG}: {text}", file=sys.stderr, flush=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(
    command: Sequence[str],
    environs_fn: Callable[[], Sequence[Mapping[str, str]]],
    *,
    grace_secs: float,
    restarts: int = 0,
) -> int:
    """Runs `command` once for each environment; returns the exit code.

    Args:
      command: a list of arguments.
      environs_fn: gives the environments of each start.
      grace_secs: see `Processes.wait`.
      restarts: how often all are started again at most; see `_FINAL`. After a signal to
        this process none is.
    """
    received: list[int] = []
    before = {}
    try:
        for start in itertools.count(1):
            with Processes() as processes:
                for number in (signal.SIGTERM, signal.SIGINT):
                    handler = functools.partial(_pass_on, processes, received)
                    before.setdefault(number, signal.signal(number, handler))
                if received:  # between two starts
                    return PREEMPTED
                processes.start(command, environs_fn())
                code = processes.wait(grace_secs=grace_secs)
            if code in _FINAL or received or start > restarts:
                return code
            _say(f"starting all again, {start} of {restarts} times at most")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on(processes: Processes, received: list[int], number: int, _: Any) -> None:
    received.append(number)
    processes.signal(number)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--devices_per_process", type=int)
    parser.add_argument("--grace_secs", type=float, default=60.0)
    parser.add_argument("--restarts", type=int, default=0)
    flags, command = command_line.at_dashes(argv)
    args = parser.parse_args(flags)
    args.command = command
    for name in ("processes", "devices_per_process"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}; expected at least 1")
    if args.restarts < 0:
        parser.error(f"--restarts is {args.restarts}; expected at least 0")
    if args.grace_secs <= 0:
        parser.error(f"--grace_secs is {args.grace_secs}; expected more than 0")
    if not command:
        parser.error("nothing to run: put a command after --, such as train ...")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command in several processes; returns the exit code."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    command = [sys.executable, "-m", "etc_jax", *args.command]
    return run(
        command,
        # Each time another port: of the last one something may still be in the way.
        lambda: environments(
            os.environ,
            processes=args.processes,
            devices_per_process=args.devices_per_process,
            port=_free_port(),
        ),
        grace_secs=args.grace_secs,
        restarts=args.restarts,
    )


if __name__ == "__main__":
    sys.exit(main())
