"""Peak memory of a process, of all that it has started, or of one call.

The kernel counts it, so JAX and PyTorch are measured alike. For a call, each side has a
process of its own. The metric is the growth of resident memory that one call needs: the
high-water mark during the second call, less what was resident when everything was built
and compiled but nothing had run. On a GPU it is the growth of what the allocators of
JAX and PyTorch have handed out: the most that they ever had, less what they had then.
"""

from __future__ import annotations

import ctypes
import gc
import json
import pathlib
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 2**20
# Peak-memory errors, from the kernel's batched counters, stay well below this.
CALIBRATION_MIB = 256
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


# --- one call -------------------------------------------------------------------------


def _return_free_memory() -> None:
    # Free pages that malloc keeps after compiling would otherwise be reused unseen.
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_of_call(run: Callable[[], Any]) -> int:
    """Bytes that a call of `run` adds to the memory that JAX computes in.

    On a GPU that is of this process's first call, with what XLA takes to compile it; on
    a CPU of the second.
    """
    if jax.default_backend() == "gpu":
        before = _allocated("bytes_in_use", "memory_allocated")
        run()
        run()
        return _allocated("peak_bytes_in_use", "max_memory_allocated") - before
    _return_free_memory()
    before = status("self", "VmRSS")
    run()
    _return_free_memory()
    clear_own_peak()
    run()
    return status("self", "VmHWM") - before


def _allocated(of_jax: str, of_torch: str) -> int:
    """Bytes by these counters of the first GPU's two allocators together."""
    count = jax.devices()[0].memory_stats()[of_jax]
    if torch := sys.modules.get("torch"):
        count += getattr(torch.cuda, of_torch)()
    return count


def measure(build: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Any]:
    """Peak memory of what is built, in a fresh process.

    Args:
      build: of a module, as all that is given: it goes there by pickle. Returns what
        has a `run`, and may have metrics in `more`.
      *args: of `build`.
      **options: of `build`.

    Returns:
      `{"peak_bytes": ..., "call_seconds": ..., **more}`.

    Raises:
      RuntimeError: with the end of its messages, if the process fails.
    """
    done = subprocess.run(
        [sys.executable, "-c", "from benchmarks.kit import memory; memory.answer()"],
        input=pickle.dumps((build, args, options)),
        capture_output=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError(
            f"measuring {build} with {args} and {options} failed with exit code "
            f"{done.returncode}:\n{done.stderr.decode()[-2000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def answer() -> None:
    """Measures what stands in the input, and prints it: the process of `measure`."""
    build, args, options = pickle.load(sys.stdin.buffer)
    built = build(*args, **options)
    times = []

    def timed() -> None:
        start = time.perf_counter()
        built.run()
        times.append(time.perf_counter() - start)

    peak = peak_of_call(timed)
    # Of the second call: the first one compiled.
    found = {"peak_bytes": peak, "call_seconds": times[-1]}
    print(json.dumps(found | getattr(built, "more", {})))


class Known(NamedTuple):
    """A call that needs a known amount: proves the measurement."""

    mebibytes: int

    def run(self) -> None:
        """Writes to so much memory."""
        np.ones(self.mebibytes * MIB, np.uint8)


def calibration_error() -> float | None:
    """Relative error of the measurement on a known amount; None on a GPU.

    Allocators count their own bytes; the kernel counts pages of everything.
    """
    if jax.default_backend() == "gpu":
        return None
    got = measure(Known, CALIBRATION_MIB)
    return got["peak_bytes"] / (CALIBRATION_MIB * MIB) - 1


# --- a command ------------------------------------------------------------------------


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
