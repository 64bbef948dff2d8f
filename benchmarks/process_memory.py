"""Peak memory of a process and of all that it has started, as the kernel counts it."""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

_CLEAR_HIGH_WATER_MARK = "5"
_LOOK_EVERY_SECS = 0.05

# Bytes, by the id of the process.
Peaks = dict[str, int]


def clear_own_peak() -> None:
    """From here on the peak of this process is that of what it does now."""
    pathlib.Path("/proc/self/clear_refs").write_text(_CLEAR_HIGH_WATER_MARK)


def peaks(process: str = "self") -> Peaks:
    """Peak memory of a process and of each below it; without those that have ended.

    Raises:
      OSError: if this system does not tell.
    """
    if not pathlib.Path("/proc/self/status").exists():
        raise OSError("there is no /proc/self/status; peak memory needs Linux")
    found: Peaks = {}
    waiting = [process]
    while waiting:
        process = waiting.pop()
        try:
            peak, children = status(process, "VmHWM"), _children(process)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended just now
        if peak is not None:
            found[process] = peak
        waiting += children
    return found


def _children(process: str) -> list[str]:
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    return [child for t in tasks for child in (t / "children").read_text().split()]


def status(process: str, field: str) -> int | None:
    """Bytes that the kernel counts for a process, or "self"; None if it is ending.

    Raises:
      OSError: if there is no such process, or no Linux.
    """
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None  # it is ending, or has ended and was not waited for


class Growth:
    """Peaks by the first tenth of some work and by its end.

    Attributes:
      early, late: peaks by then; {} before.
    """

    def __init__(self):
        self.early: Peaks = {}
        self.late: Peaks = {}

    def note(self, share: float, found: Mapping[str, int]) -> None:
        """Takes the peaks at a moment when this share of the work is done."""
        if not self.early and share >= 0.1:
            self.early.update(found)
        self.late.update(found)

    @property
    def by_a_tenth(self) -> int:
        """Bytes of all processes."""
        # Helpers of multiprocessing may come later, and are counted with the start.
        return sum(self.early.get(process, self.late[process]) for process in self.late)

    @property
    def by_the_end(self) -> int:
        """Bytes of all processes."""
        return sum(self.late.values())

    @property
    def growth(self) -> float:
        """0.1 for a tenth more at the end."""
        return self.by_the_end / self.by_a_tenth - 1


class Watched(NamedTuple):
    """What was seen of a command.

    Attributes:
      growth: of its memory.
      secs: from the moment when a tenth of its work was done to its end.
      share: of its work that was done in these, about 0.9.
    """

    growth: Growth
    secs: float
    share: float


def watch(command: Sequence[str], done_fn: Callable[[], float], **how: Any) -> Watched:
    """Runs a command and looks at its memory all the time.

    Args:
      command: to run; it gets no input.
      done_fn: the share of its work that is done, 0 to 1.
      how: of `subprocess.Popen`.

    Raises:
      RuntimeError: if it fails, or ends before a tenth is seen to be done.
    """
    found, began = Growth(), None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **how) as process:
        try:
            while process.poll() is None:
                share = done_fn()
                found.note(share, peaks(str(process.pid)))
                if began is None and found.early:
                    began = time.monotonic(), 1 - share
                time.sleep(_LOOK_EVERY_SECS)
        except BaseException:
            process.kill()
            raise
    if process.returncode or began is None:
        raise RuntimeError(
            f"{' '.join(command)} ended with code {process.returncode} and "
            f"{done_fn():.0%} of its work done; expected code 0, and a tenth long "
            "before the end"
        )
    start, share = began
    return Watched(found, time.monotonic() - start, share)
